//! Events, and the callbacks that receive them.
use crate::error::{call, Result};
use crate::kept::{bytes, slice};
use crate::numbers::Reason;
use crate::sys;
use crate::values::Report;
use std::any::Any;
use std::borrow::Cow;
use std::ops::ControlFlow;
use std::os::raw::c_void;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};

/// A token id with a number: its log probability, or its bias.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct TokenValue {
    /// A token id, from 0.
    pub token: i32,
    /// A natural log probability, or the number to add to the token's logit.
    pub value: f32,
}

const _: () = assert!(std::mem::size_of::<TokenValue>() == std::mem::size_of::<sys::kvrt_token_value>());

/// One event. What it borrows is the library's: it holds until the callback returns, or until the session is used again.
///
/// `Content`, `Reasoning` and `ToolCall` come with the option `reply` alone. `Token` and `Done` still have the whole text: show the one kind or the
/// other.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event<'a> {
    /// [`Session::next`](crate::Session::next): nothing came before the timeout; the session generates on.
    None,
    /// A new token, also an end or stop token.
    #[non_exhaustive]
    Token {
        /// Its id.
        token: i32,
        /// Its place in the session, from 0.
        position: u64,
        /// Whole characters; it may be empty.
        text: Cow<'a, str>,
        /// The natural log of its probability before grammar, bias, penalties, temperature and truncation.
        logprob: f64,
        /// With `top_logprobs`: the most probable tokens, the most probable first.
        top: Cow<'a, [TokenValue]>,
    },
    /// So much is done. Prefill: tokens. Opening a model: bytes. Resume: chunks. Gc: expired sessions, and one more for the files. Verify and repair:
    /// bytes.
    #[non_exhaustive]
    Progress {
        /// Done so far.
        done: u64,
        /// Of so much.
        total: u64,
    },
    /// What predicts the next token.
    #[non_exhaustive]
    Logits {
        /// The place of the token before the predicted one.
        position: u64,
        /// One for each token of the vocabulary.
        logits: Cow<'a, [f32]>,
    },
    /// The end of a generation or prefill.
    #[non_exhaustive]
    Done {
        /// Why it ended.
        reason: Reason,
        /// What was held back because a stop string might have begun with it.
        text: Cow<'a, str>,
        /// Its usage.
        report: Report,
    },
    /// A fault of a store: where and what, in words.
    #[non_exhaustive]
    Fault {
        /// The words.
        text: Cow<'a, str>,
    },
    /// [`Session::next`](crate::Session::next): the session does not generate; no event will come.
    Idle,
    /// More of the answer itself.
    #[non_exhaustive]
    Content {
        /// Whole characters.
        text: Cow<'a, str>,
    },
    /// More of what the model thinks before its answer.
    #[non_exhaustive]
    Reasoning {
        /// Whole characters.
        text: Cow<'a, str>,
    },
    /// One whole tool call.
    #[non_exhaustive]
    ToolCall {
        /// `{"name": string, "arguments": object}`, and `"id"` where the model gave one.
        json: Cow<'a, str>,
    },
    /// An event that this crate does not know: ignore it.
    #[non_exhaustive]
    Unknown {
        /// Its number in `kvrt.h`.
        number: u32,
    },
}

impl<'a> Event<'a> {
    /// The text of a Token and of Done, which together are the whole answer; empty for all others.
    pub fn text(&self) -> &str {
        match self {
            Event::Token { text, .. } | Event::Done { text, .. } => text,
            _ => "",
        }
    }

    /// A copy that borrows nothing.
    pub fn into_owned(self) -> Event<'static> {
        fn text(text: Cow<'_, str>) -> Cow<'static, str> {
            Cow::Owned(text.into_owned())
        }
        match self {
            Event::None => Event::None,
            Event::Token { token, position, text: t, logprob, top } => {
                Event::Token { token, position, text: text(t), logprob, top: Cow::Owned(top.into_owned()) }
            }
            Event::Progress { done, total } => Event::Progress { done, total },
            Event::Logits { position, logits } => Event::Logits { position, logits: Cow::Owned(logits.into_owned()) },
            Event::Done { reason, text: t, report } => Event::Done { reason, text: text(t), report },
            Event::Fault { text: t } => Event::Fault { text: text(t) },
            Event::Idle => Event::Idle,
            Event::Content { text: t } => Event::Content { text: text(t) },
            Event::Reasoning { text: t } => Event::Reasoning { text: text(t) },
            Event::ToolCall { json } => Event::ToolCall { json: text(json) },
            Event::Unknown { number } => Event::Unknown { number },
        }
    }

    /// SAFETY: the event's pointers must hold for 'a.
    pub(crate) unsafe fn of(raw: &sys::kvrt_event) -> Event<'a> {
        // SAFETY: kvrt.h says which pointers an event has, and how many they point to; the others are NULL and 0.
        let (text, logits, top, report) = unsafe {
            let text = String::from_utf8_lossy(bytes(raw.text, raw.text_size));
            (text, slice(raw.logits, raw.logits_count), slice(raw.top.cast(), raw.top_count), raw.report.as_ref().map(Report::of))
        };
        let (logits, top) = (Cow::Borrowed(logits), Cow::Borrowed(top));
        match (raw.type_, report) {
            (sys::KVRT_EVENT_NONE, _) => Event::None,
            (sys::KVRT_EVENT_TOKEN, _) => Event::Token { token: raw.token, position: raw.position, text, logprob: raw.logprob, top },
            (sys::KVRT_EVENT_PROGRESS, _) => Event::Progress { done: raw.done, total: raw.total },
            (sys::KVRT_EVENT_LOGITS, _) => Event::Logits { position: raw.position, logits },
            (sys::KVRT_EVENT_DONE, Some(report)) => Event::Done { reason: raw.reason.into(), text, report },
            (sys::KVRT_EVENT_FAULT, _) => Event::Fault { text },
            (sys::KVRT_EVENT_IDLE, _) => Event::Idle,
            (sys::KVRT_EVENT_CONTENT, _) => Event::Content { text },
            (sys::KVRT_EVENT_REASONING, _) => Event::Reasoning { text },
            (sys::KVRT_EVENT_TOOL_CALL, _) => Event::ToolCall { json: text },
            (number, _) => Event::Unknown { number },
        }
    }
}

/// The callback of one call, which lives on that call's stack.
struct Callback<F> {
    function: F,
    panic: Option<Box<dyn Any + Send>>,
}

impl<F: FnMut(&sys::kvrt_event) -> ControlFlow<()>> Callback<F> {
    unsafe extern "C" fn receive(user: *mut c_void, event: *const sys::kvrt_event) -> i32 {
        // SAFETY: `user` is the Callback of the call that this is inside of, on the same thread; nothing else refers to it meanwhile. The event holds
        // until this returns.
        let (callback, event) = unsafe { (&mut *user.cast::<Callback<F>>(), &*event) };
        if callback.panic.is_some() {
            return 1; // to drop the first panic could panic
        }
        // The call ends by it, and `watched` lets it go on: nobody sees what it left half done in between.
        match catch_unwind(AssertUnwindSafe(|| (callback.function)(event))) {
            Ok(ControlFlow::Continue(())) => 0,
            Ok(ControlFlow::Break(())) => 1,
            Err(panic) => {
                callback.panic = Some(panic);
                1
            }
        }
    }
}

/// Makes a call with a callback, which gets the library's events. A panic in it stops the call, and goes on after it.
pub(crate) fn watched_raw<F: FnMut(&sys::kvrt_event) -> ControlFlow<()>>(
    function: F,
    make: impl FnOnce(Option<sys::kvrt_event_fn>, *mut c_void, *mut sys::kvrt_error) -> sys::kvrt_status,
) -> Result<()> {
    let mut callback = Callback { function, panic: None };
    let user: *mut Callback<F> = &mut callback;
    let outcome = call(|err| make(Some(Callback::<F>::receive), user.cast(), err));
    if let Some(panic) = callback.panic {
        resume_unwind(panic);
    }
    outcome
}

/// The same, with events as Rust has them.
pub(crate) fn watched(
    mut function: impl FnMut(&Event<'_>) -> ControlFlow<()>,
    make: impl FnOnce(Option<sys::kvrt_event_fn>, *mut c_void, *mut sys::kvrt_error) -> sys::kvrt_status,
) -> Result<()> {
    // SAFETY: the event holds until the callback returns, and the borrow ends there.
    watched_raw(move |raw| function(&unsafe { Event::of(raw) }), make)
}

/// For calls whose events nobody wants.
pub(crate) fn go_on(_: &Event<'_>) -> ControlFlow<()> {
    ControlFlow::Continue(())
}
