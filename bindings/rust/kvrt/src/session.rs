//! Sessions.
use crate::beside::Beside;
use crate::buffer::{list, text};
use crate::error::{call, Error, Result};
use crate::event::{go_on, watched, Event};
use crate::kept::{User, Wake};
use crate::model::{milliseconds, Model};
use crate::numbers::{Logits, Status};
use crate::options::{GenerateOptions, SaveOptions, SessionOptions};
use crate::raw_options::wake_options;
use crate::store::Store;
use crate::stream::Stream;
use crate::sys;
use crate::value::init;
use crate::values::{AppendInfo, Report, SaveReport};
use std::ops::{ControlFlow, Deref};
use std::os::raw::{c_char, c_void};
use std::ptr::null_mut;
use std::sync::Arc;
use std::time::Duration;

/// One conversation with a model.
///
/// It takes one call at a time: these calls want it `&mut`. What may be called beside them are methods of [`Beside`], which it has as its own.
///
/// When it is dropped it closes, which waits for a checkpoint of another thread, and, with autosave, saves what is not saved yet. While a clone of
/// [`Session::beside`] is there, it stays open until that is dropped, too.
#[derive(Debug)]
pub struct Session {
    beside: Arc<Beside>,
    resumed: Option<Report>,
}

impl Deref for Session {
    type Target = Beside;

    fn deref(&self) -> &Beside {
        &self.beside
    }
}

impl Session {
    /// Opens an empty session. The first one with a store reads the whole model file. Statuses: UNSUPPORTED: the model's file has a vocabulary alone. LIMIT:
    /// 65536 sessions of the model are open. INVALID: tools, documents or variables are not JSON of their kind; autosave without a store. IO.
    pub fn open(model: &Model, options: &SessionOptions<'_>) -> Result<Session> {
        let wake = User::new(&options.wake);
        let raw = options.raw(&wake);
        let mut out = null_mut();
        // SAFETY: the options live as long as the call.
        call(|err| unsafe { sys::kvrt_session_open(model.raw(), &raw, &mut out, err) })?;
        wake.taken();
        Ok(Session { beside: Arc::new(Beside::take(out)), resumed: None })
    }

    /// Opens a saved session, of this process or another, and loads its KV; [`Session::resumed`] tells how much of it. `store` counts, not that of the
    /// options; tools, documents and variables that are `None` stay as they were saved. It blocks until its chunks are read. One that is longer than the
    /// pool holds is SUSPENDED: it can be read, and made shorter.
    ///
    /// Statuses: as [`Session::open`]. NOT_FOUND: no session of this name, or it has expired. INCOMPATIBLE: of another model (MODEL_MISMATCH), or of a newer
    /// kvrt. CORRUPT: the record of its tokens is damaged. BUSY: STORE_LOCKED. IO.
    pub fn resume(model: &Model, store: &Store, name: &str, options: &SessionOptions<'_>) -> Result<Session> {
        Session::resume_with(model, store, name, options, go_on)
    }

    /// As [`Session::resume`]; `progress` gets [`Event::Progress`] in chunks, and may stop it: CANCELLED.
    pub fn resume_with(
        model: &Model,
        store: &Store,
        name: &str,
        options: &SessionOptions<'_>,
        progress: impl FnMut(&Event<'_>) -> ControlFlow<()>,
    ) -> Result<Session> {
        let wake = User::new(&options.wake);
        let (raw, (name, size)) = (options.raw(&wake), text(Some(name)));
        let (mut report, mut out) = (init!(kvrt_report), null_mut());
        // SAFETY: the name and the options live as long as the call.
        watched(progress, |function, user, err| unsafe {
            sys::kvrt_session_resume(model.raw(), store.raw(), name, size, &raw, function, user, &mut report, &mut out, err)
        })?;
        wake.taken();
        Ok(Session { beside: Arc::new(Beside::take(out)), resumed: Some(Report::of(&report)) })
    }

    /// The saved session of this name; where there is none, an empty one with these options and `store`: [`Session::resumed`] tells. Autosave saves
    /// that under the name, unless the options have another; without autosave save it under the name. Statuses: as [`Session::resume`] and
    /// [`Session::open`], but NOT_FOUND.
    pub fn resume_or_open(model: &Model, store: &Store, name: &str, options: &SessionOptions<'_>) -> Result<Session> {
        match Session::resume(model, store, name, options) {
            Err(error) if error.status == Status::NOT_FOUND => {
                let autosave_name = if options.autosave_name.is_empty() { name } else { options.autosave_name };
                Session::open(model, &SessionOptions { store: Some(store), autosave_name, ..options.clone() })
            }
            other => other,
        }
    }

    /// Of a resumed session: how many tokens have their KV back, and why not all.
    pub fn resumed(&self) -> Option<&Report> {
        self.resumed.as_ref()
    }

    /// The calls that other threads may make beside this session's. A clone keeps the session open; `Arc::downgrade` does not.
    pub fn beside(&self) -> &Arc<Beside> {
        &self.beside
    }

    // ---- say something ---------------------------------------------------------------------------------------------------------------

    /// Appends tokens as they are. Statuses: INVALID: an id outside the vocabulary, or the session is FAILED. BUSY: it generates. LIMIT: the model's context
    /// or the pool could never hold them.
    pub fn append(&mut self, tokens: &[i32]) -> Result<()> {
        let (ids, count) = list(tokens);
        // SAFETY: the tokens live as long as the call.
        call(|err| unsafe { sys::kvrt_session_append(self.raw(), ids, count, err) })
    }

    /// Appends text, tokenized as [`Model::tokenize`] does; an empty session gets a BOS first where the model asks for it. Statuses: as [`Session::append`].
    pub fn append_text(&mut self, text: impl AsRef<[u8]>, special: bool) -> Result<()> {
        let (data, size) = list(text.as_ref());
        let flags = u32::from(special) * sys::KVRT_TEXT_SPECIAL;
        // SAFETY: the text lives as long as the call.
        call(|err| unsafe { sys::kvrt_session_append_text(self.raw(), data.cast(), size, flags, err) })
    }

    /// Appends one message, a JSON object: see [`message`](crate::message). The model's template renders it with the conversation before it, in about 100 ms
    /// at most, longer where it rewrites tokens of earlier messages. Tokens that belong to no message are dropped. Statuses: INVALID: no JSON object with a role, or TEMPLATE_ERROR, or the session is FAILED.
    /// LIMIT. UNSUPPORTED: the model has no template, or it uses a feature that kvrt lacks. BUSY: it generates.
    pub fn append_message(&mut self, json: &str) -> Result<AppendInfo> {
        let (data, size) = text(Some(json));
        // SAFETY: the message lives as long as the call.
        self.change(|out, err| unsafe { sys::kvrt_session_append_message(self.raw(), data, size, out, err) })
    }

    /// Makes the conversation be these messages, a JSON array, for hosts that keep the list themselves. Leading messages that are equal stay as they are.
    /// Statuses: as [`Session::append_message`].
    pub fn set_messages(&mut self, json: &str) -> Result<AppendInfo> {
        let (data, size) = text(Some(json));
        // SAFETY: the messages live as long as the call.
        self.change(|out, err| unsafe { sys::kvrt_session_set_messages(self.raw(), data, size, out, err) })
    }

    fn change(&self, make: impl FnOnce(*mut sys::kvrt_append_info, *mut sys::kvrt_error) -> i32) -> Result<AppendInfo> {
        let mut out = init!(kvrt_append_info);
        call(|err| make(&mut out, err))?;
        Ok(AppendInfo::of(&out))
    }

    // ---- generate --------------------------------------------------------------------------------------------------------------------

    /// Computes the appended tokens, and opens no turn. It blocks until that is done. Statuses: INVALID: the session is FAILED, or has no tokens. BUSY: it
    /// generates. CANCELLED: by [`Beside::cancel`]; the computed part stays. LIMIT: the pool cannot hold it. NO_MEMORY. DEVICE.
    pub fn prefill(&mut self) -> Result<Report> {
        self.prefill_with(Logits::NONE, go_on)
    }

    /// As [`Session::prefill`]; `callback` gets [`Event::Progress`] in tokens, [`Event::Logits`] as asked, and [`Event::Done`], and may stop it: CANCELLED.
    pub fn prefill_with(&mut self, logits: Logits, callback: impl FnMut(&Event<'_>) -> ControlFlow<()>) -> Result<Report> {
        // SAFETY: the session is open as long as this is there.
        self.reported(callback, |function, user, report, err| unsafe {
            sys::kvrt_session_prefill(self.raw(), logits.number(), function, user, report, err)
        })
    }

    /// Generates until [`Event::Done`]. `callback` gets the events, and may stop it: CANCELLED, without a Done, and the tokens so far stay. With
    /// `Sampler::HOST` it calls [`Beside::accept`] at each [`Event::Logits`], on a clone of [`Session::beside`].
    ///
    /// Statuses: as [`Session::begin`], and as [`Session::next`] where those end the generation. CANCELLED: by the callback, [`Beside::cancel`] or the option
    /// `cancel`; [`Error::report`] has the usage then.
    pub fn generate(&mut self, options: &GenerateOptions<'_>, callback: impl FnMut(&Event<'_>) -> ControlFlow<()>) -> Result<Report> {
        let stops = options.stops()?;
        let raw = options.raw(&stops);
        // SAFETY: the options and the stop strings live as long as the call.
        self.reported(callback, |function, user, report, err| unsafe {
            sys::kvrt_session_generate(self.raw(), &raw, function, user, report, err)
        })
    }

    fn reported(
        &self,
        callback: impl FnMut(&Event<'_>) -> ControlFlow<()>,
        make: impl FnOnce(Option<sys::kvrt_event_fn>, *mut c_void, *mut sys::kvrt_report, *mut sys::kvrt_error) -> i32,
    ) -> Result<Report> {
        let mut report = init!(kvrt_report);
        let outcome = watched(callback, |function, user, err| make(function, user, &mut report, err));
        match outcome {
            Ok(()) => Ok(Report::of(&report)),
            Err(error) if error.status == Status::CANCELLED => Err(Error { report: Some(Box::new(Report::of(&report))), ..error }),
            Err(error) => Err(error),
        }
    }

    /// Begins a generation, and gives its events as an iterator. See [`Stream`].
    pub fn stream(&mut self, options: &GenerateOptions<'_>) -> Result<Stream<'_>> {
        self.begin(options)?;
        Ok(Stream::new(self))
    }

    /// Begins a generation, for hosts that call [`Session::next`] themselves. It computes nothing; rendering the template takes about 100 ms at most, longer
    /// where that rewrites tokens of earlier messages, and compiling a grammar about 1 s.
    ///
    /// Statuses: INVALID: an option; GRAMMAR_ERROR; TEMPLATE_ERROR; the session is FAILED, or has no tokens. BUSY: it generates. LIMIT: the opened turn does
    /// not fit the context; TEMPLATE_LIMIT; GRAMMAR_LIMIT. UNSUPPORTED: a keyword of a schema: the message names it.
    pub fn begin(&mut self, options: &GenerateOptions<'_>) -> Result<()> {
        let stops = options.stops()?;
        let raw = options.raw(&stops);
        // SAFETY: the options and the stop strings live as long as the call.
        call(|err| unsafe { sys::kvrt_session_begin(self.raw(), &raw, err) })
    }

    /// The next event of a generation. It computes as needed, for all sessions of the model, until there is one or the time is up; `None`: as long as it
    /// takes; zero: it only takes an event that is there. What the event borrows holds until the session is used again.
    ///
    /// A failure of the generation comes once, in place of Done, and ends it: LIMIT, DEVICE, INVALID: logit_bias and grammar leave no token. Others change
    /// nothing: INVALID: [`Beside::accept`] is due (STATE). NO_MEMORY may be either: [`Beside::info`] tells the state.
    pub fn next(&mut self, timeout: Option<Duration>) -> Result<Event<'_>> {
        let event = self.next_raw(timeout)?;
        // SAFETY: its pointers hold until the next call on the session other than those of Beside, and these calls want it `&mut`.
        Ok(unsafe { Event::of(&event) })
    }

    pub(crate) fn next_raw(&mut self, timeout: Option<Duration>) -> Result<sys::kvrt_event> {
        let mut event = init!(kvrt_event);
        // SAFETY: `event` has its struct_size.
        call(|err| unsafe { sys::kvrt_session_next(self.raw(), &mut event, timeout.map_or(-1, milliseconds), err) })?;
        Ok(event)
    }

    // ---- fork and cut ----------------------------------------------------------------------------------------------------------------

    /// Makes a copy that shares all KV blocks with the session. It is not saved, has a new id, and is SUSPENDED where the session is. It takes over the
    /// options, but not autosave_name; `wake` is its own. Statuses: INVALID: the session is FAILED. BUSY: it generates. LIMIT: 65536 sessions are open.
    pub fn fork(&mut self, wake: Option<Wake>) -> Result<Session> {
        let wake = User::new(&wake);
        let raw = wake_options(&wake);
        let mut out = null_mut();
        // SAFETY: the options live as long as the call.
        call(|err| unsafe { sys::kvrt_session_fork(self.raw(), &raw, &mut out, err) })?;
        wake.taken();
        Ok(Session { beside: Arc::new(Beside::take(out)), resumed: None })
    }

    /// Keeps the first `count` tokens, the messages that end within them, and of an answer that ends beyond what its tokens there say. Statuses: INVALID: it has fewer tokens, or is FAILED. BUSY: it generates.
    pub fn truncate(&mut self, count: u64) -> Result<()> {
        // SAFETY: the session is open as long as this is there.
        call(|err| unsafe { sys::kvrt_session_truncate(self.raw(), count, err) })
    }

    /// Makes a boundary: the last end of a block within the first `tokens` tokens (0: of all). Where layers have windows or are recurrent, a rewind, a fork
    /// or another session with the same tokens goes on from there. Statuses: INVALID: it has fewer tokens, or is FAILED. BUSY: it generates. LIMIT: the pool
    /// has no room for what a boundary keeps.
    pub fn mark(&mut self, tokens: u64) -> Result<()> {
        // SAFETY: as in `truncate`.
        call(|err| unsafe { sys::kvrt_session_mark(self.raw(), tokens, err) })
    }

    /// Drops the tokens from `from` to before `to`, and the messages in them. Those after them move to lower positions and are computed again. Statuses:
    /// INVALID: the range ends past the session, or cuts a message in two, or the session is FAILED. BUSY: it generates.
    pub fn erase(&mut self, from: u64, to: u64) -> Result<()> {
        // SAFETY: as in `truncate`.
        call(|err| unsafe { sys::kvrt_session_erase(self.raw(), from, to, err) })
    }

    /// Saves the session as [`Beside::checkpoint`] does, and gives its blocks back: the next call that computes loads the KV again. Statuses: as
    /// [`Beside::checkpoint`]. BUSY also: it generates.
    pub fn suspend(&mut self, name: &str, options: &SaveOptions) -> Result<SaveReport> {
        // SAFETY: as in `truncate`.
        self.save(name, options, |name: *const c_char, size, options, out, err| unsafe {
            sys::kvrt_session_suspend(self.raw(), name, size, options, out, err)
        })
    }
}
