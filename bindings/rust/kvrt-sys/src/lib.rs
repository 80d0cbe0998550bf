//! `kvrt.h` for Rust: its structs, constants and functions under their own names, with its manual as theirs. The crate `kvrt` is the safe layer over
//! this one.
#![allow(non_camel_case_types)]

use std::ffi::CString;

/// A struct as Rust lays it out: its name, its size, and its fields with their offsets.
pub type Layout = (&'static str, usize, Vec<(&'static str, usize)>);

macro_rules! layout {
    ($name:ident { $($field:ident),* }) => {{
        let place = std::mem::MaybeUninit::<$name>::uninit();
        let base = place.as_ptr();
        // SAFETY: addr_of reads nothing, and the place is large enough for every field.
        let fields = vec![$((stringify!($field).trim_end_matches('_'), unsafe { std::ptr::addr_of!((*base).$field) } as usize - base as usize)),*];
        (stringify!($name), std::mem::size_of::<$name>(), fields)
    }};
}

// kvrt.h documents what is in it. bindings/raw.py makes it.
#[rustfmt::skip]
mod raw;
pub use raw::*;

/// Compares the ABI, every struct and every field with the library that runs: `Err` says what differs. The crate `kvrt` calls it before anything else.
pub fn check() -> Result<(), String> {
    compare(KVRT_ABI_VERSION, &layout())
}

/// A library may know structs that this crate does not, and longer ones (kvrt.h, convention 5); shorter or moved ones break it.
fn compare(abi: u32, structs: &[Layout]) -> Result<(), String> {
    // SAFETY: these functions take no handle; names are NUL-terminated.
    let found = unsafe { kvrt_abi_version() };
    if found != abi {
        return Err(format!("libkvrt has ABI {found}, this crate was made for {abi}"));
    }
    for (name, size, fields) in structs {
        let name_c = CString::new(*name).expect("no NUL in a name");
        let found = unsafe { kvrt_struct_size(name_c.as_ptr()) };
        // It stands in arrays and has no struct_size: it cannot grow.
        let fits = if *name == "kvrt_token_value" { found as usize == *size } else { found as usize >= *size };
        if !fits {
            return Err(format!("{name} has {size} bytes here, {found} in libkvrt"));
        }
        for (field, offset) in fields {
            let field_c = CString::new(*field).expect("no NUL in a name");
            let found = unsafe { kvrt_struct_offset(name_c.as_ptr(), field_c.as_ptr()) };
            if found as usize != *offset {
                return Err(format!("{name}.{field} is at {offset} here, at {found} in libkvrt"));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_fits() {
        assert_eq!(check(), Ok(()));
        assert!(layout().iter().any(|(name, size, _)| *name == "kvrt_event" && *size == std::mem::size_of::<kvrt_event>()));
    }

    #[test]
    fn another_library_does_not() {
        let told = |abi, name, size, field, offset| compare(abi, &[(name, size, vec![(field, offset)])]).unwrap_err();
        assert_eq!(told(7, "kvrt_event", 112, "text", 24), "libkvrt has ABI 0, this crate was made for 7");
        assert_eq!(told(0, "kvrt_event", 999, "text", 24), "kvrt_event has 999 bytes here, 112 in libkvrt");
        assert_eq!(told(0, "kvrt_token_value", 4, "token", 0), "kvrt_token_value has 4 bytes here, 8 in libkvrt");
        assert_eq!(told(0, "kvrt_event", 112, "text", 16), "kvrt_event.text is at 16 here, at 24 in libkvrt");
        assert_eq!(told(0, "kvrt_event", 112, "sound", 16), "kvrt_event.sound is at 16 here, at 4294967295 in libkvrt");
        assert_eq!(told(0, "kvrt_nothing", 8, "text", 0), "kvrt_nothing has 8 bytes here, 0 in libkvrt");
    }
}
