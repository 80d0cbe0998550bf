//! Speculation: the same answers, and what was proposed of them.
use crate::support::*;
use kvrt::*;

const AGAIN: [i32; 12] = [5, 6, 7, 8, 5, 6, 7, 8, 5, 6, 7, 8];
const BIAS: [TokenValue; 2] = [TokenValue { token: 5, value: 50.0 }, TokenValue { token: 6, value: 50.0 }]; // answers of two tokens repeat what lookup finds

fn spoken(stage: &Stage, options: &GenerateOptions<'_>) -> (Vec<i32>, Report) {
    let mut tokens = vec![];
    let report = stage.with(&AGAIN).generate(options, |event| {
        tokens.extend(token(event));
        Continue(())
    });
    (tokens, report.unwrap())
}

#[test]
fn the_same_answer() {
    let stage = Stage::new();
    let draft = Model::open(&stage.runtime, model_path(), &Default::default()).unwrap();
    let (mut drafted, mut accepted) = (0, 0);
    for plain in [
        GenerateOptions { logit_bias: &BIAS, ..count(24) },
        GenerateOptions { logit_bias: &BIAS, temperature: 1.2, top_k: 40, seed: 7, repetition_penalty: 1.1, ..count(24) },
    ] {
        let (want, report) = spoken(&stage, &plain);
        assert_eq!((report.drafted, report.accepted), (0, 0));
        let text = stage.model.detokenize(&want, false).unwrap();
        let text = String::from_utf8_lossy(&text).into_owned();
        let forced = GenerateOptions { draft_tokens_max: 6, draft_tokens_min: 3, ..plain };
        for options in [
            GenerateOptions { lookup: true, ..forced },
            GenerateOptions { draft: Some(&draft), ..forced },
            GenerateOptions { prediction: Some(&text), ..forced },
            GenerateOptions { draft: Some(&draft), lookup: true, ..forced },
        ] {
            let (got, report) = spoken(&stage, &options);
            assert_eq!((got, report.generated), (want.clone(), 24), "{options:?}");
            assert!(report.drafted > 0 && report.accepted <= report.drafted, "{options:?}: {report:?}");
            // It is the same model.
            assert!(report.accepted > 0 || options.draft.is_none() || options.temperature > 0.0, "{report:?}");
            drafted += report.drafted;
            accepted += report.accepted;
        }
    }
    let metrics = stage.model.metrics().unwrap();
    assert_eq!((metrics.drafted, metrics.accepted), (drafted, accepted));
}

#[test]
fn a_draft_is_kept_until_done() {
    let stage = Stage::new();
    let (want, _) = spoken(&stage, &count(20));
    let draft = Model::open(&stage.runtime, model_path(), &Default::default()).unwrap();
    let mut session = stage.with(&AGAIN);
    session.begin(&GenerateOptions { draft: Some(&draft), draft_tokens_min: 3, ..count(20) }).unwrap();
    drop(draft);
    let mut got = vec![];
    let report = loop {
        match session.next(None).unwrap() {
            Event::Done { report, .. } => break report.clone(),
            event => got.extend(token(&event)),
        }
    };
    assert_eq!(got, want);
    assert!(report.accepted > 0, "{report:?}");
}

#[test]
fn refused() {
    let stage = Stage::new();
    let other = Stage::new();
    let mut session = stage.with(&PROMPT);
    for bad in [
        GenerateOptions { draft: Some(&stage.model), ..count(1) },
        GenerateOptions { draft: Some(&other.model), ..count(1) },
        GenerateOptions { lookup: true, draft_tokens_max: 33, ..count(1) },
        GenerateOptions { lookup: true, draft_tokens_max: 2, draft_tokens_min: 3, ..count(1) },
    ] {
        fails(Status::INVALID, session.begin(&bad));
    }
}
