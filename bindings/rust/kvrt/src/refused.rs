//! What the compiler refuses. Each example that must not compile stands after one that does and differs in one line: so it fails for that line.

/// An event is the library's until the callback returns; a copy stays.
///
/// ```
/// # use std::ops::ControlFlow::Continue;
/// fn last(session: &mut kvrt::Session) {
///     let mut last = None;
///     let _ = session.generate(&Default::default(), |event| {
///         last = Some(event.clone().into_owned());
///         Continue(())
///     });
///     println!("{last:?}");
/// }
/// ```
/// ```compile_fail
/// # use std::ops::ControlFlow::Continue;
/// fn last(session: &mut kvrt::Session) {
///     let mut last = None;
///     let _ = session.generate(&Default::default(), |event| {
///         last = Some(event.clone());
///         Continue(())
///     });
///     println!("{last:?}");
/// }
/// ```
///
/// One of `next` is the library's until the session is used again.
///
/// ```
/// fn two(session: &mut kvrt::Session) -> kvrt::Result<()> {
///     let first = session.next(None)?.into_owned();
///     let second = session.next(None)?;
///     println!("{first:?} {second:?}");
///     Ok(())
/// }
/// ```
/// ```compile_fail
/// fn two(session: &mut kvrt::Session) -> kvrt::Result<()> {
///     let first = session.next(None)?;
///     let second = session.next(None)?;
///     println!("{first:?} {second:?}");
///     Ok(())
/// }
/// ```
///
/// Nor does one outlive its session.
///
/// ```
/// fn last(mut session: kvrt::Session) -> kvrt::Result<kvrt::Event<'static>> {
///     Ok(session.next(None)?.into_owned())
/// }
/// ```
/// ```compile_fail
/// fn last(mut session: kvrt::Session) -> kvrt::Result<kvrt::Event<'static>> {
///     Ok(session.next(None)?)
/// }
/// ```
pub struct Events;

/// A session takes one call at a time: whoever shares it may only make those beside.
///
/// ```
/// fn shared(session: &kvrt::Session) {
///     let _ = session.tokens();
/// }
/// ```
/// ```compile_fail
/// fn shared(session: &kvrt::Session) {
///     let _ = session.append(&[1]);
/// }
/// ```
///
/// Two threads, too.
///
/// ```
/// fn both(session: &mut kvrt::Session) {
///     let beside = session.beside().clone();
///     std::thread::scope(|scope| {
///         scope.spawn(|| session.prefill());
///         scope.spawn(|| beside.cancel());
///     });
/// }
/// ```
/// ```compile_fail
/// fn both(session: &mut kvrt::Session) {
///     let beside = session.beside().clone();
///     std::thread::scope(|scope| {
///         scope.spawn(|| session.prefill());
///         scope.spawn(|| session.cancel());
///     });
/// }
/// ```
///
/// Its own callback, too.
///
/// ```
/// # use std::ops::ControlFlow::Continue;
/// fn nested(session: &mut kvrt::Session, other: &mut kvrt::Session) {
///     let _ = session.generate(&Default::default(), |_| {
///         let _ = other.append(&[1]);
///         Continue(())
///     });
/// }
/// ```
/// ```compile_fail
/// # use std::ops::ControlFlow::Continue;
/// fn nested(session: &mut kvrt::Session, other: &mut kvrt::Session) {
///     let _ = session.generate(&Default::default(), |_| {
///         let _ = session.append(&[1]);
///         Continue(())
///     });
/// }
/// ```
///
/// And a stream has its session to the end.
///
/// ```
/// fn streamed(session: &mut kvrt::Session) -> kvrt::Result<()> {
///     let stream = session.stream(&Default::default())?;
///     drop(stream);
///     session.append(&[1])?;
///     Ok(())
/// }
/// ```
/// ```compile_fail
/// fn streamed(session: &mut kvrt::Session) -> kvrt::Result<()> {
///     let stream = session.stream(&Default::default())?;
///     session.append(&[1])?;
///     drop(stream);
///     Ok(())
/// }
/// ```
pub struct OneCall;

/// Log and wake come on any thread, and stay: what they have is `Send`, `Sync` and `'static`.
///
/// ```
/// # use std::sync::Arc;
/// let lines = Arc::new(());
/// kvrt::Log::new(move |_, _| drop(lines.clone()));
/// ```
/// ```compile_fail
/// # use std::rc::Rc;
/// let lines = Rc::new(());
/// kvrt::Log::new(move |_, _| drop(lines.clone()));
/// ```
/// ```
/// # use std::sync::{Arc, atomic::{AtomicU32, Ordering::Relaxed}};
/// let rung = Arc::new(AtomicU32::new(0));
/// kvrt::Wake::new({ let rung = rung.clone(); move || rung.store(1, Relaxed) });
/// ```
/// ```compile_fail
/// # use std::sync::{Arc, atomic::{AtomicU32, Ordering::Relaxed}};
/// let rung = Arc::new(AtomicU32::new(0));
/// kvrt::Wake::new(|| rung.store(1, Relaxed));
/// ```
///
/// Options borrow, and are used while that holds.
///
/// ```
/// fn open(model: &kvrt::Model) {
///     let domain = String::from("mine");
///     let options = kvrt::SessionOptions { domain: &domain, ..Default::default() };
///     let _ = kvrt::Session::open(model, &options);
///     drop(domain);
/// }
/// ```
/// ```compile_fail
/// fn open(model: &kvrt::Model) {
///     let domain = String::from("mine");
///     let options = kvrt::SessionOptions { domain: &domain, ..Default::default() };
///     drop(domain);
///     let _ = kvrt::Session::open(model, &options);
/// }
/// ```
pub struct Kept;
