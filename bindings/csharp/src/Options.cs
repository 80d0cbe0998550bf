using System;
using System.Collections.Generic;

namespace Kvrt
{
    /// <summary>Options of the Runtime.</summary>
    public sealed class RuntimeOptions
    {
        /// <summary>Compute threads, the caller's included, at most 256; 0: one for each CPU that affinity and cgroup leave.</summary>
        public uint Threads { get; set; }

        /// <summary>Where the CPU computes. UNSUPPORTED: the machine lacks it. INVALID with Device.Cuda.</summary>
        public Isa Isa { get; set; }

        /// <summary>This level and those before it are logged; Default: Warn.</summary>
        public LogLevel LogLevel { get; set; }

        /// <summary>
        /// Receives the lines of the log; null: nothing is logged. It may come on any thread and must not call kvrt. What it throws goes to
        /// TaskScheduler.UnobservedTaskException.
        /// </summary>
        public Action<LogLevel, string> Log { get; set; }

        /// <summary>What computes; Default: the CPU.</summary>
        public Device Device { get; set; }

        /// <summary>
        /// Which of the driver's CUDA devices, from 0. UNSUPPORTED: there is no such device (with AUTO the CPU computes then). INVALID with the CPU,
        /// but for 0.
        /// </summary>
        public uint DeviceIndex { get; set; }

        /// <summary>Path of libkvrt_cuda.so; null: the one beside libkvrt, else as the dynamic linker finds it.</summary>
        public string CudaLibrary { get; set; }

        /// <summary>Which bits CUDA promises. The CPU ignores it.</summary>
        public Determinism Determinism { get; set; }

        /// <summary>The precision of prompts on CUDA. INVALID with Device.Cpu, but for Default. With Device.Auto the CPU ignores it.</summary>
        public Gemm PromptGemm { get; set; }
    }

    /// <summary>Options of Runtime.OpenModel.</summary>
    public sealed class ModelOptions
    {
        /// <summary>Of K, and of V where KvFormatV is Default.</summary>
        public KvFormat KvFormat { get; set; }

        /// <summary>Tokens of a KV block: 16, 32, 64, 128 or 256; 0: 32.</summary>
        public uint BlockTokens { get; set; }

        /// <summary>
        /// Prompt tokens of a step at most, 1 to 512; 0: 512. It holds whatever StepMsMax allows. A smaller number makes cancel take effect sooner.
        /// </summary>
        public uint PrefillChunk { get; set; }

        /// <summary>
        /// Bytes of the pool of KV blocks. They are reserved at open; they hold the KV of two times BlockTokens tokens at least (and a block of zeros
        /// where layers have windows), and at most the memory of the machine (CUDA: of the device). 0: four contexts, and at most a quarter of the
        /// free memory.
        /// </summary>
        public ulong KvBytesMax { get; set; }

        /// <summary>
        /// Milliseconds that a step may take, 1 to 60000; 0: 50. A step takes on as many prompt tokens as fit this time by measured speed: the CPU
        /// time of a token, and the share of CPU time that the machine gave lately. It takes one token at least. Where the step without any prompt
        /// fills the time already (many sessions decode, the weights are large), the prompt has half of that step's time. With 0, and only then, two
        /// exceptions hold for prompts. First, a prompt that nobody waits behind may have longer steps. Nobody waits when no other session of the
        /// model generates and no step of another model is due. kvrt.h says more.
        /// </summary>
        public uint StepMsMax { get; set; }

        /// <summary>True: read the file from `fd`. The path then only names it in messages, and may be null.</summary>
        public bool FromFd { get; set; }

        /// <summary>FromFd: a descriptor open for reading, seekable. The caller keeps it, and may close it after Runtime.OpenModel.</summary>
        public int Fd { get; set; }

        /// <summary>
        /// True: the whole pool gets its memory at open, or NO_MEMORY where less is free. False: a page gets its memory on its first use, which can
        /// double the time of a step on a virtual machine.
        /// </summary>
        public bool KvPopulate { get; set; }

        /// <summary>FromFd: the byte of `fd` where the GGUF begins.</summary>
        public ulong FdOffset { get; set; }

        /// <summary>FromFd: its bytes; 0: to the end of the file.</summary>
        public ulong FdSize { get; set; }

        /// <summary>
        /// Path of a directory that keeps the weights as the CPU has them in memory; null: see `cache`. It is made if it is missing. The first open
        /// of a model writes a file of about its size there. Later opens map that file, which is faster, and processes share its pages. When several
        /// processes open at once, one writes and the others wait for it: at most half a minute, and a second more for each 50 MB. Checksums guard
        /// every byte at open. kvrt.h says more.
        /// </summary>
        public string CacheDir { get; set; }

        /// <summary>Which directory keeps weights where CacheDir names none.</summary>
        public Cache Cache { get; set; }

        /// <summary>Of V; Default: as K's.</summary>
        public KvFormat KvFormatV { get; set; }

        /// <summary>
        /// Bytes of all files in the weight cache together; 0: a tenth of the file system, at most 20 GiB. To make room for a new file, files that no
        /// process maps are removed, the least recently used first. A file that finds no room, or that would leave less than a twentieth of the file
        /// system free (at most 1 GiB), is not written.
        /// </summary>
        public ulong CacheBytesMax { get; set; }
    }

    /// <summary>Options of Model.ApplyTemplate.</summary>
    public sealed class TemplateOptions
    {
        /// <summary>True: do not open the assistant's turn.</summary>
        public bool NoGenerationPrompt { get; set; }

        /// <summary>A Jinja template to use instead of the model's; the model may then be null. null: the model's.</summary>
        public string Source { get; set; }

        /// <summary>A JSON array, the template's variable `tools`; null: none.</summary>
        public string Tools { get; set; }

        /// <summary>A JSON array, the template's variable `documents`; null: none.</summary>
        public string Documents { get; set; }

        /// <summary>
        /// A JSON object with more variables by name: `{"enable_thinking": false}`; null: none. They may replace BosToken and EosToken.
        /// </summary>
        public string Variables { get; set; }
    }

    /// <summary>The sessions that Runtime.Plan plans for.</summary>
    public sealed class PlanOptions
    {
        /// <summary>Of K, and of V where KvFormatV is Default.</summary>
        public KvFormat KvFormat { get; set; }

        /// <summary>As in ModelOptions; 0: 32.</summary>
        public uint BlockTokens { get; set; }

        /// <summary>Number of sessions, at most 65536; 0: 1.</summary>
        public uint Sessions { get; set; }

        /// <summary>Tokens of each, at most the model's context; 0: the model's context.</summary>
        public ulong SessionTokens { get; set; }

        /// <summary>Leading tokens that all sessions have in common, at most SessionTokens.</summary>
        public ulong SharedTokens { get; set; }

        /// <summary>The budget for everything; 0: the device's free memory.</summary>
        public ulong MemoryBytes { get; set; }

        /// <summary>With path null: the geometry that takes the file's place (weights and scratch are 0 then); else 0.</summary>
        public uint Layers { get; set; }

        /// <summary>The same.</summary>
        public uint KvHeads { get; set; }

        /// <summary>The same.</summary>
        public uint HeadDim { get; set; }

        /// <summary>Of V; Default: as K's.</summary>
        public KvFormat KvFormatV { get; set; }
    }

    /// <summary>Options of Runtime.OpenStore.</summary>
    public sealed class StoreOptions
    {
        /// <summary>True: never write. A directory that cannot be written is opened so by itself.</summary>
        public bool ReadOnly { get; set; }

        /// <summary>True: NOT_FOUND instead of making a new store.</summary>
        public bool MustExist { get; set; }

        /// <summary>
        /// Bytes that catalog and segments may take on the disk, as StoreInfo.DiskBytes counts them; 0: no cap. Where KV would pass the cap, other
        /// saved sessions lose KV (see Store.Pin); where that is not enough, the save leaves KV out. A save whose tokens would pass it is NO_SPACE.
        /// The catalog's log may pass it by some 100 KiB until the next save or gc.
        /// </summary>
        public ulong DiskBytesMax { get; set; }

        /// <summary>
        /// Bytes that KV leaves free on the file system, for tokens and for others; 0: a twentieth of the file system, at most 1 GiB. It is 64 KiB at
        /// least. A save makes room as for DiskBytesMax.
        /// </summary>
        public ulong FreeBytesMin { get; set; }
    }

    /// <summary>Options of Model.OpenSession and Model.Resume. Session.Fork reads the wake fields alone.</summary>
    public sealed class SessionOptions
    {
        /// <summary>
        /// True: in memory, the session uses no KV of other sessions and offers them none. Its own KV comes back from the store, whether it was saved
        /// with this option or without. The store is the same as without: it keeps a chunk of the same tokens once in a domain, and sessions without
        /// this option find it there, whichever session saved it. To share nothing at all, give the session a domain of its own.
        /// </summary>
        public bool NoPrefixCache { get; set; }

        /// <summary>
        /// Where the session is saved, and finds stored prefixes; null: nowhere. Model.Resume ignores it: its store is a parameter.
        /// </summary>
        public Store Store { get; set; }

        /// <summary>
        /// Sharing scope, up to 255 bytes of UTF-8. Nothing is shared between domains. null: the default one. Nor is anything shared between sessions
        /// with a store and those without: the KV of the latter is not named by the model's contents, which are hashed for a store alone.
        /// </summary>
        public string Domain { get; set; }

        /// <summary>
        /// A JSON array, the template's variable `tools`; null: none. It is saved with the session; in resume null keeps the saved ones.
        /// </summary>
        public string Tools { get; set; }

        /// <summary>
        /// Called when Session.Next has something to give and had nothing before; null: none. It may come on any thread and only signals: it must not
        /// call kvrt. What it throws goes to TaskScheduler.UnobservedTaskException.
        /// </summary>
        public Action Wake { get; set; }

        /// <summary>A JSON array, the template's variable `documents`. Saved as tools are.</summary>
        public string Documents { get; set; }

        /// <summary>
        /// A JSON object with more variables of the template, as in TemplateOptions. Saved as tools are. strftime_now gives the template the time
        /// when the session was opened, also after a resume.
        /// </summary>
        public string Variables { get; set; }

        /// <summary>
        /// Autosave: the library saves the session by itself, each time that one of the three options below says so. It needs a store. The save has
        /// the tokens, the messages and the KV of full blocks. Its options are checkpoint's defaults. Its name is that of the session's last save or
        /// resume; before there is one, AutosaveName; with neither, nothing is saved. close saves the rest that is not saved yet, with the KV of the
        /// last block. A failure is logged and stands in SessionInfo.LastErrorStatus (that of close is logged alone); the next occasion tries again.
        /// kvrt.h says more.
        /// </summary>
        public string AutosaveName { get; set; }

        /// <summary>True: save when a generation is over and its DONE was taken; a prefill is one.</summary>
        public bool AutosaveTurn { get; set; }

        /// <summary>Save each time that the session has grown by this number of tokens, or of tokens whose KV is computed; 0: not.</summary>
        public uint AutosaveTokens { get; set; }

        /// <summary>Save when nothing has happened to the session for this number of milliseconds, at most a day; 0: not.</summary>
        public uint AutosaveIdleMs { get; set; }

        /// <summary>For Model.Resume: what it does with saved KV of another arithmetic.</summary>
        public ForeignKv ForeignKv { get; set; }

        /// <summary>A copy for the session that ResumeOrOpen opens.</summary>
        internal SessionOptions With(Store store, string name)
        {
            SessionOptions copy = (SessionOptions)MemberwiseClone();
            copy.Store = store;
            if (string.IsNullOrEmpty(AutosaveName)) copy.AutosaveName = name;
            return copy;
        }
    }

    /// <summary>
    /// Options of Session.Begin and Session.Generate. The sampler applies, in this order: the grammar; LogitBias; repetition, frequency and presence
    /// penalties; temperature; TopK; TopP; MinP. Ties go to the lowest token id. Bounds begin at 0 unless a field says otherwise. A value outside its
    /// bounds is INVALID.
    /// </summary>
    public sealed class GenerateOptions
    {
        /// <summary>Tokens at most; 0: until the model ends its turn or the context is full.</summary>
        public uint MaxTokens { get; set; }

        /// <summary>Up to 100; 0: greedy, the most probable token.</summary>
        public float Temperature { get; set; }

        /// <summary>Only this number of the most probable tokens; 0: all.</summary>
        public uint TopK { get; set; }

        /// <summary>Only the fewest tokens that hold this share of the probability, up to 1; 0: all.</summary>
        public float TopP { get; set; }

        /// <summary>Only tokens of at least MinP times the best one's probability, up to 1; 0: all.</summary>
        public float MinP { get; set; }

        /// <summary>Over the session's tokens, as in transformers, up to 100; 0 and 1: none.</summary>
        public float RepetitionPenalty { get; set; }

        /// <summary>For each time that this generation has given the token, as in OpenAI's API, -100 to 100; 0: none.</summary>
        public float FrequencyPenalty { get; set; }

        /// <summary>Once if this generation has given the token, as in OpenAI's API, -100 to 100; 0: none.</summary>
        public float PresencePenalty { get; set; }

        /// <summary>The three penalties look at this number of the session's last tokens; 0: all.</summary>
        public uint PenaltyWindow { get; set; }

        /// <summary>Each value is added to the logit of its token; negative infinity bans the token. Null: none.</summary>
        public IReadOnlyDictionary<int, float> LogitBias { get; set; }

        /// <summary>A draw depends on seed and position alone. 0: the seed is drawn where temperature is not 0; the report has it.</summary>
        public ulong Seed { get; set; }

        /// <summary>Tokens that end the generation; null: none. The one that came stays in the session.</summary>
        public IReadOnlyList<int> StopTokens { get; set; }

        /// <summary>
        /// Texts that end the generation: up to 16 of 1 to 256 bytes of UTF-8; null: none. Text that may be the beginning of one is held back until
        /// that is known; then it comes with a later TOKEN, or with DONE. A text that matched is not given, nor is anything after it.
        /// </summary>
        public IReadOnlyList<string> StopStrings { get; set; }

        /// <summary>True: go on past tokens that end the turn.</summary>
        public bool IgnoreEos { get; set; }

        /// <summary>Alternatives that come with each TOKEN, at most 64; 0: none.</summary>
        public uint TopLogprobs { get; set; }

        /// <summary>Who chooses the tokens.</summary>
        public Sampler Sampler { get; set; }

        /// <summary>True: a LOGITS event before every TOKEN.</summary>
        public bool EmitLogits { get; set; }

        /// <summary>True: do not open the assistant's turn after Session.AppendMessage.</summary>
        public bool NoGenerationPrompt { get; set; }

        /// <summary>True: a generation that is cancelled or fails leaves the session as it was before begin.</summary>
        public bool AllOrNothing { get; set; }

        /// <summary>True: choose no token, end with PREFILLED: as Session.Prefill, but through next.</summary>
        public bool Prefill { get; set; }

        /// <summary>With Prefill: which logits it gives.</summary>
        public Logits Logits { get; set; }

        /// <summary>
        /// The kind of Grammar. Not with IgnoreEos, nor with Prefill. With Sampler.Host, LOGITS has -infinity for tokens that do not fit.
        /// </summary>
        public GrammarKind GrammarKind { get; set; }

        /// <summary>How the answer is split into content, reasoning and tool calls.</summary>
        public Reply Reply { get; set; }

        /// <summary>The GBNF or JSON schema, UTF-8; null with the other kinds.</summary>
        public string Grammar { get; set; }

        /// <summary>Ends the generation when it is fired, or was; kept until DONE. null: none.</summary>
        public Cancel Cancel { get; set; }

        /// <summary>
        /// Which calls of the session's tools the answer has. Not Auto, Required or Named with a GrammarKind; none of these four fields with
        /// GrammarKind.Continue, IgnoreEos or Prefill.
        /// </summary>
        public ToolChoice ToolChoice { get; set; }

        /// <summary>Calls of one answer at most; 0: no limit.</summary>
        public uint ParallelCallsMax { get; set; }

        /// <summary>Tokens of reasoning at most; then its end is the only text that may come, and content or calls follow. 0: no limit.</summary>
        public uint ReasoningTokensMax { get; set; }

        /// <summary>With NAMED: the tool's name, UTF-8. Else null.</summary>
        public string ToolName { get; set; }
    }

    /// <summary>Options of Session.Checkpoint and Session.Suspend.</summary>
    public sealed class SaveOptions
    {
        /// <summary>Which part of the save is safely on the disk when it returns.</summary>
        public Durability Durability { get; set; }

        /// <summary>True: replace another session of this name, or a newer save of this one, instead of CONFLICT.</summary>
        public bool Overwrite { get; set; }

        /// <summary>1 to 255: pin the saved session with this priority (see Store.Pin); 0: leave it as it is.</summary>
        public uint Pin { get; set; }

        /// <summary>
        /// It expires this number of seconds after this save, at most 100 years; 0: leave it as it is (a new session never expires). Store.SetTtl
        /// with 0 takes it away.
        /// </summary>
        public ulong TtlSeconds { get; set; }

        /// <summary>How the save stores the KV chunks that it writes.</summary>
        public Codec Codec { get; set; }
    }
}
