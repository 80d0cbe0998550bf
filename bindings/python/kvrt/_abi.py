"""kvrt.h as ctypes sees it: structs, functions, and the library itself, checked as it is loaded."""
from __future__ import annotations

import ctypes
import os
from typing import Any, Dict, List, Tuple, Type

ABI_VERSION = 0

EventFn = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)
LogFn = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int32, ctypes.c_void_p, ctypes.c_size_t)
UserFn = ctypes.CFUNCTYPE(None, ctypes.c_void_p)  # kvrt_wake_fn and kvrt_free_fn

TYPES: Dict[str, Any] = {
    "void": None, "i32": ctypes.c_int32, "u32": ctypes.c_uint32, "i64": ctypes.c_int64, "u64": ctypes.c_uint64, "f32": ctypes.c_float,
    "f64": ctypes.c_double, "char": ctypes.c_char, "size": ctypes.c_size_t, "ptr": ctypes.c_void_p, "str": ctypes.c_char_p, "event_fn": EventFn, "log_fn": LogFn,
    "user_fn": UserFn,
}


class Struct(ctypes.Structure):
    @classmethod
    def make(cls) -> "Struct":
        made = cls()
        if hasattr(made, "struct_size"):
            made.struct_size = ctypes.sizeof(cls)
        return made

    @classmethod
    def copy_of(cls, address: int) -> "Struct":
        """A copy of a struct that the library wrote, which may know fewer or more fields."""
        size = ctypes.c_uint32.from_address(address).value
        made = cls()
        ctypes.memmove(ctypes.byref(made), address, min(size, ctypes.sizeof(cls)))
        return made


STRUCTS: Dict[str, Type[Struct]] = {}


def _struct(name: str, text: str) -> Type[Struct]:
    """Fields as in kvrt.h: a type and names, each group ended by a semicolon; char[N] and its like are arrays."""
    fields: List[Tuple[str, Any]] = []
    for group in text.split(";"):
        kind, *names = group.split()
        base, _, count = kind.partition("[")
        kind_type = TYPES[base] * int(count[:-1]) if count else TYPES[base]
        fields += [(field, kind_type) for field in names]
    made = type(name, (Struct,), {"_fields_": fields})
    STRUCTS[name] = made
    return made


Error = _struct("kvrt_error", "u32 struct_size; i32 status detail os_code; char[1008] message")
Report = _struct("kvrt_report", """
    u32 struct_size reason; u64 prompt_tokens reused_memory reused_disk prefilled generated; u32 reuse_stopped stop_string_tokens;
    u64 reuse_stopped_at seed; f64 queue_ms ttft_ms prefill_ms decode_ms tpot_ms prefill_tokens_per_s decode_tokens_per_s;
    u64 kv_blocks kv_bytes pool_bytes_begin pool_bytes_prefilled pool_bytes_end recomputed""")
StoreEntry = _struct("kvrt_store_entry", """
    u32 struct_size pinned; char[256] name domain; char[40] id; u64 revision tokens chunks chunks_missing bytes bytes_shared;
    i64 created_unix_ms saved_unix_ms expires_unix_ms""")
TokenValue = _struct("kvrt_token_value", "i32 token; f32 value")
Event = _struct("kvrt_event", """
    u32 struct_size type; i32 token; u32 reason; u64 position; ptr text; size text_size; f64 logprob; u64 done total; ptr logits;
    size logits_count; ptr report entry top; size top_count""")
RuntimeOptions = _struct("kvrt_runtime_options", """
    u32 struct_size threads isa log_level; log_fn log; ptr log_user; user_fn log_user_free; u32 device device_index; str cuda_library;
    size cuda_library_size; u32 determinism prompt_gemm""")
RuntimeProps = _struct("kvrt_runtime_props", """
    u32 struct_size threads; char[16] device isa numerics; char[128] isa_tables libraries; char[64] device_name;
    u64 device_memory device_memory_free; char[1024] devices""")
ModelOptions = _struct("kvrt_model_options", """
    u32 struct_size kv_format block_tokens prefill_chunk; u64 kv_bytes_max; u32 step_ms_max from_fd; i32 fd; u32 kv_populate;
    u64 fd_offset fd_size; str cache_dir; size cache_dir_size; u32 cache kv_format_v; u64 cache_bytes_max""")
ModelProps = _struct("kvrt_model_props", """
    u32 struct_size has_weights; char[32] architecture; char[128] name;
    u32 vocab_size context_length layers heads kv_heads head_dim width; i32 bos_token eos_token; u32 add_bos has_template block_tokens;
    u64 file_bytes weight_bytes kv_bytes_per_token block_bytes blocks blocks_free blocks_cached sessions; f64 load_ms; u64 scratch_bytes;
    u32 step_ms_max kv_format kv_format_v kv_groups; u32[8] kv_group_layers kv_group_window kv_group_bytes_per_token kv_group_tokens_max""")
TemplateOptions = _struct("kvrt_template_options", """
    u32 struct_size no_generation_prompt; str source; size source_size; str tools; size tools_size; str documents; size documents_size;
    str variables; size variables_size""")
Metrics = _struct("kvrt_metrics", """
    u32 struct_size; u64 sessions generating paused blocks blocks_used blocks_cached steps step_rows;
    f64 step_ms_total step_ms_longest; u64 generations prefills done_eos done_stop done_max_tokens done_context_full done_cancelled
    done_prefilled failed prompt_tokens reused_memory reused_disk prefilled recomputed generated preemptions evictions first_tokens;
    f64 ttft_ms_total queue_ms_total prefill_ms_total decode_ms_total""")
PlanOptions = _struct("kvrt_plan_options", """
    u32 struct_size kv_format block_tokens sessions; u64 session_tokens shared_tokens memory_bytes;
    u32 layers kv_heads head_dim kv_format_v""")
Plan = _struct("kvrt_plan", """
    u32 struct_size block_tokens layers heads kv_heads head_dim context_length fits; u64 kv_bytes_per_token block_bytes weight_bytes
    scratch_bytes session_blocks session_bytes; f64 used waste; u64 blocks kv_bytes stored_tokens unshared_tokens total_bytes memory_bytes
    sessions_max context_max; u32 kv_groups; u32[8] kv_group_layers kv_group_window kv_group_bytes_per_token kv_group_tokens_max;
    u64 state_bytes""")
CacheProps = _struct("kvrt_cache_props", "u32 struct_size files; u64 bytes bytes_max bytes_free; char[4096] directory")
StoreOptions = _struct("kvrt_store_options", "u32 struct_size read_only must_exist reserved; u64 disk_bytes_max free_bytes_min")
StoreProps = _struct("kvrt_store_props", """
    u32 struct_size read_only format; u64 sessions chunks segments chunk_bytes chunk_raw_bytes disk_bytes chunks_damaged
    chunks_evicted old_bytes bytes_free""")
GcReport = _struct("kvrt_gc_report",
                   "u32 struct_size; u64 sessions_removed chunks_removed segments_removed bytes_freed; f64 ms; u64 bytes_rewritten"
                   " bytes_punched log_bytes_kept")
RepairReport = _struct("kvrt_repair_report", """
    u32 struct_size outcome; u64 sessions_kept sessions_with_holes sessions_recovered sessions_lost chunks_kept chunks_lost bytes_kept; f64 ms; u64 chunks_unowned""")
SessionOptions = _struct("kvrt_session_options", """
    u32 struct_size no_prefix_cache; ptr store; str domain; size domain_size; str tools; size tools_size; user_fn wake; ptr wake_user;
    user_fn wake_user_free; str documents; size documents_size; str variables; size variables_size; str autosave_name; size autosave_name_size;
    u32 autosave_turn autosave_tokens autosave_idle_ms foreign_kv""")
SessionProps = _struct("kvrt_session_props", """
    u32 struct_size state; u64 tokens kv_tokens kv_blocks kv_bytes events_unread messages revision; char[40] id; char[256] name;
    i32 last_error_status last_error_detail; u32 awaits_accept inexact; char[512] last_error_message""")
AppendInfo = _struct("kvrt_append_info", "u32 struct_size; u64 appended rewritten rewritten_at")
MessageProps = _struct("kvrt_message_props", "u32 struct_size generated; u64 begin end")
GenerateOptions = _struct("kvrt_generate_options", """
    u32 struct_size max_tokens; f32 temperature; u32 top_k; f32 top_p min_p repetition_penalty frequency_penalty presence_penalty;
    u32 penalty_window; ptr logit_bias; size logit_bias_count; u64 seed; ptr stop_tokens; size stop_token_count; str stop_strings;
    size stop_strings_size; u32 ignore_eos top_logprobs sampler emit_logits no_generation_prompt all_or_nothing prefill logits grammar_kind reply;
    str grammar; size grammar_size; ptr cancel; u32 tool_choice parallel_calls_max reasoning_tokens_max; str tool_name; size tool_name_size""")
SaveOptions = _struct("kvrt_save_options", "u32 struct_size durability overwrite pin; u64 ttl_seconds; u32 codec reserved")
SaveReport = _struct("kvrt_save_report", "u32 struct_size; u64 revision tokens chunks chunks_written bytes_written; f64 ms; u64 chunks_missing")

# The result of each function, its name without kvrt_, and its arguments; those that give a status (i32) take a kvrt_error* last. A char
# pointer is a `str` (bytes) where the library reads it.
FUNCTIONS = """
u32 version                    u32 abi_version                str status_name i32             i32 last_error ptr
u32 struct_size str            u32 struct_offset str str
i32 runtime_open ptr ptr       void runtime_retain ptr        void runtime_release ptr        i32 runtime_info ptr ptr
i32 runtime_set_threads ptr u32
i32 model_open ptr str size ptr event_fn ptr ptr              void model_retain ptr           void model_release ptr
i32 model_info ptr ptr         i32 model_tokenize ptr str size u32 ptr size ptr               i32 model_detokenize ptr ptr size u32 ptr size ptr
i32 model_apply_template ptr str size ptr ptr size ptr        i32 model_step ptr u32 ptr      i32 model_metrics ptr ptr
i32 model_metrics_text ptr str size ptr size ptr              i32 model_plan ptr str size ptr ptr
i32 model_inspect ptr str size u32 ptr size ptr                i32 model_cache ptr ptr ptr
i32 store_open ptr str size ptr ptr                           void store_retain ptr           void store_release ptr
i32 store_info ptr ptr         i32 store_list ptr str size event_fn ptr                       i32 store_stat ptr str size str size ptr
i32 store_show ptr str size str size ptr size ptr
i32 store_remove ptr str size str size                        i32 store_rename ptr str size str size str size
i32 store_pin ptr str size str size u32                       i32 store_set_ttl ptr str size str size u64
i32 store_repair ptr str size event_fn ptr ptr
i32 store_remove_old ptr ptr
i32 store_gc ptr event_fn ptr ptr                             i32 store_verify ptr event_fn ptr
i32 cancel_open ptr            void cancel_retain ptr         void cancel_release ptr
void cancel_fire ptr           u32 cancel_fired ptr
i32 session_open ptr ptr ptr   void session_close ptr         i32 session_info ptr ptr        i32 session_append ptr ptr size
i32 session_append_text ptr str size u32                      i32 session_append_message ptr str size ptr
i32 session_set_messages ptr str size ptr                     i32 session_message ptr u64 ptr ptr size ptr
i32 session_prefill ptr u32 event_fn ptr ptr                  i32 session_begin ptr ptr       i32 session_next ptr ptr i32
i32 session_accept ptr i32     i32 session_generate ptr ptr event_fn ptr ptr                  i32 session_cancel ptr
i32 session_fork ptr ptr ptr   i32 session_truncate ptr u64   i32 session_mark ptr u64   i32 session_erase ptr u64 u64
i32 session_text ptr u64 u64 u32 ptr size ptr                 i32 session_tokens ptr ptr size ptr
i32 session_checkpoint ptr str size ptr ptr                   i32 session_suspend ptr str size ptr ptr
i32 session_resume ptr ptr str size ptr event_fn ptr ptr ptr
"""


def prototypes() -> Dict[str, Tuple[str, List[str]]]:
    """name -> (result, arguments)."""
    found: Dict[str, Tuple[str, List[str]]] = {}
    words = FUNCTIONS.split()
    for i, word in enumerate(words):
        if word not in TYPES:
            end = next((j for j in range(i + 1, len(words)) if words[j] not in TYPES), len(words) + 1)
            result, arguments = words[i - 1], words[i + 1:end - 1]
            found["kvrt_" + word] = (result, arguments + (["ptr"] if result == "i32" and word != "last_error" else []))
    return found


def _open_library() -> ctypes.CDLL:
    """The library that KVRT_LIBRARY names; else the one in this package (a wheel has it); else the system's."""
    name = os.environ.get("KVRT_LIBRARY")
    if not name:
        bundled = os.path.join(os.path.dirname(os.path.abspath(__file__)), "libkvrt.so.0")
        name = bundled if os.path.exists(bundled) else "libkvrt.so.0"
    try:
        library = ctypes.CDLL(name)
    except OSError as error:
        raise ImportError(f"kvrt: cannot load its library: {error}. Install libkvrt, or set KVRT_LIBRARY to the path of libkvrt.so.0") from error
    for function, (result, arguments) in prototypes().items():
        try:
            entry = getattr(library, function)
        except AttributeError:
            raise ImportError(f"kvrt: {name} has no {function}: it is older than this package, or another library") from None
        entry.restype = TYPES[result]
        entry.argtypes = [TYPES[a] for a in arguments]
    if library.kvrt_abi_version() != ABI_VERSION:
        raise ImportError(f"kvrt: {name} has ABI {library.kvrt_abi_version()}, this package knows {ABI_VERSION}")
    for struct, cls in STRUCTS.items():
        size = library.kvrt_struct_size(struct.encode())
        # A longer struct has fields that were appended later.
        if size < ctypes.sizeof(cls):
            raise ImportError(f"kvrt: {name}: {struct} has {size} bytes, this package knows {ctypes.sizeof(cls)}: the library is older")
        for declared in cls._fields_:
            field = declared[0]
            here, there = getattr(cls, field).offset, library.kvrt_struct_offset(struct.encode(), field.encode())
            if here != there:
                found = "no such field" if there == 0xFFFFFFFF else f"it at {there}"
                raise ImportError(f"kvrt: {name}: {struct}.{field}: this package knows it at {here}, the library has {found}")
    return library


lib = _open_library()
