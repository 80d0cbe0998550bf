//! Cancels.
use crate::error::{call, Result};
use crate::{kept, sys};
use std::ptr::null_mut;

shared! {
    /// Ends generations from outside. It fires once, for good, and may fire before they begin. Give one to any number of generations, of any sessions
    /// and models ([`GenerateOptions::cancel`](crate::GenerateOptions::cancel)), and its clones to the threads that may fire it.
    Cancel, kvrt_cancel, kvrt_cancel_retain, kvrt_cancel_release
}

impl Cancel {
    /// A cancel that is not fired. It needs no runtime and no model.
    pub fn open() -> Result<Cancel> {
        let mut out = null_mut();
        // SAFETY: `out` is written where the call succeeds.
        call(|err| unsafe { sys::kvrt_cancel_open(&mut out, err) })?;
        Ok(Cancel::take(out))
    }

    /// Fires it, from any thread; it waits for no step. It cancels each generation that was begun with it. One that is begun with it later ends at once
    /// and computes nothing. Panics inside a log or wake callback; it is not for signal handlers.
    pub fn fire(&self) {
        kept::outside();
        // SAFETY: the handle has an owner, this one.
        unsafe { sys::kvrt_cancel_fire(self.raw()) };
    }

    /// Whether it was fired. Panics inside a log or wake callback.
    pub fn fired(&self) -> bool {
        kept::outside();
        // SAFETY: as in `fire`.
        unsafe { sys::kvrt_cancel_fired(self.raw()) != 0 }
    }
}
