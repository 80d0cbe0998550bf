//! Handles that the library counts: `clone` adds an owner, `drop` takes one away.

macro_rules! shared {
    ($(#[$doc:meta])* $name:ident, $raw:ident, $retain:ident, $release:ident) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name(std::ptr::NonNull<crate::sys::$raw>);

        // SAFETY: any number of threads may use one at once (kvrt.h, convention 8).
        unsafe impl Send for $name {}
        unsafe impl Sync for $name {}

        impl $name {
            /// Takes the owner that an open gave.
            fn take(raw: *mut crate::sys::$raw) -> $name {
                $name(std::ptr::NonNull::new(raw).expect("an open that succeeds gives a handle"))
            }

            pub(crate) fn raw(&self) -> *mut crate::sys::$raw {
                self.0.as_ptr()
            }
        }

        impl Clone for $name {
            /// Adds an owner. Panics inside a log or wake callback.
            fn clone(&self) -> $name {
                crate::kept::outside();
                // SAFETY: the handle has an owner, this one.
                unsafe { crate::sys::$retain(self.raw()) };
                $name(self.0)
            }
        }

        impl Drop for $name {
            /// Takes an owner away.
            fn drop(&mut self) {
                let owner = crate::handle::Owner(self.raw());
                // SAFETY: this owner uses the handle no more.
                crate::kept::release(move || unsafe { crate::sys::$release(owner.pointer()) });
            }
        }
    };
}

/// A handle on its way to the thread that releases it.
pub(crate) struct Owner<T>(pub(crate) *mut T);

// SAFETY: any thread may release a handle and close a session.
unsafe impl<T> Send for Owner<T> {}

impl<T> Owner<T> {
    pub(crate) fn pointer(self) -> *mut T {
        self.0
    }
}
