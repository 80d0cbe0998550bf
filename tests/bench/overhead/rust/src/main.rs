//! The event loop of Rust: as loop.c, by the iterator and by a callback.
use kvrt::{Event, GenerateOptions, Model, Result, Runtime, RuntimeOptions, Session};
use std::io::BufRead;
use std::ops::ControlFlow::Continue;
use std::time::Instant;

#[derive(Default)]
struct Seen {
    events: u64,
    tokens: u64,
    size: usize,
}

impl Seen {
    fn see(&mut self, event: &Event<'_>) {
        self.events += 1;
        if let Event::Token { token, .. } = event {
            self.tokens += *token as u64;
        }
        self.size += event.text().len();
    }
}

fn main() -> Result<()> {
    let runtime = Runtime::open(&RuntimeOptions { threads: 1, ..Default::default() })?;
    let model = Model::open(&runtime, std::env::args().nth(1).expect("loop MODEL"), &Default::default())?;
    let mut session = Session::open(&model, &Default::default())?;
    session.append(&[5, 6, 7, 8])?;
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("standard input");
        let (way, count) = line.split_once(' ').expect("WAY N");
        let options = GenerateOptions { max_tokens: count.parse().expect("N"), ignore_eos: true, ..Default::default() };
        session.truncate(4)?;
        let mut seen = Seen::default();
        let begin = Instant::now();
        if way == "next" {
            for event in session.stream(&options)? {
                seen.see(&event?);
            }
        } else {
            session.generate(&options, |event| {
                seen.see(event);
                Continue(())
            })?;
        }
        println!("{} {} {}", begin.elapsed().as_nanos(), seen.events, seen.tokens);
        assert!(seen.size > 0);
    }
    Ok(())
}
