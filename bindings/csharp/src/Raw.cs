// Made of include/kvrt.abi.json by bindings/raw.py (./dev abi): do not edit.
using System;
using System.Runtime.InteropServices;

namespace Kvrt
{
    [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
    internal unsafe delegate int kvrt_event_fn(IntPtr user, kvrt_event* @event);

    [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
    internal unsafe delegate void kvrt_log_fn(IntPtr user, int level, byte* text, UIntPtr text_size);

    [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
    internal unsafe delegate void kvrt_free_fn(IntPtr user);

    [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
    internal unsafe delegate void kvrt_wake_fn(IntPtr user);

    [StructLayout(LayoutKind.Explicit, Size = 1024)]
    internal unsafe struct kvrt_error
    {
        [FieldOffset(0)] internal uint struct_size;
        [FieldOffset(4)] internal int status;
        [FieldOffset(8)] internal int detail;
        [FieldOffset(12)] internal int os_code;
        [FieldOffset(16)] internal fixed byte message[1008];
    }

    [StructLayout(LayoutKind.Explicit, Size = 192)]
    internal unsafe struct kvrt_report
    {
        [FieldOffset(0)] internal uint struct_size;
        [FieldOffset(4)] internal uint reason;
        [FieldOffset(8)] internal ulong prompt_tokens;
        [FieldOffset(16)] internal ulong reused_memory;
        [FieldOffset(24)] internal ulong reused_disk;
        [FieldOffset(32)] internal ulong prefilled;
        [FieldOffset(40)] internal ulong generated;
        [FieldOffset(48)] internal uint reuse_stopped;
        [FieldOffset(52)] internal uint stop_string_tokens;
        [FieldOffset(56)] internal ulong reuse_stopped_at;
        [FieldOffset(64)] internal ulong seed;
        [FieldOffset(72)] internal double queue_ms;
        [FieldOffset(80)] internal double ttft_ms;
        [FieldOffset(88)] internal double prefill_ms;
        [FieldOffset(96)] internal double decode_ms;
        [FieldOffset(104)] internal double tpot_ms;
        [FieldOffset(112)] internal double prefill_tokens_per_s;
        [FieldOffset(120)] internal double decode_tokens_per_s;
        [FieldOffset(128)] internal ulong kv_units;
        [FieldOffset(136)] internal ulong kv_bytes;
        [FieldOffset(144)] internal ulong pool_bytes_begin;
        [FieldOffset(152)] internal ulong pool_bytes_prefilled;
        [FieldOffset(160)] internal ulong pool_bytes_end;
        [FieldOffset(168)] internal ulong recomputed;
        [FieldOffset(176)] internal ulong drafted;
        [FieldOffset(184)] internal ulong accepted;
    }

    [StructLayout(LayoutKind.Explicit, Size = 632)]
    internal unsafe struct kvrt_store_entry
    {
        [FieldOffset(0)] internal uint struct_size;
        [FieldOffset(4)] internal uint pinned;
        [FieldOffset(8)] internal fixed byte name[256];
        [FieldOffset(264)] internal fixed byte domain[256];
        [FieldOffset(520)] internal fixed byte id[40];
        [FieldOffset(560)] internal ulong revision;
        [FieldOffset(568)] internal ulong tokens;
        [FieldOffset(576)] internal ulong chunks;
        [FieldOffset(584)] internal ulong chunks_missing;
        [FieldOffset(592)] internal ulong bytes;
        [FieldOffset(600)] internal ulong bytes_shared;
        [FieldOffset(608)] internal long created_unix_ms;
        [FieldOffset(616)] internal long saved_unix_ms;
        [FieldOffset(624)] internal long expires_unix_ms;
    }

    [StructLayout(LayoutKind.Explicit, Size = 8)]
    internal unsafe struct kvrt_token_value
    {
        [FieldOffset(0)] internal int token;
        [FieldOffset(4)] internal float value;
    }

    [StructLayout(LayoutKind.Explicit, Size = 112)]
    internal unsafe struct kvrt_event
    {
        [FieldOffset(0)] internal uint struct_size;
        [FieldOffset(4)] internal uint type;
        [FieldOffset(8)] internal int token;
        [FieldOffset(12)] internal uint reason;
        [FieldOffset(16)] internal ulong position;
        [FieldOffset(24)] internal byte* text;
        [FieldOffset(32)] internal UIntPtr text_size;
        [FieldOffset(40)] internal double logprob;
        [FieldOffset(48)] internal ulong done;
        [FieldOffset(56)] internal ulong total;
        [FieldOffset(64)] internal float* logits;
        [FieldOffset(72)] internal UIntPtr logits_count;
        [FieldOffset(80)] internal kvrt_report* report;
        [FieldOffset(88)] internal kvrt_store_entry* entry;
        [FieldOffset(96)] internal kvrt_token_value* top;
        [FieldOffset(104)] internal UIntPtr top_count;
    }

    [StructLayout(LayoutKind.Explicit, Size = 72)]
    internal unsafe struct kvrt_runtime_options
    {
        [FieldOffset(0)] internal uint struct_size;
        [FieldOffset(4)] internal uint threads;
        [FieldOffset(8)] internal uint isa;
        [FieldOffset(12)] internal uint log_level;
        [FieldOffset(16)] internal IntPtr log;
        [FieldOffset(24)] internal IntPtr log_user;
        [FieldOffset(32)] internal IntPtr log_user_free;
        [FieldOffset(40)] internal uint device;
        [FieldOffset(44)] internal uint device_index;
        [FieldOffset(48)] internal byte* cuda_library;
        [FieldOffset(56)] internal UIntPtr cuda_library_size;
        [FieldOffset(64)] internal uint determinism;
        [FieldOffset(68)] internal uint prompt_gemm;
    }

    [StructLayout(LayoutKind.Explicit, Size = 1416)]
    internal unsafe struct kvrt_runtime_props
    {
        [FieldOffset(0)] internal uint struct_size;
        [FieldOffset(4)] internal uint threads;
        [FieldOffset(8)] internal fixed byte device[16];
        [FieldOffset(24)] internal fixed byte isa[16];
        [FieldOffset(40)] internal fixed byte numerics[16];
        [FieldOffset(56)] internal fixed byte isa_tables[128];
        [FieldOffset(184)] internal fixed byte libraries[128];
        [FieldOffset(312)] internal fixed byte device_name[64];
        [FieldOffset(376)] internal ulong device_memory;
        [FieldOffset(384)] internal ulong device_memory_free;
        [FieldOffset(392)] internal fixed byte devices[1024];
    }

    [StructLayout(LayoutKind.Explicit, Size = 88)]
    internal unsafe struct kvrt_model_options
    {
        [FieldOffset(0)] internal uint struct_size;
        [FieldOffset(4)] internal uint kv_format;
        [FieldOffset(8)] internal uint block_tokens;
        [FieldOffset(12)] internal uint prefill_chunk;
        [FieldOffset(16)] internal ulong kv_bytes_max;
        [FieldOffset(24)] internal uint step_ms_max;
        [FieldOffset(28)] internal uint from_fd;
        [FieldOffset(32)] internal int fd;
        [FieldOffset(36)] internal uint kv_populate;
        [FieldOffset(40)] internal ulong fd_offset;
        [FieldOffset(48)] internal ulong fd_size;
        [FieldOffset(56)] internal byte* cache_dir;
        [FieldOffset(64)] internal UIntPtr cache_dir_size;
        [FieldOffset(72)] internal uint cache;
        [FieldOffset(76)] internal uint kv_format_v;
        [FieldOffset(80)] internal ulong cache_bytes_max;
    }

    [StructLayout(LayoutKind.Explicit, Size = 472)]
    internal unsafe struct kvrt_model_props
    {
        [FieldOffset(0)] internal uint struct_size;
        [FieldOffset(4)] internal uint has_weights;
        [FieldOffset(8)] internal fixed byte architecture[32];
        [FieldOffset(40)] internal fixed byte name[128];
        [FieldOffset(168)] internal uint vocab_size;
        [FieldOffset(172)] internal uint context_length;
        [FieldOffset(176)] internal uint layers;
        [FieldOffset(180)] internal uint heads;
        [FieldOffset(184)] internal uint kv_heads;
        [FieldOffset(188)] internal uint head_dim;
        [FieldOffset(192)] internal uint width;
        [FieldOffset(196)] internal int bos_token;
        [FieldOffset(200)] internal int eos_token;
        [FieldOffset(204)] internal uint add_bos;
        [FieldOffset(208)] internal uint has_template;
        [FieldOffset(212)] internal uint block_tokens;
        [FieldOffset(216)] internal ulong file_bytes;
        [FieldOffset(224)] internal ulong weight_bytes;
        [FieldOffset(232)] internal ulong kv_bytes_per_token;
        [FieldOffset(240)] internal ulong unit_bytes;
        [FieldOffset(248)] internal ulong units;
        [FieldOffset(256)] internal ulong units_free;
        [FieldOffset(264)] internal ulong units_cached;
        [FieldOffset(272)] internal ulong sessions;
        [FieldOffset(280)] internal double load_ms;
        [FieldOffset(288)] internal ulong scratch_bytes;
        [FieldOffset(296)] internal uint step_ms_max;
        [FieldOffset(300)] internal uint kv_format;
        [FieldOffset(304)] internal uint kv_format_v;
        [FieldOffset(308)] internal uint kv_groups;
        [FieldOffset(312)] internal fixed uint kv_group_layers[8];
        [FieldOffset(344)] internal fixed uint kv_group_window[8];
        [FieldOffset(376)] internal fixed uint kv_group_bytes_per_token[8];
        [FieldOffset(408)] internal fixed uint kv_group_tokens_max[8];
        [FieldOffset(440)] internal fixed uint kv_group_kind[8];
    }

    [StructLayout(LayoutKind.Explicit, Size = 72)]
    internal unsafe struct kvrt_template_options
    {
        [FieldOffset(0)] internal uint struct_size;
        [FieldOffset(4)] internal uint no_generation_prompt;
        [FieldOffset(8)] internal byte* source;
        [FieldOffset(16)] internal UIntPtr source_size;
        [FieldOffset(24)] internal byte* tools;
        [FieldOffset(32)] internal UIntPtr tools_size;
        [FieldOffset(40)] internal byte* documents;
        [FieldOffset(48)] internal UIntPtr documents_size;
        [FieldOffset(56)] internal byte* variables;
        [FieldOffset(64)] internal UIntPtr variables_size;
    }

    [StructLayout(LayoutKind.Explicit, Size = 280)]
    internal unsafe struct kvrt_metrics
    {
        [FieldOffset(0)] internal uint struct_size;
        [FieldOffset(8)] internal ulong sessions;
        [FieldOffset(16)] internal ulong generating;
        [FieldOffset(24)] internal ulong paused;
        [FieldOffset(32)] internal ulong units;
        [FieldOffset(40)] internal ulong units_used;
        [FieldOffset(48)] internal ulong units_cached;
        [FieldOffset(56)] internal ulong steps;
        [FieldOffset(64)] internal ulong step_rows;
        [FieldOffset(72)] internal double step_ms_total;
        [FieldOffset(80)] internal double step_ms_longest;
        [FieldOffset(88)] internal ulong generations;
        [FieldOffset(96)] internal ulong prefills;
        [FieldOffset(104)] internal ulong done_eos;
        [FieldOffset(112)] internal ulong done_stop;
        [FieldOffset(120)] internal ulong done_max_tokens;
        [FieldOffset(128)] internal ulong done_context_full;
        [FieldOffset(136)] internal ulong done_cancelled;
        [FieldOffset(144)] internal ulong done_prefilled;
        [FieldOffset(152)] internal ulong failed;
        [FieldOffset(160)] internal ulong prompt_tokens;
        [FieldOffset(168)] internal ulong reused_memory;
        [FieldOffset(176)] internal ulong reused_disk;
        [FieldOffset(184)] internal ulong prefilled;
        [FieldOffset(192)] internal ulong recomputed;
        [FieldOffset(200)] internal ulong generated;
        [FieldOffset(208)] internal ulong drafted;
        [FieldOffset(216)] internal ulong accepted;
        [FieldOffset(224)] internal ulong preemptions;
        [FieldOffset(232)] internal ulong evictions;
        [FieldOffset(240)] internal ulong first_tokens;
        [FieldOffset(248)] internal double ttft_ms_total;
        [FieldOffset(256)] internal double queue_ms_total;
        [FieldOffset(264)] internal double prefill_ms_total;
        [FieldOffset(272)] internal double decode_ms_total;
    }

    [StructLayout(LayoutKind.Explicit, Size = 56)]
    internal unsafe struct kvrt_plan_options
    {
        [FieldOffset(0)] internal uint struct_size;
        [FieldOffset(4)] internal uint kv_format;
        [FieldOffset(8)] internal uint block_tokens;
        [FieldOffset(12)] internal uint sessions;
        [FieldOffset(16)] internal ulong session_tokens;
        [FieldOffset(24)] internal ulong shared_tokens;
        [FieldOffset(32)] internal ulong memory_bytes;
        [FieldOffset(40)] internal uint layers;
        [FieldOffset(44)] internal uint kv_heads;
        [FieldOffset(48)] internal uint head_dim;
        [FieldOffset(52)] internal uint kv_format_v;
    }

    [StructLayout(LayoutKind.Explicit, Size = 352)]
    internal unsafe struct kvrt_plan
    {
        [FieldOffset(0)] internal uint struct_size;
        [FieldOffset(4)] internal uint block_tokens;
        [FieldOffset(8)] internal uint layers;
        [FieldOffset(12)] internal uint heads;
        [FieldOffset(16)] internal uint kv_heads;
        [FieldOffset(20)] internal uint head_dim;
        [FieldOffset(24)] internal uint context_length;
        [FieldOffset(28)] internal uint fits;
        [FieldOffset(32)] internal ulong kv_bytes_per_token;
        [FieldOffset(40)] internal ulong unit_bytes;
        [FieldOffset(48)] internal ulong weight_bytes;
        [FieldOffset(56)] internal ulong scratch_bytes;
        [FieldOffset(64)] internal ulong session_units;
        [FieldOffset(72)] internal ulong session_bytes;
        [FieldOffset(80)] internal double used;
        [FieldOffset(88)] internal double waste;
        [FieldOffset(96)] internal ulong units;
        [FieldOffset(104)] internal ulong kv_bytes;
        [FieldOffset(112)] internal ulong stored_tokens;
        [FieldOffset(120)] internal ulong unshared_tokens;
        [FieldOffset(128)] internal ulong total_bytes;
        [FieldOffset(136)] internal ulong memory_bytes;
        [FieldOffset(144)] internal ulong sessions_max;
        [FieldOffset(152)] internal ulong context_max;
        [FieldOffset(160)] internal uint kv_groups;
        [FieldOffset(164)] internal fixed uint kv_group_layers[8];
        [FieldOffset(196)] internal fixed uint kv_group_window[8];
        [FieldOffset(228)] internal fixed uint kv_group_bytes_per_token[8];
        [FieldOffset(260)] internal fixed uint kv_group_tokens_max[8];
        [FieldOffset(296)] internal ulong recurrent_bytes;
        [FieldOffset(304)] internal ulong boundary_bytes;
        [FieldOffset(312)] internal ulong boundaries;
        [FieldOffset(320)] internal fixed uint kv_group_kind[8];
    }

    [StructLayout(LayoutKind.Explicit, Size = 4128)]
    internal unsafe struct kvrt_cache_props
    {
        [FieldOffset(0)] internal uint struct_size;
        [FieldOffset(4)] internal uint files;
        [FieldOffset(8)] internal ulong bytes;
        [FieldOffset(16)] internal ulong bytes_max;
        [FieldOffset(24)] internal ulong bytes_free;
        [FieldOffset(32)] internal fixed byte directory[4096];
    }

    [StructLayout(LayoutKind.Explicit, Size = 32)]
    internal unsafe struct kvrt_store_options
    {
        [FieldOffset(0)] internal uint struct_size;
        [FieldOffset(4)] internal uint read_only;
        [FieldOffset(8)] internal uint must_exist;
        [FieldOffset(12)] internal uint reserved;
        [FieldOffset(16)] internal ulong disk_bytes_max;
        [FieldOffset(24)] internal ulong free_bytes_min;
    }

    [StructLayout(LayoutKind.Explicit, Size = 104)]
    internal unsafe struct kvrt_store_props
    {
        [FieldOffset(0)] internal uint struct_size;
        [FieldOffset(4)] internal uint read_only;
        [FieldOffset(8)] internal uint format;
        [FieldOffset(16)] internal ulong sessions;
        [FieldOffset(24)] internal ulong chunks;
        [FieldOffset(32)] internal ulong segments;
        [FieldOffset(40)] internal ulong chunk_bytes;
        [FieldOffset(48)] internal ulong chunk_raw_bytes;
        [FieldOffset(56)] internal ulong disk_bytes;
        [FieldOffset(64)] internal ulong chunks_damaged;
        [FieldOffset(72)] internal ulong chunks_evicted;
        [FieldOffset(80)] internal ulong old_bytes;
        [FieldOffset(88)] internal ulong bytes_free;
        [FieldOffset(96)] internal ulong resumes_evicted;
    }

    [StructLayout(LayoutKind.Explicit, Size = 72)]
    internal unsafe struct kvrt_gc_report
    {
        [FieldOffset(0)] internal uint struct_size;
        [FieldOffset(8)] internal ulong sessions_removed;
        [FieldOffset(16)] internal ulong chunks_removed;
        [FieldOffset(24)] internal ulong segments_removed;
        [FieldOffset(32)] internal ulong bytes_freed;
        [FieldOffset(40)] internal double ms;
        [FieldOffset(48)] internal ulong bytes_rewritten;
        [FieldOffset(56)] internal ulong bytes_punched;
        [FieldOffset(64)] internal ulong log_bytes_kept;
    }

    [StructLayout(LayoutKind.Explicit, Size = 80)]
    internal unsafe struct kvrt_repair_report
    {
        [FieldOffset(0)] internal uint struct_size;
        [FieldOffset(4)] internal uint outcome;
        [FieldOffset(8)] internal ulong sessions_kept;
        [FieldOffset(16)] internal ulong sessions_with_holes;
        [FieldOffset(24)] internal ulong sessions_recovered;
        [FieldOffset(32)] internal ulong sessions_lost;
        [FieldOffset(40)] internal ulong chunks_kept;
        [FieldOffset(48)] internal ulong chunks_lost;
        [FieldOffset(56)] internal ulong bytes_kept;
        [FieldOffset(64)] internal double ms;
        [FieldOffset(72)] internal ulong chunks_orphaned;
    }

    [StructLayout(LayoutKind.Explicit, Size = 136)]
    internal unsafe struct kvrt_session_options
    {
        [FieldOffset(0)] internal uint struct_size;
        [FieldOffset(4)] internal uint no_prefix_cache;
        [FieldOffset(8)] internal IntPtr store;
        [FieldOffset(16)] internal byte* domain;
        [FieldOffset(24)] internal UIntPtr domain_size;
        [FieldOffset(32)] internal byte* tools;
        [FieldOffset(40)] internal UIntPtr tools_size;
        [FieldOffset(48)] internal IntPtr wake;
        [FieldOffset(56)] internal IntPtr wake_user;
        [FieldOffset(64)] internal IntPtr wake_user_free;
        [FieldOffset(72)] internal byte* documents;
        [FieldOffset(80)] internal UIntPtr documents_size;
        [FieldOffset(88)] internal byte* variables;
        [FieldOffset(96)] internal UIntPtr variables_size;
        [FieldOffset(104)] internal byte* autosave_name;
        [FieldOffset(112)] internal UIntPtr autosave_name_size;
        [FieldOffset(120)] internal uint autosave_turn;
        [FieldOffset(124)] internal uint autosave_tokens;
        [FieldOffset(128)] internal uint autosave_idle_ms;
        [FieldOffset(132)] internal uint foreign_kv;
    }

    [StructLayout(LayoutKind.Explicit, Size = 896)]
    internal unsafe struct kvrt_session_props
    {
        [FieldOffset(0)] internal uint struct_size;
        [FieldOffset(4)] internal uint state;
        [FieldOffset(8)] internal ulong tokens;
        [FieldOffset(16)] internal ulong kv_tokens;
        [FieldOffset(24)] internal ulong kv_units;
        [FieldOffset(32)] internal ulong kv_bytes;
        [FieldOffset(40)] internal ulong events_unread;
        [FieldOffset(48)] internal ulong messages;
        [FieldOffset(56)] internal ulong revision;
        [FieldOffset(64)] internal fixed byte id[40];
        [FieldOffset(104)] internal fixed byte name[256];
        [FieldOffset(360)] internal int last_error_status;
        [FieldOffset(364)] internal int last_error_detail;
        [FieldOffset(368)] internal uint awaits_accept;
        [FieldOffset(372)] internal uint inexact;
        [FieldOffset(376)] internal fixed byte last_error_message[512];
        [FieldOffset(888)] internal int other_process;
    }

    [StructLayout(LayoutKind.Explicit, Size = 32)]
    internal unsafe struct kvrt_append_info
    {
        [FieldOffset(0)] internal uint struct_size;
        [FieldOffset(8)] internal ulong appended;
        [FieldOffset(16)] internal ulong rewritten;
        [FieldOffset(24)] internal ulong rewritten_at;
    }

    [StructLayout(LayoutKind.Explicit, Size = 232)]
    internal unsafe struct kvrt_generate_options
    {
        [FieldOffset(0)] internal uint struct_size;
        [FieldOffset(4)] internal uint max_tokens;
        [FieldOffset(8)] internal float temperature;
        [FieldOffset(12)] internal uint top_k;
        [FieldOffset(16)] internal float top_p;
        [FieldOffset(20)] internal float min_p;
        [FieldOffset(24)] internal float repetition_penalty;
        [FieldOffset(28)] internal float frequency_penalty;
        [FieldOffset(32)] internal float presence_penalty;
        [FieldOffset(36)] internal uint penalty_window;
        [FieldOffset(40)] internal kvrt_token_value* logit_bias;
        [FieldOffset(48)] internal UIntPtr logit_bias_count;
        [FieldOffset(56)] internal ulong seed;
        [FieldOffset(64)] internal int* stop_tokens;
        [FieldOffset(72)] internal UIntPtr stop_token_count;
        [FieldOffset(80)] internal byte* stop_strings;
        [FieldOffset(88)] internal UIntPtr stop_strings_size;
        [FieldOffset(96)] internal uint ignore_eos;
        [FieldOffset(100)] internal uint top_logprobs;
        [FieldOffset(104)] internal uint sampler;
        [FieldOffset(108)] internal uint emit_logits;
        [FieldOffset(112)] internal uint no_generation_prompt;
        [FieldOffset(116)] internal uint all_or_nothing;
        [FieldOffset(120)] internal uint prefill;
        [FieldOffset(124)] internal uint logits;
        [FieldOffset(128)] internal uint grammar_kind;
        [FieldOffset(132)] internal uint reply;
        [FieldOffset(136)] internal byte* grammar;
        [FieldOffset(144)] internal UIntPtr grammar_size;
        [FieldOffset(152)] internal IntPtr cancel;
        [FieldOffset(160)] internal uint tool_choice;
        [FieldOffset(164)] internal uint parallel_calls_max;
        [FieldOffset(168)] internal uint reasoning_tokens_max;
        [FieldOffset(176)] internal byte* tool_name;
        [FieldOffset(184)] internal UIntPtr tool_name_size;
        [FieldOffset(192)] internal IntPtr draft;
        [FieldOffset(200)] internal byte* prediction;
        [FieldOffset(208)] internal UIntPtr prediction_size;
        [FieldOffset(216)] internal uint lookup;
        [FieldOffset(220)] internal uint draft_tokens_max;
        [FieldOffset(224)] internal uint draft_tokens_min;
        [FieldOffset(228)] internal uint reserved;
    }

    [StructLayout(LayoutKind.Explicit, Size = 32)]
    internal unsafe struct kvrt_message_props
    {
        [FieldOffset(0)] internal uint struct_size;
        [FieldOffset(4)] internal uint generated;
        [FieldOffset(8)] internal ulong begin;
        [FieldOffset(16)] internal ulong end;
        [FieldOffset(24)] internal uint ended;
    }

    [StructLayout(LayoutKind.Explicit, Size = 32)]
    internal unsafe struct kvrt_save_options
    {
        [FieldOffset(0)] internal uint struct_size;
        [FieldOffset(4)] internal uint durability;
        [FieldOffset(8)] internal uint overwrite;
        [FieldOffset(12)] internal uint pin;
        [FieldOffset(16)] internal ulong ttl_seconds;
        [FieldOffset(24)] internal uint codec;
        [FieldOffset(28)] internal uint reserved;
    }

    [StructLayout(LayoutKind.Explicit, Size = 64)]
    internal unsafe struct kvrt_save_report
    {
        [FieldOffset(0)] internal uint struct_size;
        [FieldOffset(8)] internal ulong revision;
        [FieldOffset(16)] internal ulong tokens;
        [FieldOffset(24)] internal ulong chunks;
        [FieldOffset(32)] internal ulong chunks_written;
        [FieldOffset(40)] internal ulong bytes_written;
        [FieldOffset(48)] internal double ms;
        [FieldOffset(56)] internal ulong chunks_missing;
    }

    internal static unsafe class Native
    {
        private const string Library = "libkvrt.so.0";
        internal const uint KVRT_ABI_VERSION = 0;

        internal const int KVRT_OK = 0;
        internal const int KVRT_INVALID = 1;
        internal const int KVRT_NOT_FOUND = 2;
        internal const int KVRT_CONFLICT = 3;
        internal const int KVRT_BUSY = 4;
        internal const int KVRT_CANCELLED = 5;
        internal const int KVRT_NO_MEMORY = 6;
        internal const int KVRT_TOO_SMALL = 7;
        internal const int KVRT_LIMIT = 8;
        internal const int KVRT_CORRUPT = 9;
        internal const int KVRT_INCOMPATIBLE = 10;
        internal const int KVRT_IO = 11;
        internal const int KVRT_NO_SPACE = 12;
        internal const int KVRT_DEVICE = 13;
        internal const int KVRT_UNSUPPORTED = 14;
        internal const int KVRT_INTERNAL = 15;

        internal const int KVRT_DETAIL_NONE = 0;
        internal const int KVRT_DETAIL_FORMAT = 1;
        internal const int KVRT_DETAIL_CATALOG_CORRUPT = 2;
        internal const int KVRT_DETAIL_CATALOG_MISSING = 3;
        internal const int KVRT_DETAIL_STORE_TOO_NEW = 4;
        internal const int KVRT_DETAIL_OTHER_PROGRAM = 5;
        internal const int KVRT_DETAIL_READ_ONLY = 6;
        internal const int KVRT_DETAIL_PERMISSION = 7;
        internal const int KVRT_DETAIL_UNSAFE_DIRECTORY = 8;
        internal const int KVRT_DETAIL_STORE_LOCKED = 9;
        internal const int KVRT_DETAIL_REVISION = 10;
        internal const int KVRT_DETAIL_NAME_TAKEN = 11;
        internal const int KVRT_DETAIL_MODEL_MISMATCH = 12;
        internal const int KVRT_DETAIL_FORKED = 13;
        internal const int KVRT_DETAIL_REENTRANT = 14;
        internal const int KVRT_DETAIL_CONCURRENT = 15;
        internal const int KVRT_DETAIL_TEMPLATE_ERROR = 16;
        internal const int KVRT_DETAIL_TEMPLATE_LIMIT = 17;
        internal const int KVRT_DETAIL_STATE = 18;
        internal const int KVRT_DETAIL_NUMERIC = 19;
        internal const int KVRT_DETAIL_STRUCT_TAIL = 20;
        internal const int KVRT_DETAIL_GRAMMAR_ERROR = 21;
        internal const int KVRT_DETAIL_GRAMMAR_LIMIT = 22;

        internal const int KVRT_EVENT_NONE = 0;
        internal const int KVRT_EVENT_TOKEN = 1;
        internal const int KVRT_EVENT_PROGRESS = 2;
        internal const int KVRT_EVENT_LOGITS = 3;
        internal const int KVRT_EVENT_DONE = 4;
        internal const int KVRT_EVENT_ENTRY = 5;
        internal const int KVRT_EVENT_FAULT = 6;
        internal const int KVRT_EVENT_IDLE = 7;
        internal const int KVRT_EVENT_CONTENT = 8;
        internal const int KVRT_EVENT_REASONING = 9;
        internal const int KVRT_EVENT_TOOL_CALL = 10;

        internal const int KVRT_REASON_NONE = 0;
        internal const int KVRT_REASON_EOS = 1;
        internal const int KVRT_REASON_STOP = 2;
        internal const int KVRT_REASON_MAX_TOKENS = 3;
        internal const int KVRT_REASON_CONTEXT_FULL = 4;
        internal const int KVRT_REASON_CANCELLED = 5;
        internal const int KVRT_REASON_PREFILLED = 6;
        internal const int KVRT_REASON_FAILED = 7;

        internal const int KVRT_REUSE_ALL = 0;
        internal const int KVRT_REUSE_NEW_TOKENS = 1;
        internal const int KVRT_REUSE_DIFFERENT_TOKEN = 2;
        internal const int KVRT_REUSE_NOT_STORED = 3;
        internal const int KVRT_REUSE_EVICTED = 4;
        internal const int KVRT_REUSE_DAMAGED = 5;
        internal const int KVRT_REUSE_OTHER_NUMERICS = 6;
        internal const int KVRT_REUSE_WINDOW = 7;

        internal const int KVRT_LOG_DEFAULT = 0;
        internal const int KVRT_LOG_ERROR = 1;
        internal const int KVRT_LOG_WARN = 2;
        internal const int KVRT_LOG_INFO = 3;
        internal const int KVRT_LOG_DEBUG = 4;

        internal const int KVRT_ISA_DEFAULT = 0;
        internal const int KVRT_ISA_SCALAR = 1;
        internal const int KVRT_ISA_AVX2 = 2;
        internal const int KVRT_ISA_AVX512 = 3;

        internal const int KVRT_DEVICE_DEFAULT = 0;
        internal const int KVRT_DEVICE_CPU = 1;
        internal const int KVRT_DEVICE_CUDA = 2;
        internal const int KVRT_DEVICE_AUTO = 3;

        internal const int KVRT_DETERMINISM_DEFAULT = 0;
        internal const int KVRT_DETERMINISM_BY_CLASS = 1;
        internal const int KVRT_DETERMINISM_STRICT = 2;
        internal const int KVRT_DETERMINISM_NONE = 3;

        internal const int KVRT_GEMM_DEFAULT = 0;
        internal const int KVRT_GEMM_F16 = 1;
        internal const int KVRT_GEMM_FP8 = 2;

        internal const int KVRT_KV_DEFAULT = 0;
        internal const int KVRT_KV_F16 = 1;
        internal const int KVRT_KV_BF16 = 2;
        internal const int KVRT_KV_F32 = 3;
        internal const int KVRT_KV_INT8 = 4;
        internal const int KVRT_KV_FP8 = 5;
        internal const int KVRT_KV_INT4 = 6;

        internal const int KVRT_GROUP_EVERYTHING = 1;
        internal const int KVRT_GROUP_WINDOW = 2;
        internal const int KVRT_GROUP_RECURRENT = 3;

        internal const int KVRT_CACHE_DEFAULT = 0;
        internal const int KVRT_CACHE_NONE = 1;
        internal const int KVRT_CACHE_USER = 2;

        internal const int KVRT_TEXT_SPECIAL = 1;
        internal const int KVRT_TEXT_BOS = 2;

        internal const int KVRT_INSPECT_ALL = 1;

        internal const int KVRT_REPAIR_SOUND = 1;
        internal const int KVRT_REPAIR_MENDED = 2;
        internal const int KVRT_REPAIR_REBUILT = 3;

        internal const int KVRT_STATE_IDLE = 1;
        internal const int KVRT_STATE_GENERATING = 2;
        internal const int KVRT_STATE_SUSPENDED = 3;
        internal const int KVRT_STATE_FAILED = 4;

        internal const int KVRT_FOREIGN_KV_DEFAULT = 0;
        internal const int KVRT_FOREIGN_KV_RECOMPUTE = 1;
        internal const int KVRT_FOREIGN_KV_ACCEPT = 2;

        internal const int KVRT_LOGITS_NONE = 0;
        internal const int KVRT_LOGITS_LAST = 1;
        internal const int KVRT_LOGITS_ALL = 2;

        internal const int KVRT_SAMPLER_DEFAULT = 0;
        internal const int KVRT_SAMPLER_HOST = 1;

        internal const int KVRT_GRAMMAR_DEFAULT = 0;
        internal const int KVRT_GRAMMAR_GBNF = 1;
        internal const int KVRT_GRAMMAR_JSON_SCHEMA = 2;
        internal const int KVRT_GRAMMAR_CONTINUE = 3;
        internal const int KVRT_GRAMMAR_JSON_SCHEMA_OPEN = 4;

        internal const int KVRT_TOOL_CHOICE_DEFAULT = 0;
        internal const int KVRT_TOOL_CHOICE_NONE = 1;
        internal const int KVRT_TOOL_CHOICE_AUTO = 2;
        internal const int KVRT_TOOL_CHOICE_REQUIRED = 3;
        internal const int KVRT_TOOL_CHOICE_NAMED = 4;

        internal const int KVRT_REPLY_DEFAULT = 0;
        internal const int KVRT_REPLY_AUTO = 1;
        internal const int KVRT_REPLY_PLAIN = 2;
        internal const int KVRT_REPLY_HERMES = 3;
        internal const int KVRT_REPLY_LLAMA3 = 4;
        internal const int KVRT_REPLY_MISTRAL = 5;
        internal const int KVRT_REPLY_GEMMA = 6;
        internal const int KVRT_REPLY_DEEPSEEK = 7;

        internal const int KVRT_DURABILITY_DEFAULT = 0;
        internal const int KVRT_DURABILITY_NONE = 1;
        internal const int KVRT_DURABILITY_PROCESS = 2;
        internal const int KVRT_DURABILITY_TOKENS = 3;
        internal const int KVRT_DURABILITY_KV = 4;

        internal const int KVRT_CODEC_DEFAULT = 0;
        internal const int KVRT_CODEC_NONE = 1;
        internal const int KVRT_CODEC_ZSTD = 2;

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern uint kvrt_version();

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern uint kvrt_abi_version();

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern byte* kvrt_status_name(int status);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int kvrt_last_error(kvrt_error* @out);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern uint kvrt_struct_size(byte* name);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern uint kvrt_struct_offset(byte* name, byte* field);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int kvrt_runtime_open(kvrt_runtime_options* options, out RuntimeHandle @out, kvrt_error* err);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern void kvrt_runtime_retain(IntPtr runtime);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern void kvrt_runtime_release(IntPtr runtime);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int kvrt_runtime_info(RuntimeHandle runtime, kvrt_runtime_props* @out, kvrt_error* err);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int kvrt_runtime_set_threads(RuntimeHandle runtime, uint threads, kvrt_error* err);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int kvrt_model_open(RuntimeHandle runtime, byte* path, UIntPtr path_size, kvrt_model_options* options, IntPtr callback, IntPtr user, out ModelHandle @out, kvrt_error* err);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern void kvrt_model_retain(IntPtr model);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern void kvrt_model_release(IntPtr model);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int kvrt_model_info(ModelHandle model, kvrt_model_props* @out, kvrt_error* err);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int kvrt_model_tokenize(ModelHandle model, byte* text, UIntPtr text_size, uint flags, int* tokens, UIntPtr capacity, UIntPtr* needed, kvrt_error* err);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int kvrt_model_detokenize(ModelHandle model, int* tokens, UIntPtr count, uint flags, byte* text, UIntPtr capacity, UIntPtr* needed, kvrt_error* err);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int kvrt_model_apply_template(ModelHandle model, byte* messages, UIntPtr messages_size, kvrt_template_options* options, byte* text, UIntPtr capacity, UIntPtr* needed, kvrt_error* err);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int kvrt_model_step(ModelHandle model, uint ms, uint* runnable, kvrt_error* err);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int kvrt_model_metrics(ModelHandle model, kvrt_metrics* @out, kvrt_error* err);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int kvrt_model_metrics_text(ModelHandle model, byte* label_value, UIntPtr label_value_size, byte* text, UIntPtr capacity, UIntPtr* needed, kvrt_error* err);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int kvrt_model_plan(RuntimeHandle runtime, byte* path, UIntPtr path_size, kvrt_plan_options* options, kvrt_plan* @out, kvrt_error* err);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int kvrt_model_cache(RuntimeHandle runtime, kvrt_model_options* options, kvrt_cache_props* @out, kvrt_error* err);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int kvrt_model_inspect(RuntimeHandle runtime, byte* path, UIntPtr path_size, uint flags, byte* json, UIntPtr capacity, UIntPtr* needed, kvrt_error* err);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int kvrt_store_open(RuntimeHandle runtime, byte* path, UIntPtr path_size, kvrt_store_options* options, out StoreHandle @out, kvrt_error* err);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern void kvrt_store_retain(IntPtr store);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern void kvrt_store_release(IntPtr store);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int kvrt_store_info(StoreHandle store, kvrt_store_props* @out, kvrt_error* err);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int kvrt_store_list(StoreHandle store, byte* domain, UIntPtr domain_size, IntPtr callback, IntPtr user, kvrt_error* err);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int kvrt_store_stat(StoreHandle store, byte* domain, UIntPtr domain_size, byte* name, UIntPtr name_size, kvrt_store_entry* @out, kvrt_error* err);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int kvrt_store_show(StoreHandle store, byte* domain, UIntPtr domain_size, byte* name, UIntPtr name_size, byte* json, UIntPtr capacity, UIntPtr* needed, kvrt_error* err);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int kvrt_store_remove(StoreHandle store, byte* domain, UIntPtr domain_size, byte* name, UIntPtr name_size, kvrt_error* err);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int kvrt_store_rename(StoreHandle store, byte* domain, UIntPtr domain_size, byte* from, UIntPtr from_size, byte* to, UIntPtr to_size, kvrt_error* err);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int kvrt_store_pin(StoreHandle store, byte* domain, UIntPtr domain_size, byte* name, UIntPtr name_size, uint pinned, kvrt_error* err);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int kvrt_store_set_ttl(StoreHandle store, byte* domain, UIntPtr domain_size, byte* name, UIntPtr name_size, ulong seconds, kvrt_error* err);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int kvrt_store_gc(StoreHandle store, IntPtr callback, IntPtr user, kvrt_gc_report* report, kvrt_error* err);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int kvrt_store_remove_old(StoreHandle store, ulong* bytes, kvrt_error* err);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int kvrt_store_verify(StoreHandle store, IntPtr callback, IntPtr user, kvrt_error* err);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int kvrt_store_repair(RuntimeHandle runtime, byte* path, UIntPtr path_size, IntPtr callback, IntPtr user, kvrt_repair_report* report, kvrt_error* err);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int kvrt_cancel_open(out CancelHandle @out, kvrt_error* err);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern void kvrt_cancel_retain(IntPtr cancel);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern void kvrt_cancel_release(IntPtr cancel);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern void kvrt_cancel_fire(CancelHandle cancel);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern uint kvrt_cancel_fired(CancelHandle cancel);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int kvrt_session_open(ModelHandle model, kvrt_session_options* options, out SessionHandle @out, kvrt_error* err);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern void kvrt_session_close(IntPtr session);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int kvrt_session_info(SessionHandle session, kvrt_session_props* @out, kvrt_error* err);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int kvrt_session_append(SessionHandle session, int* tokens, UIntPtr count, kvrt_error* err);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int kvrt_session_append_text(SessionHandle session, byte* text, UIntPtr text_size, uint flags, kvrt_error* err);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int kvrt_session_append_message(SessionHandle session, byte* message, UIntPtr message_size, kvrt_append_info* info, kvrt_error* err);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int kvrt_session_set_messages(SessionHandle session, byte* messages, UIntPtr messages_size, kvrt_append_info* info, kvrt_error* err);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int kvrt_session_prefill(SessionHandle session, uint logits, IntPtr callback, IntPtr user, kvrt_report* report, kvrt_error* err);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int kvrt_session_begin(SessionHandle session, kvrt_generate_options* options, kvrt_error* err);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int kvrt_session_next(SessionHandle session, kvrt_event* @event, int timeout_ms, kvrt_error* err);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int kvrt_session_accept(SessionHandle session, int token, kvrt_error* err);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int kvrt_session_generate(SessionHandle session, kvrt_generate_options* options, IntPtr callback, IntPtr user, kvrt_report* report, kvrt_error* err);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int kvrt_session_cancel(SessionHandle session, kvrt_error* err);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int kvrt_session_fork(SessionHandle session, kvrt_session_options* options, out SessionHandle @out, kvrt_error* err);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int kvrt_session_truncate(SessionHandle session, ulong count, kvrt_error* err);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int kvrt_session_mark(SessionHandle session, ulong tokens, kvrt_error* err);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int kvrt_session_erase(SessionHandle session, ulong from, ulong to, kvrt_error* err);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int kvrt_session_tokens(SessionHandle session, int* tokens, UIntPtr capacity, UIntPtr* needed, kvrt_error* err);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int kvrt_session_text(SessionHandle session, ulong from, ulong to, uint flags, byte* text, UIntPtr capacity, UIntPtr* needed, kvrt_error* err);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int kvrt_session_message(SessionHandle session, ulong index, kvrt_message_props* @out, byte* json, UIntPtr capacity, UIntPtr* needed, kvrt_error* err);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int kvrt_session_checkpoint(SessionHandle session, byte* name, UIntPtr name_size, kvrt_save_options* options, kvrt_save_report* report, kvrt_error* err);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int kvrt_session_suspend(SessionHandle session, byte* name, UIntPtr name_size, kvrt_save_options* options, kvrt_save_report* report, kvrt_error* err);

        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]
        internal static extern int kvrt_session_resume(ModelHandle model, StoreHandle store, byte* name, UIntPtr name_size, kvrt_session_options* options, IntPtr callback, IntPtr user, kvrt_report* report, out SessionHandle @out, kvrt_error* err);

        /// <summary>Each struct: its name and size, and the names and offsets of its fields.</summary>
        internal static readonly string[] Layout =
        {
            "kvrt_error 1024 struct_size 0 status 4 detail 8 os_code 12 message 16",
            "kvrt_report 192 struct_size 0 reason 4 prompt_tokens 8 reused_memory 16 reused_disk 24 prefilled 32 generated 40 reuse_stopped 48 stop_string_tokens 52 reuse_stopped_at 56 seed 64 queue_ms 72 ttft_ms 80 prefill_ms 88 decode_ms 96 tpot_ms 104 prefill_tokens_per_s 112 decode_tokens_per_s 120 kv_units 128 kv_bytes 136 pool_bytes_begin 144 pool_bytes_prefilled 152 pool_bytes_end 160 recomputed 168 drafted 176 accepted 184",
            "kvrt_store_entry 632 struct_size 0 pinned 4 name 8 domain 264 id 520 revision 560 tokens 568 chunks 576 chunks_missing 584 bytes 592 bytes_shared 600 created_unix_ms 608 saved_unix_ms 616 expires_unix_ms 624",
            "kvrt_token_value 8 token 0 value 4",
            "kvrt_event 112 struct_size 0 type 4 token 8 reason 12 position 16 text 24 text_size 32 logprob 40 done 48 total 56 logits 64 logits_count 72 report 80 entry 88 top 96 top_count 104",
            "kvrt_runtime_options 72 struct_size 0 threads 4 isa 8 log_level 12 log 16 log_user 24 log_user_free 32 device 40 device_index 44 cuda_library 48 cuda_library_size 56 determinism 64 prompt_gemm 68",
            "kvrt_runtime_props 1416 struct_size 0 threads 4 device 8 isa 24 numerics 40 isa_tables 56 libraries 184 device_name 312 device_memory 376 device_memory_free 384 devices 392",
            "kvrt_model_options 88 struct_size 0 kv_format 4 block_tokens 8 prefill_chunk 12 kv_bytes_max 16 step_ms_max 24 from_fd 28 fd 32 kv_populate 36 fd_offset 40 fd_size 48 cache_dir 56 cache_dir_size 64 cache 72 kv_format_v 76 cache_bytes_max 80",
            "kvrt_model_props 472 struct_size 0 has_weights 4 architecture 8 name 40 vocab_size 168 context_length 172 layers 176 heads 180 kv_heads 184 head_dim 188 width 192 bos_token 196 eos_token 200 add_bos 204 has_template 208 block_tokens 212 file_bytes 216 weight_bytes 224 kv_bytes_per_token 232 unit_bytes 240 units 248 units_free 256 units_cached 264 sessions 272 load_ms 280 scratch_bytes 288 step_ms_max 296 kv_format 300 kv_format_v 304 kv_groups 308 kv_group_layers 312 kv_group_window 344 kv_group_bytes_per_token 376 kv_group_tokens_max 408 kv_group_kind 440",
            "kvrt_template_options 72 struct_size 0 no_generation_prompt 4 source 8 source_size 16 tools 24 tools_size 32 documents 40 documents_size 48 variables 56 variables_size 64",
            "kvrt_metrics 280 struct_size 0 sessions 8 generating 16 paused 24 units 32 units_used 40 units_cached 48 steps 56 step_rows 64 step_ms_total 72 step_ms_longest 80 generations 88 prefills 96 done_eos 104 done_stop 112 done_max_tokens 120 done_context_full 128 done_cancelled 136 done_prefilled 144 failed 152 prompt_tokens 160 reused_memory 168 reused_disk 176 prefilled 184 recomputed 192 generated 200 drafted 208 accepted 216 preemptions 224 evictions 232 first_tokens 240 ttft_ms_total 248 queue_ms_total 256 prefill_ms_total 264 decode_ms_total 272",
            "kvrt_plan_options 56 struct_size 0 kv_format 4 block_tokens 8 sessions 12 session_tokens 16 shared_tokens 24 memory_bytes 32 layers 40 kv_heads 44 head_dim 48 kv_format_v 52",
            "kvrt_plan 352 struct_size 0 block_tokens 4 layers 8 heads 12 kv_heads 16 head_dim 20 context_length 24 fits 28 kv_bytes_per_token 32 unit_bytes 40 weight_bytes 48 scratch_bytes 56 session_units 64 session_bytes 72 used 80 waste 88 units 96 kv_bytes 104 stored_tokens 112 unshared_tokens 120 total_bytes 128 memory_bytes 136 sessions_max 144 context_max 152 kv_groups 160 kv_group_layers 164 kv_group_window 196 kv_group_bytes_per_token 228 kv_group_tokens_max 260 recurrent_bytes 296 boundary_bytes 304 boundaries 312 kv_group_kind 320",
            "kvrt_cache_props 4128 struct_size 0 files 4 bytes 8 bytes_max 16 bytes_free 24 directory 32",
            "kvrt_store_options 32 struct_size 0 read_only 4 must_exist 8 reserved 12 disk_bytes_max 16 free_bytes_min 24",
            "kvrt_store_props 104 struct_size 0 read_only 4 format 8 sessions 16 chunks 24 segments 32 chunk_bytes 40 chunk_raw_bytes 48 disk_bytes 56 chunks_damaged 64 chunks_evicted 72 old_bytes 80 bytes_free 88 resumes_evicted 96",
            "kvrt_gc_report 72 struct_size 0 sessions_removed 8 chunks_removed 16 segments_removed 24 bytes_freed 32 ms 40 bytes_rewritten 48 bytes_punched 56 log_bytes_kept 64",
            "kvrt_repair_report 80 struct_size 0 outcome 4 sessions_kept 8 sessions_with_holes 16 sessions_recovered 24 sessions_lost 32 chunks_kept 40 chunks_lost 48 bytes_kept 56 ms 64 chunks_orphaned 72",
            "kvrt_session_options 136 struct_size 0 no_prefix_cache 4 store 8 domain 16 domain_size 24 tools 32 tools_size 40 wake 48 wake_user 56 wake_user_free 64 documents 72 documents_size 80 variables 88 variables_size 96 autosave_name 104 autosave_name_size 112 autosave_turn 120 autosave_tokens 124 autosave_idle_ms 128 foreign_kv 132",
            "kvrt_session_props 896 struct_size 0 state 4 tokens 8 kv_tokens 16 kv_units 24 kv_bytes 32 events_unread 40 messages 48 revision 56 id 64 name 104 last_error_status 360 last_error_detail 364 awaits_accept 368 inexact 372 last_error_message 376 other_process 888",
            "kvrt_append_info 32 struct_size 0 appended 8 rewritten 16 rewritten_at 24",
            "kvrt_generate_options 232 struct_size 0 max_tokens 4 temperature 8 top_k 12 top_p 16 min_p 20 repetition_penalty 24 frequency_penalty 28 presence_penalty 32 penalty_window 36 logit_bias 40 logit_bias_count 48 seed 56 stop_tokens 64 stop_token_count 72 stop_strings 80 stop_strings_size 88 ignore_eos 96 top_logprobs 100 sampler 104 emit_logits 108 no_generation_prompt 112 all_or_nothing 116 prefill 120 logits 124 grammar_kind 128 reply 132 grammar 136 grammar_size 144 cancel 152 tool_choice 160 parallel_calls_max 164 reasoning_tokens_max 168 tool_name 176 tool_name_size 184 draft 192 prediction 200 prediction_size 208 lookup 216 draft_tokens_max 220 draft_tokens_min 224 reserved 228",
            "kvrt_message_props 32 struct_size 0 generated 4 begin 8 end 16 ended 24",
            "kvrt_save_options 32 struct_size 0 durability 4 overwrite 8 pin 12 ttl_seconds 16 codec 24 reserved 28",
            "kvrt_save_report 64 struct_size 0 revision 8 tokens 16 chunks 24 chunks_written 32 bytes_written 40 ms 48 chunks_missing 56",
        };
    }
}
