//! Generations as iterators.
use crate::beside::Beside;
use crate::error::Result;
use crate::event::Event;
use crate::numbers::State;
use crate::session::Session;
use crate::values::Report;
use std::iter::FusedIterator;
use std::ops::Deref;

/// A generation that has begun: an iterator of its events up to [`Event::Done`]. Each is a copy; [`Session::generate`] and [`Session::next`] copy nothing.
///
/// Each `next` computes until there is an event. An `Err` is the generation's failure and the end, but for what changes nothing (see [`Session::next`]).
/// When it is dropped before its end, the generation is cancelled, which takes a step. It has the calls of [`Beside`] as its own: with `Sampler::HOST`,
/// answer each [`Event::Logits`] with `stream.accept`.
#[derive(Debug)]
pub struct Stream<'s> {
    session: &'s mut Session,
    over: bool,
    report: Option<Report>,
}

impl<'s> Stream<'s> {
    pub(crate) fn new(session: &'s mut Session) -> Stream<'s> {
        Stream { session, over: false, report: None }
    }

    /// The usage, when the generation has ended by Done.
    pub fn report(&self) -> Option<&Report> {
        self.report.as_ref()
    }

    /// The rest of the text, up to the end.
    pub fn read(&mut self) -> Result<String> {
        let mut text = String::new();
        for event in self {
            text.push_str(event?.text());
        }
        Ok(text)
    }

    fn take(&mut self) -> Result<Option<Event<'static>>> {
        let event = match self.session.next(None) {
            Ok(event) => event.into_owned(),
            Err(error) => {
                // Where even that fails (in a child after a fork, say) nothing more can come.
                self.over = self.session.info().map_or(true, |info| info.state != State::GENERATING);
                return Err(error);
            }
        };
        match &event {
            Event::Idle => self.over = true,
            Event::Done { report, .. } => {
                self.over = true;
                self.report = Some(report.clone());
            }
            _ => (),
        }
        Ok(Some(event).filter(|event| *event != Event::Idle))
    }
}

impl Iterator for Stream<'_> {
    type Item = Result<Event<'static>>;

    fn next(&mut self) -> Option<Result<Event<'static>>> {
        if self.over {
            return None;
        }
        self.take().transpose()
    }
}

impl FusedIterator for Stream<'_> {}

impl Deref for Stream<'_> {
    type Target = Beside;

    fn deref(&self) -> &Beside {
        self.session
    }
}

impl Drop for Stream<'_> {
    fn drop(&mut self) {
        if self.over || self.session.cancel().is_err() {
            return;
        }
        // The cancel makes Done the last of the few events that are still there. An error may be memory that was short for a moment.
        let mut errors = 0;
        while errors < 100 && self.session.info().map_or(false, |info| info.state == State::GENERATING) {
            if self.session.next_raw(None).is_err() {
                errors += 1;
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        }
    }
}
