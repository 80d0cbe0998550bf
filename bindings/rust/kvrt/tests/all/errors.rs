//! What an error tells, also under eight threads.
use crate::support::*;
use kvrt::*;
use std::thread;

#[test]
fn an_error_tells() {
    let stage = Stage::new();
    let error = fails(Status::NOT_FOUND, Model::open(&stage.runtime, "/nowhere/m.gguf", &Default::default()));
    assert!(error.message.contains("/nowhere/m.gguf"), "{error}");
    assert_eq!((error.os_code, error.detail, &error.report), (2, Detail::NONE, &None));
    assert_eq!(error.to_string(), format!("{} (NOT_FOUND)", error.message));
    let boxed: Box<dyn std::error::Error + Send + Sync> = Box::new(error.clone());
    assert_eq!(boxed.downcast::<Error>().unwrap().status, Status::NOT_FOUND);
    assert_eq!(last_error().unwrap(), error);
    assert!(thread::spawn(last_error).join().unwrap().is_none());
}

#[test]
fn each_thread_has_its_own_text() {
    let stage = Stage::new();
    thread::scope(|scope| {
        for n in 0..8 {
            let stage = &stage;
            scope.spawn(move || {
                for i in 0..50 {
                    let name = format!("thread {n} round {i}");
                    let error = fails(Status::NOT_FOUND, stage.store.stat("", &name));
                    assert!(error.message.contains(&name), "{error}");
                    let path = format!("/nowhere/{n}-{i}.gguf");
                    let error = fails(Status::NOT_FOUND, Model::inspect(&stage.runtime, &path, false));
                    assert!(error.message.contains(&path), "{error}");
                    assert_eq!(last_error().unwrap(), error);
                }
            });
        }
    });
}
