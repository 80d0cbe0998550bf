// Made of include/kvrt.abi.json by bindings/raw.py (./dev abi): do not edit.
using System;

namespace Kvrt
{
    /// <summary>The status classes, each with the thing to do next.</summary>
    public enum Status
    {
        /// <summary>It is done.</summary>
        Ok = Native.KVRT_OK,
        /// <summary>The caller's mistake: correct the call.</summary>
        Invalid = Native.KVRT_INVALID,
        /// <summary>No such file, session or message: create it or name another.</summary>
        NotFound = Native.KVRT_NOT_FOUND,
        /// <summary>The name is taken, or another handle saved it since: resume it, take another name, or overwrite.</summary>
        Conflict = Native.KVRT_CONFLICT,
        /// <summary>In use by another call, a generation or another process: try again when that is over.</summary>
        Busy = Native.KVRT_BUSY,
        /// <summary>Stopped by Session.Cancel, Cancel.Fire or a callback.</summary>
        Cancelled = Native.KVRT_CANCELLED,
        /// <summary>The system gave no memory: release something, or lower KvBytesMax.</summary>
        NoMemory = Native.KVRT_NO_MEMORY,
        /// <summary>The buffer is smaller than `*needed`: call again with a larger one.</summary>
        TooSmall = Native.KVRT_TOO_SMALL,
        /// <summary>Past a limit. The message names it, and the option that raises it if there is one.</summary>
        Limit = Native.KVRT_LIMIT,
        /// <summary>A file is damaged: get it again; for a store see Runtime.RepairStore.</summary>
        Corrupt = Native.KVRT_CORRUPT,
        /// <summary>Sound, but of another model, program or version: use the one that it belongs to.</summary>
        Incompatible = Native.KVRT_INCOMPATIBLE,
        /// <summary>The system failed to read or write. OsCode is errno (EMFILE: raise RLIMIT_NOFILE) or SQLite's extended code.</summary>
        Io = Native.KVRT_IO,
        /// <summary>
        /// The disk, a quota, RLIMIT_FSIZE or DiskBytesMax is full: free space and call again. No tokens were lost; other saved sessions may have
        /// lost KV.
        /// </summary>
        NoSpace = Native.KVRT_NO_SPACE,
        /// <summary>The compute device failed, or its logits are not numbers (detail NUMERIC).</summary>
        Device = Native.KVRT_DEVICE,
        /// <summary>This build or version cannot do it. The message names the thing.</summary>
        Unsupported = Native.KVRT_UNSUPPORTED,
        /// <summary>A defect of kvrt: please report the message.</summary>
        Internal = Native.KVRT_INTERNAL
    }

    /// <summary>Finer reasons, in Error.Detail. Treat one that you do not know as Detail.None.</summary>
    public enum Detail
    {
        /// <summary>The status says it all.</summary>
        None = Native.KVRT_DETAIL_NONE,
        /// <summary>Bytes that break the format.</summary>
        Format = Native.KVRT_DETAIL_FORMAT,
        /// <summary>The store's catalog is damaged, or another store's: see Runtime.RepairStore.</summary>
        CatalogCorrupt = Native.KVRT_DETAIL_CATALOG_CORRUPT,
        /// <summary>A store's directory without its catalog: see Runtime.RepairStore.</summary>
        CatalogMissing = Native.KVRT_DETAIL_CATALOG_MISSING,
        /// <summary>A later kvrt wrote the store. It is left as it is.</summary>
        StoreTooNew = Native.KVRT_DETAIL_STORE_TOO_NEW,
        /// <summary>The directory or database belongs to another program.</summary>
        OtherProgram = Native.KVRT_DETAIL_OTHER_PROGRAM,
        /// <summary>The store, its directory or its file system cannot be written.</summary>
        ReadOnly = Native.KVRT_DETAIL_READ_ONLY,
        /// <summary>The system refused access.</summary>
        Permission = Native.KVRT_DETAIL_PERMISSION,
        /// <summary>
        /// The directory is another user's, or others can write it; or a file in it is theirs, a link, or not a regular file.
        /// </summary>
        UnsafeDirectory = Native.KVRT_DETAIL_UNSAFE_DIRECTORY,
        /// <summary>Another process writes the store, or repairs it.</summary>
        StoreLocked = Native.KVRT_DETAIL_STORE_LOCKED,
        /// <summary>The name was saved since this handle last saw it.</summary>
        Revision = Native.KVRT_DETAIL_REVISION,
        /// <summary>Another session has the name.</summary>
        NameTaken = Native.KVRT_DETAIL_NAME_TAKEN,
        /// <summary>The session was made with another model.</summary>
        ModelMismatch = Native.KVRT_DETAIL_MODEL_MISMATCH,
        /// <summary>The handle was opened before a fork(2).</summary>
        Forked = Native.KVRT_DETAIL_FORKED,
        /// <summary>A callback called into its own session.</summary>
        Reentrant = Native.KVRT_DETAIL_REENTRANT,
        /// <summary>Another thread is inside a call on this session.</summary>
        Concurrent = Native.KVRT_DETAIL_CONCURRENT,
        /// <summary>The chat template is malformed, or refuses the messages.</summary>
        TemplateError = Native.KVRT_DETAIL_TEMPLATE_ERROR,
        /// <summary>The chat template takes too many steps, too much memory, depth or output.</summary>
        TemplateLimit = Native.KVRT_DETAIL_TEMPLATE_LIMIT,
        /// <summary>The call does not fit the session's state.</summary>
        State = Native.KVRT_DETAIL_STATE,
        /// <summary>Logits are NaN or infinite.</summary>
        Numeric = Native.KVRT_DETAIL_NUMERIC,
        /// <summary>An option that this library does not know is set.</summary>
        StructTail = Native.KVRT_DETAIL_STRUCT_TAIL,
        /// <summary>The grammar or schema is malformed, or nothing fits it.</summary>
        GrammarError = Native.KVRT_DETAIL_GRAMMAR_ERROR,
        /// <summary>The grammar or schema exceeds a limit.</summary>
        GrammarLimit = Native.KVRT_DETAIL_GRAMMAR_LIMIT
    }

    /// <summary>
    /// Which fields of the event are filled. The others are 0 or null. Ignore a type that you do not know.
    ///
    /// Content, Reasoning and ToolCall come only if the option `reply` is set: after the Token that completes them, or before Done. Token and Done
    /// still have the whole text: show the one kind or the other.
    /// </summary>
    public enum EventType
    {
        /// <summary>Next: nothing came before the timeout; the session generates on.</summary>
        None = Native.KVRT_EVENT_NONE,
        /// <summary>A new token, also an end or stop token: token, position, text, logprob, and top with TopLogprobs.</summary>
        Token = Native.KVRT_EVENT_TOKEN,
        /// <summary>
        /// Progress: done of total, in tokens (prefill), bytes (Runtime.OpenModel, verify, repair), chunks (resume), or expired sessions and one more
        /// for the files (gc).
        /// </summary>
        Progress = Native.KVRT_EVENT_PROGRESS,
        /// <summary>logits[LogitsCount] of `position`: they predict the token at position + 1.</summary>
        Logits = Native.KVRT_EVENT_LOGITS,
        /// <summary>The end: reason, report, and text: what was held back because a stop string might have begun with it.</summary>
        Done = Native.KVRT_EVENT_DONE,
        /// <summary>Store.List: entry.</summary>
        Entry = Native.KVRT_EVENT_ENTRY,
        /// <summary>Store.Verify and Runtime.RepairStore: text says where and what.</summary>
        Fault = Native.KVRT_EVENT_FAULT,
        /// <summary>Next: the session does not generate; no event will come.</summary>
        Idle = Native.KVRT_EVENT_IDLE,
        /// <summary>Text: more of the answer itself.</summary>
        Content = Native.KVRT_EVENT_CONTENT,
        /// <summary>Text: more of what the model thinks before its answer.</summary>
        Reasoning = Native.KVRT_EVENT_REASONING,
        /// <summary>Text: one whole tool call as JSON: `{"name": string, "arguments": object}`, and `"id"` if the model gave one.</summary>
        ToolCall = Native.KVRT_EVENT_TOOL_CALL
    }

    /// <summary>Why a generation ended.</summary>
    public enum Reason
    {
        /// <summary>It has not ended.</summary>
        None = Native.KVRT_REASON_NONE,
        /// <summary>The model ended its turn. The end token is in the session.</summary>
        Eos = Native.KVRT_REASON_EOS,
        /// <summary>A stop string or a stop token came.</summary>
        Stop = Native.KVRT_REASON_STOP,
        /// <summary>MaxTokens were generated.</summary>
        MaxTokens = Native.KVRT_REASON_MAX_TOKENS,
        /// <summary>
        /// The session has as many tokens as the model's context, or as the whole pool holds: truncate or erase, or start another session. (A pool
        /// that others fill is LIMIT, from next.).
        /// </summary>
        ContextFull = Native.KVRT_REASON_CONTEXT_FULL,
        /// <summary>Session.Cancel, Cancel.Fire or the callback ended it.</summary>
        Cancelled = Native.KVRT_REASON_CANCELLED,
        /// <summary>A prefill is over.</summary>
        Prefilled = Native.KVRT_REASON_PREFILLED,
        /// <summary>In no event and no report: next returns the failure as its status, and Session.Info has it.</summary>
        Failed = Native.KVRT_REASON_FAILED
    }

    /// <summary>Why the prompt's KV was reused no further than ReuseStoppedAt.</summary>
    public enum ReuseStopped
    {
        /// <summary>All of it was reused.</summary>
        All = Native.KVRT_REUSE_ALL,
        /// <summary>The tokens from here on were never computed after the tokens before them.</summary>
        NewTokens = Native.KVRT_REUSE_NEW_TOKENS,
        /// <summary>A block in memory begins the same and has another token here.</summary>
        DifferentToken = Native.KVRT_REUSE_DIFFERENT_TOKEN,
        /// <summary>The store knows the tokens and never had their KV.</summary>
        NotStored = Native.KVRT_REUSE_NOT_STORED,
        /// <summary>
        /// This session had computed them; the pool needed the units. From resume, at position 0: it is longer than the pool holds (see "Session
        /// states").
        /// </summary>
        Evicted = Native.KVRT_REUSE_EVICTED,
        /// <summary>
        /// The chunk on disk was damaged, missing or could not be read: the log says which. At position 0 with `recomputed`: KV that was reused made
        /// logits that are not finite, so all was computed again.
        /// </summary>
        Damaged = Native.KVRT_REUSE_DAMAGED,
        /// <summary>The saved KV is of another format, numerics or block size.</summary>
        OtherNumerics = Native.KVRT_REUSE_OTHER_NUMERICS,
        /// <summary>
        /// The tokens from here on had KV, but the window or recurrent state before them is gone. Computing starts at this position, the last
        /// boundary: see Session.Mark.
        /// </summary>
        Window = Native.KVRT_REUSE_WINDOW
    }

    /// <summary>This level and those before it are logged.</summary>
    public enum LogLevel
    {
        /// <summary>Warn.</summary>
        Default = Native.KVRT_LOG_DEFAULT,
        /// <summary>Something failed.</summary>
        Error = Native.KVRT_LOG_ERROR,
        /// <summary>Something is wrong, and kvrt goes on.</summary>
        Warn = Native.KVRT_LOG_WARN,
        /// <summary>A choice of kvrt's, and its reason.</summary>
        Info = Native.KVRT_LOG_INFO,
        /// <summary>All that kvrt has to say.</summary>
        Debug = Native.KVRT_LOG_DEBUG
    }

    /// <summary>Which instructions the CPU's kernels use. The results are the same with each.</summary>
    public enum Isa
    {
        /// <summary>The best that the machine has and that passes its self-check.</summary>
        Default = Native.KVRT_ISA_DEFAULT,
        /// <summary>Scalar code.</summary>
        Scalar = Native.KVRT_ISA_SCALAR,
        /// <summary>Avx2.</summary>
        Avx2 = Native.KVRT_ISA_AVX2,
        /// <summary>AVX-512.</summary>
        Avx512 = Native.KVRT_ISA_AVX512
    }

    /// <summary>
    /// What computes. A runtime computes on one device. Several runtimes may have a device each; one model over several devices is UNSUPPORTED. Cuda
    /// is a library of its own, libkvrt_cuda.so. The first runtime that asks for Cuda loads it, and it stays loaded until the process ends. libkvrt
    /// itself needs no driver and no file of NVIDIA's. Each device has numerics of its own: a device does not use KV that another one computed, it
    /// computes the tokens again (ReuseStopped.OtherNumerics), unless the host asks for that KV (ForeignKv.Accept).
    /// </summary>
    public enum Device
    {
        /// <summary>Cpu.</summary>
        Default = Native.KVRT_DEVICE_DEFAULT,
        /// <summary>The Cpu.</summary>
        Cpu = Native.KVRT_DEVICE_CPU,
        /// <summary>
        /// An NVIDIA GPU. UNSUPPORTED if libkvrt_cuda.so, the driver or the device is missing: the message says which, and where it was looked for.
        /// INCOMPATIBLE: libkvrt_cuda.so is of another version, or is another library. DEVICE: the device is there and failed.
        /// </summary>
        Cuda = Native.KVRT_DEVICE_CUDA,
        /// <summary>Cuda if it opens, else the Cpu; the log then says why (INFO).</summary>
        Auto = Native.KVRT_DEVICE_AUTO
    }

    /// <summary>
    /// Which bits CUDA promises. A GPU has kernels for few rows and for many, which round differently. Restored KV is exact with each choice.
    /// </summary>
    public enum Determinism
    {
        /// <summary>ByClass.</summary>
        Default = Native.KVRT_DETERMINISM_DEFAULT,
        /// <summary>
        /// A row's bits depend on whether its step has few rows or many, and on the other rows in no other way. So the last bits of a prompt's KV may
        /// change with the other sessions that generate, and with the cuts of the prompt into steps (PrefillChunk, StepMsMax, a prefix that is
        /// found).
        /// </summary>
        ByClass = Native.KVRT_DETERMINISM_BY_CLASS,
        /// <summary>
        /// All of convention 11 holds, as on the CPU: every row takes the kernels for few rows. Prompts are computed 16 rows at a time, so they read
        /// the weights more often and take longer. Decodes are as fast as ever. Strict has numerics of its own.
        /// </summary>
        Strict = Native.KVRT_DETERMINISM_STRICT,
        /// <summary>A row's bits may depend on all rows of its step, if that is faster.</summary>
        None = Native.KVRT_DETERMINISM_NONE
    }

    /// <summary>
    /// The precision in which CUDA multiplies a prompt. It applies to steps of more than 64 tokens (16 if the weights are F16 or BF16).
    /// </summary>
    public enum Gemm
    {
        /// <summary>F16.</summary>
        Default = Native.KVRT_GEMM_DEFAULT,
        /// <summary>Activations and weights are rounded to F16.</summary>
        F16 = Native.KVRT_GEMM_F16,
        /// <summary>
        /// They are rounded to Fp8 (E4M3, a scale for each row): half the bytes of F16, 3 bits of fraction. On one model (135M parameters) the logits
        /// were off by 7 % of the largest, and perplexity rose by 4 %: try it on your own prompts. Its KV has numerics of its own ("cuda-2-sm90-f8")
        /// and is never taken for F16's, nor the other way round. Fp8 needs compute capability 8.9 and cuBLASLt, else UNSUPPORTED: the message says
        /// which is missing. Matrices that are F32 in the file, or whose sides are not multiples of 16, stay F16. INVALID with STRICT, which has no
        /// such steps. On an H100 it was slower than F16, 0.5 to 0.9 times: making Fp8 of the weights took more than it saved.
        /// </summary>
        Fp8 = Native.KVRT_GEMM_FP8
    }

    /// <summary>
    /// The format in which K or V is stored; the two may have different ones. A token takes KvHeads * HeadDim elements of each in every layer. A
    /// latent (DeepSeek) holds K and V in one row of HeadDim, so both have one format. Int8 and Fp8 also take a scale of 2 bytes for each row of K
    /// and of V, in every layer and KV head. K in Int8, Fp8 and Int4 is stored without a bias of its projection that is large beside what the
    /// projection gives (Qwen2.5), and attention adds it again. KV of one pair of formats is never used for another: a session that is resumed with
    /// another pair keeps its tokens, and its KV is computed again (ReuseStopped.OtherNumerics). Every device computes with every pair.
    /// </summary>
    public enum KvFormat
    {
        /// <summary>F16.</summary>
        Default = Native.KVRT_KV_DEFAULT,
        /// <summary>2 bytes an element.</summary>
        F16 = Native.KVRT_KV_F16,
        /// <summary>2 bytes: the range of F32 and an eighth of F16's precision.</summary>
        Bf16 = Native.KVRT_KV_BF16,
        /// <summary>4 bytes.</summary>
        F32 = Native.KVRT_KV_F32,
        /// <summary>
        /// 1 byte. It halves memory, saved KV and the bytes that a decode reads. K is stored transformed (Walsh-Hadamard), which spreads its large
        /// elements. The loss is small beside that of 4-bit weights, yet not nothing.
        /// </summary>
        Int8 = Native.KVRT_KV_INT8,
        /// <summary>
        /// 1 byte, E4M3. It halves the same as Int8 and loses more: with SmolLM2 a divergence 13 times Int8's. Take Int8, unless you want K stored as
        /// it is, or each element with a precision relative to itself.
        /// </summary>
        Fp8 = Native.KVRT_KV_FP8,
        /// <summary>
        /// 4 bits, and a scale of 2 bytes for each 32 elements: 0.28 of F16's bytes (HeadDim counts as the next multiple of 32). K and V are stored
        /// transformed, as K of Int8 is. With Qwen2.5-Coder 0.5B a divergence 64 times Int8's, with SmolLM2 90 times; of K in Int8 and V in Int4, 9
        /// and 13 times. `kvrt eval` says what it costs a model.
        /// </summary>
        Int4 = Native.KVRT_KV_INT4
    }

    /// <summary>What a group's layers keep of the tokens.</summary>
    public enum GroupKind
    {
        /// <summary>The KV of all of them.</summary>
        Everything = Native.KVRT_GROUP_EVERYTHING,
        /// <summary>The KV of the last ones, KvGroupWindow of which a token sees.</summary>
        Window = Native.KVRT_GROUP_WINDOW,
        /// <summary>A recurrent state.</summary>
        Recurrent = Native.KVRT_GROUP_RECURRENT
    }

    /// <summary>
    /// Which directory keeps weights from one open to the next, if CacheDir names none. In a program that has more rights than its user (setuid) the
    /// environment is not read.
    /// </summary>
    public enum Cache
    {
        /// <summary>The directory in the environment variable KVRT_CACHE; none if that is unset or empty.</summary>
        Default = Native.KVRT_CACHE_DEFAULT,
        /// <summary>None, whatever the environment says. INVALID with a CacheDir.</summary>
        None = Native.KVRT_CACHE_NONE,
        /// <summary>
        /// As Default; if KVRT_CACHE is unset, the user's directory: `$XDG_CACHE_HOME/kvrt/weights`, else `$HOME/.cache/kvrt/weights`, made with mode
        /// 0700. A relative path in these variables counts as unset. None if both are unset, the directory is another user's, or it is on a network
        /// file system; the log says why (INFO). It is meant for programs that a user starts.
        /// </summary>
        User = Native.KVRT_CACHE_USER
    }

    /// <summary>Flags of tokenize, detokenize and the calls like them; combine with |.</summary>
    [Flags]
    public enum TextFlags
    {
        /// <summary>None of them.</summary>
        None = 0,
        /// <summary>Into tokens: text that spells a special token becomes it. Into text: special tokens are spelled out.</summary>
        Special = Native.KVRT_TEXT_SPECIAL,
        /// <summary>Tokenize: begin with the model's Bos token, if it has one.</summary>
        Bos = Native.KVRT_TEXT_BOS
    }

    /// <summary>What a repair did.</summary>
    public enum RepairOutcome
    {
        /// <summary>There was nothing to do.</summary>
        Sound = Native.KVRT_REPAIR_SOUND,
        /// <summary>Damaged chunks are forgotten.</summary>
        Mended = Native.KVRT_REPAIR_MENDED,
        /// <summary>There is a new catalog.</summary>
        Rebuilt = Native.KVRT_REPAIR_REBUILT
    }

    /// <summary>What a session does now ("Session states" says what it may do).</summary>
    public enum State
    {
        /// <summary>It waits for calls.</summary>
        Idle = Native.KVRT_STATE_IDLE,
        /// <summary>From begin until next has given DONE or a failure.</summary>
        Generating = Native.KVRT_STATE_GENERATING,
        /// <summary>Without units: suspended, or resumed too long for the pool; it has computed nothing since.</summary>
        Suspended = Native.KVRT_STATE_SUSPENDED,
        /// <summary>Its logits were NaN or infinite. It can only be read.</summary>
        Failed = Native.KVRT_STATE_FAILED
    }

    /// <summary>What resume does with saved KV of another arithmetic, a CPU's on a GPU or the other way round.</summary>
    public enum ForeignKv
    {
        /// <summary>Recompute.</summary>
        Default = Native.KVRT_FOREIGN_KV_DEFAULT,
        /// <summary>The tokens are computed again, and the session is as exact as any.</summary>
        Recompute = Native.KVRT_FOREIGN_KV_RECOMPUTE,
        /// <summary>
        /// KV of the same format and block size is taken as it is. The answer may then differ from a computed one at a place where two tokens are
        /// nearly as likely. Such a session is `inexact` for good, and no exact session shares its KV.
        /// </summary>
        Accept = Native.KVRT_FOREIGN_KV_ACCEPT
    }

    /// <summary>Which logits a prefill gives.</summary>
    public enum Logits
    {
        /// <summary>None.</summary>
        None = Native.KVRT_LOGITS_NONE,
        /// <summary>A LOGITS event for the last position.</summary>
        Last = Native.KVRT_LOGITS_LAST,
        /// <summary>A LOGITS event for every position. Nothing is reused then: all is computed.</summary>
        All = Native.KVRT_LOGITS_ALL
    }

    /// <summary>Who chooses the tokens.</summary>
    public enum Sampler
    {
        /// <summary>Kvrt, by the options.</summary>
        Default = Native.KVRT_SAMPLER_DEFAULT,
        /// <summary>The host: it answers each LOGITS event with Session.Accept.</summary>
        Host = Native.KVRT_SAMPLER_HOST
    }

    /// <summary>
    /// Constrained output. A token is chosen only if the answer can still become what the grammar says, and the end of the turn only if the answer is
    /// whole.
    ///
    /// Reasoning is not part of that answer. If the prompt has opened it, or the model opens it with its template's marker, reasoning is
    /// unconstrained; the answer begins after its end marker and at most two line breaks. If the prompt has closed it, there is none. A Gbnf that
    /// itself begins with the marker that opens reasoning binds reasoning, too.
    /// </summary>
    public enum GrammarKind
    {
        /// <summary>None.</summary>
        Default = Native.KVRT_GRAMMAR_DEFAULT,
        /// <summary>
        /// Rules `name ::= ...` as in llama.cpp, beginning with `root`.
        ///
        /// - Text matches neither control tokens nor those that the file calls unused.
        /// - `&lt;[1000]&gt;` matches the token with that id, of whatever kind.
        /// - `&lt;think&gt;` matches the token that is spelled so, with the brackets, of whatever kind.
        /// - `!&lt;think&gt;` matches any token except that one, unused ones, and those that end the turn.
        /// - A token that the vocabulary lacks is INVALID, with line and column.
        /// </summary>
        Gbnf = Native.KVRT_GRAMMAR_GBNF,
        /// <summary>
        /// JSON text that is valid by this JSON schema: 2020-12, and what earlier drafts write in another way. docs/SCHEMAS.md lists, with examples,
        /// which valid values kvrt never writes (members in another order than `properties`, other white space, very long numbers and strings), and
        /// which schemas are LIMIT, or UNSUPPORTED by name with a JSON pointer.
        ///
        /// An object with properties or patternProperties, and without additionalProperties, has no others: JsonSchemaOpen lets them come. A name
        /// that the schema does not list may come twice. If no type is named, a value has one that the keywords are about. Formats hold in every
        /// draft.
        /// </summary>
        JsonSchema = Native.KVRT_GRAMMAR_JSON_SCHEMA,
        /// <summary>
        /// The grammar of the session's last generation, from the place that its answer has reached: after MaxTokens, a cancel or a resume. Tokens
        /// that were appended since must fit it. INVALID: there was none, or its answer is whole.
        /// </summary>
        Continue = Native.KVRT_GRAMMAR_CONTINUE,
        /// <summary>As JsonSchema; an object whose schema does not say additionalProperties may have other members.</summary>
        JsonSchemaOpen = Native.KVRT_GRAMMAR_JSON_SCHEMA_OPEN
    }

    /// <summary>
    /// Which calls of the session's tools an answer has.
    ///
    /// A call is bound: it is written as the model's family writes calls, has the name of a tool, and arguments that fit the tool's `parameters` as
    /// JSON_SCHEMA says. Only the order of members is another: in arguments, and in objects within them, members come in any order, each that the
    /// schema names at most once, others anywhere. An object that names more than 64 keeps JSON_SCHEMA's order.
    ///
    /// If the family does not write arguments as JSON, kvrt never writes an argument that the family's parser would read as another type. So no
    /// string has the marker that ends it; and if a string is one of several types, none reads as a number, true, false or null. It works with every
    /// `reply`; if that names a family, the calls are that family's.
    ///
    /// What a session or a tool is like, and what begin does:
    ///
    ///     The session or a tool                           AUTO                 REQUIRED, NAMED      DEFAULT
    ///     no tools                                        INVALID              INVALID              binds no call
    ///     two tools of one name                           INVALID              INVALID              binds no call
    ///     no tool of the name ToolName                                         NAMED: INVALID
    ///     the template does not show calls                UNSUPPORTED          UNSUPPORTED          binds no call
    ///     a name with other characters than letters,      UNSUPPORTED          UNSUPPORTED          binds no call
    ///     digits and _-./; or, if calls are Python's,
    ///     one that does not begin with a letter or _
    ///     a schema that JSON_SCHEMA refuses               its status           its status           binds the arguments to an
    ///                                                                                               object with members of
    ///                                                                                               the schema's types
    ///     a member's name that the model's syntax         UNSUPPORTED          UNSUPPORTED          the same
    ///     cannot write, or a value of which it can
    ///     write no constant
    ///     a GrammarKind is set                            calls, or an         INVALID              no call, except what a
    ///                                                     answer that fits                          GBNF writes
    ///     a GrammarKind, a family whose calls are bare    UNSUPPORTED                               no call, except what a
    ///     JSON, and a grammar that a call's beginning                                               GBNF writes
    ///     fits
    ///
    /// None is never refused for any of these.
    ///
    /// Reasoning stays free, and comes first. With Default, Auto and None and no GrammarKind the turn may end in it. It may mention the marker of a
    /// call, unless the names of all tools have more than 16,384 bytes. If a tool's name follows the marker, it is a call, which ends reasoning and
    /// is bound as any other.
    ///
    /// With Default and Auto an answer may begin with a call that has no marker, if the family's calls are JSON objects with a name: `{"name": "f",
    /// "arguments":` of a tool f is a call from there on, by itself, in a list, or within a fence of Markdown (with `json`, or without); others may
    /// follow it. Llama 3 and Gemma may also write `"parameters":`, or a list `[f(k="v")]`. Text that goes on in another way is not bound.
    /// </summary>
    public enum ToolChoice
    {
        /// <summary>
        /// As Auto, if the model's chat template itself writes a call in the way of the family that it shows, and the table above does not say
        /// otherwise; else calls are not bound.
        /// </summary>
        Default = Native.KVRT_TOOL_CHOICE_DEFAULT,
        /// <summary>No calls: the markers by which they begin cannot come; what has none is text.</summary>
        None = Native.KVRT_TOOL_CHOICE_NONE,
        /// <summary>Text; from a call's first marker on, calls. A call ends the text, another may follow.</summary>
        Auto = Native.KVRT_TOOL_CHOICE_AUTO,
        /// <summary>One call or more, and nothing else.</summary>
        Required = Native.KVRT_TOOL_CHOICE_REQUIRED,
        /// <summary>As Required, of the tool ToolName.</summary>
        Named = Native.KVRT_TOOL_CHOICE_NAMED
    }

    /// <summary>
    /// How an answer is split into content, reasoning and tool calls. Auto goes by the chat template. Plain to Deepseek are for files whose template
    /// does not show tool calls: they name the way in which a family of models writes them.
    ///
    /// A tool call that is malformed or cut short is content; one that was cut comes as a call when the answer goes on and ends it. A session without
    /// tools has no tool calls, whatever its text. An argument that a model writes as bare text has a type that the tool's schema allows, if it reads
    /// so, and else is a string. With a reply, a stop string does not reach over a control token.
    ///
    /// The message that an answer becomes does not depend on `reply`: it has tool_calls if the template renders them, and reasoning_content if the
    /// template would not find reasoning within the content.
    /// </summary>
    public enum Reply
    {
        /// <summary>Not at all: there are only TOKEN events.</summary>
        Default = Native.KVRT_REPLY_DEFAULT,
        /// <summary>As the model's chat template shows tool calls and reasoning.</summary>
        Auto = Native.KVRT_REPLY_AUTO,
        /// <summary>No tool calls.</summary>
        Plain = Native.KVRT_REPLY_PLAIN,
        /// <summary>`&lt;tool_call&gt;{...}&lt;/tool_call&gt;`: Hermes, Qwen 2.5 and 3.</summary>
        Hermes = Native.KVRT_REPLY_HERMES,
        /// <summary>Llama 3.</summary>
        Llama3 = Native.KVRT_REPLY_LLAMA3,
        /// <summary>Mistral.</summary>
        Mistral = Native.KVRT_REPLY_MISTRAL,
        /// <summary>Gemma.</summary>
        Gemma = Native.KVRT_REPLY_GEMMA,
        /// <summary>DeepSeek.</summary>
        Deepseek = Native.KVRT_REPLY_DEEPSEEK
    }

    /// <summary>Which part of a save is safely on the disk when it returns.</summary>
    public enum Durability
    {
        /// <summary>Tokens.</summary>
        Default = Native.KVRT_DURABILITY_DEFAULT,
        /// <summary>As Process.</summary>
        None = Native.KVRT_DURABILITY_NONE,
        /// <summary>The save survives the process, not a power cut.</summary>
        Process = Native.KVRT_DURABILITY_PROCESS,
        /// <summary>The tokens survive a power cut; Kv may have to be computed again.</summary>
        Tokens = Native.KVRT_DURABILITY_TOKENS,
        /// <summary>The saved Kv survives it too.</summary>
        Kv = Native.KVRT_DURABILITY_KV
    }

    /// <summary>How a save stores the KV chunks that it writes. Chunks that the store has stay as they are.</summary>
    public enum Codec
    {
        /// <summary>Zstd.</summary>
        Default = Native.KVRT_CODEC_DEFAULT,
        /// <summary>
        /// As they are, which loads sooner. A last block that is not full is packed all the same, so that its empty slots take no room.
        /// </summary>
        None = Native.KVRT_CODEC_NONE,
        /// <summary>Packed (level 1): KV in F16, INT8 and FP8 by a seventh, in BF16 by a third, in INT4 not at all.</summary>
        Zstd = Native.KVRT_CODEC_ZSTD
    }
}
