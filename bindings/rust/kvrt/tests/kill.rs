//! kill -9 in the middle of an answer: the next process goes on with the same tokens.
mod support;
use kvrt::*;
use std::path::Path;
use std::process::{Command, Stdio};
use support::*;

/// The process that is killed: it saves in the middle of its answer, says so, and waits.
fn until_killed(store: &Path) {
    let runtime = runtime();
    let model = Model::open(&runtime, model_path(), &Default::default()).unwrap();
    let store = Store::open(&runtime, store, &Default::default()).unwrap();
    let mut chat = Session::open(&model, &SessionOptions { store: Some(&store), ..Default::default() }).unwrap();
    chat.append_message(&message("user", "Hello")).unwrap();
    let beside = chat.beside().clone();
    let mut tokens = 0;
    let outcome = chat.generate(&count(90), |event| {
        tokens += u32::from(token(event).is_some());
        if tokens == 40 {
            beside.checkpoint("ann", &Default::default()).unwrap();
            std::fs::write(std::env::var("KVRT_KILL_TOLD").unwrap(), "saved").unwrap();
            std::thread::sleep(std::time::Duration::from_secs(600));
        }
        Continue(())
    });
    panic!("nobody killed it: {outcome:?}");
}

#[test]
fn an_answer_goes_on_after_a_kill() {
    if let Ok(store) = std::env::var("KVRT_KILL_STORE") {
        return until_killed(Path::new(&store));
    }
    let stage = Stage::new();
    let mut whole = stage.open();
    whole.append_message(&message("user", "Hello")).unwrap();
    let expected = answer(&mut whole, &count(90));

    let (store, told) = (stage.folder.path().join("killed"), stage.folder.path().join("told"));
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "an_answer_goes_on_after_a_kill"])
        .envs([("KVRT_KILL_STORE", &store), ("KVRT_KILL_TOLD", &told)])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    while !told.exists() {
        assert!(child.try_wait().unwrap().is_none(), "it ended before it was killed");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    child.kill().unwrap(); // SIGKILL
    child.wait().unwrap();

    let store = Store::open(&stage.runtime, &store, &StoreOptions { must_exist: true, ..Default::default() }).unwrap();
    let fresh = Model::open(&stage.runtime, model_path(), &Default::default()).unwrap();
    let mut chat = Session::resume(&fresh, &store, "ann", &Default::default()).unwrap();
    assert!(chat.resumed().unwrap().reused_disk >= 32, "{:?}", chat.resumed());
    let saved = chat.tokens().unwrap();
    let prompt = whole.tokens().unwrap().len() - 90;
    let given = saved[prompt..].to_vec();
    assert!((39..=40).contains(&given.len()), "{} tokens", given.len());
    let options = GenerateOptions { no_generation_prompt: true, ..count(90 - given.len() as u32) };
    assert_eq!([given, answer(&mut chat, &options)].concat(), expected);
}
