// Made of include/kvrt.abi.json by bindings/raw.py (./dev abi): do not edit.
using System;
using System.Collections.Generic;

namespace Kvrt
{
    /// <summary>Options of the constructor of Runtime.</summary>
    public sealed partial class RuntimeOptions
    {
        /// <summary>Compute threads, the caller's included, at most 256; 0: one for each CPU that affinity and cgroup leave.</summary>
        public uint Threads { get; set; }

        /// <summary>Which instructions the CPU's kernels use. UNSUPPORTED: the machine lacks it. INVALID with Device.Cuda.</summary>
        public Isa Isa { get; set; }

        /// <summary>This level and those before it are logged.</summary>
        public LogLevel LogLevel { get; set; }

        /// <summary>
        /// Receives the lines of the log; null: nothing is logged. What it throws goes to TaskScheduler.UnobservedTaskException.
        /// </summary>
        public Action<LogLevel, string> Log { get; set; }

        /// <summary>What computes.</summary>
        public Device Device { get; set; }

        /// <summary>
        /// Which of the driver's CUDA devices, from 0. UNSUPPORTED: there is no such device (with AUTO the CPU computes then). INVALID with the CPU,
        /// except 0.
        /// </summary>
        public uint DeviceIndex { get; set; }

        /// <summary>Path of libkvrt_cuda.so; null: the one beside libkvrt, else as the dynamic linker finds it.</summary>
        public string CudaLibrary { get; set; }

        /// <summary>Which bits CUDA promises. The CPU ignores it.</summary>
        public Determinism Determinism { get; set; }

        /// <summary>
        /// The precision in which CUDA multiplies a prompt. INVALID with Device.Cpu, except Default. With Device.Auto the CPU ignores it.
        /// </summary>
        public Gemm PromptGemm { get; set; }
    }

    /// <summary>Options of Runtime.OpenModel.</summary>
    public sealed partial class ModelOptions
    {
        /// <summary>The format in which K or V is stored: of K, and of V if KvFormatV is 0.</summary>
        public KvFormat KvFormat { get; set; }

        /// <summary>Tokens of a block: 16, 32, 64, 128 or 256; 0: 32.</summary>
        public uint BlockTokens { get; set; }

        /// <summary>
        /// Prompt tokens of a step at most, 1 to 512; 0: 512. It holds whatever StepMsMax allows. A smaller number makes cancel take effect sooner.
        /// </summary>
        public uint PrefillChunk { get; set; }

        /// <summary>
        /// Bytes of the pool, reserved at open. At least the KV of two blocks (and a unit of zeros if layers have windows or are recurrent); at most
        /// the memory of the machine (CUDA: of the device). 0: four contexts, and at most a quarter of the free memory.
        /// </summary>
        public ulong KvBytesMax { get; set; }

        /// <summary>
        /// Milliseconds that a step may take, 1 to 60000; 0: 50. A step takes as many prompt tokens as fit this time by measured speed, and one at
        /// least; if decodes fill the time already, the prompt has half of their time. With 0, a prompt that delays nobody may have steps of up to
        /// 500 ms, and a step without decodes has at least 32 prompt tokens. "Pace" in docs/USING.md has the details.
        /// </summary>
        public uint StepMsMax { get; set; }

        /// <summary>True: read the file from `fd`. The path then only names it in messages, and may be null.</summary>
        public bool FromFd { get; set; }

        /// <summary>
        /// FromFd: a descriptor open for reading, seekable. The caller keeps it, and may close it after Runtime.OpenModel. 0 without FromFd.
        /// </summary>
        public int Fd { get; set; }

        /// <summary>
        /// True: the whole pool gets its memory at open, or NO_MEMORY if less is free. False: a page gets its memory on its first use, which can
        /// double the time of a step on a virtual machine.
        /// </summary>
        public bool KvPopulate { get; set; }

        /// <summary>FromFd: the byte of `fd` at which the GGUF begins.</summary>
        public ulong FdOffset { get; set; }

        /// <summary>FromFd: its bytes; 0: to the end of the file.</summary>
        public ulong FdSize { get; set; }

        /// <summary>
        /// Path of a directory that keeps the weights as the CPU has them in memory; null: see `cache`. It is made if it is missing.
        ///
        /// The first open of a model writes a file of about its size there. Later opens map that file, which is faster, and processes share its
        /// pages. When several processes open at once, one writes and the others wait for it: at most half a minute, and a second more for each 50
        /// MB. Checksums guard every byte at open. The file is matched to its model by the model file's inode, size, times and header and a sample of
        /// its tensors, not by reading it all: a copy of the model has a file of its own.
        ///
        /// No other user may be able to write the directory. While a model uses a file of it, the file may be removed, but not changed. Whatever is
        /// wrong with the directory is logged (WARN) and costs only time. It is not used for a part of a file (FdSize), nor on CUDA. A callback of
        /// Runtime.OpenModel that opens another model with the same directory waits as another process would.
        /// </summary>
        public string CacheDir { get; set; }

        /// <summary>Which directory keeps weights from one open to the next, if CacheDir names none.</summary>
        public Cache Cache { get; set; }

        /// <summary>The format in which K or V is stored: of V; 0: as K's.</summary>
        public KvFormat KvFormatV { get; set; }

        /// <summary>
        /// Bytes of all files in the weight cache together; 0: a tenth of the file system, at most 20 GiB. To make room for a new file, files that no
        /// process maps are removed, the least recently used first. A file that finds no room, or that would leave less than a twentieth of the file
        /// system free (at most 1 GiB), is not written.
        /// </summary>
        public ulong CacheBytesMax { get; set; }
    }

    /// <summary>Options of Model.ApplyTemplate.</summary>
    public sealed partial class TemplateOptions
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
    public sealed partial class PlanOptions
    {
        /// <summary>As in ModelOptions.</summary>
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

        /// <summary>As in ModelOptions.</summary>
        public KvFormat KvFormatV { get; set; }
    }

    /// <summary>Options of Runtime.OpenStore.</summary>
    public sealed partial class StoreOptions
    {
        /// <summary>
        /// True: never write.
        ///
        /// A directory that cannot be written is opened so by itself. So is a store that was closed and whose file system has no room or no inode for
        /// the catalog's log; a WARN in the log says why. Then the next call that writes, or Runtime.OpenStore of the same directory, takes up
        /// writing if there is room; else a call that writes is NO_SPACE, and its message names what is missing.
        ///
        /// If no process has it open for writing at that moment, it is read without the log. After somebody writes, reads fail with IO: open it
        /// again.
        /// </summary>
        public bool ReadOnly { get; set; }

        /// <summary>True: NOT_FOUND instead of making a new store.</summary>
        public bool MustExist { get; set; }

        /// <summary>
        /// Bytes that catalog and segments may take on the disk, as StoreInfo.DiskBytes counts them; 0: no cap. If KV would pass the cap, other saved
        /// sessions lose KV (see Store.Pin); if that is not enough, the save leaves KV out. A save whose tokens would pass it is NO_SPACE. The
        /// catalog's log may pass it by some 100 KiB until the next save or gc.
        /// </summary>
        public ulong DiskBytesMax { get; set; }

        /// <summary>
        /// Bytes that KV leaves free on the file system, for tokens and for others; 0: a twentieth of the file system, at most 1 GiB. It is 64 KiB at
        /// least. A save makes room as for DiskBytesMax.
        /// </summary>
        public ulong FreeBytesMin { get; set; }
    }

    /// <summary>Options of Model.OpenSession and Model.Resume. Session.Fork reads only the wake fields.</summary>
    public sealed partial class SessionOptions
    {
        /// <summary>
        /// True: in memory, the session uses no KV of other sessions and offers them none. Its own KV comes back from the store, whether it was saved
        /// with this option or without. Saving is as without the option: the store keeps a chunk of the same tokens once in a domain, and sessions
        /// without this option find it there, whichever session saved it. To share nothing at all, give the session a domain of its own.
        /// </summary>
        public bool NoPrefixCache { get; set; }

        /// <summary>
        /// Where the session is saved, and finds stored prefixes; null: nowhere. resume ignores it: its store is a parameter.
        /// </summary>
        public Store Store { get; set; }

        /// <summary>
        /// Sharing scope, up to 255 bytes of UTF-8. Nothing is shared between domains. null: the default one. Nothing is shared between sessions with
        /// a store and those without, either: the model's contents, which name KV, are hashed only for a store.
        /// </summary>
        public string Domain { get; set; }

        /// <summary>
        /// A JSON array of objects, the template's variable `tools`; null: none. It is saved with the session; in resume null keeps the saved ones.
        /// </summary>
        public string Tools { get; set; }

        /// <summary>
        /// Called when next has something to give (an event or a failure) and had nothing before; null: none. It runs on the thread that computes,
        /// cancels, accepts or begins, with no lock held. It may still come while close returns, and once after it. It only signals: it must not call
        /// kvrt. What it throws goes to TaskScheduler.UnobservedTaskException.
        /// </summary>
        public Action Wake { get; set; }

        /// <summary>A JSON array, the template's variable `documents`. Saved as tools are.</summary>
        public string Documents { get; set; }

        /// <summary>
        /// A JSON object with more variables of the template, as in TemplateOptions. Saved as tools are. strftime_now gives the template the time
        /// when the session was opened, also after a resume; in a session that repair recovered, that of the resume.
        /// </summary>
        public string Variables { get; set; }

        /// <summary>
        /// Autosave: the library saves the session by itself, each time that one of the three options below says so. It needs a store.
        ///
        /// The save has the tokens, the messages and the KV of full blocks. Its options are checkpoint's defaults. Its name is that of the session's
        /// last save or resume; before there is one, AutosaveName; with neither, nothing is saved. close saves the rest that is not saved yet, with
        /// the KV of the last block. A failure is logged and stands in SessionInfo.LastErrorStatus (that of close is only logged); the next occasion
        /// tries again. The saves run on a thread of the store's, which computes nothing, sleeps when nothing is due, and works in small portions
        /// while others generate.
        /// </summary>
        public string AutosaveName { get; set; }

        /// <summary>True: save when a generation is over and its DONE was taken; a prefill is one.</summary>
        public bool AutosaveTurn { get; set; }

        /// <summary>Save each time that the session has grown by this number of tokens, or of tokens whose KV is computed; 0: not.</summary>
        public uint AutosaveTokens { get; set; }

        /// <summary>Save when nothing has happened to the session for this number of milliseconds, at most a day; 0: not.</summary>
        public uint AutosaveIdleMs { get; set; }

        /// <summary>What resume does with saved KV of another arithmetic, a CPU's on a GPU or the other way round.</summary>
        public ForeignKv ForeignKv { get; set; }
    }

    /// <summary>
    /// Options of Session.Begin and Session.Generate.
    ///
    /// Speculation (draft, prediction, lookup; off by default) makes an answer faster and changes nothing of it. A step reads the model's weights
    /// once, whether it computes one row of a session or several. So tokens are proposed that are likely to follow, one step computes the rows of all
    /// of them, and the answer takes those that it would have had without: tokens, text and logprobs are the same to the bit, also with a
    /// temperature, a grammar, penalties or a stop string. What was proposed in vain leaves no KV and no event; `drafted` and the metric of steps'
    /// rows count it, and its rows may have taken the place of KV that no session held. How many are proposed follows from measured times and from
    /// how many were right, down to none where it does not pay, and while prompts of other sessions are computed.
    ///
    /// A step may give several tokens: those that it gave before a cancel, or before a callback stopped, are in the session, though nobody took their
    /// events. Without speculation that is so if another thread computes.
    ///
    /// Where the grammar leaves one token it is proposed with any of the three. No token is proposed with sampler HOST, EmitLogits or prefill, for or
    /// by models with recurrent layers, and on CUDA where more rows would be computed by another kernel (Determinism.Strict has one for all). A draft
    /// that fails, or gets no memory in its pool, costs speed alone. The steps of a draft come on top of the session's, for a step's time (StepMsMax)
    /// at most.
    ///
    /// The sampler applies, in this order: the grammar; LogitBias; repetition, frequency and presence penalties; temperature; TopK; TopP; MinP. Ties
    /// go to the lowest token id. Bounds begin at 0 unless a field says otherwise. A value outside its bounds is INVALID.
    /// </summary>
    public sealed partial class GenerateOptions
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

        /// <summary>Each value is added to the token's logit; -INFINITY bans the token. null: none.</summary>
        public IReadOnlyDictionary<int, float> LogitBias { get; set; }

        /// <summary>A draw depends only on seed and position. 0: the seed is drawn if temperature is not 0; the report has it.</summary>
        public ulong Seed { get; set; }

        /// <summary>Tokens that end the generation; null: none. The one that came stays in the session.</summary>
        public IReadOnlyList<int> StopTokens { get; set; }

        /// <summary>
        /// Texts that end the generation: up to 16 of 1 to 256 bytes; null: none. Text that may be the beginning of one is held back until that is
        /// known; then it comes with a later TOKEN, or with DONE. A text that matched is not given, nor is anything after it.
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

        /// <summary>True: do not open the assistant's turn after append_message.</summary>
        public bool NoGenerationPrompt { get; set; }

        /// <summary>True: a generation that is cancelled or fails leaves the session as it was before begin.</summary>
        public bool AllOrNothing { get; set; }

        /// <summary>True: choose no token, end with PREFILLED: as Session.Prefill, but through next.</summary>
        public bool Prefill { get; set; }

        /// <summary>With prefill: which logits a prefill gives.</summary>
        public Logits Logits { get; set; }

        /// <summary>
        /// Constrained output. INVALID with IgnoreEos and with prefill. With sampler HOST, LOGITS has -INFINITY for tokens that do not fit.
        /// </summary>
        public GrammarKind GrammarKind { get; set; }

        /// <summary>How an answer is split into content, reasoning and tool calls.</summary>
        public Reply Reply { get; set; }

        /// <summary>The GBNF or JSON schema, UTF-8; null with the other kinds.</summary>
        public string Grammar { get; set; }

        /// <summary>Ends the generation when it is fired, or was; kept until DONE. null: none.</summary>
        public Cancel Cancel { get; set; }

        /// <summary>
        /// Which calls of the session's tools an answer has.
        ///
        /// A call is bound. Not Required or Named with a GrammarKind. These four fields are INVALID with CONTINUE (the answer goes on with those that
        /// it began with), IgnoreEos and prefill.
        /// </summary>
        public ToolChoice ToolChoice { get; set; }

        /// <summary>Calls of one answer at most; 0: no limit.</summary>
        public uint ParallelCallsMax { get; set; }

        /// <summary>
        /// Tokens of reasoning at most; then its end is the only text that may come, and content or calls follow. 0: no limit.
        /// </summary>
        public uint ReasoningTokensMax { get; set; }

        /// <summary>With NAMED: the tool's name, UTF-8. Else null.</summary>
        public string ToolName { get; set; }

        /// <summary>
        /// A smaller model that proposes tokens (see Speculation), of the session's runtime. Each id that both vocabularies have is the same token in
        /// both, else INCOMPATIBLE; ids that a file marks as unused do not count. INVALID: it is the session's own model, or of another runtime.
        /// UNSUPPORTED: a file with only a vocabulary. The session keeps it until it begins a generation without it, or is closed. It computes in a
        /// session of its own, in its own pool, on the thread that computes this session; that one gives its units to the host's sessions first and
        /// is never saved, and ModelInfo does not count it. Where the draft would take more time for the whole text than it saves, it reads only the
        /// text's last part. null: none.
        /// </summary>
        public Model Draft { get; set; }

        /// <summary>
        /// Text that the answer is likely to repeat, as a file that it edits, UTF-8, at most 1 MiB (else LIMIT): lookup proposes from it, too. Not
        /// null sets lookup. null: none.
        /// </summary>
        public string Prediction { get; set; }

        /// <summary>True: propose tokens that followed the last ones where these came before (see Speculation).</summary>
        public bool Lookup { get; set; }

        /// <summary>Tokens proposed for a step at most, up to 32; 0: 16.</summary>
        public uint DraftTokensMax { get; set; }

        /// <summary>
        /// Propose that many where they are known, though they cost more time than they save; for tests and measurements. Up to DraftTokensMax. 0: as
        /// it pays.
        /// </summary>
        public uint DraftTokensMin { get; set; }
    }

    /// <summary>Options of Session.Checkpoint and Session.Suspend.</summary>
    public sealed partial class SaveOptions
    {
        /// <summary>Which part of a save is safely on the disk when it returns.</summary>
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

        /// <summary>How a save stores the KV chunks that it writes.</summary>
        public Codec Codec { get; set; }
    }

    /// <summary>Options as the structs of the header, without what Fill.cs adds. What they point to lies in the arena.</summary>
    internal static unsafe partial class Fill
    {
        private static kvrt_runtime_options Plain(RuntimeOptions o, Arena arena)
        {
            kvrt_runtime_options raw = new kvrt_runtime_options { struct_size = (uint)sizeof(kvrt_runtime_options) };
            if (o == null) return raw;
            raw.threads = o.Threads;
            raw.isa = (uint)o.Isa;
            raw.log_level = (uint)o.LogLevel;
            raw.device = (uint)o.Device;
            raw.device_index = o.DeviceIndex;
            raw.cuda_library = arena.Text(o.CudaLibrary, out raw.cuda_library_size);
            raw.determinism = (uint)o.Determinism;
            raw.prompt_gemm = (uint)o.PromptGemm;
            return raw;
        }

        internal static kvrt_model_options Of(ModelOptions o, Arena arena)
        {
            kvrt_model_options raw = new kvrt_model_options { struct_size = (uint)sizeof(kvrt_model_options) };
            if (o == null) return raw;
            raw.kv_format = (uint)o.KvFormat;
            raw.block_tokens = o.BlockTokens;
            raw.prefill_chunk = o.PrefillChunk;
            raw.kv_bytes_max = o.KvBytesMax;
            raw.step_ms_max = o.StepMsMax;
            raw.from_fd = Flag(o.FromFd);
            raw.fd = o.Fd;
            raw.kv_populate = Flag(o.KvPopulate);
            raw.fd_offset = o.FdOffset;
            raw.fd_size = o.FdSize;
            raw.cache_dir = arena.Text(o.CacheDir, out raw.cache_dir_size);
            raw.cache = (uint)o.Cache;
            raw.kv_format_v = (uint)o.KvFormatV;
            raw.cache_bytes_max = o.CacheBytesMax;
            return raw;
        }

        internal static kvrt_template_options Of(TemplateOptions o, Arena arena)
        {
            kvrt_template_options raw = new kvrt_template_options { struct_size = (uint)sizeof(kvrt_template_options) };
            if (o == null) return raw;
            raw.no_generation_prompt = Flag(o.NoGenerationPrompt);
            raw.source = arena.Text(o.Source, out raw.source_size);
            raw.tools = arena.Text(o.Tools, out raw.tools_size);
            raw.documents = arena.Text(o.Documents, out raw.documents_size);
            raw.variables = arena.Text(o.Variables, out raw.variables_size);
            return raw;
        }

        internal static kvrt_plan_options Of(PlanOptions o)
        {
            kvrt_plan_options raw = new kvrt_plan_options { struct_size = (uint)sizeof(kvrt_plan_options) };
            if (o == null) return raw;
            raw.kv_format = (uint)o.KvFormat;
            raw.block_tokens = o.BlockTokens;
            raw.sessions = o.Sessions;
            raw.session_tokens = o.SessionTokens;
            raw.shared_tokens = o.SharedTokens;
            raw.memory_bytes = o.MemoryBytes;
            raw.layers = o.Layers;
            raw.kv_heads = o.KvHeads;
            raw.head_dim = o.HeadDim;
            raw.kv_format_v = (uint)o.KvFormatV;
            return raw;
        }

        internal static kvrt_store_options Of(StoreOptions o)
        {
            kvrt_store_options raw = new kvrt_store_options { struct_size = (uint)sizeof(kvrt_store_options) };
            if (o == null) return raw;
            raw.read_only = Flag(o.ReadOnly);
            raw.must_exist = Flag(o.MustExist);
            raw.disk_bytes_max = o.DiskBytesMax;
            raw.free_bytes_min = o.FreeBytesMin;
            return raw;
        }

        private static kvrt_session_options Plain(SessionOptions o, Arena arena)
        {
            kvrt_session_options raw = new kvrt_session_options { struct_size = (uint)sizeof(kvrt_session_options) };
            if (o == null) return raw;
            raw.no_prefix_cache = Flag(o.NoPrefixCache);
            if (o.Store != null) raw.store = arena.Hold(o.Store.Handle);
            raw.domain = arena.Text(o.Domain, out raw.domain_size);
            raw.tools = arena.Text(o.Tools, out raw.tools_size);
            raw.documents = arena.Text(o.Documents, out raw.documents_size);
            raw.variables = arena.Text(o.Variables, out raw.variables_size);
            raw.autosave_name = arena.Text(o.AutosaveName, out raw.autosave_name_size);
            raw.autosave_turn = Flag(o.AutosaveTurn);
            raw.autosave_tokens = o.AutosaveTokens;
            raw.autosave_idle_ms = o.AutosaveIdleMs;
            raw.foreign_kv = (uint)o.ForeignKv;
            return raw;
        }

        private static kvrt_generate_options Plain(GenerateOptions o, Arena arena)
        {
            kvrt_generate_options raw = new kvrt_generate_options { struct_size = (uint)sizeof(kvrt_generate_options) };
            if (o == null) return raw;
            raw.max_tokens = o.MaxTokens;
            raw.temperature = o.Temperature;
            raw.top_k = o.TopK;
            raw.top_p = o.TopP;
            raw.min_p = o.MinP;
            raw.repetition_penalty = o.RepetitionPenalty;
            raw.frequency_penalty = o.FrequencyPenalty;
            raw.presence_penalty = o.PresencePenalty;
            raw.penalty_window = o.PenaltyWindow;
            raw.seed = o.Seed;
            raw.ignore_eos = Flag(o.IgnoreEos);
            raw.top_logprobs = o.TopLogprobs;
            raw.sampler = (uint)o.Sampler;
            raw.emit_logits = Flag(o.EmitLogits);
            raw.no_generation_prompt = Flag(o.NoGenerationPrompt);
            raw.all_or_nothing = Flag(o.AllOrNothing);
            raw.prefill = Flag(o.Prefill);
            raw.logits = (uint)o.Logits;
            raw.grammar_kind = (uint)o.GrammarKind;
            raw.reply = (uint)o.Reply;
            raw.grammar = arena.Text(o.Grammar, out raw.grammar_size);
            if (o.Cancel != null) raw.cancel = arena.Hold(o.Cancel.Handle);
            raw.tool_choice = (uint)o.ToolChoice;
            raw.parallel_calls_max = o.ParallelCallsMax;
            raw.reasoning_tokens_max = o.ReasoningTokensMax;
            raw.tool_name = arena.Text(o.ToolName, out raw.tool_name_size);
            if (o.Draft != null) raw.draft = arena.Hold(o.Draft.Handle);
            raw.prediction = arena.Text(o.Prediction, out raw.prediction_size);
            raw.lookup = Flag(o.Lookup);
            raw.draft_tokens_max = o.DraftTokensMax;
            raw.draft_tokens_min = o.DraftTokensMin;
            return raw;
        }

        internal static kvrt_save_options Of(SaveOptions o)
        {
            kvrt_save_options raw = new kvrt_save_options { struct_size = (uint)sizeof(kvrt_save_options) };
            if (o == null) return raw;
            raw.durability = (uint)o.Durability;
            raw.overwrite = Flag(o.Overwrite);
            raw.pin = o.Pin;
            raw.ttl_seconds = o.TtlSeconds;
            raw.codec = (uint)o.Codec;
            return raw;
        }
    }
}
