//! Structs that the library fills, as Rust's own.
use crate::numbers::*;
use std::os::raw::c_char;

/// A value made of a field of `kvrt.h`.
pub(crate) trait Of<R> {
    fn of(raw: R) -> Self;
}

impl<T> Of<T> for T {
    fn of(raw: T) -> T {
        raw
    }
}

impl Of<u32> for bool {
    fn of(raw: u32) -> bool {
        raw != 0
    }
}

impl<const N: usize> Of<[c_char; N]> for String {
    fn of(raw: [c_char; N]) -> String {
        let bytes: Vec<u8> = raw.iter().map(|&c| c as u8).take_while(|&c| c != 0).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

macro_rules! numbers_of {
    ($($name:ident: $repr:ident),*) => {$(
        impl Of<$repr> for $name {
            fn of(raw: $repr) -> $name {
                raw.into()
            }
        }
    )*};
}
numbers_of!(Status: i32, Detail: i32, Reason: u32, Reuse: u32, KvFormat: u32, State: u32, RepairOutcome: u32);

impl<const N: usize> Of<[u32; N]> for [GroupKind; N] {
    fn of(raw: [u32; N]) -> Self {
        raw.map(GroupKind::from)
    }
}

/// Declares structs with fields of the same names as `kvrt.h`'s, and makes them of it.
macro_rules! values {
    ($($(#[$of:meta])* $name:ident: $raw:ident { $($(#[$doc:meta])* $field:ident: $type:ty,)+ })+) => {$(
        $(#[$of])*
        #[allow(clippy::derive_partial_eq_without_eq)] // some have an f64
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub struct $name {
            $($(#[$doc])* pub $field: $type,)+
        }

        impl $name {
            pub(crate) fn of(raw: &crate::sys::$raw) -> $name {
                $name { $($field: crate::value::Of::of(raw.$field)),+ }
            }
        }
    )+};
}
pub(crate) use values;

/// A struct of `kvrt.h`, zero but for its struct_size.
macro_rules! init {
    ($name:ident) => {{
        // SAFETY: the structs hold numbers, pointers and optional functions, for all of which zero is a value.
        let mut made: crate::sys::$name = unsafe { std::mem::zeroed() };
        made.struct_size = std::mem::size_of::<crate::sys::$name>() as u32;
        made
    }};
}
pub(crate) use init;

/// Declares types of numbers with names.
macro_rules! numbers {
    ($($(#[$of:meta])* $name:ident: $repr:ident { $($(#[$doc:meta])* $value:ident = $raw:ident,)+ })+) => {$(
        $(#[$of])*
        ///
        /// A number that has no name here is kept, and is written as `UNKNOWN_99`.
        #[derive(Clone, Copy, PartialEq, Eq, Hash)]
        pub struct $name($repr);

        impl $name {
            $($(#[$doc])* pub const $value: $name = $name(crate::sys::$raw);)+

            /// All that have a name.
            pub const ALL_NAMED: &'static [(&'static str, $name)] = &[$((stringify!($value), $name::$value)),+];

            /// The number in `kvrt.h`.
            pub const fn number(self) -> $repr {
                self.0
            }
        }

        impl From<$repr> for $name {
            fn from(number: $repr) -> $name {
                $name(number)
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match Self::ALL_NAMED.iter().find(|(_, named)| named == self) {
                    Some((name, _)) => f.write_str(name),
                    None => write!(f, "UNKNOWN_{}", self.0),
                }
            }
        }
    )+};
}
pub(crate) use numbers;
