//! The constants of kvrt.h: numbers with names. A library that is newer than this crate may give others, and they are kept.
// Made of include/kvrt.abi.json by bindings/raw.py (./dev abi): do not edit.
use crate::value::numbers;

numbers! {
    /// The status classes, each with the thing to do next.
    #[derive(Default)]
    Status: i32 {
        /// It is done.
        OK = KVRT_OK,
        /// The caller's mistake: correct the call.
        INVALID = KVRT_INVALID,
        /// No such file, session or message: create it or name another.
        NOT_FOUND = KVRT_NOT_FOUND,
        /// The name is taken, or another handle saved it since: resume it, take another name, or overwrite.
        CONFLICT = KVRT_CONFLICT,
        /// In use by another call, a generation or another process: try again when that is over.
        BUSY = KVRT_BUSY,
        /// Stopped by `Session::cancel`, `Cancel::fire` or a callback.
        CANCELLED = KVRT_CANCELLED,
        /// The system gave no memory: release something, or lower kv_bytes_max.
        NO_MEMORY = KVRT_NO_MEMORY,
        /// The buffer is smaller than `*needed`: call again with a larger one.
        TOO_SMALL = KVRT_TOO_SMALL,
        /// Past a limit. The message names it, and the option that raises it if there is one.
        LIMIT = KVRT_LIMIT,
        /// A file is damaged: get it again; for a store see `Store::repair`.
        CORRUPT = KVRT_CORRUPT,
        /// Sound, but of another model, program or version: use the one that it belongs to.
        INCOMPATIBLE = KVRT_INCOMPATIBLE,
        /// The system failed to read or write. os_code is errno (EMFILE: raise RLIMIT_NOFILE) or SQLite's extended code.
        IO = KVRT_IO,
        /// The disk, a quota, RLIMIT_FSIZE or disk_bytes_max is full: free space and call again. No tokens were lost; other saved
        /// sessions may have lost KV.
        NO_SPACE = KVRT_NO_SPACE,
        /// The compute device failed, or its logits are not numbers (detail NUMERIC).
        DEVICE = KVRT_DEVICE,
        /// This build or version cannot do it. The message names the thing.
        UNSUPPORTED = KVRT_UNSUPPORTED,
        /// A defect of kvrt: please report the message.
        INTERNAL = KVRT_INTERNAL,
    }

    /// Finer reasons, in `Error::detail`. Treat one that you do not know as `Detail::NONE`.
    #[derive(Default)]
    Detail: i32 {
        /// The status says it all.
        NONE = KVRT_DETAIL_NONE,
        /// Bytes that break the format.
        FORMAT = KVRT_DETAIL_FORMAT,
        /// The store's catalog is damaged, or another store's: see `Store::repair`.
        CATALOG_CORRUPT = KVRT_DETAIL_CATALOG_CORRUPT,
        /// A store's directory without its catalog: see `Store::repair`.
        CATALOG_MISSING = KVRT_DETAIL_CATALOG_MISSING,
        /// A later kvrt wrote the store. It is left as it is.
        STORE_TOO_NEW = KVRT_DETAIL_STORE_TOO_NEW,
        /// The directory or database belongs to another program.
        OTHER_PROGRAM = KVRT_DETAIL_OTHER_PROGRAM,
        /// The store, its directory or its file system cannot be written.
        READ_ONLY = KVRT_DETAIL_READ_ONLY,
        /// The system refused access.
        PERMISSION = KVRT_DETAIL_PERMISSION,
        /// The directory is another user's, or others can write it; or a file in it is theirs, a link, or not a regular file.
        UNSAFE_DIRECTORY = KVRT_DETAIL_UNSAFE_DIRECTORY,
        /// Another process writes the store, or repairs it.
        STORE_LOCKED = KVRT_DETAIL_STORE_LOCKED,
        /// The name was saved since this handle last saw it.
        REVISION = KVRT_DETAIL_REVISION,
        /// Another session has the name.
        NAME_TAKEN = KVRT_DETAIL_NAME_TAKEN,
        /// The session was made with another model.
        MODEL_MISMATCH = KVRT_DETAIL_MODEL_MISMATCH,
        /// The handle was opened before a fork(2).
        FORKED = KVRT_DETAIL_FORKED,
        /// A callback called into its own session.
        REENTRANT = KVRT_DETAIL_REENTRANT,
        /// Another thread is inside a call on this session.
        CONCURRENT = KVRT_DETAIL_CONCURRENT,
        /// The chat template is malformed, or refuses the messages.
        TEMPLATE_ERROR = KVRT_DETAIL_TEMPLATE_ERROR,
        /// The chat template takes too many steps, too much memory, depth or output.
        TEMPLATE_LIMIT = KVRT_DETAIL_TEMPLATE_LIMIT,
        /// The call does not fit the session's state.
        STATE = KVRT_DETAIL_STATE,
        /// Logits are NaN or infinite.
        NUMERIC = KVRT_DETAIL_NUMERIC,
        /// An option that this library does not know is set.
        STRUCT_TAIL = KVRT_DETAIL_STRUCT_TAIL,
        /// The grammar or schema is malformed, or nothing fits it.
        GRAMMAR_ERROR = KVRT_DETAIL_GRAMMAR_ERROR,
        /// The grammar or schema exceeds a limit.
        GRAMMAR_LIMIT = KVRT_DETAIL_GRAMMAR_LIMIT,
    }

    /// Why a generation ended.
    #[derive(Default)]
    Reason: u32 {
        /// It has not ended.
        NONE = KVRT_REASON_NONE,
        /// The model ended its turn. The end token is in the session.
        EOS = KVRT_REASON_EOS,
        /// A stop string or a stop token came.
        STOP = KVRT_REASON_STOP,
        /// max_tokens were generated.
        MAX_TOKENS = KVRT_REASON_MAX_TOKENS,
        /// The session has as many tokens as the model's context, or as the whole pool holds: truncate or erase, or start another
        /// session. (A pool that others fill is LIMIT, from next.).
        CONTEXT_FULL = KVRT_REASON_CONTEXT_FULL,
        /// `Session::cancel`, `Cancel::fire` or the callback ended it.
        CANCELLED = KVRT_REASON_CANCELLED,
        /// A prefill is over.
        PREFILLED = KVRT_REASON_PREFILLED,
        /// In no event and no report: next returns the failure as its status, and `Session::info` has it.
        FAILED = KVRT_REASON_FAILED,
    }

    /// Why the prompt's KV was reused no further than reuse_stopped_at.
    #[derive(Default)]
    Reuse: u32 {
        /// All of it was reused.
        ALL = KVRT_REUSE_ALL,
        /// The tokens from here on were never computed after the tokens before them.
        NEW_TOKENS = KVRT_REUSE_NEW_TOKENS,
        /// A block in memory begins the same and has another token here.
        DIFFERENT_TOKEN = KVRT_REUSE_DIFFERENT_TOKEN,
        /// The store knows the tokens and never had their KV.
        NOT_STORED = KVRT_REUSE_NOT_STORED,
        /// This session had computed them; the pool needed the units. From resume, at position 0: it is longer than the pool holds (see
        /// "Session states").
        EVICTED = KVRT_REUSE_EVICTED,
        /// The chunk on disk was damaged, missing or could not be read: the log says which. At position 0 with `recomputed`: KV that was
        /// reused made logits that are not finite, so all was computed again.
        DAMAGED = KVRT_REUSE_DAMAGED,
        /// The saved KV is of another format, numerics or block size.
        OTHER_NUMERICS = KVRT_REUSE_OTHER_NUMERICS,
        /// The tokens from here on had KV, but the window or recurrent state before them is gone. Computing starts at this position, the
        /// last boundary: see `Session::mark`.
        WINDOW = KVRT_REUSE_WINDOW,
    }

    /// This level and those before it are logged.
    #[derive(Default)]
    LogLevel: i32 {
        /// WARN.
        DEFAULT = KVRT_LOG_DEFAULT,
        /// Something failed.
        ERROR = KVRT_LOG_ERROR,
        /// Something is wrong, and kvrt goes on.
        WARN = KVRT_LOG_WARN,
        /// A choice of kvrt's, and its reason.
        INFO = KVRT_LOG_INFO,
        /// All that kvrt has to say.
        DEBUG = KVRT_LOG_DEBUG,
    }

    /// Which instructions the CPU's kernels use. The results are the same with each.
    #[derive(Default)]
    Isa: u32 {
        /// The best that the machine has and that passes its self-check.
        DEFAULT = KVRT_ISA_DEFAULT,
        /// Scalar code.
        SCALAR = KVRT_ISA_SCALAR,
        /// AVX2.
        AVX2 = KVRT_ISA_AVX2,
        /// AVX-512.
        AVX512 = KVRT_ISA_AVX512,
    }

    /// What computes. A runtime computes on one device. Several runtimes may have a device each; one model over several devices is
    /// UNSUPPORTED. CUDA is a library of its own, libkvrt_cuda.so. The first runtime that asks for CUDA loads it, and it stays loaded
    /// until the process ends. libkvrt itself needs no driver and no file of NVIDIA's. Each device has numerics of its own: a device does
    /// not use KV that another one computed, it computes the tokens again (`Reuse::OTHER_NUMERICS`), unless the host asks for that KV
    /// (`ForeignKv::ACCEPT`).
    #[derive(Default)]
    Device: u32 {
        /// CPU.
        DEFAULT = KVRT_DEVICE_DEFAULT,
        /// The CPU.
        CPU = KVRT_DEVICE_CPU,
        /// An NVIDIA GPU. UNSUPPORTED if libkvrt_cuda.so, the driver or the device is missing: the message says which, and where it was
        /// looked for. INCOMPATIBLE: libkvrt_cuda.so is of another version, or is another library. DEVICE: the device is there and
        /// failed.
        CUDA = KVRT_DEVICE_CUDA,
        /// CUDA if it opens, else the CPU; the log then says why (INFO).
        AUTO = KVRT_DEVICE_AUTO,
    }

    /// Which bits CUDA promises. A GPU has kernels for few rows and for many, which round differently. Restored KV is exact with each
    /// choice.
    #[derive(Default)]
    Determinism: u32 {
        /// BY_CLASS.
        DEFAULT = KVRT_DETERMINISM_DEFAULT,
        /// A row's bits depend on whether its step has few rows or many, and on the other rows in no other way. So the last bits of a
        /// prompt's KV may change with the other sessions that generate, and with the cuts of the prompt into steps (prefill_chunk,
        /// step_ms_max, a prefix that is found).
        BY_CLASS = KVRT_DETERMINISM_BY_CLASS,
        /// All of convention 11 holds, as on the CPU: every row takes the kernels for few rows. Prompts are computed 16 rows at a time,
        /// so they read the weights more often and take longer. Decodes are as fast as ever. STRICT has numerics of its own.
        STRICT = KVRT_DETERMINISM_STRICT,
        /// A row's bits may depend on all rows of its step, if that is faster.
        NONE = KVRT_DETERMINISM_NONE,
    }

    /// The precision in which CUDA multiplies a prompt. It applies to steps of more than 64 tokens (16 if the weights are F16 or BF16).
    #[derive(Default)]
    Gemm: u32 {
        /// F16.
        DEFAULT = KVRT_GEMM_DEFAULT,
        /// Activations and weights are rounded to F16.
        F16 = KVRT_GEMM_F16,
        /// They are rounded to FP8 (E4M3, a scale for each row): half the bytes of F16, 3 bits of fraction. On one model (135M
        /// parameters) the logits were off by 7 % of the largest, and perplexity rose by 4 %: try it on your own prompts. Its KV has
        /// numerics of its own ("cuda-2-sm90-f8") and is never taken for F16's, nor the other way round. FP8 needs compute capability 8.9
        /// and cuBLASLt, else UNSUPPORTED: the message says which is missing. Matrices that are F32 in the file, or whose sides are not
        /// multiples of 16, stay F16. INVALID with STRICT, which has no such steps. On an H100 it was slower than F16, 0.5 to 0.9 times:
        /// making FP8 of the weights took more than it saved.
        FP8 = KVRT_GEMM_FP8,
    }

    /// The format in which K or V is stored; the two may have different ones. A token takes kv_heads * head_dim elements of each in every
    /// layer. A latent (DeepSeek) holds K and V in one row of head_dim, so both have one format. INT8 and FP8 also take a scale of 2
    /// bytes for each row of K and of V, in every layer and KV head. K in INT8, FP8 and INT4 is stored without a bias of its projection
    /// that is large beside what the projection gives (Qwen2.5), and attention adds it again. KV of one pair of formats is never used for
    /// another: a session that is resumed with another pair keeps its tokens, and its KV is computed again (`Reuse::OTHER_NUMERICS`).
    /// Every device computes with every pair.
    #[derive(Default)]
    KvFormat: u32 {
        /// F16.
        DEFAULT = KVRT_KV_DEFAULT,
        /// 2 bytes an element.
        F16 = KVRT_KV_F16,
        /// 2 bytes: the range of F32 and an eighth of F16's precision.
        BF16 = KVRT_KV_BF16,
        /// 4 bytes.
        F32 = KVRT_KV_F32,
        /// 1 byte. It halves memory, saved KV and the bytes that a decode reads. K is stored transformed (Walsh-Hadamard), which spreads
        /// its large elements. The loss is small beside that of 4-bit weights, yet not nothing.
        INT8 = KVRT_KV_INT8,
        /// 1 byte, E4M3. It halves the same as INT8 and loses more: with SmolLM2 a divergence 13 times INT8's. Take INT8, unless you want
        /// K stored as it is, or each element with a precision relative to itself.
        FP8 = KVRT_KV_FP8,
        /// 4 bits, and a scale of 2 bytes for each 32 elements: 0.28 of F16's bytes (head_dim counts as the next multiple of 32). K and V
        /// are stored transformed, as K of INT8 is. With Qwen2.5-Coder 0.5B a divergence 64 times INT8's, with SmolLM2 90 times; of K in
        /// INT8 and V in INT4, 9 and 13 times. `kvrt eval` says what it costs a model.
        INT4 = KVRT_KV_INT4,
    }

    /// What a group's layers keep of the tokens.
    GroupKind: u32 {
        /// The KV of all of them.
        EVERYTHING = KVRT_GROUP_EVERYTHING,
        /// The KV of the last ones, kv_group_window of which a token sees.
        WINDOW = KVRT_GROUP_WINDOW,
        /// A recurrent state.
        RECURRENT = KVRT_GROUP_RECURRENT,
    }

    /// Which directory keeps weights from one open to the next, if cache_dir names none. In a program that has more rights than its user
    /// (setuid) the environment is not read.
    #[derive(Default)]
    Cache: u32 {
        /// The directory in the environment variable KVRT_CACHE; none if that is unset or empty.
        DEFAULT = KVRT_CACHE_DEFAULT,
        /// None, whatever the environment says. INVALID with a cache_dir.
        NONE = KVRT_CACHE_NONE,
        /// As DEFAULT; if KVRT_CACHE is unset, the user's directory: `$XDG_CACHE_HOME/kvrt/weights`, else `$HOME/.cache/kvrt/weights`,
        /// made with mode 0700. A relative path in these variables counts as unset. None if both are unset, the directory is another
        /// user's, or it is on a network file system; the log says why (INFO). It is meant for programs that a user starts.
        USER = KVRT_CACHE_USER,
    }

    /// What a repair did.
    RepairOutcome: u32 {
        /// There was nothing to do.
        SOUND = KVRT_REPAIR_SOUND,
        /// Damaged chunks are forgotten.
        MENDED = KVRT_REPAIR_MENDED,
        /// There is a new catalog.
        REBUILT = KVRT_REPAIR_REBUILT,
    }

    /// What a session does now ("Session states" says what it may do).
    State: u32 {
        /// It waits for calls.
        IDLE = KVRT_STATE_IDLE,
        /// From begin until next has given DONE or a failure.
        GENERATING = KVRT_STATE_GENERATING,
        /// Without units: suspended, or resumed too long for the pool; it has computed nothing since.
        SUSPENDED = KVRT_STATE_SUSPENDED,
        /// Its logits were NaN or infinite. It can only be read.
        FAILED = KVRT_STATE_FAILED,
    }

    /// What resume does with saved KV of another arithmetic, a CPU's on a GPU or the other way round.
    #[derive(Default)]
    ForeignKv: u32 {
        /// RECOMPUTE.
        DEFAULT = KVRT_FOREIGN_KV_DEFAULT,
        /// The tokens are computed again, and the session is as exact as any.
        RECOMPUTE = KVRT_FOREIGN_KV_RECOMPUTE,
        /// KV of the same format and block size is taken as it is. The answer may then differ from a computed one at a place where two
        /// tokens are nearly as likely. Such a session is `inexact` for good, and no exact session shares its KV.
        ACCEPT = KVRT_FOREIGN_KV_ACCEPT,
    }

    /// Which logits a prefill gives.
    #[derive(Default)]
    Logits: u32 {
        /// None.
        NONE = KVRT_LOGITS_NONE,
        /// A LOGITS event for the last position.
        LAST = KVRT_LOGITS_LAST,
        /// A LOGITS event for every position. Nothing is reused then: all is computed.
        ALL = KVRT_LOGITS_ALL,
    }

    /// Who chooses the tokens.
    #[derive(Default)]
    Sampler: u32 {
        /// Kvrt, by the options.
        DEFAULT = KVRT_SAMPLER_DEFAULT,
        /// The host: it answers each LOGITS event with `Session::accept`.
        HOST = KVRT_SAMPLER_HOST,
    }

    /// How an answer is split into content, reasoning and tool calls. AUTO goes by the chat template. PLAIN to DEEPSEEK are for files
    /// whose template does not show tool calls: they name the way in which a family of models writes them.
    ///
    /// A tool call that is malformed or cut short is content; one that was cut comes as a call when the answer goes on and ends it. A
    /// session without tools has no tool calls, whatever its text. An argument that a model writes as bare text has a type that the
    /// tool's schema allows, if it reads so, and else is a string. With a reply, a stop string does not reach over a control token.
    ///
    /// The message that an answer becomes does not depend on `reply`: it has tool_calls if the template renders them, and
    /// reasoning_content if the template would not find reasoning within the content.
    #[derive(Default)]
    Reply: u32 {
        /// Not at all: there are only TOKEN events.
        DEFAULT = KVRT_REPLY_DEFAULT,
        /// As the model's chat template shows tool calls and reasoning.
        AUTO = KVRT_REPLY_AUTO,
        /// No tool calls.
        PLAIN = KVRT_REPLY_PLAIN,
        /// `<tool_call>{...}</tool_call>`: Hermes, Qwen 2.5 and 3.
        HERMES = KVRT_REPLY_HERMES,
        /// Llama 3.
        LLAMA3 = KVRT_REPLY_LLAMA3,
        /// Mistral.
        MISTRAL = KVRT_REPLY_MISTRAL,
        /// Gemma.
        GEMMA = KVRT_REPLY_GEMMA,
        /// DeepSeek.
        DEEPSEEK = KVRT_REPLY_DEEPSEEK,
    }

    /// Which part of a save is safely on the disk when it returns.
    #[derive(Default)]
    Durability: u32 {
        /// TOKENS.
        DEFAULT = KVRT_DURABILITY_DEFAULT,
        /// As PROCESS.
        NONE = KVRT_DURABILITY_NONE,
        /// The save survives the process, not a power cut.
        PROCESS = KVRT_DURABILITY_PROCESS,
        /// The tokens survive a power cut; KV may have to be computed again.
        TOKENS = KVRT_DURABILITY_TOKENS,
        /// The saved KV survives it too.
        KV = KVRT_DURABILITY_KV,
    }

    /// How a save stores the KV chunks that it writes. Chunks that the store has stay as they are.
    #[derive(Default)]
    Codec: u32 {
        /// ZSTD.
        DEFAULT = KVRT_CODEC_DEFAULT,
        /// As they are, which loads sooner. A last block that is not full is packed all the same, so that its empty slots take no room.
        NONE = KVRT_CODEC_NONE,
        /// Packed (level 1): KV in F16, INT8 and FP8 by a seventh, in BF16 by a third, in INT4 not at all.
        ZSTD = KVRT_CODEC_ZSTD,
    }
}
