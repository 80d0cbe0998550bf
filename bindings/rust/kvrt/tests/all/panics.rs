//! A panic in a callback ends the call, and goes on when the call has returned.
use crate::support::*;
use kvrt::*;

#[test]
fn in_every_call_with_a_callback() {
    let stage = Stage::new();
    let mut session = stage.with(&PROMPT);
    let told = panics(|| session.generate(&count(0), |event| if token(event).is_some() { panic!("at a token") } else { Continue(()) }));
    assert_eq!(told, "at a token");
    assert_eq!(session.info().unwrap().state, State::IDLE);
    let length = session.tokens().unwrap().len();
    assert!((5..9).contains(&length), "{length}");
    assert_eq!(answer(&mut session, &count(2)).len(), 2); // and the session goes on
    session.append(&[4; 40]).unwrap();
    assert_eq!(panics(|| session.prefill_with(Logits::NONE, |_| panic!("prefill"))), "prefill");
    session.prefill().unwrap(); // the rest
    session.suspend("ann", &Default::default()).unwrap();
    assert_eq!(panics(|| Model::open_with(&stage.runtime, model_path(), &Default::default(), |_| panic!("open"))), "open");
    let fresh = Model::open(&stage.runtime, model_path(), &Default::default()).unwrap();
    assert_eq!(panics(|| Session::resume_with(&fresh, &stage.store, "ann", &Default::default(), |_| panic!("resume"))), "resume");
    assert_eq!(fresh.info().unwrap().sessions, 0);
    assert_eq!(panics(|| stage.store.verify(|_| panic!("verify"))), "verify");
    assert_eq!(panics(|| stage.store.gc(|_| panic!("gc {}", 1))), "gc 1");
    drop((session, fresh));
    let folder = stage.folder.path().join("store");
    let Stage { runtime, model, store, folder: _kept } = stage;
    drop((model, store));
    assert_eq!(panics(|| Store::repair(&runtime, &folder, |_| panic!("repair"))), "repair");
    assert_eq!(Store::repair(&runtime, &folder, |_| Continue(())).unwrap().outcome, RepairOutcome::SOUND);
}

#[test]
fn in_the_loop_of_a_stream() {
    let stage = Stage::new();
    let mut session = stage.with(&PROMPT);
    panics(|| {
        for event in session.stream(&count(0)).unwrap() {
            assert!(token(&event.unwrap()).is_none(), "a token");
        }
    });
    assert_eq!(session.info().unwrap().state, State::IDLE);
    assert_eq!(answer(&mut session, &count(2)).len(), 2);
}
