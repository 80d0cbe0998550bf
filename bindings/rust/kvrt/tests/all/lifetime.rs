//! Handles: dropped in any order, by any thread, during calls and after the runtime.
use crate::support::*;
use kvrt::*;
use std::sync::{mpsc, Arc};
use std::thread;

fn shared<T: Send + Sync>() {}
fn sent<T: Send>() {}

#[test]
fn threads_may_share_handles() {
    shared::<Runtime>();
    shared::<Model>();
    shared::<Store>();
    shared::<Cancel>();
    shared::<Session>();
    shared::<Beside>();
    shared::<Log>();
    shared::<Wake>();
    shared::<Error>();
    shared::<Event<'static>>();
    sent::<Stream<'static>>();
}

#[test]
fn any_order() {
    for order in ["rmsc", "csmr", "mrcs", "scrm", "rcms", "msrc"] {
        let Stage { runtime, model, store, folder: _folder } = Stage::new();
        let mut session = Session::open(&model, &SessionOptions { store: Some(&store), ..Default::default() }).unwrap();
        session.append(&PROMPT).unwrap();
        let (mut runtime, mut model, mut store, mut session) = (Some(runtime), Some(model), Some(store), Some(session));
        for which in order.chars() {
            match which {
                'r' => drop(runtime.take()),
                'm' => drop(model.take()),
                's' => drop(store.take()),
                _ => drop(session.take()),
            }
            if let Some(session) = &mut session {
                assert_eq!(answer(session, &count(2)).len(), 2, "{order}");
                session.checkpoint("o", &SaveOptions { overwrite: true, ..Default::default() }).unwrap();
            }
        }
    }
}

#[test]
fn clones_are_owners() {
    let stage = Stage::new();
    let (runtime, model, store) = (stage.runtime.clone(), stage.model.clone(), stage.store.clone());
    let Stage { folder: _folder, .. } = stage; // the others are dropped
    assert_eq!(model.info().unwrap().sessions, 0);
    assert_eq!(runtime.info().unwrap().threads, 1);
    assert_eq!(store.info().unwrap().sessions, 0);
}

#[test]
fn a_session_closes_with_its_last_beside() {
    let stage = Stage::new();
    let session = stage.with(&PROMPT);
    let (kept, weak) = (session.beside().clone(), Arc::downgrade(session.beside()));
    drop(session);
    assert_eq!((kept.tokens().unwrap(), stage.model.info().unwrap().sessions), (PROMPT.to_vec(), 1));
    drop(kept);
    assert!(weak.upgrade().is_none());
    assert_eq!(stage.model.info().unwrap().sessions, 0);
}

#[test]
fn all_is_dropped_during_a_call() {
    // The call's thread owns the session; everything else goes while it is inside.
    let Stage { runtime, model, store, folder: _folder } = Stage::new();
    let mut session = Session::open(&model, &SessionOptions { store: Some(&store), ..Default::default() }).unwrap();
    session.append(&PROMPT).unwrap();
    let ((ring, wait), (go, gone)) = (mpsc::channel(), mpsc::channel());
    let call = thread::spawn(move || {
        let mut tokens = 0;
        session
            .generate(&count(20), |event| {
                tokens += usize::from(token(event).is_some());
                if tokens == 1 && token(event).is_some() {
                    ring.send(()).unwrap();
                    gone.recv().unwrap();
                }
                Continue(())
            })
            .unwrap();
        session.checkpoint("after", &Default::default()).unwrap();
        tokens
    });
    wait.recv().unwrap();
    drop((store, model, runtime));
    go.send(()).unwrap();
    assert_eq!(call.join().unwrap(), 20);
}

#[test]
fn a_callback_drops_the_other_handles() {
    let Stage { runtime, model, store, folder: _folder } = Stage::new();
    let mut session = Session::open(&model, &SessionOptions { store: Some(&store), ..Default::default() }).unwrap();
    session.append(&PROMPT).unwrap();
    let other = Session::open(&model, &Default::default()).unwrap();
    let mut rest = Some((runtime, model, store, other));
    let report = session.generate(&count(8), |_| {
        drop(rest.take());
        Continue(())
    });
    assert_eq!(report.unwrap().generated, 8);
}

#[test]
fn many_threads_one_model() {
    let stage = Stage::new();
    let expected = answer(&mut stage.with(&PROMPT), &count(60));
    thread::scope(|scope| {
        for n in 0..6 {
            let (stage, expected) = (&stage, &expected);
            scope.spawn(move || {
                let mut session =
                    Session::open(&stage.model, &SessionOptions { no_prefix_cache: n % 2 == 0, ..Default::default() }).unwrap();
                session.append(&PROMPT).unwrap();
                assert_eq!(answer(&mut session, &count(60)), *expected);
            });
        }
    });
}
