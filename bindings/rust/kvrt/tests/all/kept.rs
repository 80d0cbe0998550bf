//! Log and wake, which the library keeps and which must not call it.
use crate::support::*;
use kvrt::*;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

type Lines = Arc<Mutex<Vec<(LogLevel, String)>>>;

fn logging(receive: impl Fn(LogLevel, &str) + Send + Sync + 'static) -> Runtime {
    let options = RuntimeOptions { threads: 1, log_level: LogLevel::DEBUG, log: Some(Log::new(receive)), ..Default::default() };
    Runtime::open(&options).unwrap()
}

#[test]
fn log_lines_come_and_the_log_goes_with_the_runtime() {
    let lines = Lines::default();
    let copy = lines.clone();
    let runtime = logging(move |level, text| copy.lock().unwrap().push((level, text.to_string())));
    drop(Model::open(&runtime, model_path(), &Default::default()).unwrap());
    assert!(lines.lock().unwrap().iter().any(|(level, text)| *level == LogLevel::INFO && !text.is_empty() && !text.ends_with('\n')));
    assert_eq!(Arc::strong_count(&lines), 2);
    drop(runtime);
    assert_eq!(Arc::strong_count(&lines), 1);
    let copy = lines.clone();
    let options = RuntimeOptions { isa: Isa::from(99), log: Some(Log::new(move |_, _| drop(copy.lock()))), ..Default::default() };
    fails(Status::INVALID, Runtime::open(&options));
    drop(options);
    assert_eq!(Arc::strong_count(&lines), 1); // not with the library, either
}

#[test]
fn calls_from_within_a_log_fail_and_drops_wait() {
    type Held = Arc<Mutex<Option<(Runtime, Session)>>>;
    let other = Stage::new();
    let held: Held = Arc::new(Mutex::new(Some((other.runtime.clone(), other.open()))));
    let (copy, told) = (held.clone(), Lines::default());
    let note = told.clone();
    let runtime = logging(move |_, _| {
        let (runtime, session) = match copy.lock().unwrap().take() {
            Some(held) => held,
            None => return,
        };
        let error = runtime.info().unwrap_err();
        note.lock().unwrap().push((LogLevel::ERROR, format!("{:?}: {}", error.status, error.message)));
        let panic = std::panic::catch_unwind(|| drop(runtime.clone())).is_err();
        note.lock().unwrap().push((LogLevel::ERROR, format!("{panic}")));
        drop((session, runtime));
    });
    while held.lock().unwrap().is_some() {
        drop(Model::open(&runtime, model_path(), &Default::default()).unwrap());
    }
    let texts: Vec<_> = told.lock().unwrap().iter().map(|(_, text)| text.clone()).collect();
    assert_eq!(texts, ["INVALID: kvrt was called from within a log or wake callback", "true"]);
    assert_eq!(other.model.info().unwrap().sessions, 0); // this call, or one before, closed it
}

#[test]
fn a_panic_in_a_log_or_wake_ends_there() {
    let count_of = Arc::new(AtomicU32::new(0));
    let (logged, woken) = (count_of.clone(), count_of.clone());
    let runtime = logging(move |_, _| {
        logged.fetch_add(1, Ordering::Relaxed);
        panic!("in the log");
    });
    let model = Model::open(&runtime, model_path(), &Default::default()).unwrap();
    assert!(count_of.swap(0, Ordering::Relaxed) > 0);
    let wake = Wake::new(move || {
        woken.fetch_add(1000, Ordering::Relaxed);
        panic!("in the wake");
    });
    let mut session = Session::open(&model, &SessionOptions { wake: Some(wake), ..Default::default() }).unwrap();
    session.append(&PROMPT).unwrap();
    assert_eq!(session.stream(&count(3)).unwrap().filter(|event| event.is_ok()).filter_map(|event| token(&event.unwrap())).count(), 3);
    assert!(count_of.load(Ordering::Relaxed) >= 1000);
}

#[test]
fn a_wake_tells_of_events_and_goes_with_its_session() {
    let stage = Stage::new();
    let rung = Arc::new(AtomicU32::new(0));
    let copy = rung.clone();
    let wake = move || {
        let copy = copy.clone();
        Wake::new(move || {
            copy.fetch_add(1, Ordering::Relaxed);
        })
    };
    let mut session = Session::open(&stage.model, &SessionOptions { wake: Some(wake()), ..stage.options() }).unwrap();
    session.append(&PROMPT).unwrap();
    session.begin(&count(2)).unwrap();
    while rung.load(Ordering::Relaxed) == 0 {
        stage.model.step(Default::default()).unwrap();
    }
    while !matches!(session.next(None).unwrap(), Event::Done { .. }) {}
    let before = Arc::strong_count(&rung);
    let fork = session.fork(Some(wake())).unwrap();
    assert_eq!(Arc::strong_count(&rung), before + 1);
    drop((fork, session, wake));
    assert_eq!(Arc::strong_count(&rung), 1);
    fails(
        Status::NOT_FOUND,
        Session::resume(&stage.model, &stage.store, "nobody", &SessionOptions { wake: Some(Wake::new(|| ())), ..Default::default() }),
    );
}

#[test]
fn a_log_that_owns_a_handle_of_another_runtime() {
    // The log's end drops the handle inside the library's release, where nothing may be called: the handle goes right after it.
    let stage = Stage::new();
    let alive = Arc::new(());
    let copy = alive.clone();
    let wake = Some(Wake::new(move || drop(copy.clone())));
    let slot = Mutex::new(Some(Session::open(&stage.model, &SessionOptions { wake, ..Default::default() }).unwrap()));
    drop(logging(move |_, _| drop(slot.lock())));
    assert_eq!(Arc::strong_count(&alive), 1);
}
