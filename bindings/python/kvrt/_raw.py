"""kvrt.h for ctypes. Made of include/kvrt.abi.json by bindings/raw.py (./dev abi): do not edit."""
from ctypes import (CFUNCTYPE, Array, c_char, c_char_p, c_double, c_float, c_int32, c_int64, c_size_t, c_uint32, c_uint64,
                    c_void_p)
from typing import Any, Dict, List, Optional, Tuple, Type

from ._base import Struct

ABI_VERSION = 0
Chars = bytes  # a field's name may be bytes

kvrt_event_fn = CFUNCTYPE(c_int32, c_void_p, c_void_p)
kvrt_log_fn = CFUNCTYPE(None, c_void_p, c_int32, c_void_p, c_size_t)
kvrt_free_fn = CFUNCTYPE(None, c_void_p)
kvrt_wake_fn = CFUNCTYPE(None, c_void_p)


class kvrt_error(Struct):
    struct_size: int
    status: int
    detail: int
    os_code: int
    message: Chars
    _fields_ = [
        ("struct_size", c_uint32),
        ("status", c_int32),
        ("detail", c_int32),
        ("os_code", c_int32),
        ("message", c_char * 1008),
    ]


class kvrt_report(Struct):
    struct_size: int
    reason: int
    prompt_tokens: int
    reused_memory: int
    reused_disk: int
    prefilled: int
    generated: int
    reuse_stopped: int
    stop_string_tokens: int
    reuse_stopped_at: int
    seed: int
    queue_ms: float
    ttft_ms: float
    prefill_ms: float
    decode_ms: float
    tpot_ms: float
    prefill_tokens_per_s: float
    decode_tokens_per_s: float
    kv_units: int
    kv_bytes: int
    pool_bytes_begin: int
    pool_bytes_prefilled: int
    pool_bytes_end: int
    recomputed: int
    drafted: int
    accepted: int
    _fields_ = [
        ("struct_size", c_uint32),
        ("reason", c_uint32),
        ("prompt_tokens", c_uint64),
        ("reused_memory", c_uint64),
        ("reused_disk", c_uint64),
        ("prefilled", c_uint64),
        ("generated", c_uint64),
        ("reuse_stopped", c_uint32),
        ("stop_string_tokens", c_uint32),
        ("reuse_stopped_at", c_uint64),
        ("seed", c_uint64),
        ("queue_ms", c_double),
        ("ttft_ms", c_double),
        ("prefill_ms", c_double),
        ("decode_ms", c_double),
        ("tpot_ms", c_double),
        ("prefill_tokens_per_s", c_double),
        ("decode_tokens_per_s", c_double),
        ("kv_units", c_uint64),
        ("kv_bytes", c_uint64),
        ("pool_bytes_begin", c_uint64),
        ("pool_bytes_prefilled", c_uint64),
        ("pool_bytes_end", c_uint64),
        ("recomputed", c_uint64),
        ("drafted", c_uint64),
        ("accepted", c_uint64),
    ]


class kvrt_store_entry(Struct):
    struct_size: int
    pinned: int
    name: Chars
    domain: Chars
    id: Chars
    revision: int
    tokens: int
    chunks: int
    chunks_missing: int
    bytes: int
    bytes_shared: int
    created_unix_ms: int
    saved_unix_ms: int
    expires_unix_ms: int
    _fields_ = [
        ("struct_size", c_uint32),
        ("pinned", c_uint32),
        ("name", c_char * 256),
        ("domain", c_char * 256),
        ("id", c_char * 40),
        ("revision", c_uint64),
        ("tokens", c_uint64),
        ("chunks", c_uint64),
        ("chunks_missing", c_uint64),
        ("bytes", c_uint64),
        ("bytes_shared", c_uint64),
        ("created_unix_ms", c_int64),
        ("saved_unix_ms", c_int64),
        ("expires_unix_ms", c_int64),
    ]


class kvrt_token_value(Struct):
    token: int
    value: float
    _fields_ = [
        ("token", c_int32),
        ("value", c_float),
    ]


class kvrt_event(Struct):
    struct_size: int
    type: int
    token: int
    reason: int
    position: int
    text: Optional[int]
    text_size: int
    logprob: float
    done: int
    total: int
    logits: Optional[int]
    logits_count: int
    report: Optional[int]
    entry: Optional[int]
    top: Optional[int]
    top_count: int
    _fields_ = [
        ("struct_size", c_uint32),
        ("type", c_uint32),
        ("token", c_int32),
        ("reason", c_uint32),
        ("position", c_uint64),
        ("text", c_void_p),
        ("text_size", c_size_t),
        ("logprob", c_double),
        ("done", c_uint64),
        ("total", c_uint64),
        ("logits", c_void_p),
        ("logits_count", c_size_t),
        ("report", c_void_p),
        ("entry", c_void_p),
        ("top", c_void_p),
        ("top_count", c_size_t),
    ]


class kvrt_runtime_options(Struct):
    struct_size: int
    threads: int
    isa: int
    log_level: int
    log: Any
    log_user: Optional[int]
    log_user_free: Any
    device: int
    device_index: int
    cuda_library: Optional[bytes]
    cuda_library_size: int
    determinism: int
    prompt_gemm: int
    _fields_ = [
        ("struct_size", c_uint32),
        ("threads", c_uint32),
        ("isa", c_uint32),
        ("log_level", c_uint32),
        ("log", kvrt_log_fn),
        ("log_user", c_void_p),
        ("log_user_free", kvrt_free_fn),
        ("device", c_uint32),
        ("device_index", c_uint32),
        ("cuda_library", c_char_p),
        ("cuda_library_size", c_size_t),
        ("determinism", c_uint32),
        ("prompt_gemm", c_uint32),
    ]


class kvrt_runtime_props(Struct):
    struct_size: int
    threads: int
    device: Chars
    isa: Chars
    numerics: Chars
    isa_tables: Chars
    libraries: Chars
    device_name: Chars
    device_memory: int
    device_memory_free: int
    devices: Chars
    _fields_ = [
        ("struct_size", c_uint32),
        ("threads", c_uint32),
        ("device", c_char * 16),
        ("isa", c_char * 16),
        ("numerics", c_char * 16),
        ("isa_tables", c_char * 128),
        ("libraries", c_char * 128),
        ("device_name", c_char * 64),
        ("device_memory", c_uint64),
        ("device_memory_free", c_uint64),
        ("devices", c_char * 1024),
    ]


class kvrt_model_options(Struct):
    struct_size: int
    kv_format: int
    block_tokens: int
    prefill_chunk: int
    kv_bytes_max: int
    step_ms_max: int
    from_fd: int
    fd: int
    kv_populate: int
    fd_offset: int
    fd_size: int
    cache_dir: Optional[bytes]
    cache_dir_size: int
    cache: int
    kv_format_v: int
    cache_bytes_max: int
    _fields_ = [
        ("struct_size", c_uint32),
        ("kv_format", c_uint32),
        ("block_tokens", c_uint32),
        ("prefill_chunk", c_uint32),
        ("kv_bytes_max", c_uint64),
        ("step_ms_max", c_uint32),
        ("from_fd", c_uint32),
        ("fd", c_int32),
        ("kv_populate", c_uint32),
        ("fd_offset", c_uint64),
        ("fd_size", c_uint64),
        ("cache_dir", c_char_p),
        ("cache_dir_size", c_size_t),
        ("cache", c_uint32),
        ("kv_format_v", c_uint32),
        ("cache_bytes_max", c_uint64),
    ]


class kvrt_model_props(Struct):
    struct_size: int
    has_weights: int
    architecture: Chars
    name: Chars
    vocab_size: int
    context_length: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    width: int
    bos_token: int
    eos_token: int
    add_bos: int
    has_template: int
    block_tokens: int
    file_bytes: int
    weight_bytes: int
    kv_bytes_per_token: int
    unit_bytes: int
    units: int
    units_free: int
    units_cached: int
    sessions: int
    load_ms: float
    scratch_bytes: int
    step_ms_max: int
    kv_format: int
    kv_format_v: int
    kv_groups: int
    kv_group_layers: "Array[c_uint32]"
    kv_group_window: "Array[c_uint32]"
    kv_group_bytes_per_token: "Array[c_uint32]"
    kv_group_tokens_max: "Array[c_uint32]"
    kv_group_kind: "Array[c_uint32]"
    _fields_ = [
        ("struct_size", c_uint32),
        ("has_weights", c_uint32),
        ("architecture", c_char * 32),
        ("name", c_char * 128),
        ("vocab_size", c_uint32),
        ("context_length", c_uint32),
        ("layers", c_uint32),
        ("heads", c_uint32),
        ("kv_heads", c_uint32),
        ("head_dim", c_uint32),
        ("width", c_uint32),
        ("bos_token", c_int32),
        ("eos_token", c_int32),
        ("add_bos", c_uint32),
        ("has_template", c_uint32),
        ("block_tokens", c_uint32),
        ("file_bytes", c_uint64),
        ("weight_bytes", c_uint64),
        ("kv_bytes_per_token", c_uint64),
        ("unit_bytes", c_uint64),
        ("units", c_uint64),
        ("units_free", c_uint64),
        ("units_cached", c_uint64),
        ("sessions", c_uint64),
        ("load_ms", c_double),
        ("scratch_bytes", c_uint64),
        ("step_ms_max", c_uint32),
        ("kv_format", c_uint32),
        ("kv_format_v", c_uint32),
        ("kv_groups", c_uint32),
        ("kv_group_layers", c_uint32 * 8),
        ("kv_group_window", c_uint32 * 8),
        ("kv_group_bytes_per_token", c_uint32 * 8),
        ("kv_group_tokens_max", c_uint32 * 8),
        ("kv_group_kind", c_uint32 * 8),
    ]


class kvrt_template_options(Struct):
    struct_size: int
    no_generation_prompt: int
    source: Optional[bytes]
    source_size: int
    tools: Optional[bytes]
    tools_size: int
    documents: Optional[bytes]
    documents_size: int
    variables: Optional[bytes]
    variables_size: int
    _fields_ = [
        ("struct_size", c_uint32),
        ("no_generation_prompt", c_uint32),
        ("source", c_char_p),
        ("source_size", c_size_t),
        ("tools", c_char_p),
        ("tools_size", c_size_t),
        ("documents", c_char_p),
        ("documents_size", c_size_t),
        ("variables", c_char_p),
        ("variables_size", c_size_t),
    ]


class kvrt_metrics(Struct):
    struct_size: int
    sessions: int
    generating: int
    paused: int
    units: int
    units_used: int
    units_cached: int
    steps: int
    step_rows: int
    step_ms_total: float
    step_ms_longest: float
    generations: int
    prefills: int
    done_eos: int
    done_stop: int
    done_max_tokens: int
    done_context_full: int
    done_cancelled: int
    done_prefilled: int
    failed: int
    prompt_tokens: int
    reused_memory: int
    reused_disk: int
    prefilled: int
    recomputed: int
    generated: int
    drafted: int
    accepted: int
    preemptions: int
    evictions: int
    first_tokens: int
    ttft_ms_total: float
    queue_ms_total: float
    prefill_ms_total: float
    decode_ms_total: float
    _fields_ = [
        ("struct_size", c_uint32),
        ("sessions", c_uint64),
        ("generating", c_uint64),
        ("paused", c_uint64),
        ("units", c_uint64),
        ("units_used", c_uint64),
        ("units_cached", c_uint64),
        ("steps", c_uint64),
        ("step_rows", c_uint64),
        ("step_ms_total", c_double),
        ("step_ms_longest", c_double),
        ("generations", c_uint64),
        ("prefills", c_uint64),
        ("done_eos", c_uint64),
        ("done_stop", c_uint64),
        ("done_max_tokens", c_uint64),
        ("done_context_full", c_uint64),
        ("done_cancelled", c_uint64),
        ("done_prefilled", c_uint64),
        ("failed", c_uint64),
        ("prompt_tokens", c_uint64),
        ("reused_memory", c_uint64),
        ("reused_disk", c_uint64),
        ("prefilled", c_uint64),
        ("recomputed", c_uint64),
        ("generated", c_uint64),
        ("drafted", c_uint64),
        ("accepted", c_uint64),
        ("preemptions", c_uint64),
        ("evictions", c_uint64),
        ("first_tokens", c_uint64),
        ("ttft_ms_total", c_double),
        ("queue_ms_total", c_double),
        ("prefill_ms_total", c_double),
        ("decode_ms_total", c_double),
    ]


class kvrt_plan_options(Struct):
    struct_size: int
    kv_format: int
    block_tokens: int
    sessions: int
    session_tokens: int
    shared_tokens: int
    memory_bytes: int
    layers: int
    kv_heads: int
    head_dim: int
    kv_format_v: int
    _fields_ = [
        ("struct_size", c_uint32),
        ("kv_format", c_uint32),
        ("block_tokens", c_uint32),
        ("sessions", c_uint32),
        ("session_tokens", c_uint64),
        ("shared_tokens", c_uint64),
        ("memory_bytes", c_uint64),
        ("layers", c_uint32),
        ("kv_heads", c_uint32),
        ("head_dim", c_uint32),
        ("kv_format_v", c_uint32),
    ]


class kvrt_plan(Struct):
    struct_size: int
    block_tokens: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    context_length: int
    fits: int
    kv_bytes_per_token: int
    unit_bytes: int
    weight_bytes: int
    scratch_bytes: int
    session_units: int
    session_bytes: int
    used: float
    waste: float
    units: int
    kv_bytes: int
    stored_tokens: int
    unshared_tokens: int
    total_bytes: int
    memory_bytes: int
    sessions_max: int
    context_max: int
    kv_groups: int
    kv_group_layers: "Array[c_uint32]"
    kv_group_window: "Array[c_uint32]"
    kv_group_bytes_per_token: "Array[c_uint32]"
    kv_group_tokens_max: "Array[c_uint32]"
    recurrent_bytes: int
    boundary_bytes: int
    boundaries: int
    kv_group_kind: "Array[c_uint32]"
    _fields_ = [
        ("struct_size", c_uint32),
        ("block_tokens", c_uint32),
        ("layers", c_uint32),
        ("heads", c_uint32),
        ("kv_heads", c_uint32),
        ("head_dim", c_uint32),
        ("context_length", c_uint32),
        ("fits", c_uint32),
        ("kv_bytes_per_token", c_uint64),
        ("unit_bytes", c_uint64),
        ("weight_bytes", c_uint64),
        ("scratch_bytes", c_uint64),
        ("session_units", c_uint64),
        ("session_bytes", c_uint64),
        ("used", c_double),
        ("waste", c_double),
        ("units", c_uint64),
        ("kv_bytes", c_uint64),
        ("stored_tokens", c_uint64),
        ("unshared_tokens", c_uint64),
        ("total_bytes", c_uint64),
        ("memory_bytes", c_uint64),
        ("sessions_max", c_uint64),
        ("context_max", c_uint64),
        ("kv_groups", c_uint32),
        ("kv_group_layers", c_uint32 * 8),
        ("kv_group_window", c_uint32 * 8),
        ("kv_group_bytes_per_token", c_uint32 * 8),
        ("kv_group_tokens_max", c_uint32 * 8),
        ("recurrent_bytes", c_uint64),
        ("boundary_bytes", c_uint64),
        ("boundaries", c_uint64),
        ("kv_group_kind", c_uint32 * 8),
    ]


class kvrt_cache_props(Struct):
    struct_size: int
    files: int
    bytes: int
    bytes_max: int
    bytes_free: int
    directory: Chars
    _fields_ = [
        ("struct_size", c_uint32),
        ("files", c_uint32),
        ("bytes", c_uint64),
        ("bytes_max", c_uint64),
        ("bytes_free", c_uint64),
        ("directory", c_char * 4096),
    ]


class kvrt_store_options(Struct):
    struct_size: int
    read_only: int
    must_exist: int
    reserved: int
    disk_bytes_max: int
    free_bytes_min: int
    _fields_ = [
        ("struct_size", c_uint32),
        ("read_only", c_uint32),
        ("must_exist", c_uint32),
        ("reserved", c_uint32),
        ("disk_bytes_max", c_uint64),
        ("free_bytes_min", c_uint64),
    ]


class kvrt_store_props(Struct):
    struct_size: int
    read_only: int
    format: int
    sessions: int
    chunks: int
    segments: int
    chunk_bytes: int
    chunk_raw_bytes: int
    disk_bytes: int
    chunks_damaged: int
    chunks_evicted: int
    old_bytes: int
    bytes_free: int
    resumes_evicted: int
    _fields_ = [
        ("struct_size", c_uint32),
        ("read_only", c_uint32),
        ("format", c_uint32),
        ("sessions", c_uint64),
        ("chunks", c_uint64),
        ("segments", c_uint64),
        ("chunk_bytes", c_uint64),
        ("chunk_raw_bytes", c_uint64),
        ("disk_bytes", c_uint64),
        ("chunks_damaged", c_uint64),
        ("chunks_evicted", c_uint64),
        ("old_bytes", c_uint64),
        ("bytes_free", c_uint64),
        ("resumes_evicted", c_uint64),
    ]


class kvrt_gc_report(Struct):
    struct_size: int
    sessions_removed: int
    chunks_removed: int
    segments_removed: int
    bytes_freed: int
    ms: float
    bytes_rewritten: int
    bytes_punched: int
    log_bytes_kept: int
    _fields_ = [
        ("struct_size", c_uint32),
        ("sessions_removed", c_uint64),
        ("chunks_removed", c_uint64),
        ("segments_removed", c_uint64),
        ("bytes_freed", c_uint64),
        ("ms", c_double),
        ("bytes_rewritten", c_uint64),
        ("bytes_punched", c_uint64),
        ("log_bytes_kept", c_uint64),
    ]


class kvrt_repair_report(Struct):
    struct_size: int
    outcome: int
    sessions_kept: int
    sessions_with_holes: int
    sessions_recovered: int
    sessions_lost: int
    chunks_kept: int
    chunks_lost: int
    bytes_kept: int
    ms: float
    chunks_orphaned: int
    _fields_ = [
        ("struct_size", c_uint32),
        ("outcome", c_uint32),
        ("sessions_kept", c_uint64),
        ("sessions_with_holes", c_uint64),
        ("sessions_recovered", c_uint64),
        ("sessions_lost", c_uint64),
        ("chunks_kept", c_uint64),
        ("chunks_lost", c_uint64),
        ("bytes_kept", c_uint64),
        ("ms", c_double),
        ("chunks_orphaned", c_uint64),
    ]


class kvrt_session_options(Struct):
    struct_size: int
    no_prefix_cache: int
    store: Optional[int]
    domain: Optional[bytes]
    domain_size: int
    tools: Optional[bytes]
    tools_size: int
    wake: Any
    wake_user: Optional[int]
    wake_user_free: Any
    documents: Optional[bytes]
    documents_size: int
    variables: Optional[bytes]
    variables_size: int
    autosave_name: Optional[bytes]
    autosave_name_size: int
    autosave_turn: int
    autosave_tokens: int
    autosave_idle_ms: int
    foreign_kv: int
    _fields_ = [
        ("struct_size", c_uint32),
        ("no_prefix_cache", c_uint32),
        ("store", c_void_p),
        ("domain", c_char_p),
        ("domain_size", c_size_t),
        ("tools", c_char_p),
        ("tools_size", c_size_t),
        ("wake", kvrt_wake_fn),
        ("wake_user", c_void_p),
        ("wake_user_free", kvrt_free_fn),
        ("documents", c_char_p),
        ("documents_size", c_size_t),
        ("variables", c_char_p),
        ("variables_size", c_size_t),
        ("autosave_name", c_char_p),
        ("autosave_name_size", c_size_t),
        ("autosave_turn", c_uint32),
        ("autosave_tokens", c_uint32),
        ("autosave_idle_ms", c_uint32),
        ("foreign_kv", c_uint32),
    ]


class kvrt_session_props(Struct):
    struct_size: int
    state: int
    tokens: int
    kv_tokens: int
    kv_units: int
    kv_bytes: int
    events_unread: int
    messages: int
    revision: int
    id: Chars
    name: Chars
    last_error_status: int
    last_error_detail: int
    awaits_accept: int
    inexact: int
    last_error_message: Chars
    other_process: int
    _fields_ = [
        ("struct_size", c_uint32),
        ("state", c_uint32),
        ("tokens", c_uint64),
        ("kv_tokens", c_uint64),
        ("kv_units", c_uint64),
        ("kv_bytes", c_uint64),
        ("events_unread", c_uint64),
        ("messages", c_uint64),
        ("revision", c_uint64),
        ("id", c_char * 40),
        ("name", c_char * 256),
        ("last_error_status", c_int32),
        ("last_error_detail", c_int32),
        ("awaits_accept", c_uint32),
        ("inexact", c_uint32),
        ("last_error_message", c_char * 512),
        ("other_process", c_int32),
    ]


class kvrt_append_info(Struct):
    struct_size: int
    appended: int
    rewritten: int
    rewritten_at: int
    _fields_ = [
        ("struct_size", c_uint32),
        ("appended", c_uint64),
        ("rewritten", c_uint64),
        ("rewritten_at", c_uint64),
    ]


class kvrt_generate_options(Struct):
    struct_size: int
    max_tokens: int
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    repetition_penalty: float
    frequency_penalty: float
    presence_penalty: float
    penalty_window: int
    logit_bias: Optional[int]
    logit_bias_count: int
    seed: int
    stop_tokens: Optional[int]
    stop_token_count: int
    stop_strings: Optional[bytes]
    stop_strings_size: int
    ignore_eos: int
    top_logprobs: int
    sampler: int
    emit_logits: int
    no_generation_prompt: int
    all_or_nothing: int
    prefill: int
    logits: int
    grammar_kind: int
    reply: int
    grammar: Optional[bytes]
    grammar_size: int
    cancel: Optional[int]
    tool_choice: int
    parallel_calls_max: int
    reasoning_tokens_max: int
    tool_name: Optional[bytes]
    tool_name_size: int
    draft: Optional[int]
    prediction: Optional[bytes]
    prediction_size: int
    lookup: int
    draft_tokens_max: int
    draft_tokens_min: int
    reserved: int
    _fields_ = [
        ("struct_size", c_uint32),
        ("max_tokens", c_uint32),
        ("temperature", c_float),
        ("top_k", c_uint32),
        ("top_p", c_float),
        ("min_p", c_float),
        ("repetition_penalty", c_float),
        ("frequency_penalty", c_float),
        ("presence_penalty", c_float),
        ("penalty_window", c_uint32),
        ("logit_bias", c_void_p),
        ("logit_bias_count", c_size_t),
        ("seed", c_uint64),
        ("stop_tokens", c_void_p),
        ("stop_token_count", c_size_t),
        ("stop_strings", c_char_p),
        ("stop_strings_size", c_size_t),
        ("ignore_eos", c_uint32),
        ("top_logprobs", c_uint32),
        ("sampler", c_uint32),
        ("emit_logits", c_uint32),
        ("no_generation_prompt", c_uint32),
        ("all_or_nothing", c_uint32),
        ("prefill", c_uint32),
        ("logits", c_uint32),
        ("grammar_kind", c_uint32),
        ("reply", c_uint32),
        ("grammar", c_char_p),
        ("grammar_size", c_size_t),
        ("cancel", c_void_p),
        ("tool_choice", c_uint32),
        ("parallel_calls_max", c_uint32),
        ("reasoning_tokens_max", c_uint32),
        ("tool_name", c_char_p),
        ("tool_name_size", c_size_t),
        ("draft", c_void_p),
        ("prediction", c_char_p),
        ("prediction_size", c_size_t),
        ("lookup", c_uint32),
        ("draft_tokens_max", c_uint32),
        ("draft_tokens_min", c_uint32),
        ("reserved", c_uint32),
    ]


class kvrt_message_props(Struct):
    struct_size: int
    generated: int
    begin: int
    end: int
    ended: int
    _fields_ = [
        ("struct_size", c_uint32),
        ("generated", c_uint32),
        ("begin", c_uint64),
        ("end", c_uint64),
        ("ended", c_uint32),
    ]


class kvrt_save_options(Struct):
    struct_size: int
    durability: int
    overwrite: int
    pin: int
    ttl_seconds: int
    codec: int
    reserved: int
    _fields_ = [
        ("struct_size", c_uint32),
        ("durability", c_uint32),
        ("overwrite", c_uint32),
        ("pin", c_uint32),
        ("ttl_seconds", c_uint64),
        ("codec", c_uint32),
        ("reserved", c_uint32),
    ]


class kvrt_save_report(Struct):
    struct_size: int
    revision: int
    tokens: int
    chunks: int
    chunks_written: int
    bytes_written: int
    ms: float
    chunks_missing: int
    _fields_ = [
        ("struct_size", c_uint32),
        ("revision", c_uint64),
        ("tokens", c_uint64),
        ("chunks", c_uint64),
        ("chunks_written", c_uint64),
        ("bytes_written", c_uint64),
        ("ms", c_double),
        ("chunks_missing", c_uint64),
    ]


STRUCTS: List[Type[Struct]] = [
    kvrt_error,
    kvrt_report,
    kvrt_store_entry,
    kvrt_token_value,
    kvrt_event,
    kvrt_runtime_options,
    kvrt_runtime_props,
    kvrt_model_options,
    kvrt_model_props,
    kvrt_template_options,
    kvrt_metrics,
    kvrt_plan_options,
    kvrt_plan,
    kvrt_cache_props,
    kvrt_store_options,
    kvrt_store_props,
    kvrt_gc_report,
    kvrt_repair_report,
    kvrt_session_options,
    kvrt_session_props,
    kvrt_append_info,
    kvrt_generate_options,
    kvrt_message_props,
    kvrt_save_options,
    kvrt_save_report,
]

# Each function: its result, and its arguments.
FUNCTIONS: Dict[str, Tuple[Any, List[Any]]] = {
    "kvrt_version": (c_uint32, []),
    "kvrt_abi_version": (c_uint32, []),
    "kvrt_status_name": (c_char_p, [c_int32]),
    "kvrt_last_error": (c_int32, [c_void_p]),
    "kvrt_struct_size": (c_uint32, [c_char_p]),
    "kvrt_struct_offset": (c_uint32, [c_char_p, c_char_p]),
    "kvrt_runtime_open": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "kvrt_runtime_retain": (None, [c_void_p]),
    "kvrt_runtime_release": (None, [c_void_p]),
    "kvrt_runtime_info": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "kvrt_runtime_set_threads": (c_int32, [c_void_p, c_uint32, c_void_p]),
    "kvrt_model_open": (c_int32, [c_void_p, c_char_p, c_size_t, c_void_p, kvrt_event_fn, c_void_p, c_void_p, c_void_p]),
    "kvrt_model_retain": (None, [c_void_p]),
    "kvrt_model_release": (None, [c_void_p]),
    "kvrt_model_info": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "kvrt_model_tokenize": (c_int32, [c_void_p, c_char_p, c_size_t, c_uint32, c_void_p, c_size_t, c_void_p, c_void_p]),
    "kvrt_model_detokenize": (c_int32, [c_void_p, c_void_p, c_size_t, c_uint32, c_void_p, c_size_t, c_void_p, c_void_p]),
    "kvrt_model_apply_template": (c_int32, [c_void_p, c_char_p, c_size_t, c_void_p, c_void_p, c_size_t, c_void_p, c_void_p]),
    "kvrt_model_step": (c_int32, [c_void_p, c_uint32, c_void_p, c_void_p]),
    "kvrt_model_metrics": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "kvrt_model_metrics_text": (c_int32, [c_void_p, c_char_p, c_size_t, c_void_p, c_size_t, c_void_p, c_void_p]),
    "kvrt_model_plan": (c_int32, [c_void_p, c_char_p, c_size_t, c_void_p, c_void_p, c_void_p]),
    "kvrt_model_cache": (c_int32, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "kvrt_model_inspect": (c_int32, [c_void_p, c_char_p, c_size_t, c_uint32, c_void_p, c_size_t, c_void_p, c_void_p]),
    "kvrt_store_open": (c_int32, [c_void_p, c_char_p, c_size_t, c_void_p, c_void_p, c_void_p]),
    "kvrt_store_retain": (None, [c_void_p]),
    "kvrt_store_release": (None, [c_void_p]),
    "kvrt_store_info": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "kvrt_store_list": (c_int32, [c_void_p, c_char_p, c_size_t, kvrt_event_fn, c_void_p, c_void_p]),
    "kvrt_store_stat": (c_int32, [c_void_p, c_char_p, c_size_t, c_char_p, c_size_t, c_void_p, c_void_p]),
    "kvrt_store_show": (c_int32, [c_void_p, c_char_p, c_size_t, c_char_p, c_size_t, c_void_p, c_size_t, c_void_p, c_void_p]),
    "kvrt_store_remove": (c_int32, [c_void_p, c_char_p, c_size_t, c_char_p, c_size_t, c_void_p]),
    "kvrt_store_rename": (c_int32, [c_void_p, c_char_p, c_size_t, c_char_p, c_size_t, c_char_p, c_size_t, c_void_p]),
    "kvrt_store_pin": (c_int32, [c_void_p, c_char_p, c_size_t, c_char_p, c_size_t, c_uint32, c_void_p]),
    "kvrt_store_set_ttl": (c_int32, [c_void_p, c_char_p, c_size_t, c_char_p, c_size_t, c_uint64, c_void_p]),
    "kvrt_store_gc": (c_int32, [c_void_p, kvrt_event_fn, c_void_p, c_void_p, c_void_p]),
    "kvrt_store_remove_old": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "kvrt_store_verify": (c_int32, [c_void_p, kvrt_event_fn, c_void_p, c_void_p]),
    "kvrt_store_repair": (c_int32, [c_void_p, c_char_p, c_size_t, kvrt_event_fn, c_void_p, c_void_p, c_void_p]),
    "kvrt_cancel_open": (c_int32, [c_void_p, c_void_p]),
    "kvrt_cancel_retain": (None, [c_void_p]),
    "kvrt_cancel_release": (None, [c_void_p]),
    "kvrt_cancel_fire": (None, [c_void_p]),
    "kvrt_cancel_fired": (c_uint32, [c_void_p]),
    "kvrt_session_open": (c_int32, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "kvrt_session_close": (None, [c_void_p]),
    "kvrt_session_info": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "kvrt_session_append": (c_int32, [c_void_p, c_void_p, c_size_t, c_void_p]),
    "kvrt_session_append_text": (c_int32, [c_void_p, c_char_p, c_size_t, c_uint32, c_void_p]),
    "kvrt_session_append_message": (c_int32, [c_void_p, c_char_p, c_size_t, c_void_p, c_void_p]),
    "kvrt_session_set_messages": (c_int32, [c_void_p, c_char_p, c_size_t, c_void_p, c_void_p]),
    "kvrt_session_prefill": (c_int32, [c_void_p, c_uint32, kvrt_event_fn, c_void_p, c_void_p, c_void_p]),
    "kvrt_session_begin": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "kvrt_session_next": (c_int32, [c_void_p, c_void_p, c_int32, c_void_p]),
    "kvrt_session_accept": (c_int32, [c_void_p, c_int32, c_void_p]),
    "kvrt_session_generate": (c_int32, [c_void_p, c_void_p, kvrt_event_fn, c_void_p, c_void_p, c_void_p]),
    "kvrt_session_cancel": (c_int32, [c_void_p, c_void_p]),
    "kvrt_session_fork": (c_int32, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "kvrt_session_truncate": (c_int32, [c_void_p, c_uint64, c_void_p]),
    "kvrt_session_mark": (c_int32, [c_void_p, c_uint64, c_void_p]),
    "kvrt_session_erase": (c_int32, [c_void_p, c_uint64, c_uint64, c_void_p]),
    "kvrt_session_tokens": (c_int32, [c_void_p, c_void_p, c_size_t, c_void_p, c_void_p]),
    "kvrt_session_text": (c_int32, [c_void_p, c_uint64, c_uint64, c_uint32, c_void_p, c_size_t, c_void_p, c_void_p]),
    "kvrt_session_message": (c_int32, [c_void_p, c_uint64, c_void_p, c_void_p, c_size_t, c_void_p, c_void_p]),
    "kvrt_session_checkpoint": (c_int32, [c_void_p, c_char_p, c_size_t, c_void_p, c_void_p, c_void_p]),
    "kvrt_session_suspend": (c_int32, [c_void_p, c_char_p, c_size_t, c_void_p, c_void_p, c_void_p]),
    "kvrt_session_resume": (c_int32, [c_void_p, c_void_p, c_char_p, c_size_t, c_void_p, kvrt_event_fn, c_void_p, c_void_p, c_void_p, c_void_p]),
}
