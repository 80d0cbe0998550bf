//! Sessions that come and go leave nothing behind. It has a process of its own, whose memory nobody else uses.
mod support;
use kvrt::{Session, SessionOptions, Wake};
use std::sync::Arc;
use support::*;

fn resident_bytes() -> i64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<i64>().unwrap() * 4096
}

#[test]
fn a_thousand_sessions() {
    let stage = Stage::new();
    let rung = Arc::new(());
    let live = |sessions: u32| {
        for n in 0..sessions {
            let copy = rung.clone();
            let options = SessionOptions { wake: Some(Wake::new(move || drop(copy.clone()))), ..stage.options() };
            let mut session = Session::open(&stage.model, &options).unwrap();
            session.append(&PROMPT).unwrap();
            if n % 10 == 0 {
                answer(&mut session, &count(2));
                drop(session.fork(None).unwrap());
            }
        }
    };
    live(200);
    let before = resident_bytes();
    live(1000);
    let grown = resident_bytes() - before;
    assert!(grown < 1 << 20, "{grown} bytes more after 1,000 sessions");
    assert_eq!((Arc::strong_count(&rung), stage.model.info().unwrap().sessions), (1, 0));
}
