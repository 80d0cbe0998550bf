//! Open, resume or open, messages, fork and rewind.
use crate::support::*;
use kvrt::*;

#[test]
fn resume_or_open() {
    let stage = Stage::new();
    let mut reused = Vec::new();
    for _ in 0..2 {
        let mut chat = Session::resume_or_open(&stage.model, &stage.store, "ann", &Default::default()).unwrap();
        chat.append_message(&message("user", "Hello")).unwrap();
        let report = chat.generate(&count(40), |_| Continue(())).unwrap();
        assert_eq!(report.prompt_tokens, report.reused_memory + report.reused_disk + report.prefilled);
        reused.push((chat.resumed().is_some(), report.reused_memory + report.reused_disk > 40));
        let saved = chat.suspend("ann", &Default::default()).unwrap();
        assert_eq!((saved.tokens, saved.chunks_missing), (chat.tokens().unwrap().len() as u64, 0));
        assert_eq!(chat.info().unwrap().state, State::SUSPENDED);
    }
    assert_eq!(reused, [(false, false), (true, true)]);
    for messages in [0, 2] {
        let options = SessionOptions { autosave_turn: true, ..Default::default() };
        let mut chat = Session::resume_or_open(&stage.model, &stage.store, "bob", &options).unwrap();
        assert_eq!(chat.info().unwrap().messages, messages);
        chat.append_message(&message("user", "Hello")).unwrap();
        chat.generate(&count(4), |_| Continue(())).unwrap();
    }
}

#[test]
fn resumed_kv_comes_from_the_disk() {
    let stage = Stage::new();
    let mut session = stage.with(&[9; 70]);
    answer(&mut session, &count(6));
    session.suspend("ann", &Default::default()).unwrap();
    let more = answer(&mut session, &count(10));
    let fresh = Model::open(&stage.runtime, model_path(), &Default::default()).unwrap(); // another pool
    let mut seen = 0;
    let mut again = Session::resume_with(&fresh, &stage.store, "ann", &Default::default(), |event| {
        seen += u32::from(matches!(event, Event::Progress { .. }));
        Continue(())
    })
    .unwrap();
    assert!(seen > 0 && again.resumed().unwrap().reused_disk > 70);
    assert_eq!(again.info().unwrap().name, "ann");
    assert_eq!(answer(&mut again, &count(10)), more);
    let stopped = Session::resume_with(&fresh, &stage.store, "ann", &Default::default(), |_| Break(()));
    fails(Status::CANCELLED, stopped);
}

#[test]
fn messages() {
    let stage = Stage::new();
    let tools = "[{\"type\": \"function\", \"function\": {\"name\": \"f\"}}]";
    let mut session = Session::open(&stage.model, &SessionOptions { tools: Some(tools), ..stage.options() }).unwrap();
    session.append_message(&message("system", "Be brief.")).unwrap();
    let info = session.append_message(&message("user", "Hello \"you\" \u{1f600}")).unwrap();
    assert_eq!((info.rewritten, info.rewritten_at), (0, session.tokens().unwrap().len() as u64 - info.appended));
    let given = answer(&mut session, &count(5));
    assert_eq!(session.info().unwrap().messages, 3);
    let all: Vec<_> = (0..3).map(|i| session.message(i).unwrap()).collect();
    assert_eq!(all.iter().map(|m| m.generated).collect::<Vec<_>>(), [false, false, true]);
    assert!(all.iter().all(|m| !m.ended), "a limit cut it");
    assert!(all[1].json.contains("Hello \\\"you\\\" \u{1f600}"), "{}", all[1].json);
    assert!(String::from_utf8(session.text(all[0].begin..all[0].end, false).unwrap()).unwrap().contains("Be brief."));
    assert!(session.tokens().unwrap()[all[2].begin as usize..all[2].end as usize].ends_with(&given));
    let list = |of: &[&Message]| format!("[{}]", of.iter().map(|m| m.json.clone()).collect::<Vec<_>>().join(","));
    assert_eq!(session.set_messages(&list(&[&all[0], &all[1], &all[2]])).unwrap().rewritten, 0);
    assert!(session.set_messages(&list(&[&all[0]])).unwrap().rewritten > 0);
    fails(Status::NOT_FOUND, session.message(1));
    fails(Status::INVALID, session.append_message("[]"));
}

#[test]
fn text_ranges() {
    let stage = Stage::new();
    let mut session = stage.open();
    session.append_text("Hello there", false).unwrap();
    session.append_text("<|im_end|>", true).unwrap();
    let length = session.tokens().unwrap().len() as u64;
    assert_eq!(session.text(.., false).unwrap(), b"Hello there");
    assert_eq!(session.text(.., true).unwrap(), b"Hello there<|im_end|>");
    assert_eq!(session.text(..length, true).unwrap(), session.text(0..=length - 1, true).unwrap());
    assert_eq!(session.text(length - 1.., true).unwrap(), b"<|im_end|>");
    fails(Status::INVALID, session.text(..length + 1, false));
}

#[test]
fn fork_and_rewind() {
    let stage = Stage::new();
    let mut session = stage.with(&[9; 40]);
    let first = answer(&mut session, &count(8));
    let mut fork = session.fork(None).unwrap();
    let (id, other) = (session.info().unwrap().id, fork.info().unwrap().id);
    assert!(id != other && id.len() == 32);
    assert_eq!(answer(&mut session, &count(5)), answer(&mut fork, &count(5)));
    session.truncate(40).unwrap();
    session.mark(0).unwrap();
    let mut options = count(8);
    options.seed = 3;
    let mut report = None;
    let again: Vec<_> = {
        let mut stream = session.stream(&options).unwrap();
        let tokens = stream.by_ref().filter_map(|event| token(&event.unwrap())).collect();
        report.replace(stream.report().unwrap().clone());
        tokens
    };
    assert_eq!(again, first);
    assert_eq!(report.unwrap().reused_memory, 39);
    session.erase(8, 16).unwrap();
    assert_eq!(session.tokens().unwrap().len(), 40);
    let mut cut = stage.with(&session.tokens().unwrap());
    assert_eq!(answer(&mut session, &count(5)), answer(&mut cut, &count(5)));
    fails(Status::INVALID, session.truncate(1 << 40));
    fails(Status::INVALID, session.mark(1 << 40));
    fails(Status::INVALID, session.erase(3, 2));
}

#[test]
fn options_of_a_session() {
    let stage = Stage::new();
    let options = SessionOptions {
        domain: "mine",
        no_prefix_cache: true,
        documents: Some("[]"),
        variables: Some("{\"x\": 1}"),
        autosave_name: "auto",
        autosave_turn: true,
        autosave_tokens: 100,
        autosave_idle_ms: 60_000,
        ..stage.options()
    };
    let mut session = Session::open(&stage.model, &options).unwrap();
    session.append(&PROMPT).unwrap();
    answer(&mut session, &count(3));
    drop(session); // saves the rest
    assert_eq!(stage.store.stat("mine", "auto").unwrap().tokens, 7);
    let resumed = Session::resume(&stage.model, &stage.store, "auto", &SessionOptions { foreign_kv: ForeignKv::ACCEPT, ..options.clone() });
    assert!(!resumed.unwrap().info().unwrap().inexact);
    fails(Status::NOT_FOUND, Session::resume(&stage.model, &stage.store, "auto", &Default::default()));
    fails(Status::INVALID, Session::open(&stage.model, &SessionOptions { store: None, ..options.clone() }));
    fails(Status::INVALID, Session::open(&stage.model, &SessionOptions { variables: Some("[]"), ..Default::default() }));
    fails(Status::INVALID, Session::open(&stage.model, &SessionOptions { foreign_kv: ForeignKv::from(9), ..Default::default() }));
}
