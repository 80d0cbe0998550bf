using System;

namespace Kvrt
{
    /// <summary>
    /// Which fields of the event are filled. The others are 0 or null. Ignore a type that you do not know. CONTENT, REASONING and TOOL_CALL come with
    /// the option `reply` alone: after the TOKEN that completes them, or before DONE. TOKEN and DONE still have the whole text: show the one kind or
    /// the other.
    /// </summary>
    public enum EventType
    {
        /// <summary>Next: nothing came before the timeout; the session generates on.</summary>
        None = Native.KVRT_EVENT_NONE,
        /// <summary>A new token, also an end or stop token: token, position, text, logprob, and top with TopLogprobs.</summary>
        Token = Native.KVRT_EVENT_TOKEN,
        /// <summary>
        /// Done of total. Prefill: tokens. Runtime.OpenModel: bytes. resume: chunks. gc: expired sessions, and one more for the files. verify and
        /// repair: bytes.
        /// </summary>
        Progress = Native.KVRT_EVENT_PROGRESS,
        /// <summary>Logits[LogitsCount] of `position`: they predict the token at position + 1.</summary>
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
        /// <summary>Text: one whole tool call as JSON: `{"name": string, "arguments": object}`, and `"id"` where the model gave one.</summary>
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
        /// that others fill is LIMIT, from next.)
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
        /// <summary>This session had computed them; the pool needed the units.</summary>
        Evicted = Native.KVRT_REUSE_EVICTED,
        /// <summary>
        /// The chunk on disk was damaged, missing or could not be read: the log says which. At position 0 with `recomputed`: KV that was reused made
        /// logits that are not finite, so all was computed again.
        /// </summary>
        Damaged = Native.KVRT_REUSE_DAMAGED,
        /// <summary>The saved KV is of another format, numerics or block size.</summary>
        OtherNumerics = Native.KVRT_REUSE_OTHER_NUMERICS,
        /// <summary>
        /// The KV of the tokens from here on is there or was, but no longer what layers with a window need of the window before them, or recurrent
        /// layers as their state. Here is the last boundary before: see Session.Mark.
        /// </summary>
        Window = Native.KVRT_REUSE_WINDOW
    }

    /// <summary>This level and those before it are logged.</summary>
    public enum LogLevel
    {
        /// <summary>WARN.</summary>
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
        /// <summary>AVX2.</summary>
        Avx2 = Native.KVRT_ISA_AVX2,
        /// <summary>AVX-512.</summary>
        Avx512 = Native.KVRT_ISA_AVX512
    }

    /// <summary>
    /// RuntimeOptions.Device. A runtime computes on one device. Several runtimes may have a device each; one model over several devices is
    /// UNSUPPORTED. CUDA is a library of its own, libkvrt_cuda.so. The first runtime that asks for CUDA loads it, and it stays loaded until the
    /// process ends. libkvrt itself needs no driver and no file of NVIDIA's. Each device has numerics of its own: a device does not use KV that
    /// another one computed, it computes the tokens again (ReuseStopped.OtherNumerics), unless the host asks for that KV (ForeignKv.Accept).
    /// </summary>
    public enum Device
    {
        /// <summary>CPU.</summary>
        Default = Native.KVRT_DEVICE_DEFAULT,
        /// <summary>The CPU.</summary>
        Cpu = Native.KVRT_DEVICE_CPU,
        /// <summary>
        /// An NVIDIA GPU. UNSUPPORTED where libkvrt_cuda.so, the driver or the device is missing: the message says which, and where it was looked
        /// for. INCOMPATIBLE: libkvrt_cuda.so is of another version, or is another library. DEVICE: the device is there and failed.
        /// </summary>
        Cuda = Native.KVRT_DEVICE_CUDA,
        /// <summary>CUDA where it opens, else the CPU; the log then says why (INFO).</summary>
        Auto = Native.KVRT_DEVICE_AUTO
    }

    /// <summary>
    /// Which bits CUDA promises. A GPU has kernels for few rows and for many, which round differently. Restored KV is exact with each choice.
    /// </summary>
    public enum Determinism
    {
        /// <summary>BY_CLASS.</summary>
        Default = Native.KVRT_DETERMINISM_DEFAULT,
        /// <summary>
        /// A row's bits depend on whether its step has few rows or many, and on the other rows in no other way. So the last bits of a prompt's KV may
        /// change with the other sessions that generate, and with the cuts of the prompt into steps (PrefillChunk, StepMsMax, a prefix that is
        /// found).
        /// </summary>
        ByClass = Native.KVRT_DETERMINISM_BY_CLASS,
        /// <summary>
        /// All of convention 11 holds, as on the CPU: every row takes the kernels for few rows. Prompts are computed 16 rows at a time, so they read
        /// the weights more often and take longer. Decodes are as fast as ever. STRICT has numerics of its own.
        /// </summary>
        Strict = Native.KVRT_DETERMINISM_STRICT,
        /// <summary>A row's bits may depend on all rows of its step, where that is faster.</summary>
        None = Native.KVRT_DETERMINISM_NONE
    }

    /// <summary>
    /// The precision in which CUDA multiplies a prompt. It applies to steps of more than 64 tokens, with weights in F16 or BF16 of
    /// more than 16, and changes nothing in smaller steps.
    /// </summary>
    public enum Gemm
    {
        /// <summary>F16.</summary>
        Default = Native.KVRT_GEMM_DEFAULT,
        /// <summary>Activations and weights are rounded to F16.</summary>
        F16 = Native.KVRT_GEMM_F16,
        /// <summary>
        /// They are rounded to FP8 (E4M3, a scale for each row): half the bytes of F16, 3 bits of fraction. On one model (135M parameters) the logits
        /// were off by 7 % of the largest, and perplexity rose by 4 %: try it on your own prompts. Its KV has numerics of its own ("cuda-2-sm90-f8")
        /// and is never taken for F16's, nor the other way round. FP8 needs compute capability 8.9 and cuBLASLt, else UNSUPPORTED: the message says
        /// which is missing. Matrices that are F32 in the file, or whose sides are no multiple of 16, stay F16. INVALID with STRICT, which has no
        /// such steps. Its speed has not been measured on a device yet.
        /// </summary>
        Fp8 = Native.KVRT_GEMM_FP8
    }

    /// <summary>
    /// The format in which K or V is stored; the two may have different ones. A token takes KvHeads * HeadDim elements of each in every layer; a
    /// latent (DeepSeek) is K and V in one row of HeadDim, and both have one format. INT8 and FP8 take 2 bytes more for each layer and KV head, a
    /// scale. KV of one pair of formats is never used for another: a session that is resumed with another pair keeps its tokens, and its KV is
    /// computed again (ReuseStopped.OtherNumerics). Every device computes with every pair.
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
        /// 1 byte, E4M3. It halves the same as INT8 and loses more: with SmolLM2 a divergence 13 times INT8's. Take INT8, unless you want K stored as
        /// it is, or each element with a precision relative to itself.
        /// </summary>
        Fp8 = Native.KVRT_KV_FP8
    }

    /// <summary>
    /// Which directory keeps weights from one open to the next, where CacheDir names none. In a program that has more rights than its user (setuid)
    /// the environment is not read.
    /// </summary>
    public enum Cache
    {
        /// <summary>The directory in the environment variable KVRT_CACHE; none where that is unset or empty.</summary>
        Default = Native.KVRT_CACHE_DEFAULT,
        /// <summary>None, whatever the environment says. INVALID with a CacheDir.</summary>
        None = Native.KVRT_CACHE_NONE,
        /// <summary>
        /// As DEFAULT, and where KVRT_CACHE is unset the user's directory: `$XDG_CACHE_HOME/kvrt/weights`, else `$HOME/.cache/kvrt/weights`, made
        /// with mode 0700. A relative path in these variables counts as unset. None where both are unset, where the directory is another user's, or
        /// where it is on a network file system; the log says why (INFO). It is meant for programs that a user starts.
        /// </summary>
        User = Native.KVRT_CACHE_USER
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

    /// <summary>Flags of tokenize, detokenize and the calls like them; combine with |.</summary>
    [Flags]
    public enum TextFlags
    {
        /// <summary>None of them.</summary>
        None = 0,
        /// <summary>Into tokens: text that spells a special token becomes it. Into text: special tokens are spelled out.</summary>
        Special = Native.KVRT_TEXT_SPECIAL,
        /// <summary>Tokenize: begin with the model's BOS token, if it has one.</summary>
        Bos = Native.KVRT_TEXT_BOS
    }

    /// <summary>RepairReport.Outcome.</summary>
    public enum RepairOutcome
    {
        /// <summary>There was nothing to do.</summary>
        Sound = Native.KVRT_REPAIR_SOUND,
        /// <summary>Damaged chunks are forgotten.</summary>
        Mended = Native.KVRT_REPAIR_MENDED,
        /// <summary>There is a new catalog.</summary>
        Rebuilt = Native.KVRT_REPAIR_REBUILT
    }

    /// <summary>See "Session states".</summary>
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
}
