// Made of include/kvrt.abi.json by bindings/raw.py (./dev abi): do not edit.
use std::os::raw::{c_char, c_void};

pub const KVRT_ABI_VERSION: u32 = 0;
pub type kvrt_status = i32;

pub const KVRT_OK: i32 = 0;
pub const KVRT_INVALID: i32 = 1;
pub const KVRT_NOT_FOUND: i32 = 2;
pub const KVRT_CONFLICT: i32 = 3;
pub const KVRT_BUSY: i32 = 4;
pub const KVRT_CANCELLED: i32 = 5;
pub const KVRT_NO_MEMORY: i32 = 6;
pub const KVRT_TOO_SMALL: i32 = 7;
pub const KVRT_LIMIT: i32 = 8;
pub const KVRT_CORRUPT: i32 = 9;
pub const KVRT_INCOMPATIBLE: i32 = 10;
pub const KVRT_IO: i32 = 11;
pub const KVRT_NO_SPACE: i32 = 12;
pub const KVRT_DEVICE: i32 = 13;
pub const KVRT_UNSUPPORTED: i32 = 14;
pub const KVRT_INTERNAL: i32 = 15;

pub const KVRT_DETAIL_NONE: i32 = 0;
pub const KVRT_DETAIL_FORMAT: i32 = 1;
pub const KVRT_DETAIL_CATALOG_CORRUPT: i32 = 2;
pub const KVRT_DETAIL_CATALOG_MISSING: i32 = 3;
pub const KVRT_DETAIL_STORE_TOO_NEW: i32 = 4;
pub const KVRT_DETAIL_FOREIGN_PROGRAM: i32 = 5;
pub const KVRT_DETAIL_READ_ONLY: i32 = 6;
pub const KVRT_DETAIL_PERMISSION: i32 = 7;
pub const KVRT_DETAIL_UNSAFE_DIRECTORY: i32 = 8;
pub const KVRT_DETAIL_STORE_LOCKED: i32 = 9;
pub const KVRT_DETAIL_REVISION: i32 = 10;
pub const KVRT_DETAIL_NAME_TAKEN: i32 = 11;
pub const KVRT_DETAIL_MODEL_MISMATCH: i32 = 12;
pub const KVRT_DETAIL_FORKED: i32 = 13;
pub const KVRT_DETAIL_REENTRANT: i32 = 14;
pub const KVRT_DETAIL_CONCURRENT: i32 = 15;
pub const KVRT_DETAIL_TEMPLATE_ERROR: i32 = 16;
pub const KVRT_DETAIL_TEMPLATE_LIMIT: i32 = 17;
pub const KVRT_DETAIL_STATE: i32 = 18;
pub const KVRT_DETAIL_NUMERIC: i32 = 19;
pub const KVRT_DETAIL_STRUCT_TAIL: i32 = 20;
pub const KVRT_DETAIL_GRAMMAR_ERROR: i32 = 21;
pub const KVRT_DETAIL_GRAMMAR_LIMIT: i32 = 22;

pub const KVRT_EVENT_NONE: u32 = 0;
pub const KVRT_EVENT_TOKEN: u32 = 1;
pub const KVRT_EVENT_PROGRESS: u32 = 2;
pub const KVRT_EVENT_LOGITS: u32 = 3;
pub const KVRT_EVENT_DONE: u32 = 4;
pub const KVRT_EVENT_ENTRY: u32 = 5;
pub const KVRT_EVENT_FAULT: u32 = 6;
pub const KVRT_EVENT_IDLE: u32 = 7;
pub const KVRT_EVENT_CONTENT: u32 = 8;
pub const KVRT_EVENT_REASONING: u32 = 9;
pub const KVRT_EVENT_TOOL_CALL: u32 = 10;

pub const KVRT_REASON_NONE: u32 = 0;
pub const KVRT_REASON_EOS: u32 = 1;
pub const KVRT_REASON_STOP: u32 = 2;
pub const KVRT_REASON_MAX_TOKENS: u32 = 3;
pub const KVRT_REASON_CONTEXT_FULL: u32 = 4;
pub const KVRT_REASON_CANCELLED: u32 = 5;
pub const KVRT_REASON_PREFILLED: u32 = 6;
pub const KVRT_REASON_FAILED: u32 = 7;

pub const KVRT_REUSE_ALL: u32 = 0;
pub const KVRT_REUSE_NEW_TOKENS: u32 = 1;
pub const KVRT_REUSE_DIFFERENT_TOKEN: u32 = 2;
pub const KVRT_REUSE_NOT_STORED: u32 = 3;
pub const KVRT_REUSE_EVICTED: u32 = 4;
pub const KVRT_REUSE_DAMAGED: u32 = 5;
pub const KVRT_REUSE_OTHER_NUMERICS: u32 = 6;
pub const KVRT_REUSE_WINDOW: u32 = 7;

pub const KVRT_LOG_DEFAULT: i32 = 0;
pub const KVRT_LOG_ERROR: i32 = 1;
pub const KVRT_LOG_WARN: i32 = 2;
pub const KVRT_LOG_INFO: i32 = 3;
pub const KVRT_LOG_DEBUG: i32 = 4;

pub const KVRT_ISA_DEFAULT: u32 = 0;
pub const KVRT_ISA_SCALAR: u32 = 1;
pub const KVRT_ISA_AVX2: u32 = 2;
pub const KVRT_ISA_AVX512: u32 = 3;

pub const KVRT_DEVICE_DEFAULT: u32 = 0;
pub const KVRT_DEVICE_CPU: u32 = 1;
pub const KVRT_DEVICE_CUDA: u32 = 2;
pub const KVRT_DEVICE_AUTO: u32 = 3;

pub const KVRT_DETERMINISM_DEFAULT: u32 = 0;
pub const KVRT_DETERMINISM_BY_CLASS: u32 = 1;
pub const KVRT_DETERMINISM_STRICT: u32 = 2;
pub const KVRT_DETERMINISM_NONE: u32 = 3;

pub const KVRT_GEMM_DEFAULT: u32 = 0;
pub const KVRT_GEMM_F16: u32 = 1;
pub const KVRT_GEMM_FP8: u32 = 2;

pub const KVRT_KV_DEFAULT: u32 = 0;
pub const KVRT_KV_F16: u32 = 1;
pub const KVRT_KV_BF16: u32 = 2;
pub const KVRT_KV_F32: u32 = 3;
pub const KVRT_KV_INT8: u32 = 4;
pub const KVRT_KV_FP8: u32 = 5;

pub const KVRT_CACHE_DEFAULT: u32 = 0;
pub const KVRT_CACHE_NONE: u32 = 1;
pub const KVRT_CACHE_USER: u32 = 2;

pub const KVRT_TEXT_SPECIAL: u32 = 1;
pub const KVRT_TEXT_BOS: u32 = 2;

pub const KVRT_INSPECT_ALL: u32 = 1;

pub const KVRT_REPAIR_SOUND: u32 = 1;
pub const KVRT_REPAIR_MENDED: u32 = 2;
pub const KVRT_REPAIR_REBUILT: u32 = 3;

pub const KVRT_STATE_IDLE: u32 = 1;
pub const KVRT_STATE_GENERATING: u32 = 2;
pub const KVRT_STATE_SUSPENDED: u32 = 3;
pub const KVRT_STATE_FAILED: u32 = 4;

pub const KVRT_FOREIGN_KV_DEFAULT: u32 = 0;
pub const KVRT_FOREIGN_KV_RECOMPUTE: u32 = 1;
pub const KVRT_FOREIGN_KV_ACCEPT: u32 = 2;

pub const KVRT_LOGITS_NONE: u32 = 0;
pub const KVRT_LOGITS_LAST: u32 = 1;
pub const KVRT_LOGITS_ALL: u32 = 2;

pub const KVRT_SAMPLER_DEFAULT: u32 = 0;
pub const KVRT_SAMPLER_HOST: u32 = 1;

pub const KVRT_GRAMMAR_DEFAULT: u32 = 0;
pub const KVRT_GRAMMAR_GBNF: u32 = 1;
pub const KVRT_GRAMMAR_JSON_SCHEMA: u32 = 2;
pub const KVRT_GRAMMAR_CONTINUE: u32 = 3;
pub const KVRT_GRAMMAR_JSON_SCHEMA_OPEN: u32 = 4;

pub const KVRT_TOOL_CHOICE_DEFAULT: u32 = 0;
pub const KVRT_TOOL_CHOICE_NONE: u32 = 1;
pub const KVRT_TOOL_CHOICE_AUTO: u32 = 2;
pub const KVRT_TOOL_CHOICE_REQUIRED: u32 = 3;
pub const KVRT_TOOL_CHOICE_NAMED: u32 = 4;

pub const KVRT_REPLY_DEFAULT: u32 = 0;
pub const KVRT_REPLY_AUTO: u32 = 1;
pub const KVRT_REPLY_PLAIN: u32 = 2;
pub const KVRT_REPLY_HERMES: u32 = 3;
pub const KVRT_REPLY_LLAMA3: u32 = 4;
pub const KVRT_REPLY_MISTRAL: u32 = 5;
pub const KVRT_REPLY_GEMMA: u32 = 6;
pub const KVRT_REPLY_DEEPSEEK: u32 = 7;

pub const KVRT_DURABILITY_DEFAULT: u32 = 0;
pub const KVRT_DURABILITY_NONE: u32 = 1;
pub const KVRT_DURABILITY_PROCESS: u32 = 2;
pub const KVRT_DURABILITY_TOKENS: u32 = 3;
pub const KVRT_DURABILITY_KV: u32 = 4;

pub const KVRT_CODEC_DEFAULT: u32 = 0;
pub const KVRT_CODEC_NONE: u32 = 1;
pub const KVRT_CODEC_ZSTD: u32 = 2;

#[repr(C)]
pub struct kvrt_runtime {
    _opaque: [u8; 0],
}

#[repr(C)]
pub struct kvrt_model {
    _opaque: [u8; 0],
}

#[repr(C)]
pub struct kvrt_store {
    _opaque: [u8; 0],
}

#[repr(C)]
pub struct kvrt_session {
    _opaque: [u8; 0],
}

#[repr(C)]
pub struct kvrt_cancel {
    _opaque: [u8; 0],
}

pub type kvrt_event_fn = unsafe extern "C" fn(user: *mut c_void, event: *const kvrt_event) -> i32;
pub type kvrt_log_fn = unsafe extern "C" fn(user: *mut c_void, level: i32, text: *const c_char, text_size: usize);
pub type kvrt_free_fn = unsafe extern "C" fn(user: *mut c_void);
pub type kvrt_wake_fn = unsafe extern "C" fn(user: *mut c_void);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kvrt_error {
    pub struct_size: u32,
    pub status: i32,
    pub detail: i32,
    pub os_code: i32,
    pub message: [c_char; 1008],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kvrt_report {
    pub struct_size: u32,
    pub reason: u32,
    pub prompt_tokens: u64,
    pub reused_memory: u64,
    pub reused_disk: u64,
    pub prefilled: u64,
    pub generated: u64,
    pub reuse_stopped: u32,
    pub stop_string_tokens: u32,
    pub reuse_stopped_at: u64,
    pub seed: u64,
    pub queue_ms: f64,
    pub ttft_ms: f64,
    pub prefill_ms: f64,
    pub decode_ms: f64,
    pub tpot_ms: f64,
    pub prefill_tokens_per_s: f64,
    pub decode_tokens_per_s: f64,
    pub kv_blocks: u64,
    pub kv_bytes: u64,
    pub pool_bytes_begin: u64,
    pub pool_bytes_prefilled: u64,
    pub pool_bytes_end: u64,
    pub recomputed: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kvrt_store_entry {
    pub struct_size: u32,
    pub pinned: u32,
    pub name: [c_char; 256],
    pub domain: [c_char; 256],
    pub id: [c_char; 40],
    pub revision: u64,
    pub tokens: u64,
    pub chunks: u64,
    pub chunks_missing: u64,
    pub bytes: u64,
    pub bytes_shared: u64,
    pub created_unix_ms: i64,
    pub saved_unix_ms: i64,
    pub expires_unix_ms: i64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kvrt_token_value {
    pub token: i32,
    pub value: f32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kvrt_event {
    pub struct_size: u32,
    pub type_: u32,
    pub token: i32,
    pub reason: u32,
    pub position: u64,
    pub text: *const c_char,
    pub text_size: usize,
    pub logprob: f64,
    pub done: u64,
    pub total: u64,
    pub logits: *const f32,
    pub logits_count: usize,
    pub report: *const kvrt_report,
    pub entry: *const kvrt_store_entry,
    pub top: *const kvrt_token_value,
    pub top_count: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kvrt_runtime_options {
    pub struct_size: u32,
    pub threads: u32,
    pub isa: u32,
    pub log_level: u32,
    pub log: Option<kvrt_log_fn>,
    pub log_user: *mut c_void,
    pub log_user_free: Option<kvrt_free_fn>,
    pub device: u32,
    pub device_index: u32,
    pub cuda_library: *const c_char,
    pub cuda_library_size: usize,
    pub determinism: u32,
    pub prompt_gemm: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kvrt_runtime_props {
    pub struct_size: u32,
    pub threads: u32,
    pub device: [c_char; 16],
    pub isa: [c_char; 16],
    pub numerics: [c_char; 16],
    pub isa_tables: [c_char; 128],
    pub libraries: [c_char; 128],
    pub device_name: [c_char; 64],
    pub device_memory: u64,
    pub device_memory_free: u64,
    pub devices: [c_char; 1024],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kvrt_model_options {
    pub struct_size: u32,
    pub kv_format: u32,
    pub block_tokens: u32,
    pub prefill_chunk: u32,
    pub kv_bytes_max: u64,
    pub step_ms_max: u32,
    pub from_fd: u32,
    pub fd: i32,
    pub kv_populate: u32,
    pub fd_offset: u64,
    pub fd_size: u64,
    pub cache_dir: *const c_char,
    pub cache_dir_size: usize,
    pub cache: u32,
    pub kv_format_v: u32,
    pub cache_bytes_max: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kvrt_model_props {
    pub struct_size: u32,
    pub has_weights: u32,
    pub architecture: [c_char; 32],
    pub name: [c_char; 128],
    pub vocab_size: u32,
    pub context_length: u32,
    pub layers: u32,
    pub heads: u32,
    pub kv_heads: u32,
    pub head_dim: u32,
    pub width: u32,
    pub bos_token: i32,
    pub eos_token: i32,
    pub add_bos: u32,
    pub has_template: u32,
    pub block_tokens: u32,
    pub file_bytes: u64,
    pub weight_bytes: u64,
    pub kv_bytes_per_token: u64,
    pub block_bytes: u64,
    pub blocks: u64,
    pub blocks_free: u64,
    pub blocks_cached: u64,
    pub sessions: u64,
    pub load_ms: f64,
    pub scratch_bytes: u64,
    pub step_ms_max: u32,
    pub kv_format: u32,
    pub kv_format_v: u32,
    pub kv_groups: u32,
    pub kv_group_layers: [u32; 8],
    pub kv_group_window: [u32; 8],
    pub kv_group_bytes_per_token: [u32; 8],
    pub kv_group_tokens_max: [u32; 8],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kvrt_template_options {
    pub struct_size: u32,
    pub no_generation_prompt: u32,
    pub source: *const c_char,
    pub source_size: usize,
    pub tools: *const c_char,
    pub tools_size: usize,
    pub documents: *const c_char,
    pub documents_size: usize,
    pub variables: *const c_char,
    pub variables_size: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kvrt_metrics {
    pub struct_size: u32,
    pub sessions: u64,
    pub generating: u64,
    pub paused: u64,
    pub blocks: u64,
    pub blocks_used: u64,
    pub blocks_cached: u64,
    pub steps: u64,
    pub step_rows: u64,
    pub step_ms_total: f64,
    pub step_ms_longest: f64,
    pub generations: u64,
    pub prefills: u64,
    pub done_eos: u64,
    pub done_stop: u64,
    pub done_max_tokens: u64,
    pub done_context_full: u64,
    pub done_cancelled: u64,
    pub done_prefilled: u64,
    pub failed: u64,
    pub prompt_tokens: u64,
    pub reused_memory: u64,
    pub reused_disk: u64,
    pub prefilled: u64,
    pub recomputed: u64,
    pub generated: u64,
    pub preemptions: u64,
    pub evictions: u64,
    pub first_tokens: u64,
    pub ttft_ms_total: f64,
    pub queue_ms_total: f64,
    pub prefill_ms_total: f64,
    pub decode_ms_total: f64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kvrt_plan_options {
    pub struct_size: u32,
    pub kv_format: u32,
    pub block_tokens: u32,
    pub sessions: u32,
    pub session_tokens: u64,
    pub shared_tokens: u64,
    pub memory_bytes: u64,
    pub layers: u32,
    pub kv_heads: u32,
    pub head_dim: u32,
    pub kv_format_v: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kvrt_plan {
    pub struct_size: u32,
    pub block_tokens: u32,
    pub layers: u32,
    pub heads: u32,
    pub kv_heads: u32,
    pub head_dim: u32,
    pub context_length: u32,
    pub fits: u32,
    pub kv_bytes_per_token: u64,
    pub block_bytes: u64,
    pub weight_bytes: u64,
    pub scratch_bytes: u64,
    pub session_blocks: u64,
    pub session_bytes: u64,
    pub used: f64,
    pub waste: f64,
    pub blocks: u64,
    pub kv_bytes: u64,
    pub stored_tokens: u64,
    pub unshared_tokens: u64,
    pub total_bytes: u64,
    pub memory_bytes: u64,
    pub sessions_max: u64,
    pub context_max: u64,
    pub kv_groups: u32,
    pub kv_group_layers: [u32; 8],
    pub kv_group_window: [u32; 8],
    pub kv_group_bytes_per_token: [u32; 8],
    pub kv_group_tokens_max: [u32; 8],
    pub state_bytes: u64,
    pub boundary_bytes: u64,
    pub boundaries: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kvrt_cache_props {
    pub struct_size: u32,
    pub files: u32,
    pub bytes: u64,
    pub bytes_max: u64,
    pub bytes_free: u64,
    pub directory: [c_char; 4096],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kvrt_store_options {
    pub struct_size: u32,
    pub read_only: u32,
    pub must_exist: u32,
    pub reserved: u32,
    pub disk_bytes_max: u64,
    pub free_bytes_min: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kvrt_store_props {
    pub struct_size: u32,
    pub read_only: u32,
    pub format: u32,
    pub sessions: u64,
    pub chunks: u64,
    pub segments: u64,
    pub chunk_bytes: u64,
    pub chunk_raw_bytes: u64,
    pub disk_bytes: u64,
    pub chunks_damaged: u64,
    pub chunks_evicted: u64,
    pub old_bytes: u64,
    pub bytes_free: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kvrt_gc_report {
    pub struct_size: u32,
    pub sessions_removed: u64,
    pub chunks_removed: u64,
    pub segments_removed: u64,
    pub bytes_freed: u64,
    pub ms: f64,
    pub bytes_rewritten: u64,
    pub bytes_punched: u64,
    pub log_bytes_kept: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kvrt_repair_report {
    pub struct_size: u32,
    pub outcome: u32,
    pub sessions_kept: u64,
    pub sessions_with_holes: u64,
    pub sessions_recovered: u64,
    pub sessions_lost: u64,
    pub chunks_kept: u64,
    pub chunks_lost: u64,
    pub bytes_kept: u64,
    pub ms: f64,
    pub chunks_unowned: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kvrt_session_options {
    pub struct_size: u32,
    pub no_prefix_cache: u32,
    pub store: *mut kvrt_store,
    pub domain: *const c_char,
    pub domain_size: usize,
    pub tools: *const c_char,
    pub tools_size: usize,
    pub wake: Option<kvrt_wake_fn>,
    pub wake_user: *mut c_void,
    pub wake_user_free: Option<kvrt_free_fn>,
    pub documents: *const c_char,
    pub documents_size: usize,
    pub variables: *const c_char,
    pub variables_size: usize,
    pub autosave_name: *const c_char,
    pub autosave_name_size: usize,
    pub autosave_turn: u32,
    pub autosave_tokens: u32,
    pub autosave_idle_ms: u32,
    pub foreign_kv: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kvrt_session_props {
    pub struct_size: u32,
    pub state: u32,
    pub tokens: u64,
    pub kv_tokens: u64,
    pub kv_blocks: u64,
    pub kv_bytes: u64,
    pub events_unread: u64,
    pub messages: u64,
    pub revision: u64,
    pub id: [c_char; 40],
    pub name: [c_char; 256],
    pub last_error_status: i32,
    pub last_error_detail: i32,
    pub awaits_accept: u32,
    pub inexact: u32,
    pub last_error_message: [c_char; 512],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kvrt_append_info {
    pub struct_size: u32,
    pub appended: u64,
    pub rewritten: u64,
    pub rewritten_at: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kvrt_generate_options {
    pub struct_size: u32,
    pub max_tokens: u32,
    pub temperature: f32,
    pub top_k: u32,
    pub top_p: f32,
    pub min_p: f32,
    pub repetition_penalty: f32,
    pub frequency_penalty: f32,
    pub presence_penalty: f32,
    pub penalty_window: u32,
    pub logit_bias: *const kvrt_token_value,
    pub logit_bias_count: usize,
    pub seed: u64,
    pub stop_tokens: *const i32,
    pub stop_token_count: usize,
    pub stop_strings: *const c_char,
    pub stop_strings_size: usize,
    pub ignore_eos: u32,
    pub top_logprobs: u32,
    pub sampler: u32,
    pub emit_logits: u32,
    pub no_generation_prompt: u32,
    pub all_or_nothing: u32,
    pub prefill: u32,
    pub logits: u32,
    pub grammar_kind: u32,
    pub reply: u32,
    pub grammar: *const c_char,
    pub grammar_size: usize,
    pub cancel: *mut kvrt_cancel,
    pub tool_choice: u32,
    pub parallel_calls_max: u32,
    pub reasoning_tokens_max: u32,
    pub tool_name: *const c_char,
    pub tool_name_size: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kvrt_message_props {
    pub struct_size: u32,
    pub generated: u32,
    pub begin: u64,
    pub end: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kvrt_save_options {
    pub struct_size: u32,
    pub durability: u32,
    pub overwrite: u32,
    pub pin: u32,
    pub ttl_seconds: u64,
    pub codec: u32,
    pub reserved: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kvrt_save_report {
    pub struct_size: u32,
    pub revision: u64,
    pub tokens: u64,
    pub chunks: u64,
    pub chunks_written: u64,
    pub bytes_written: u64,
    pub ms: f64,
    pub chunks_missing: u64,
}

extern "C" {
    pub fn kvrt_version() -> u32;
    pub fn kvrt_abi_version() -> u32;
    pub fn kvrt_status_name(status: i32) -> *const c_char;
    pub fn kvrt_last_error(out: *mut kvrt_error) -> i32;
    pub fn kvrt_struct_size(name: *const c_char) -> u32;
    pub fn kvrt_struct_offset(name: *const c_char, field: *const c_char) -> u32;
    pub fn kvrt_runtime_open(options: *const kvrt_runtime_options, out: *mut *mut kvrt_runtime, err: *mut kvrt_error) -> i32;
    pub fn kvrt_runtime_retain(runtime: *mut kvrt_runtime);
    pub fn kvrt_runtime_release(runtime: *mut kvrt_runtime);
    pub fn kvrt_runtime_info(runtime: *const kvrt_runtime, out: *mut kvrt_runtime_props, err: *mut kvrt_error) -> i32;
    pub fn kvrt_runtime_set_threads(runtime: *mut kvrt_runtime, threads: u32, err: *mut kvrt_error) -> i32;
    pub fn kvrt_model_open(runtime: *mut kvrt_runtime, path: *const c_char, path_size: usize, options: *const kvrt_model_options, callback: Option<kvrt_event_fn>, user: *mut c_void, out: *mut *mut kvrt_model, err: *mut kvrt_error) -> i32;
    pub fn kvrt_model_retain(model: *mut kvrt_model);
    pub fn kvrt_model_release(model: *mut kvrt_model);
    pub fn kvrt_model_info(model: *const kvrt_model, out: *mut kvrt_model_props, err: *mut kvrt_error) -> i32;
    pub fn kvrt_model_tokenize(model: *const kvrt_model, text: *const c_char, text_size: usize, flags: u32, tokens: *mut i32, capacity: usize, needed: *mut usize, err: *mut kvrt_error) -> i32;
    pub fn kvrt_model_detokenize(model: *const kvrt_model, tokens: *const i32, count: usize, flags: u32, text: *mut c_char, capacity: usize, needed: *mut usize, err: *mut kvrt_error) -> i32;
    pub fn kvrt_model_apply_template(model: *const kvrt_model, messages: *const c_char, messages_size: usize, options: *const kvrt_template_options, text: *mut c_char, capacity: usize, needed: *mut usize, err: *mut kvrt_error) -> i32;
    pub fn kvrt_model_step(model: *mut kvrt_model, ms: u32, runnable: *mut u32, err: *mut kvrt_error) -> i32;
    pub fn kvrt_model_metrics(model: *const kvrt_model, out: *mut kvrt_metrics, err: *mut kvrt_error) -> i32;
    pub fn kvrt_model_metrics_text(model: *const kvrt_model, label_value: *const c_char, label_value_size: usize, text: *mut c_char, capacity: usize, needed: *mut usize, err: *mut kvrt_error) -> i32;
    pub fn kvrt_model_plan(runtime: *const kvrt_runtime, path: *const c_char, path_size: usize, options: *const kvrt_plan_options, out: *mut kvrt_plan, err: *mut kvrt_error) -> i32;
    pub fn kvrt_model_cache(runtime: *const kvrt_runtime, options: *const kvrt_model_options, out: *mut kvrt_cache_props, err: *mut kvrt_error) -> i32;
    pub fn kvrt_model_inspect(runtime: *const kvrt_runtime, path: *const c_char, path_size: usize, flags: u32, json: *mut c_char, capacity: usize, needed: *mut usize, err: *mut kvrt_error) -> i32;
    pub fn kvrt_store_open(runtime: *mut kvrt_runtime, path: *const c_char, path_size: usize, options: *const kvrt_store_options, out: *mut *mut kvrt_store, err: *mut kvrt_error) -> i32;
    pub fn kvrt_store_retain(store: *mut kvrt_store);
    pub fn kvrt_store_release(store: *mut kvrt_store);
    pub fn kvrt_store_info(store: *const kvrt_store, out: *mut kvrt_store_props, err: *mut kvrt_error) -> i32;
    pub fn kvrt_store_list(store: *const kvrt_store, domain: *const c_char, domain_size: usize, callback: Option<kvrt_event_fn>, user: *mut c_void, err: *mut kvrt_error) -> i32;
    pub fn kvrt_store_stat(store: *const kvrt_store, domain: *const c_char, domain_size: usize, name: *const c_char, name_size: usize, out: *mut kvrt_store_entry, err: *mut kvrt_error) -> i32;
    pub fn kvrt_store_show(store: *const kvrt_store, domain: *const c_char, domain_size: usize, name: *const c_char, name_size: usize, json: *mut c_char, capacity: usize, needed: *mut usize, err: *mut kvrt_error) -> i32;
    pub fn kvrt_store_remove(store: *mut kvrt_store, domain: *const c_char, domain_size: usize, name: *const c_char, name_size: usize, err: *mut kvrt_error) -> i32;
    pub fn kvrt_store_rename(store: *mut kvrt_store, domain: *const c_char, domain_size: usize, from: *const c_char, from_size: usize, to: *const c_char, to_size: usize, err: *mut kvrt_error) -> i32;
    pub fn kvrt_store_pin(store: *mut kvrt_store, domain: *const c_char, domain_size: usize, name: *const c_char, name_size: usize, pinned: u32, err: *mut kvrt_error) -> i32;
    pub fn kvrt_store_set_ttl(store: *mut kvrt_store, domain: *const c_char, domain_size: usize, name: *const c_char, name_size: usize, seconds: u64, err: *mut kvrt_error) -> i32;
    pub fn kvrt_store_gc(store: *mut kvrt_store, callback: Option<kvrt_event_fn>, user: *mut c_void, report: *mut kvrt_gc_report, err: *mut kvrt_error) -> i32;
    pub fn kvrt_store_remove_old(store: *mut kvrt_store, bytes: *mut u64, err: *mut kvrt_error) -> i32;
    pub fn kvrt_store_verify(store: *mut kvrt_store, callback: Option<kvrt_event_fn>, user: *mut c_void, err: *mut kvrt_error) -> i32;
    pub fn kvrt_store_repair(runtime: *mut kvrt_runtime, path: *const c_char, path_size: usize, callback: Option<kvrt_event_fn>, user: *mut c_void, report: *mut kvrt_repair_report, err: *mut kvrt_error) -> i32;
    pub fn kvrt_cancel_open(out: *mut *mut kvrt_cancel, err: *mut kvrt_error) -> i32;
    pub fn kvrt_cancel_retain(cancel: *mut kvrt_cancel);
    pub fn kvrt_cancel_release(cancel: *mut kvrt_cancel);
    pub fn kvrt_cancel_fire(cancel: *mut kvrt_cancel);
    pub fn kvrt_cancel_fired(cancel: *const kvrt_cancel) -> u32;
    pub fn kvrt_session_open(model: *mut kvrt_model, options: *const kvrt_session_options, out: *mut *mut kvrt_session, err: *mut kvrt_error) -> i32;
    pub fn kvrt_session_close(session: *mut kvrt_session);
    pub fn kvrt_session_info(session: *const kvrt_session, out: *mut kvrt_session_props, err: *mut kvrt_error) -> i32;
    pub fn kvrt_session_append(session: *mut kvrt_session, tokens: *const i32, count: usize, err: *mut kvrt_error) -> i32;
    pub fn kvrt_session_append_text(session: *mut kvrt_session, text: *const c_char, text_size: usize, flags: u32, err: *mut kvrt_error) -> i32;
    pub fn kvrt_session_append_message(session: *mut kvrt_session, message: *const c_char, message_size: usize, info: *mut kvrt_append_info, err: *mut kvrt_error) -> i32;
    pub fn kvrt_session_set_messages(session: *mut kvrt_session, messages: *const c_char, messages_size: usize, info: *mut kvrt_append_info, err: *mut kvrt_error) -> i32;
    pub fn kvrt_session_prefill(session: *mut kvrt_session, logits: u32, callback: Option<kvrt_event_fn>, user: *mut c_void, report: *mut kvrt_report, err: *mut kvrt_error) -> i32;
    pub fn kvrt_session_begin(session: *mut kvrt_session, options: *const kvrt_generate_options, err: *mut kvrt_error) -> i32;
    pub fn kvrt_session_next(session: *mut kvrt_session, event: *mut kvrt_event, timeout_ms: i32, err: *mut kvrt_error) -> i32;
    pub fn kvrt_session_accept(session: *mut kvrt_session, token: i32, err: *mut kvrt_error) -> i32;
    pub fn kvrt_session_generate(session: *mut kvrt_session, options: *const kvrt_generate_options, callback: Option<kvrt_event_fn>, user: *mut c_void, report: *mut kvrt_report, err: *mut kvrt_error) -> i32;
    pub fn kvrt_session_cancel(session: *mut kvrt_session, err: *mut kvrt_error) -> i32;
    pub fn kvrt_session_fork(session: *mut kvrt_session, options: *const kvrt_session_options, out: *mut *mut kvrt_session, err: *mut kvrt_error) -> i32;
    pub fn kvrt_session_truncate(session: *mut kvrt_session, count: u64, err: *mut kvrt_error) -> i32;
    pub fn kvrt_session_mark(session: *mut kvrt_session, tokens: u64, err: *mut kvrt_error) -> i32;
    pub fn kvrt_session_erase(session: *mut kvrt_session, from: u64, to: u64, err: *mut kvrt_error) -> i32;
    pub fn kvrt_session_tokens(session: *const kvrt_session, tokens: *mut i32, capacity: usize, needed: *mut usize, err: *mut kvrt_error) -> i32;
    pub fn kvrt_session_text(session: *const kvrt_session, from: u64, to: u64, flags: u32, text: *mut c_char, capacity: usize, needed: *mut usize, err: *mut kvrt_error) -> i32;
    pub fn kvrt_session_message(session: *const kvrt_session, index: u64, out: *mut kvrt_message_props, json: *mut c_char, capacity: usize, needed: *mut usize, err: *mut kvrt_error) -> i32;
    pub fn kvrt_session_checkpoint(session: *mut kvrt_session, name: *const c_char, name_size: usize, options: *const kvrt_save_options, report: *mut kvrt_save_report, err: *mut kvrt_error) -> i32;
    pub fn kvrt_session_suspend(session: *mut kvrt_session, name: *const c_char, name_size: usize, options: *const kvrt_save_options, report: *mut kvrt_save_report, err: *mut kvrt_error) -> i32;
    pub fn kvrt_session_resume(model: *mut kvrt_model, store: *mut kvrt_store, name: *const c_char, name_size: usize, options: *const kvrt_session_options, callback: Option<kvrt_event_fn>, user: *mut c_void, report: *mut kvrt_report, out: *mut *mut kvrt_session, err: *mut kvrt_error) -> i32;
}

/// Each struct, its size, and its fields with their offsets.
pub const LAYOUT: &[(&str, usize, &[(&str, usize)])] = &[
    ("kvrt_error", std::mem::size_of::<kvrt_error>(), &[("struct_size", 0), ("status", 4), ("detail", 8), ("os_code", 12), ("message", 16)]),
    ("kvrt_report", std::mem::size_of::<kvrt_report>(), &[("struct_size", 0), ("reason", 4), ("prompt_tokens", 8), ("reused_memory", 16), ("reused_disk", 24), ("prefilled", 32), ("generated", 40), ("reuse_stopped", 48), ("stop_string_tokens", 52), ("reuse_stopped_at", 56), ("seed", 64), ("queue_ms", 72), ("ttft_ms", 80), ("prefill_ms", 88), ("decode_ms", 96), ("tpot_ms", 104), ("prefill_tokens_per_s", 112), ("decode_tokens_per_s", 120), ("kv_blocks", 128), ("kv_bytes", 136), ("pool_bytes_begin", 144), ("pool_bytes_prefilled", 152), ("pool_bytes_end", 160), ("recomputed", 168)]),
    ("kvrt_store_entry", std::mem::size_of::<kvrt_store_entry>(), &[("struct_size", 0), ("pinned", 4), ("name", 8), ("domain", 264), ("id", 520), ("revision", 560), ("tokens", 568), ("chunks", 576), ("chunks_missing", 584), ("bytes", 592), ("bytes_shared", 600), ("created_unix_ms", 608), ("saved_unix_ms", 616), ("expires_unix_ms", 624)]),
    ("kvrt_token_value", std::mem::size_of::<kvrt_token_value>(), &[("token", 0), ("value", 4)]),
    ("kvrt_event", std::mem::size_of::<kvrt_event>(), &[("struct_size", 0), ("type", 4), ("token", 8), ("reason", 12), ("position", 16), ("text", 24), ("text_size", 32), ("logprob", 40), ("done", 48), ("total", 56), ("logits", 64), ("logits_count", 72), ("report", 80), ("entry", 88), ("top", 96), ("top_count", 104)]),
    ("kvrt_runtime_options", std::mem::size_of::<kvrt_runtime_options>(), &[("struct_size", 0), ("threads", 4), ("isa", 8), ("log_level", 12), ("log", 16), ("log_user", 24), ("log_user_free", 32), ("device", 40), ("device_index", 44), ("cuda_library", 48), ("cuda_library_size", 56), ("determinism", 64), ("prompt_gemm", 68)]),
    ("kvrt_runtime_props", std::mem::size_of::<kvrt_runtime_props>(), &[("struct_size", 0), ("threads", 4), ("device", 8), ("isa", 24), ("numerics", 40), ("isa_tables", 56), ("libraries", 184), ("device_name", 312), ("device_memory", 376), ("device_memory_free", 384), ("devices", 392)]),
    ("kvrt_model_options", std::mem::size_of::<kvrt_model_options>(), &[("struct_size", 0), ("kv_format", 4), ("block_tokens", 8), ("prefill_chunk", 12), ("kv_bytes_max", 16), ("step_ms_max", 24), ("from_fd", 28), ("fd", 32), ("kv_populate", 36), ("fd_offset", 40), ("fd_size", 48), ("cache_dir", 56), ("cache_dir_size", 64), ("cache", 72), ("kv_format_v", 76), ("cache_bytes_max", 80)]),
    ("kvrt_model_props", std::mem::size_of::<kvrt_model_props>(), &[("struct_size", 0), ("has_weights", 4), ("architecture", 8), ("name", 40), ("vocab_size", 168), ("context_length", 172), ("layers", 176), ("heads", 180), ("kv_heads", 184), ("head_dim", 188), ("width", 192), ("bos_token", 196), ("eos_token", 200), ("add_bos", 204), ("has_template", 208), ("block_tokens", 212), ("file_bytes", 216), ("weight_bytes", 224), ("kv_bytes_per_token", 232), ("block_bytes", 240), ("blocks", 248), ("blocks_free", 256), ("blocks_cached", 264), ("sessions", 272), ("load_ms", 280), ("scratch_bytes", 288), ("step_ms_max", 296), ("kv_format", 300), ("kv_format_v", 304), ("kv_groups", 308), ("kv_group_layers", 312), ("kv_group_window", 344), ("kv_group_bytes_per_token", 376), ("kv_group_tokens_max", 408)]),
    ("kvrt_template_options", std::mem::size_of::<kvrt_template_options>(), &[("struct_size", 0), ("no_generation_prompt", 4), ("source", 8), ("source_size", 16), ("tools", 24), ("tools_size", 32), ("documents", 40), ("documents_size", 48), ("variables", 56), ("variables_size", 64)]),
    ("kvrt_metrics", std::mem::size_of::<kvrt_metrics>(), &[("struct_size", 0), ("sessions", 8), ("generating", 16), ("paused", 24), ("blocks", 32), ("blocks_used", 40), ("blocks_cached", 48), ("steps", 56), ("step_rows", 64), ("step_ms_total", 72), ("step_ms_longest", 80), ("generations", 88), ("prefills", 96), ("done_eos", 104), ("done_stop", 112), ("done_max_tokens", 120), ("done_context_full", 128), ("done_cancelled", 136), ("done_prefilled", 144), ("failed", 152), ("prompt_tokens", 160), ("reused_memory", 168), ("reused_disk", 176), ("prefilled", 184), ("recomputed", 192), ("generated", 200), ("preemptions", 208), ("evictions", 216), ("first_tokens", 224), ("ttft_ms_total", 232), ("queue_ms_total", 240), ("prefill_ms_total", 248), ("decode_ms_total", 256)]),
    ("kvrt_plan_options", std::mem::size_of::<kvrt_plan_options>(), &[("struct_size", 0), ("kv_format", 4), ("block_tokens", 8), ("sessions", 12), ("session_tokens", 16), ("shared_tokens", 24), ("memory_bytes", 32), ("layers", 40), ("kv_heads", 44), ("head_dim", 48), ("kv_format_v", 52)]),
    ("kvrt_plan", std::mem::size_of::<kvrt_plan>(), &[("struct_size", 0), ("block_tokens", 4), ("layers", 8), ("heads", 12), ("kv_heads", 16), ("head_dim", 20), ("context_length", 24), ("fits", 28), ("kv_bytes_per_token", 32), ("block_bytes", 40), ("weight_bytes", 48), ("scratch_bytes", 56), ("session_blocks", 64), ("session_bytes", 72), ("used", 80), ("waste", 88), ("blocks", 96), ("kv_bytes", 104), ("stored_tokens", 112), ("unshared_tokens", 120), ("total_bytes", 128), ("memory_bytes", 136), ("sessions_max", 144), ("context_max", 152), ("kv_groups", 160), ("kv_group_layers", 164), ("kv_group_window", 196), ("kv_group_bytes_per_token", 228), ("kv_group_tokens_max", 260), ("state_bytes", 296), ("boundary_bytes", 304), ("boundaries", 312)]),
    ("kvrt_cache_props", std::mem::size_of::<kvrt_cache_props>(), &[("struct_size", 0), ("files", 4), ("bytes", 8), ("bytes_max", 16), ("bytes_free", 24), ("directory", 32)]),
    ("kvrt_store_options", std::mem::size_of::<kvrt_store_options>(), &[("struct_size", 0), ("read_only", 4), ("must_exist", 8), ("reserved", 12), ("disk_bytes_max", 16), ("free_bytes_min", 24)]),
    ("kvrt_store_props", std::mem::size_of::<kvrt_store_props>(), &[("struct_size", 0), ("read_only", 4), ("format", 8), ("sessions", 16), ("chunks", 24), ("segments", 32), ("chunk_bytes", 40), ("chunk_raw_bytes", 48), ("disk_bytes", 56), ("chunks_damaged", 64), ("chunks_evicted", 72), ("old_bytes", 80), ("bytes_free", 88)]),
    ("kvrt_gc_report", std::mem::size_of::<kvrt_gc_report>(), &[("struct_size", 0), ("sessions_removed", 8), ("chunks_removed", 16), ("segments_removed", 24), ("bytes_freed", 32), ("ms", 40), ("bytes_rewritten", 48), ("bytes_punched", 56), ("log_bytes_kept", 64)]),
    ("kvrt_repair_report", std::mem::size_of::<kvrt_repair_report>(), &[("struct_size", 0), ("outcome", 4), ("sessions_kept", 8), ("sessions_with_holes", 16), ("sessions_recovered", 24), ("sessions_lost", 32), ("chunks_kept", 40), ("chunks_lost", 48), ("bytes_kept", 56), ("ms", 64), ("chunks_unowned", 72)]),
    ("kvrt_session_options", std::mem::size_of::<kvrt_session_options>(), &[("struct_size", 0), ("no_prefix_cache", 4), ("store", 8), ("domain", 16), ("domain_size", 24), ("tools", 32), ("tools_size", 40), ("wake", 48), ("wake_user", 56), ("wake_user_free", 64), ("documents", 72), ("documents_size", 80), ("variables", 88), ("variables_size", 96), ("autosave_name", 104), ("autosave_name_size", 112), ("autosave_turn", 120), ("autosave_tokens", 124), ("autosave_idle_ms", 128), ("foreign_kv", 132)]),
    ("kvrt_session_props", std::mem::size_of::<kvrt_session_props>(), &[("struct_size", 0), ("state", 4), ("tokens", 8), ("kv_tokens", 16), ("kv_blocks", 24), ("kv_bytes", 32), ("events_unread", 40), ("messages", 48), ("revision", 56), ("id", 64), ("name", 104), ("last_error_status", 360), ("last_error_detail", 364), ("awaits_accept", 368), ("inexact", 372), ("last_error_message", 376)]),
    ("kvrt_append_info", std::mem::size_of::<kvrt_append_info>(), &[("struct_size", 0), ("appended", 8), ("rewritten", 16), ("rewritten_at", 24)]),
    ("kvrt_generate_options", std::mem::size_of::<kvrt_generate_options>(), &[("struct_size", 0), ("max_tokens", 4), ("temperature", 8), ("top_k", 12), ("top_p", 16), ("min_p", 20), ("repetition_penalty", 24), ("frequency_penalty", 28), ("presence_penalty", 32), ("penalty_window", 36), ("logit_bias", 40), ("logit_bias_count", 48), ("seed", 56), ("stop_tokens", 64), ("stop_token_count", 72), ("stop_strings", 80), ("stop_strings_size", 88), ("ignore_eos", 96), ("top_logprobs", 100), ("sampler", 104), ("emit_logits", 108), ("no_generation_prompt", 112), ("all_or_nothing", 116), ("prefill", 120), ("logits", 124), ("grammar_kind", 128), ("reply", 132), ("grammar", 136), ("grammar_size", 144), ("cancel", 152), ("tool_choice", 160), ("parallel_calls_max", 164), ("reasoning_tokens_max", 168), ("tool_name", 176), ("tool_name_size", 184)]),
    ("kvrt_message_props", std::mem::size_of::<kvrt_message_props>(), &[("struct_size", 0), ("generated", 4), ("begin", 8), ("end", 16)]),
    ("kvrt_save_options", std::mem::size_of::<kvrt_save_options>(), &[("struct_size", 0), ("durability", 4), ("overwrite", 8), ("pin", 12), ("ttl_seconds", 16), ("codec", 24), ("reserved", 28)]),
    ("kvrt_save_report", std::mem::size_of::<kvrt_save_report>(), &[("struct_size", 0), ("revision", 8), ("tokens", 16), ("chunks", 24), ("chunks_written", 32), ("bytes_written", 40), ("ms", 48), ("chunks_missing", 56)]),
];
