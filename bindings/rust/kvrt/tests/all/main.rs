//! The tests that may share a process.
mod abi;
mod cancel;
mod errors;
mod generate;
mod kept;
mod lifetime;
mod model;
mod panics;
mod session;
mod speculation;
mod store;
#[path = "../support/mod.rs"]
mod support;
