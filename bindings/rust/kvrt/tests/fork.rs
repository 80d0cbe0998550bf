//! fork(2): a child leaves its parent's handles alone, and opens its own.
mod support;
use kvrt::*;
use std::fs::{read_to_string, write};
use support::*;

extern "C" {
    fn fork() -> i32;
    fn waitpid(pid: i32, status: *mut i32, options: i32) -> i32;
    fn _exit(code: i32) -> !;
}

/// What the parent's handles say in the child, and the length of an answer by handles of its own.
fn in_the_child(stage: &Stage, session: &mut Session, cancel: &Cancel) -> String {
    let told = [
        stage.runtime.info().err(),
        stage.model.info().err(),
        stage.store.info().err(),
        stage.store.list(None).err(),
        session.info().err(),
        session.tokens().err(),
        session.next(None).err(),
        session.cancel().err(),
        session.append(&[1]).err(),
        session.fork(None).err(),
        Session::open(&stage.model, &Default::default()).err(),
    ];
    let details: Vec<_> = told.iter().map(|error| format!("{:?}", error.as_ref().map(|e| e.detail))).collect();
    let runtime = runtime();
    let model = Model::open(&runtime, model_path(), &Default::default()).unwrap();
    let mut own = Session::open(&model, &Default::default()).unwrap();
    own.append(&PROMPT).unwrap();
    format!("{} {} {}", details.join(" "), cancel.fired(), answer(&mut own, &count(3)).len())
}

#[test]
fn a_child() {
    let stage = Stage::new();
    let mut session = stage.with(&PROMPT);
    let cancel = Cancel::open().unwrap();
    cancel.fire();
    session.begin(&count(5)).unwrap();
    let told = stage.folder.path().join("told");
    let pid = unsafe { fork() };
    if pid == 0 {
        let text = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| in_the_child(&stage, &mut session, &cancel)));
        let ok = text.map(|text| write(&told, text)).is_ok();
        drop(session); // these touch nothing either
        drop(stage.model.clone());
        unsafe { _exit(i32::from(!ok)) };
    }
    let mut status = -1;
    assert_eq!(unsafe { waitpid(pid, &mut status, 0) }, pid);
    assert_eq!((status, read_to_string(&told).unwrap()), (0, format!("{}false 3", "Some(FORKED) ".repeat(11))));
    while !matches!(session.next(None).unwrap(), Event::Done { .. }) {}
    session.checkpoint("after", &Default::default()).unwrap();
}
