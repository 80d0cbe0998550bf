//! Generations: events, options, tools and schemas, and the samplers of hosts.
use crate::support::*;
use kvrt::*;
use std::time::Duration;

#[test]
fn a_stream() {
    let stage = Stage::new();
    let mut session = stage.with(&PROMPT);
    let options = GenerateOptions { top_logprobs: 3, emit_logits: true, ..count(12) };
    let mut stream = session.stream(&options).unwrap();
    let (mut tokens, mut rows, mut text) = (vec![], vec![], String::new());
    for event in stream.by_ref() {
        let event = event.unwrap();
        text.push_str(event.text());
        match event {
            Event::Token { token, position, logprob, top, .. } => {
                assert_eq!((top.len(), top[0].token), (3, token));
                assert!((f64::from(top[0].value) - logprob).abs() < 1e-5 && top[0].value >= top[1].value);
                tokens.push((position, token));
            }
            Event::Logits { position, logits, .. } => rows.push((position + 1, best(&logits))),
            Event::Progress { .. } => (),
            Event::Done { reason, report, .. } => assert_eq!((reason, report.reason), (Reason::MAX_TOKENS, Reason::MAX_TOKENS)),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((tokens.len(), &tokens), (12, &rows));
    assert!(stream.next().is_none());
    let report = stream.report().unwrap().clone();
    assert_eq!((report.generated, report.prompt_tokens), (12, 4));
    assert!(report.ttft_ms > 0.0);
    drop(stream);
    assert_eq!(session.tokens().unwrap()[4..], tokens.iter().map(|(_, token)| *token).collect::<Vec<_>>());
    assert_eq!(stage.with(&PROMPT).stream(&count(12)).unwrap().read().unwrap(), text);
    let mut called = String::new();
    let by_callback = stage.with(&PROMPT).generate(&count(12), |event| {
        called.push_str(event.text());
        Continue(())
    });
    assert_eq!((by_callback.unwrap().generated, called), (12, text));
}

#[test]
fn a_stream_that_is_left_is_cancelled() {
    let stage = Stage::new();
    let mut session = stage.with(&PROMPT);
    for event in session.stream(&count(0)).unwrap() {
        if matches!(event.unwrap(), Event::Token { position: 8, .. }) {
            break;
        }
    }
    assert_eq!(session.info().unwrap().state, State::IDLE);
    assert!(session.tokens().unwrap().len() < 20);
    drop(session.stream(&count(0)).unwrap());
    session.append(&[1]).unwrap();
    std::mem::forget(session.stream(&count(3)).unwrap()); // it generates on, and nothing breaks
    assert_eq!(session.info().unwrap().state, State::GENERATING);
    fails(Status::BUSY, session.append(&[1]));
    while !matches!(session.next(None).unwrap(), Event::Done { .. }) {}
    assert_eq!(session.next(None).unwrap(), Event::Idle);
}

#[test]
fn a_loop_of_the_host() {
    let stage = Stage::new();
    let expected = answer(&mut stage.with(&PROMPT), &count(20));
    let mut sessions = [stage.with(&PROMPT), stage.with(&PROMPT)];
    for session in &mut sessions {
        session.begin(&count(20)).unwrap();
        assert_eq!(session.next(Some(Duration::ZERO)).unwrap(), Event::None);
    }
    let mut got = [vec![], vec![]];
    let mut over = 0;
    while over < 2 {
        stage.model.step(Duration::from_micros(1500)).unwrap();
        for (session, tokens) in sessions.iter_mut().zip(&mut got) {
            loop {
                match session.next(Some(Duration::ZERO)).unwrap() {
                    Event::None | Event::Idle => break,
                    Event::Done { .. } => over += 1,
                    event => tokens.extend(token(&event)),
                }
            }
        }
    }
    assert_eq!(got, [expected.clone(), expected]);
    assert_eq!(stage.model.step(Duration::ZERO).unwrap(), 0);
}

#[test]
fn the_host_samples() {
    let stage = Stage::new();
    let greedy = answer(&mut stage.with(&PROMPT), &count(6));
    let options = GenerateOptions { sampler: Sampler::HOST, ..count(6) };
    let mut session = stage.with(&PROMPT);
    let beside = session.beside().clone();
    let mut tokens = vec![];
    session
        .generate(&options, |event| {
            if let Event::Logits { logits, .. } = event {
                beside.accept(best(logits)).unwrap();
            }
            tokens.extend(token(event));
            Continue(())
        })
        .unwrap();
    assert_eq!(tokens, greedy);
    fails(Status::INVALID, stage.with(&PROMPT).generate(&options, |_| Continue(())));

    let mut session = stage.with(&PROMPT);
    let mut stream = session.stream(&options).unwrap();
    let mut tokens = vec![];
    while let Some(event) = stream.next() {
        match event.unwrap() {
            Event::Logits { logits, .. } => {
                assert_eq!(fails(Status::INVALID, stream.next().unwrap()).detail, Detail::STATE); // changes nothing
                assert!(stream.info().unwrap().awaits_accept);
                stream.accept(best(&logits)).unwrap();
            }
            event => tokens.extend(token(&event)),
        }
    }
    assert_eq!(tokens, greedy);
}

#[test]
fn options() {
    let stage = Stage::new();
    let go = |options: &GenerateOptions<'_>| answer(&mut stage.with(&PROMPT), options);
    let first = go(&count(8));
    let ban = [TokenValue { token: first[0], value: f32::NEG_INFINITY }];
    assert!(!go(&GenerateOptions { logit_bias: &ban, ..count(8) }).contains(&first[0]));
    let sampled = GenerateOptions {
        temperature: 1.5,
        top_k: 50,
        top_p: 0.9,
        min_p: 0.01,
        repetition_penalty: 1.1,
        frequency_penalty: 0.1,
        presence_penalty: 0.1,
        penalty_window: 4,
        seed: 7,
        ..count(20)
    };
    assert_eq!(go(&sampled), go(&sampled));
    assert_ne!(go(&sampled), go(&GenerateOptions { seed: 8, ..sampled }));
    let stop = [first[3]];
    let report = stage.with(&PROMPT).generate(&GenerateOptions { stop_tokens: &stop, ..count(50) }, |_| Continue(())).unwrap();
    assert_eq!((report.reason, report.generated), (Reason::STOP, 1 + first.iter().position(|t| *t == stop[0]).unwrap() as u64));
    let text = stage.with(&PROMPT).stream(&count(40)).unwrap().read().unwrap();
    let letter = text.chars().skip(3).find(|c| c.is_alphanumeric()).unwrap().to_string();
    let stops = ["no such text", &letter];
    let mut session = stage.with(&PROMPT);
    let mut stream = session.stream(&GenerateOptions { stop_strings: &stops, ..count(40) }).unwrap();
    assert_eq!(stream.read().unwrap(), text[..text.find(&letter).unwrap()]);
    assert!(stream.report().unwrap().stop_string_tokens > 0);
    drop(stream);
    for bad in [
        GenerateOptions { top_p: 2.0, ..count(1) },
        GenerateOptions { stop_strings: &["a\0b"], ..count(1) },
        GenerateOptions { stop_strings: &[""], ..count(1) },
        GenerateOptions { logit_bias: &[TokenValue { token: 1 << 20, value: 1.0 }], ..count(1) },
        GenerateOptions { logits: Logits::ALL, ..count(1) },
        GenerateOptions { reply: Reply::from(99), ..count(1) },
        GenerateOptions { parallel_calls_max: 1, ..count(1) },
        GenerateOptions { top_logprobs: 65, ..count(1) },
    ] {
        let error = fails(Status::INVALID, session.begin(&bad));
        assert!(!error.message.is_empty(), "{bad:?}");
    }
}

#[test]
fn prefills_and_all_or_nothing() {
    let stage = Stage::new();
    let mut session = stage.with(&[4; 40]);
    let mut rows = 0;
    let report = session
        .prefill_with(Logits::ALL, |event| {
            rows += u32::from(matches!(event, Event::Logits { .. }));
            Continue(())
        })
        .unwrap();
    assert_eq!((rows, report.reason, report.prefilled), (40, Reason::PREFILLED, 40));
    session.append(&[5]).unwrap();
    assert_eq!(session.prefill().unwrap().reused_memory, 40);
    let options = GenerateOptions { prefill: true, logits: Logits::LAST, ..Default::default() };
    let events: Vec<_> = session.stream(&options).unwrap().map(|event| event.unwrap()).collect();
    assert!(events.iter().any(|event| matches!(event, Event::Logits { position: 40, .. })), "{events:?}");
    let options = GenerateOptions { all_or_nothing: true, ..count(0) };
    let error = fails(Status::CANCELLED, session.generate(&options, |event| if token(event).is_some() { Break(()) } else { Continue(()) }));
    assert_eq!((error.report.unwrap().reason, session.tokens().unwrap().len()), (Reason::CANCELLED, 41));
}

#[test]
fn grammars() {
    let stage = Stage::new();
    let schema = r#"{"type": "object", "properties": {"a": {"enum": ["x", "yy"]}}, "required": ["a"], "additionalProperties": false}"#;
    for grammar in [Grammar::JsonSchema(schema), Grammar::JsonSchemaOpen(schema)] {
        let options = GenerateOptions { grammar, temperature: 1.5, seed: 3, ..Default::default() };
        let text: String = stage.with(&PROMPT).stream(&options).unwrap().read().unwrap().split_whitespace().collect();
        assert!([r#"{"a":"x"}"#, r#"{"a":"yy"}"#].contains(&&*text), "{text}");
    }
    let mut session = stage.with(&PROMPT);
    let go = |session: &mut Session, grammar, max_tokens| {
        session.stream(&GenerateOptions { grammar, max_tokens, ..Default::default() }).unwrap().read().unwrap()
    };
    let mut digits = go(&mut session, Grammar::Gbnf("root ::= [0-9]{20}"), 4);
    digits += &go(&mut session, Grammar::Continue, 0);
    assert!(digits.len() == 20 && digits.bytes().all(|c| c.is_ascii_digit()), "{digits}");
    let bad = GenerateOptions { grammar: Grammar::Gbnf("root ::= ("), ..Default::default() };
    let error = fails(Status::INVALID, session.begin(&bad));
    assert!(error.detail == Detail::GRAMMAR_ERROR && error.message.contains("line 1"), "{error}");
}

#[test]
fn tools() {
    let stage = Stage::new();
    let tool = |name| {
        format!(
            r#"{{"type": "function", "function": {{"name": "{name}", "parameters": {{"type": "object", "properties": {{"n": {{"enum": [1, 2]}}}}, "required": ["n"]}}}}}}"#
        )
    };
    let tools = format!("[{}, {}]", tool("f"), tool("g"));
    let asked = || {
        let mut session = Session::open(&stage.model, &SessionOptions { tools: Some(&tools), ..stage.options() }).unwrap();
        session.append_message(&message("user", "Hello")).unwrap();
        session
    };
    let options = GenerateOptions { reply: Reply::HERMES, temperature: 1.0, seed: 7, reasoning_tokens_max: 8, ..Default::default() };
    for (tool_choice, parallel_calls_max, names) in
        [(ToolChoice::Named("g"), 1, "g"), (ToolChoice::Required, 0, "fg"), (ToolChoice::Named("f"), 2, "f")]
    {
        let mut calls = Vec::new();
        asked()
            .generate(&GenerateOptions { tool_choice, parallel_calls_max, ..options }, |event| {
                if let Event::ToolCall { json, .. } = event {
                    calls.push(json.to_string());
                }
                assert!(!matches!(event, Event::Content { .. }), "{event:?}");
                Continue(())
            })
            .unwrap();
        let fits = |call: &String| {
            names.chars().any(|name| [1, 2].iter().any(|n| *call == format!(r#"{{"name":"{name}","arguments":{{"n":{n}}}}}"#)))
        };
        assert!(!calls.is_empty() && calls.iter().all(fits), "{calls:?}");
    }
    fails(Status::INVALID, asked().begin(&GenerateOptions { tool_choice: ToolChoice::Named("h"), ..options }));
    fails(Status::INVALID, stage.with(&PROMPT).begin(&GenerateOptions { tool_choice: ToolChoice::Auto, ..options }));
    let events: Vec<_> = asked()
        .stream(&GenerateOptions { tool_choice: ToolChoice::None, max_tokens: 20, ..options })
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert!(events.iter().any(|event| matches!(event, Event::Content { .. })), "{events:?}");
    assert!(!events.iter().any(|event| matches!(event, Event::ToolCall { .. })));
}

#[test]
fn the_generation_prompt() {
    let stage = Stage::new();
    let mut lengths = vec![];
    for no_generation_prompt in [false, true] {
        let mut session = stage.open();
        session.append_message(&message("user", "Hello")).unwrap();
        lengths.push(session.generate(&GenerateOptions { no_generation_prompt, ..count(1) }, |_| Continue(())).unwrap().prompt_tokens);
    }
    assert!(lengths[0] > lengths[1], "{lengths:?}");
}
