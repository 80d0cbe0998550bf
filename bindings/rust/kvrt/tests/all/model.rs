//! Runtimes and models: what they tell, text and tokens.
use crate::support::*;
use kvrt::*;
use std::fs::File;
use std::os::unix::io::AsFd;
use std::path::Path;

#[test]
fn a_runtime_tells() {
    let runtime = Runtime::open(&RuntimeOptions { threads: 2, isa: Isa::SCALAR, ..Default::default() }).unwrap();
    let info = runtime.info().unwrap();
    assert_eq!((info.threads, &*info.device, &*info.isa), (2, "cpu", "scalar"));
    assert!(info.libraries.contains("sqlite") && info.isa_tables.contains("ok"), "{info:?}");
    runtime.set_threads(1).unwrap();
    assert_eq!(runtime.info().unwrap().threads, 1);
    fails(Status::LIMIT, runtime.set_threads(257));
    fails(Status::INVALID, Runtime::open(&RuntimeOptions { isa: Isa::from(99), ..Default::default() }));
    let options = RuntimeOptions { device: Device::CUDA, cuda_library: Some(Path::new("/nowhere/libkvrt_cuda.so")), ..Default::default() };
    assert!(fails(Status::UNSUPPORTED, Runtime::open(&options)).message.contains("/nowhere/libkvrt_cuda.so"));
    let options = RuntimeOptions { prompt_gemm: Gemm::FP8, device: Device::CPU, ..Default::default() };
    fails(Status::INVALID, Runtime::open(&options));
    let options = RuntimeOptions { device: Device::AUTO, determinism: Determinism::STRICT, device_index: 99, ..Default::default() };
    assert_eq!(Runtime::open(&options).unwrap().info().unwrap().device, "cpu");
}

#[test]
fn a_model_tells() {
    let runtime = runtime();
    let options = ModelOptions {
        kv_format: KvFormat::INT8,
        kv_format_v: KvFormat::F16,
        block_tokens: 16,
        kv_bytes_max: 1 << 20,
        ..Default::default()
    };
    let mut seen = 0;
    let model = Model::open_with(&runtime, model_path(), &options, |event| {
        assert!(matches!(event, Event::Progress { done, total, .. } if done <= total), "{event:?}");
        seen += 1;
        Continue(())
    })
    .unwrap();
    assert!(seen > 0);
    let info = model.info().unwrap();
    assert_eq!((&*info.architecture, info.layers, info.vocab_size, info.context_length), ("llama", 2, 304, 1024));
    assert_eq!((info.kv_format, info.kv_format_v, info.block_tokens), (KvFormat::INT8, KvFormat::F16, 16));
    assert!(info.has_weights && info.has_template && !info.add_bos && info.load_ms > 0.0);
    assert_eq!((info.kv_groups, info.kv_group_layers[0]), (1, 2));
    fails(Status::INVALID, Model::open(&runtime, model_path(), &ModelOptions { block_tokens: 17, ..Default::default() }));
    fails(Status::INVALID, Model::open(&runtime, model_path(), &ModelOptions { prefill_chunk: 513, ..Default::default() }));
    fails(Status::INVALID, Model::open(&runtime, model_path(), &ModelOptions { step_ms_max: 60001, ..Default::default() }));
    let populated = ModelOptions { kv_populate: true, kv_bytes_max: 1 << 20, ..Default::default() };
    assert!(Model::open(&runtime, model_path(), &populated).unwrap().info().unwrap().units > 0);
    fails(Status::CANCELLED, Model::open_with(&runtime, model_path(), &Default::default(), |_| Break(())));
}

#[test]
fn a_model_by_descriptor() {
    let (runtime, folder) = (runtime(), Folder::new());
    let path = folder.path().join("holder");
    let data = std::fs::read(model_path()).unwrap();
    std::fs::write(&path, [&[b'x'; 4096][..], &data, b"yyyyy"].concat()).unwrap();
    let file = File::open(&path).unwrap();
    let options = ModelOptions { fd: Some(file.as_fd()), fd_offset: 4096, fd_size: data.len() as u64, ..Default::default() };
    let model = Model::open(&runtime, "", &options).unwrap();
    drop(file);
    assert_eq!(model.info().unwrap().file_bytes, data.len() as u64);
}

#[test]
fn text_and_tokens() {
    let stage = Stage::new();
    let model = &stage.model;
    let text = "Hello there, Å 中";
    let tokens = model.tokenize(text, false, false).unwrap();
    assert_eq!(model.detokenize(&tokens, false).unwrap(), text.as_bytes());
    assert_eq!(model.tokenize("", false, false).unwrap(), []);
    assert_eq!(model.tokenize("", false, true).unwrap(), [model.info().unwrap().bos_token]);
    assert_eq!(model.tokenize("<|im_end|>", true, false).unwrap(), [2]);
    assert!(model.tokenize("<|im_end|>", false, false).unwrap().len() > 1);
    assert_eq!((model.detokenize(&[2], true).unwrap(), model.detokenize(&[2], false).unwrap()), (b"<|im_end|>".to_vec(), vec![]));
    let long = "word ".repeat(500); // more than the first buffer holds
    assert_eq!(model.detokenize(&model.tokenize(&long, false, false).unwrap(), false).unwrap(), long.as_bytes());
    assert_eq!(model.detokenize(&model.tokenize([0xe4, 0xb8], false, false).unwrap(), false).unwrap(), [0xe4, 0xb8]);
    fails(Status::INVALID, model.detokenize(&[304], false));
}

#[test]
fn templates() {
    let stage = Stage::new();
    let messages = format!("[{}]", message("user", "Say \"hi\"\n\u{1}\u{1f600}\\"));
    let text = stage.model.apply_template(&messages, &Default::default()).unwrap();
    assert!(text.contains("Say \"hi\"\n\u{1}\u{1f600}\\"), "{text}");
    let closed = TemplateOptions { no_generation_prompt: true, ..Default::default() };
    assert!(text.len() > stage.model.apply_template(&messages, &closed).unwrap().len());
    let options = TemplateOptions {
        source: Some("{{ tools | length }}{{ documents[0].t }}{{ x }}{{ messages[0].role }}"),
        tools: Some("[1, 2]"),
        documents: Some("[{\"t\": \"T\"}]"),
        variables: Some("{\"x\": 7}"),
        ..Default::default()
    };
    assert_eq!(apply_template(&messages, &options).unwrap(), "2T7user");
    assert_eq!(stage.model.apply_template(&messages, &options).unwrap(), "2T7user");
    fails(Status::INVALID, apply_template(&messages, &Default::default()));
    let error = fails(Status::INVALID, apply_template("[]", &TemplateOptions { source: Some("{% if %}"), ..Default::default() }));
    assert_eq!(error.detail, Detail::TEMPLATE_ERROR);
}

#[test]
fn plans_contents_caches_and_counters() {
    let stage = Stage::new();
    let info = stage.model.info().unwrap();
    let plan = |file: Option<&Path>, options: PlanOptions| Model::plan(&stage.runtime, file, &options);
    let found =
        plan(Some(&model_path()), PlanOptions { sessions: 3, session_tokens: 100, shared_tokens: 32, ..Default::default() }).unwrap();
    assert_eq!((found.weight_bytes, found.kv_bytes_per_token, found.fits), (info.weight_bytes, info.kv_bytes_per_token, true));
    assert_eq!(found.units, 1 + 3 * 3);
    let shape = PlanOptions {
        layers: 2,
        kv_heads: 3,
        head_dim: 8,
        session_tokens: 32,
        kv_format: KvFormat::F32,
        memory_bytes: 1 << 30,
        ..Default::default()
    };
    assert_eq!(plan(None, shape).unwrap().kv_bytes_per_token, 2 * 3 * 8 * 2 * 4);
    let pair = PlanOptions { kv_format: KvFormat::INT8, kv_format_v: KvFormat::F16, block_tokens: 16, ..shape };
    assert_eq!(plan(None, pair).unwrap().kv_bytes_per_token, 2 * 3 * (8 + 2 + 16));
    fails(Status::INVALID, plan(None, Default::default()));

    let brief = Model::inspect(&stage.runtime, model_path(), false).unwrap();
    let all = Model::inspect(&stage.runtime, model_path(), true).unwrap();
    assert!(brief.contains("\"general.architecture\"") && brief.contains("\"first\"") && !brief.contains("\"elements\""));
    assert!(all.contains("\"elements\"") && all.len() > brief.len());

    let weights = stage.folder.path().join("weights");
    let options = ModelOptions { cache_dir: Some(&weights), cache_bytes_max: 10 << 20, ..Default::default() };
    assert_eq!(Model::cache(&stage.runtime, &options).unwrap().files, 0);
    drop(Model::open(&stage.runtime, model_path(), &options).unwrap());
    let cache = Model::cache(&stage.runtime, &options).unwrap();
    assert_eq!((cache.files, cache.bytes_max, Path::new(&cache.directory)), (1, 10 << 20, &*weights.canonicalize().unwrap()));
    fails(Status::NOT_FOUND, Model::cache(&stage.runtime, &ModelOptions { cache: Cache::NONE, ..Default::default() }));

    answer(&mut stage.with(&PROMPT), &count(3));
    let metrics = stage.model.metrics().unwrap();
    assert_eq!((metrics.generations, metrics.done_max_tokens, metrics.generated, metrics.first_tokens), (1, 1, 3, 1));
    let text = stage.model.metrics_text(Some("mine")).unwrap();
    assert!(text.contains("model=\"mine\""), "{text}");
    assert!(stage.model.metrics_text(None).unwrap().contains(&format!("model=\"{}\"", info.name)));
}
