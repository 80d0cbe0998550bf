//! Callbacks that the library keeps: log and wake. They come on any thread and must not call the library (kvrt.h, convention 7).
use crate::numbers::LogLevel;
use std::cell::Cell;
use std::fmt;
use std::os::raw::{c_char, c_void};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

type LogFn = dyn Fn(LogLevel, &str) + Send + Sync;
type WakeFn = dyn Fn() + Send + Sync;

/// Receives the lines of a runtime's log, on any thread. It must not call kvrt.
#[derive(Clone)]
pub struct Log(Arc<LogFn>);

impl Log {
    /// A log that gives each line, without an end of line, and its level to `receive`. Calls of kvrt in it fail.
    pub fn new(receive: impl Fn(LogLevel, &str) + Send + Sync + 'static) -> Log {
        Log(Arc::new(receive))
    }
}

/// Tells the host that a session has an event to take, on any thread. It only signals, and must not call kvrt.
#[derive(Clone)]
pub struct Wake(Arc<WakeFn>);

impl Wake {
    /// A wake that calls `signal` when [`Session::next`](crate::Session::next) has something to give and had nothing before. Calls of kvrt in it fail.
    pub fn new(signal: impl Fn() + Send + Sync + 'static) -> Wake {
        Wake(Arc::new(signal))
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Log")
    }
}

impl fmt::Debug for Wake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Wake")
    }
}

/// A callback on its way into the library, as a user pointer. The library owns it from the call's success on.
pub(crate) struct User<T>(*mut T);

impl<T> User<T> {
    pub(crate) fn new(callback: &Option<T>) -> User<T>
    where
        T: Clone,
    {
        User(callback.clone().map_or(std::ptr::null_mut(), |callback| Box::into_raw(Box::new(callback))))
    }

    pub(crate) fn pointer(&self) -> *mut c_void {
        self.0.cast()
    }

    /// The function, if there is a callback for it.
    pub(crate) fn when<F>(&self, function: F) -> Option<F> {
        (!self.0.is_null()).then_some(function)
    }

    /// The library has it now.
    pub(crate) fn taken(mut self) {
        self.0 = std::ptr::null_mut();
    }
}

impl<T> Drop for User<T> {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: `new` made it, and nobody took it.
            drop(unsafe { Box::from_raw(self.0) });
        }
    }
}

pub(crate) unsafe extern "C" fn log(user: *mut c_void, level: i32, text: *const c_char, text_size: usize) {
    // SAFETY: `user` is the Log that User::new made, which lives until `free`. The text holds during this call.
    let (log, text) = unsafe { (&*user.cast::<Log>(), bytes(text, text_size)) };
    guarded(|| (log.0)(level.into(), &String::from_utf8_lossy(text)));
}

pub(crate) unsafe extern "C" fn wake(user: *mut c_void) {
    // SAFETY: `user` is the Wake that User::new made, which lives until `free`.
    let wake = unsafe { &*user.cast::<Wake>() };
    guarded(|| (wake.0)());
}

pub(crate) unsafe extern "C" fn free<T>(user: *mut c_void) {
    // SAFETY: User::new made it, and the library calls this once, after the last callback.
    guarded(|| drop(unsafe { Box::from_raw(user.cast::<T>()) }));
}

/// The bytes at a pointer of the library's, which may be NULL where there are none.
pub(crate) unsafe fn bytes<'a>(data: *const c_char, size: usize) -> &'a [u8] {
    // SAFETY: as the caller promises.
    unsafe { slice(data.cast(), size) }
}

/// As `bytes`, of any type.
pub(crate) unsafe fn slice<'a, T>(data: *const T, count: usize) -> &'a [T] {
    if count == 0 {
        return &[];
    }
    // SAFETY: as the caller promises.
    unsafe { std::slice::from_raw_parts(data, count) }
}

// ---- inside of them ------------------------------------------------------------------------------------------------------------------

thread_local! {
    #[allow(clippy::declare_interior_mutable_const)] // clippy of 1.63 sees the macro's
    static INSIDE: Cell<u32> = const { Cell::new(0) };
}

/// Handles that were dropped where nothing may be released.
static LATE: Mutex<Vec<Late>> = Mutex::new(Vec::new());
static SOME_LATE: AtomicBool = AtomicBool::new(false);
type Late = Box<dyn FnOnce() + Send>;

/// Whether the thread is inside such a callback.
pub(crate) fn inside() -> bool {
    INSIDE.with(Cell::get) > 0
}

/// Calls that cannot fail say so by a panic, which `guarded` catches.
pub(crate) fn outside() {
    assert!(!inside(), "kvrt was called from within a log or wake callback");
}

/// Runs a callback. A panic ends here: nobody waits for it, and it must not pass through the library. (The panic hook has told of it.)
fn guarded(callback: impl FnOnce()) {
    INSIDE.with(|inside| inside.set(inside.get() + 1));
    if let Err(payload) = catch_unwind(AssertUnwindSafe(callback)) {
        if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            std::mem::forget(another);
        }
    }
    INSIDE.with(|inside| inside.set(inside.get() - 1));
}

/// Releases a handle: now, or, inside such a callback, with the next call.
pub(crate) fn release(handle: impl FnOnce() + Send + 'static) {
    if inside() {
        LATE.lock().unwrap().push(Box::new(handle));
        SOME_LATE.store(true, Ordering::Release);
    } else {
        handle();
        release_late(); // its last owner frees callbacks, and these may own handles
    }
}

pub(crate) fn release_late() {
    while SOME_LATE.swap(false, Ordering::AcqRel) {
        let late = std::mem::take(&mut *LATE.lock().unwrap());
        late.into_iter().for_each(|handle| handle());
    }
}
