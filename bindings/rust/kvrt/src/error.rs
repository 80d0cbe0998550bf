//! Failures, and the one way by which all calls go into the library.
use crate::numbers::{Detail, Status};
use crate::value::{init, Of};
use crate::values::Report;
use crate::{kept, sys};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::Once;
use std::{fmt, result};

/// The description of a failed call.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Error {
    /// Its class, which says what to do next.
    pub status: Status,
    /// A finer reason.
    pub detail: Detail,
    /// errno, or SQLite's extended code; 0: none.
    pub os_code: i32,
    /// What failed, where, what was expected and what was found. It never quotes the model's input.
    pub message: String,
    /// The usage of a generation or prefill that was CANCELLED; of other failures there is none.
    pub report: Option<Box<Report>>,
}

/// A result of this crate.
pub type Result<T, E = Error> = result::Result<T, E>;

impl Error {
    pub(crate) fn new(status: Status, message: impl Into<String>) -> Error {
        Error { status, detail: Detail::NONE, os_code: 0, message: message.into(), report: None }
    }

    fn of(raw: &sys::kvrt_error) -> Error {
        Error { detail: raw.detail.into(), os_code: raw.os_code, ..Error::new(raw.status.into(), String::of(raw.message)) }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.status)
    }
}

impl std::error::Error for Error {}

impl fmt::Display for Status {
    /// The library's name of it; "UNKNOWN" for a number that it has none for.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // SAFETY: the text is static, NUL-terminated and never NULL.
        let name = unsafe { std::ffi::CStr::from_ptr(sys::kvrt_status_name(self.number())) };
        f.write_str(&name.to_string_lossy())
    }
}

/// The last failure of the calling thread, also of calls that another language made on it. `None`: no call failed.
///
/// Every failure of this crate is a [`Result`]: this is for programs that mix languages.
pub fn last_error() -> Option<Error> {
    let mut raw = init!(kvrt_error);
    // SAFETY: `raw` has its struct_size.
    let status = unsafe { sys::kvrt_last_error(&mut raw) };
    (status == sys::KVRT_OK && raw.status != sys::KVRT_OK).then(|| Error::of(&raw))
}

/// Makes a call that gives a status. Every call with a handle goes through here: it refuses those from within log and wake, and the first one compares
/// this crate's layouts with the library's.
pub(crate) fn call(function: impl FnOnce(*mut sys::kvrt_error) -> sys::kvrt_status) -> Result<()> {
    if kept::inside() {
        return Err(Error::new(Status::INVALID, "kvrt was called from within a log or wake callback"));
    }
    fits()?;
    kept::release_late();
    let mut raw = init!(kvrt_error);
    match function(&mut raw) {
        sys::KVRT_OK => Ok(()),
        // As returned: a wrong `err` alone would leave the struct as it was.
        status => Err(Error { status: status.into(), ..Error::of(&raw) }),
    }
}

/// Whether the library has the layouts of `kvrt.h` as this crate knows it.
fn fits() -> Result<()> {
    static CHECK: Once = Once::new();
    static FAULT: AtomicPtr<String> = AtomicPtr::new(null_mut()); // no lock, which a thread of the parent may hold at a fork
    CHECK.call_once(|| {
        if let Err(fault) = sys::check() {
            FAULT.store(Box::into_raw(Box::new(fault)), Ordering::Release);
        }
    });
    // SAFETY: it is null, or a String that nobody frees.
    match unsafe { FAULT.load(Ordering::Acquire).as_ref() } {
        None => Ok(()),
        Some(fault) => Err(Error::new(Status::INCOMPATIBLE, format!("another libkvrt than this crate is for: {fault}"))),
    }
}
