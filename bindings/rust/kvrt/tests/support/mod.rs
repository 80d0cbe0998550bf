//! What the tests share. KVRT_SOURCE_DIR is kvrt's source tree, which has the tiny models.
#![allow(dead_code, unused_imports)] // each test program uses its part

use kvrt::*;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

pub const PROMPT: [i32; 4] = [5, 6, 7, 8];
pub use std::ops::ControlFlow::{Break, Continue};

pub fn source() -> PathBuf {
    PathBuf::from(std::env::var("KVRT_SOURCE_DIR").expect("KVRT_SOURCE_DIR is kvrt's source tree"))
}

pub fn model_path() -> PathBuf {
    source().join("tests/golden/tiny/llama_gqa_f32.gguf")
}

/// A directory that goes with the test.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("kvrt-rust-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        Folder(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

/// A runtime with a model, and a store in a directory of its own.
pub struct Stage {
    pub runtime: Runtime,
    pub model: Model,
    pub store: Store,
    pub folder: Folder,
}

impl Stage {
    pub fn new() -> Stage {
        let folder = Folder::new();
        let runtime = runtime();
        let model = Model::open(&runtime, model_path(), &Default::default()).unwrap();
        let store = Store::open(&runtime, folder.path().join("store"), &Default::default()).unwrap();
        Stage { runtime, model, store, folder }
    }

    pub fn options(&self) -> SessionOptions<'_> {
        SessionOptions { store: Some(&self.store), ..Default::default() }
    }

    pub fn open(&self) -> Session {
        Session::open(&self.model, &self.options()).unwrap()
    }

    pub fn with(&self, tokens: &[i32]) -> Session {
        let mut session = self.open();
        session.append(tokens).unwrap();
        session
    }

    pub fn resume(&self, name: &str) -> Session {
        Session::resume(&self.model, &self.store, name, &self.options()).unwrap()
    }
}

pub fn runtime() -> Runtime {
    Runtime::open(&RuntimeOptions { threads: 1, ..Default::default() }).unwrap()
}

pub fn count(max_tokens: u32) -> GenerateOptions<'static> {
    GenerateOptions { max_tokens, ignore_eos: true, ..Default::default() }
}

/// The tokens of a generation.
pub fn answer(session: &mut Session, options: &GenerateOptions<'_>) -> Vec<i32> {
    let mut tokens = Vec::new();
    session
        .generate(options, |event| {
            tokens.extend(token(event));
            Continue(())
        })
        .unwrap();
    tokens
}

pub fn token(event: &Event<'_>) -> Option<i32> {
    match event {
        Event::Token { token, .. } => Some(*token),
        _ => None,
    }
}

pub fn best(row: &[f32]) -> i32 {
    (0..row.len()).fold(0, |best, i| if row[i] > row[best] { i } else { best }) as i32
}

/// The failure of a call, which must have this status.
#[track_caller]
pub fn fails<T>(status: Status, outcome: Result<T>) -> Error {
    let error = outcome.err().expect("the call fails");
    assert_eq!(error.status, status, "{error}");
    assert!(!error.message.is_empty());
    error
}

/// What a panic says.
pub fn panics<T>(work: impl FnOnce() -> T) -> String {
    let payload = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).err().expect("it panics");
    payload.downcast_ref::<&str>().map(ToString::to_string).or_else(|| payload.downcast_ref::<String>().cloned()).unwrap()
}
