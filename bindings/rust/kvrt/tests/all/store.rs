//! The store's calls.
use crate::support::*;
use kvrt::*;

fn saved(stage: &Stage, name: &str, fill: i32) {
    let mut session = stage.with(&[fill; 70]);
    session.prefill().unwrap();
    session.suspend(name, &Default::default()).unwrap();
}

#[test]
fn saved_sessions() {
    let stage = Stage::new();
    let store = &stage.store;
    saved(&stage, "ann", 9);
    saved(&stage, "bob", 8);
    let names = |domain| store.list(domain).unwrap().into_iter().map(|entry| entry.name).collect::<Vec<_>>();
    assert_eq!((names(None), names(Some("")), names(Some("mine"))), (vec!["ann".into(), "bob".into()], names(None), vec![]));
    let entry = store.stat("", "ann").unwrap();
    assert_eq!((entry.tokens, entry.revision, entry.pinned, entry.expires_unix_ms), (70, 1, 0, 0));
    assert!(entry.bytes > 0 && entry.saved_unix_ms >= entry.created_unix_ms && entry.id.len() == 32);
    store.pin("", "ann", 3).unwrap();
    store.set_ttl("", "ann", 3600).unwrap();
    let entry = store.stat("", "ann").unwrap();
    assert!(entry.pinned == 3 && entry.expires_unix_ms > entry.saved_unix_ms);
    store.rename("", "ann", "cid").unwrap();
    let error = fails(Status::CONFLICT, store.rename("", "cid", "bob"));
    assert_eq!(error.detail, Detail::NAME_TAKEN);
    let shown = store.show("", "cid").unwrap();
    assert!(shown.contains("\"tokens\"") && shown.contains("\"chunks\""), "{shown}");
    store.remove("", "cid").unwrap();
    fails(Status::NOT_FOUND, store.remove("", "cid"));
    fails(Status::NOT_FOUND, store.show("", "cid"));
    fails(Status::INVALID, store.pin("", "bob", 256));
    fails(Status::INVALID, store.set_ttl("", "bob", u64::MAX));
    assert_eq!(names(None), ["bob"]);
    let info = store.info().unwrap();
    assert_eq!((info.sessions, info.read_only), (1, 0));
    assert!(info.chunks > 0 && info.disk_bytes > 0);
}

#[test]
fn options_of_a_save() {
    let stage = Stage::new();
    saved(&stage, "ann", 9);
    let mut session = stage.with(&[8; 70]);
    session.prefill().unwrap();
    assert_eq!(fails(Status::CONFLICT, session.checkpoint("ann", &Default::default())).detail, Detail::NAME_TAKEN);
    let options = SaveOptions { overwrite: true, pin: 7, ttl_seconds: 60, durability: Durability::KV, codec: Codec::NONE };
    let report = session.checkpoint("ann", &options).unwrap();
    assert!(report.revision == 2 && report.chunks_written > 0 && report.bytes_written > 0, "{report:?}");
    let entry = stage.store.stat("", "ann").unwrap();
    assert!(entry.pinned == 7 && entry.expires_unix_ms > 0);
    fails(Status::INVALID, session.checkpoint("", &Default::default()));
    fails(Status::INVALID, session.checkpoint("ann", &SaveOptions { codec: Codec::from(9), ..Default::default() }));
}

#[test]
fn maintenance() {
    let stage = Stage::new();
    saved(&stage, "ann", 9);
    let mut seen = 0;
    let report = stage
        .store
        .gc(|event| {
            seen += u32::from(matches!(event, Event::Progress { .. }));
            Continue(())
        })
        .unwrap();
    assert!(seen > 0 && report.sessions_removed == 0 && report.ms > 0.0);
    stage.store.verify(|event| if matches!(event, Event::Fault { .. }) { Break(()) } else { Continue(()) }).unwrap();
    fails(Status::CANCELLED, stage.store.verify(|_| Break(())));
    assert_eq!(stage.store.remove_old().unwrap(), 0);

    // A flipped byte in a segment is found, told and mended.
    let folder = stage.folder.path().join("store");
    let segment = segment_of(&folder);
    let mut data = std::fs::read(&segment).unwrap();
    let middle = data.len() / 2;
    data[middle] ^= 0x55;
    std::fs::write(&segment, data).unwrap();
    let mut faults = Vec::new();
    let outcome = stage.store.verify(|event| {
        if let Event::Fault { text, .. } = event {
            faults.push(text.to_string());
        }
        Continue(())
    });
    fails(Status::CORRUPT, outcome);
    assert!(!faults.is_empty() && !faults[0].is_empty(), "{faults:?}");
    fails(Status::BUSY, Store::repair(&stage.runtime, &folder, |_| Continue(())));
    let Stage { runtime, model, store, folder: _kept } = stage;
    drop((model, store));
    let report = Store::repair(&runtime, &folder, |_| Continue(())).unwrap();
    assert_eq!((report.outcome, report.sessions_kept), (RepairOutcome::MENDED, 1));
    assert!(report.chunks_lost > 0);
    let store = Store::open(&runtime, &folder, &StoreOptions { must_exist: true, read_only: true, ..Default::default() }).unwrap();
    assert_eq!(fails(Status::IO, store.remove("", "ann")).detail, Detail::READ_ONLY);
}

/// The store's one file of chunks.
fn segment_of(folder: &std::path::Path) -> std::path::PathBuf {
    let entry = std::fs::read_dir(folder.join("segs")).unwrap().map(Result::unwrap).max_by_key(|entry| entry.metadata().unwrap().len());
    match entry.unwrap().path() {
        path if path.is_dir() => std::fs::read_dir(path).unwrap().next().unwrap().unwrap().path(),
        path => path,
    }
}

#[test]
fn opening() {
    let (runtime, folder) = (runtime(), Folder::new());
    let path = folder.path().join("none");
    fails(Status::NOT_FOUND, Store::open(&runtime, &path, &StoreOptions { must_exist: true, ..Default::default() }));
    fails(Status::NOT_FOUND, Store::open(&runtime, &path, &StoreOptions { read_only: true, ..Default::default() }));
    let options = StoreOptions { disk_bytes_max: 1 << 30, free_bytes_min: 1 << 16, ..Default::default() };
    let store = Store::open(&runtime, &path, &options).unwrap();
    assert!(store.info().unwrap().bytes_free <= 1 << 30);
}
