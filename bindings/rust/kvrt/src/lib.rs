//! LLM inference in your process, with conversations that survive it: kvrt for Rust.
//!
//! A session keeps the KV state of a conversation. A save writes it to a store on disk. A program can save a session, be killed, start again, and go
//! on with the same bits: the prompt is not computed again.
//!
//! ```no_run
//! use kvrt::{GenerateOptions, Model, Runtime, Session, Store};
//!
//! fn main() -> kvrt::Result<()> {
//!     let runtime = Runtime::open(&Default::default())?;
//!     let model = Model::open(&runtime, "model.gguf", &Default::default())?;
//!     let store = Store::open(&runtime, "memory", &Default::default())?;
//!     let mut chat = Session::resume_or_open(&model, &store, "ann", &Default::default())?;
//!     chat.append_message(&kvrt::message("user", "Tell me about lighthouses."))?;
//!     for event in chat.stream(&GenerateOptions { max_tokens: 64, ..Default::default() })? {
//!         print!("{}", event?.text());
//!     }
//!     chat.suspend("ann", &Default::default())?;
//!     Ok(())
//! }
//! ```
//!
//! `kvrt.h` is the manual: names, bounds, statuses, and how long each call waits are its own. What Rust adds:
//!
//! * **Handles.** [`Runtime`], [`Model`], [`Store`] and [`Cancel`] are counted references: `clone` adds an owner, and any may be dropped first.
//!   A [`Session`] has one owner, and is closed when it is dropped.
//! * **Threads.** All handles are `Send` and `Sync`. The calls of which a session takes one at a time want `&mut Session`, so that the compiler keeps
//!   the rule. Those that any thread may make beside it are methods of [`Beside`], which [`Session::beside`] gives to other threads.
//! * **Callbacks.** A callback of one call borrows what it likes; `ControlFlow::Break(())` stops the call with CANCELLED. A panic in it stops the
//!   call, too, and goes on when the call has returned. A [`Log`] and a [`Wake`] are kept by the library, and must not call it: calls in them fail
//!   with INVALID, or panic where they cannot fail. What they drop is released later. A panic in them ends there.
//! * **Events.** The text and the numbers of an [`Event`] are borrowed from the library as long as they hold; [`Event::into_owned`] copies them.
//! * **Options.** A struct for each of the header's, with `Default`. End it with `..Default::default()`: later versions have more fields.
//! * **Numbers.** [`Status`], [`Reason`] and their like keep numbers that have no name yet.
//! * **fork(2).** A child's calls on its parent's handles fail with UNSUPPORTED.
#![deny(missing_docs, rust_2018_idioms, unsafe_op_in_unsafe_fn)]

use kvrt_sys as sys;

#[macro_use]
mod handle;
mod beside;
mod buffer;
mod cancel;
mod error;
mod event;
mod generate;
mod json;
mod kept;
mod model;
mod numbers;
mod options;
mod raw_options;
#[cfg(doctest)]
pub mod refused;
mod runtime;
mod session;
mod store;
mod stream;
mod value;
mod values;

pub use beside::{Beside, Message};
pub use cancel::Cancel;
pub use error::{last_error, Error, Result};
pub use event::{Event, TokenValue};
pub use generate::{Grammar, ToolChoice};
pub use json::message;
pub use kept::{Log, Wake};
pub use model::{apply_template, Model};
pub use numbers::*;
pub use options::{GenerateOptions, ModelOptions, PlanOptions, RuntimeOptions, SaveOptions, SessionOptions, StoreOptions, TemplateOptions};
pub use runtime::Runtime;
pub use session::Session;
pub use store::Store;
pub use stream::Stream;
pub use values::*;

/// The version of libkvrt, which may be newer than this crate: major, minor, patch.
pub fn version() -> (u32, u32, u32) {
    // SAFETY: it takes nothing, and reads a constant.
    let number = unsafe { sys::kvrt_version() };
    (number >> 16, number >> 8 & 255, number & 255)
}
