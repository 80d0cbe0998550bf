//! What may be called on a session at any time.
use crate::buffer::{fill, text};
use crate::error::{call, Result};
use crate::handle::Owner;
use crate::options::SaveOptions;
use crate::value::init;
use crate::values::{SaveReport, SessionProps};
use crate::{kept, sys};
use std::ops::{Bound, RangeBounds};
use std::os::raw::c_char;
use std::ptr::NonNull;

/// The calls that any thread may make beside a session's one call: also while it generates, and in its callbacks.
///
/// A [`Session`](crate::Session) and a [`Stream`](crate::Stream) have them as their own. [`Session::beside`](crate::Session::beside) shares them with other
/// threads.
#[derive(Debug)]
pub struct Beside(NonNull<sys::kvrt_session>);

// SAFETY: these calls may come from any thread at any time (kvrt.h, convention 8), and any thread may close.
unsafe impl Send for Beside {}
unsafe impl Sync for Beside {}

/// A message of a conversation, and where it lies in its session.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Message {
    /// The message as JSON.
    pub json: String,
    /// The model's own turn.
    pub generated: bool,
    /// The position of its first token. Between two messages there may be tokens that open a turn.
    pub begin: u64,
    /// The position after its last token.
    pub end: u64,
    /// The model ended it: it is generated, and its last token ends a turn. A generated message that has not ended was cut off, by a limit, a stop
    /// string, a cancel or a kill, or is being generated: the next generation goes on with it.
    pub ended: bool,
}

impl Beside {
    /// Takes the owner that an open gave.
    pub(crate) fn take(raw: *mut sys::kvrt_session) -> Beside {
        Beside(NonNull::new(raw).expect("an open that succeeds gives a handle"))
    }

    pub(crate) fn raw(&self) -> *mut sys::kvrt_session {
        self.0.as_ptr()
    }

    /// Describes the session as it is now. It waits for no step.
    pub fn info(&self) -> Result<SessionProps> {
        let mut out = init!(kvrt_session_props);
        // SAFETY: `out` has its struct_size.
        call(|err| unsafe { sys::kvrt_session_info(self.raw(), &mut out, err) })?;
        Ok(SessionProps::of(&out))
    }

    /// Ends the session's generation or prefill within one step, at its last token; it waits for nothing. Without one it does nothing. It is not for signal
    /// handlers.
    pub fn cancel(&self) -> Result<()> {
        // SAFETY: the session is open as long as this is there.
        call(|err| unsafe { sys::kvrt_session_cancel(self.raw(), err) })
    }

    /// With `Sampler::HOST`: says which token follows the position of the last [`Event::Logits`](crate::Event::Logits). Statuses: INVALID: no token is asked
    /// for, or this one is outside the vocabulary or the grammar.
    pub fn accept(&self, token: i32) -> Result<()> {
        // SAFETY: as in `cancel`.
        call(|err| unsafe { sys::kvrt_session_accept(self.raw(), token, err) })
    }

    /// Saves the session under `name` in its store; it stays as it is, in memory. A generation goes on meanwhile, and is saved as a cancel now would leave
    /// it. It blocks for one step of this session, other saves of it, up to 5 seconds for other writers, and the disk.
    ///
    /// Statuses: CONFLICT: another session has the name (NAME_TAKEN), or another handle saved it since (REVISION): see overwrite. INVALID: no store, no
    /// name, or the session is FAILED. NO_SPACE. BUSY: STORE_LOCKED. IO. CORRUPT.
    pub fn checkpoint(&self, name: &str, options: &SaveOptions) -> Result<SaveReport> {
        // SAFETY: as in `cancel`.
        self.save(name, options, |name, size, options, out, err| unsafe {
            sys::kvrt_session_checkpoint(self.raw(), name, size, options, out, err)
        })
    }

    pub(crate) fn save(
        &self,
        name: &str,
        options: &SaveOptions,
        make: impl FnOnce(*const c_char, usize, *const sys::kvrt_save_options, *mut sys::kvrt_save_report, *mut sys::kvrt_error) -> i32,
    ) -> Result<SaveReport> {
        let (raw, (name, size)) = (options.raw(), text(Some(name)));
        let mut out = init!(kvrt_save_report);
        call(|err| make(name, size, &raw, &mut out, err))?;
        Ok(SaveReport::of(&out))
    }

    /// All token ids of the session.
    pub fn tokens(&self) -> Result<Vec<i32>> {
        // SAFETY: as in `cancel`; fill gives room for `capacity`.
        fill(|tokens, capacity, needed, err| unsafe { sys::kvrt_session_tokens(self.raw(), tokens, capacity, needed, err) })
    }

    /// The bytes of a range of tokens, `..` for all. They may begin or end within a character. `special`: special tokens are spelled out. Statuses: INVALID:
    /// a range past the end.
    pub fn text(&self, range: impl RangeBounds<u64>, special: bool) -> Result<Vec<u8>> {
        let from = match range.start_bound() {
            Bound::Included(&first) => first,
            Bound::Excluded(&before) => before.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let to = match range.end_bound() {
            Bound::Included(&last) => last.saturating_add(1),
            Bound::Excluded(&end) => end,
            Bound::Unbounded => u64::MAX,
        };
        let flags = u32::from(special) * sys::KVRT_TEXT_SPECIAL;
        fill(|data: *mut u8, capacity, needed, err| {
            // SAFETY: as in `tokens`.
            unsafe { sys::kvrt_session_text(self.raw(), from, to, flags, data.cast(), capacity, needed, err) }
        })
    }

    /// The message `index`, from 0, and where it lies. Statuses: NOT_FOUND: the session has fewer messages.
    pub fn message(&self, index: u64) -> Result<Message> {
        let props = std::cell::Cell::new(init!(kvrt_message_props));
        let json = crate::buffer::fill_text(|data, capacity, needed, err| {
            // SAFETY: as in `tokens`; `props` has its struct_size.
            unsafe { sys::kvrt_session_message(self.raw(), index, props.as_ptr(), data, capacity, needed, err) }
        })?;
        let props = props.get();
        Ok(Message { json, generated: props.generated != 0, begin: props.begin, end: props.end, ended: props.ended != 0 })
    }
}

impl Drop for Beside {
    /// Closes the session: see [`Session`](crate::Session).
    fn drop(&mut self) {
        let owner = Owner(self.raw());
        // SAFETY: it is the last use of the handle.
        kept::release(move || unsafe { sys::kvrt_session_close(owner.pointer()) });
    }
}
