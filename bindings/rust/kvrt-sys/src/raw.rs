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
pub const KVRT_DETAIL_OTHER_PROGRAM: i32 = 5;
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
pub const KVRT_KV_INT4: u32 = 6;

pub const KVRT_GROUP_EVERYTHING: u32 = 1;
pub const KVRT_GROUP_WINDOW: u32 = 2;
pub const KVRT_GROUP_RECURRENT: u32 = 3;

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
    pub kv_units: u64,
    pub kv_bytes: u64,
    pub pool_bytes_begin: u64,
    pub pool_bytes_prefilled: u64,
    pub pool_bytes_end: u64,
    pub recomputed: u64,
    pub drafted: u64,
    pub accepted: u64,
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
    pub unit_bytes: u64,
    pub units: u64,
    pub units_free: u64,
    pub units_cached: u64,
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
    pub kv_group_kind: [u32; 8],
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
    pub units: u64,
    pub units_used: u64,
    pub units_cached: u64,
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
    pub drafted: u64,
    pub accepted: u64,
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
    pub unit_bytes: u64,
    pub weight_bytes: u64,
    pub scratch_bytes: u64,
    pub session_units: u64,
    pub session_bytes: u64,
    pub used: f64,
    pub waste: f64,
    pub units: u64,
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
    pub recurrent_bytes: u64,
    pub boundary_bytes: u64,
    pub boundaries: u64,
    pub kv_group_kind: [u32; 8],
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
    pub resumes_evicted: u64,
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
    pub chunks_orphaned: u64,
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
    pub kv_units: u64,
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
    pub other_process: i32,
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
    pub draft: *mut kvrt_model,
    pub prediction: *const c_char,
    pub prediction_size: usize,
    pub lookup: u32,
    pub draft_tokens_max: u32,
    pub draft_tokens_min: u32,
    pub reserved: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kvrt_message_props {
    pub struct_size: u32,
    pub generated: u32,
    pub begin: u64,
    pub end: u64,
    pub ended: u32,
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

/// Each struct, its size, and its fields with their offsets, as Rust lays them out.
pub fn layout() -> Vec<crate::Layout> {
    vec![
        layout!(kvrt_error { struct_size, status, detail, os_code, message }),
        layout!(kvrt_report { struct_size, reason, prompt_tokens, reused_memory, reused_disk, prefilled, generated, reuse_stopped, stop_string_tokens, reuse_stopped_at, seed, queue_ms, ttft_ms, prefill_ms, decode_ms, tpot_ms, prefill_tokens_per_s, decode_tokens_per_s, kv_units, kv_bytes, pool_bytes_begin, pool_bytes_prefilled, pool_bytes_end, recomputed, drafted, accepted }),
        layout!(kvrt_store_entry { struct_size, pinned, name, domain, id, revision, tokens, chunks, chunks_missing, bytes, bytes_shared, created_unix_ms, saved_unix_ms, expires_unix_ms }),
        layout!(kvrt_token_value { token, value }),
        layout!(kvrt_event { struct_size, type_, token, reason, position, text, text_size, logprob, done, total, logits, logits_count, report, entry, top, top_count }),
        layout!(kvrt_runtime_options { struct_size, threads, isa, log_level, log, log_user, log_user_free, device, device_index, cuda_library, cuda_library_size, determinism, prompt_gemm }),
        layout!(kvrt_runtime_props { struct_size, threads, device, isa, numerics, isa_tables, libraries, device_name, device_memory, device_memory_free, devices }),
        layout!(kvrt_model_options { struct_size, kv_format, block_tokens, prefill_chunk, kv_bytes_max, step_ms_max, from_fd, fd, kv_populate, fd_offset, fd_size, cache_dir, cache_dir_size, cache, kv_format_v, cache_bytes_max }),
        layout!(kvrt_model_props { struct_size, has_weights, architecture, name, vocab_size, context_length, layers, heads, kv_heads, head_dim, width, bos_token, eos_token, add_bos, has_template, block_tokens, file_bytes, weight_bytes, kv_bytes_per_token, unit_bytes, units, units_free, units_cached, sessions, load_ms, scratch_bytes, step_ms_max, kv_format, kv_format_v, kv_groups, kv_group_layers, kv_group_window, kv_group_bytes_per_token, kv_group_tokens_max, kv_group_kind }),
        layout!(kvrt_template_options { struct_size, no_generation_prompt, source, source_size, tools, tools_size, documents, documents_size, variables, variables_size }),
        layout!(kvrt_metrics { struct_size, sessions, generating, paused, units, units_used, units_cached, steps, step_rows, step_ms_total, step_ms_longest, generations, prefills, done_eos, done_stop, done_max_tokens, done_context_full, done_cancelled, done_prefilled, failed, prompt_tokens, reused_memory, reused_disk, prefilled, recomputed, generated, drafted, accepted, preemptions, evictions, first_tokens, ttft_ms_total, queue_ms_total, prefill_ms_total, decode_ms_total }),
        layout!(kvrt_plan_options { struct_size, kv_format, block_tokens, sessions, session_tokens, shared_tokens, memory_bytes, layers, kv_heads, head_dim, kv_format_v }),
        layout!(kvrt_plan { struct_size, block_tokens, layers, heads, kv_heads, head_dim, context_length, fits, kv_bytes_per_token, unit_bytes, weight_bytes, scratch_bytes, session_units, session_bytes, used, waste, units, kv_bytes, stored_tokens, unshared_tokens, total_bytes, memory_bytes, sessions_max, context_max, kv_groups, kv_group_layers, kv_group_window, kv_group_bytes_per_token, kv_group_tokens_max, recurrent_bytes, boundary_bytes, boundaries, kv_group_kind }),
        layout!(kvrt_cache_props { struct_size, files, bytes, bytes_max, bytes_free, directory }),
        layout!(kvrt_store_options { struct_size, read_only, must_exist, reserved, disk_bytes_max, free_bytes_min }),
        layout!(kvrt_store_props { struct_size, read_only, format, sessions, chunks, segments, chunk_bytes, chunk_raw_bytes, disk_bytes, chunks_damaged, chunks_evicted, old_bytes, bytes_free, resumes_evicted }),
        layout!(kvrt_gc_report { struct_size, sessions_removed, chunks_removed, segments_removed, bytes_freed, ms, bytes_rewritten, bytes_punched, log_bytes_kept }),
        layout!(kvrt_repair_report { struct_size, outcome, sessions_kept, sessions_with_holes, sessions_recovered, sessions_lost, chunks_kept, chunks_lost, bytes_kept, ms, chunks_orphaned }),
        layout!(kvrt_session_options { struct_size, no_prefix_cache, store, domain, domain_size, tools, tools_size, wake, wake_user, wake_user_free, documents, documents_size, variables, variables_size, autosave_name, autosave_name_size, autosave_turn, autosave_tokens, autosave_idle_ms, foreign_kv }),
        layout!(kvrt_session_props { struct_size, state, tokens, kv_tokens, kv_units, kv_bytes, events_unread, messages, revision, id, name, last_error_status, last_error_detail, awaits_accept, inexact, last_error_message, other_process }),
        layout!(kvrt_append_info { struct_size, appended, rewritten, rewritten_at }),
        layout!(kvrt_generate_options { struct_size, max_tokens, temperature, top_k, top_p, min_p, repetition_penalty, frequency_penalty, presence_penalty, penalty_window, logit_bias, logit_bias_count, seed, stop_tokens, stop_token_count, stop_strings, stop_strings_size, ignore_eos, top_logprobs, sampler, emit_logits, no_generation_prompt, all_or_nothing, prefill, logits, grammar_kind, reply, grammar, grammar_size, cancel, tool_choice, parallel_calls_max, reasoning_tokens_max, tool_name, tool_name_size, draft, prediction, prediction_size, lookup, draft_tokens_max, draft_tokens_min, reserved }),
        layout!(kvrt_message_props { struct_size, generated, begin, end, ended }),
        layout!(kvrt_save_options { struct_size, durability, overwrite, pin, ttl_seconds, codec, reserved }),
        layout!(kvrt_save_report { struct_size, revision, tokens, chunks, chunks_written, bytes_written, ms, chunks_missing }),
    ]
}
