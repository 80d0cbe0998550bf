//! Inputs and outputs of variable length.
use crate::error::{call, Error, Result};
use crate::numbers::Status;
use crate::sys;
use std::os::raw::c_char;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::null;

/// Pointer and length of an optional text.
pub(crate) fn text(text: Option<&str>) -> (*const c_char, usize) {
    text.map_or((null(), 0), |text| (text.as_ptr().cast(), text.len()))
}

/// Pointer and length of an optional path.
pub(crate) fn path(path: Option<&Path>) -> (*const c_char, usize) {
    path.map_or((null(), 0), |path| (path.as_os_str().as_bytes().as_ptr().cast(), path.as_os_str().len()))
}

/// Pointer and length of a list; NULL where it is empty.
pub(crate) fn list<T>(values: &[T]) -> (*const T, usize) {
    (if values.is_empty() { null() } else { values.as_ptr() }, values.len())
}

/// A call with a buffer, its capacity and `needed`: it is made again with as much room as it needs.
pub(crate) fn fill<T: Copy + Default>(function: impl Fn(*mut T, usize, *mut usize, *mut sys::kvrt_error) -> i32) -> Result<Vec<T>> {
    let mut buffer = vec![T::default(); 256];
    loop {
        let mut needed = 0;
        match call(|err| function(buffer.as_mut_ptr(), buffer.len(), &mut needed, err)) {
            Err(error) if error.status == Status::TOO_SMALL => buffer.resize(needed, T::default()),
            outcome => {
                outcome?;
                buffer.truncate(needed);
                return Ok(buffer);
            }
        }
    }
}

/// The same, of text that the library promises to be UTF-8.
pub(crate) fn fill_text(function: impl Fn(*mut c_char, usize, *mut usize, *mut sys::kvrt_error) -> i32) -> Result<String> {
    let bytes = fill(|data: *mut u8, capacity, needed, err| function(data.cast(), capacity, needed, err))?;
    String::from_utf8(bytes).map_err(|error| Error::new(Status::INTERNAL, format!("the text is not UTF-8: {error}")))
}

/// Pointer and length of a text of which an empty one means none.
pub(crate) fn word(word: &str) -> (*const c_char, usize) {
    text(Some(word).filter(|word| !word.is_empty()))
}
