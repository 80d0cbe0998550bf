//! Cancels: before begin, from another thread, and by a callback.
use crate::support::*;
use kvrt::*;
use std::sync::mpsc;
use std::thread;

#[test]
fn before_begin() {
    let stage = Stage::new();
    let cancel = Cancel::open().unwrap();
    assert!(!cancel.fired());
    cancel.fire();
    assert!(cancel.fired());
    let mut session = stage.with(&PROMPT);
    let before = stage.model.metrics().unwrap().steps;
    let options = GenerateOptions { cancel: Some(&cancel), ..count(0) };
    let error = fails(Status::CANCELLED, session.generate(&options, only_done));
    assert_eq!(error.report.unwrap().generated, 0);
    assert_eq!(session.stream(&options).unwrap().read().unwrap(), "");
    assert_eq!((stage.model.metrics().unwrap().steps, session.tokens().unwrap().len()), (before, 4));
}

fn only_done(event: &Event<'_>) -> std::ops::ControlFlow<()> {
    assert!(matches!(event, Event::Done { .. }), "{event:?}");
    Continue(())
}

#[test]
fn from_another_thread() {
    let stage = Stage::new();
    let whole = answer(&mut stage.with(&PROMPT), &count(100));
    let cancel = Cancel::open().unwrap();
    let mut sessions = [stage.with(&PROMPT), stage.with(&PROMPT)];
    let (ring, wait) = mpsc::channel();
    let clone = cancel.clone();
    let firing = thread::spawn(move || {
        wait.recv().unwrap();
        clone.fire();
    });
    let options = GenerateOptions { cancel: Some(&cancel), ..count(0) };
    let [first, second] = &mut sessions;
    second.begin(&options).unwrap();
    let mut tokens = vec![];
    let error = fails(
        Status::CANCELLED,
        first.generate(&options, |event| {
            tokens.extend(token(event));
            if tokens.len() == 3 && ring.send(()).is_ok() {
                while !cancel.fired() {
                    thread::yield_now();
                }
            }
            Continue(())
        }),
    );
    firing.join().unwrap();
    drop(cancel); // the other generation keeps it
    assert_eq!(error.report.unwrap().generated, tokens.len() as u64);
    assert_eq!(tokens, whole[..tokens.len()]);
    loop {
        if let Event::Done { reason, .. } = second.next(None).unwrap() {
            assert_eq!(reason, Reason::CANCELLED);
            break;
        }
    }
}

#[test]
fn the_session_itself() {
    let stage = Stage::new();
    let mut session = stage.with(&PROMPT);
    let beside = session.beside().clone();
    let ((ring, wait), (told, done)) = (mpsc::channel(), mpsc::channel());
    let other = thread::spawn(move || {
        wait.recv().unwrap();
        assert_eq!(beside.info().unwrap().state, State::GENERATING);
        assert!(beside.tokens().unwrap().starts_with(&PROMPT));
        beside.checkpoint("beside", &Default::default()).unwrap();
        beside.cancel().unwrap();
        told.send(()).unwrap();
    });
    let mut stop = false;
    let outcome = session.generate(&count(0), |event| {
        // The first token waits until the other thread is through: what it does, it does beside this call.
        if token(event).is_some() && !stop {
            stop = true;
            ring.send(()).unwrap();
            done.recv().unwrap();
        }
        Continue(())
    });
    other.join().unwrap();
    assert_eq!(fails(Status::CANCELLED, outcome).report.unwrap().reason, Reason::CANCELLED);
    assert!(stage.store.stat("", "beside").unwrap().tokens >= 4);
    session.cancel().unwrap(); // nothing to end
    assert_eq!(fails(Status::CANCELLED, stage.with(&PROMPT).generate(&count(0), |_| Break(()))).report.unwrap().reason, Reason::CANCELLED);
}
