// Made of include/kvrt.abi.json by bindings/raw.py (./dev abi): do not edit.
namespace Kvrt
{
    /// <summary>
    /// The usage of one prefill or generation. PromptTokens == ReusedMemory + ReusedDisk + prefilled, exactly. Times are in milliseconds.
    /// </summary>
    public sealed unsafe class Report
    {
        private kvrt_report raw;

        internal Report(kvrt_report raw)
        {
            this.raw = raw;
        }

        /// <summary>Why a generation ended.</summary>
        public Reason Reason => (Reason)raw.reason;

        /// <summary>
        /// Tokens in the session when it began; 0 when the context was full. One less for a prefill without logits on a model with recurrent layers,
        /// which leaves the last token to the next generation.
        /// </summary>
        public ulong PromptTokens => raw.prompt_tokens;

        /// <summary>Prompt tokens whose KV was in this session, or shared from the pool.</summary>
        public ulong ReusedMemory => raw.reused_memory;

        /// <summary>Prompt tokens whose KV came from the store, by this generation or by a resume before it.</summary>
        public ulong ReusedDisk => raw.reused_disk;

        /// <summary>
        /// Prompt tokens that were not reused, but computed (after a cancel: or left to compute). At least 1 if logits are wanted: the last token
        /// then always runs.
        /// </summary>
        public ulong Prefilled => raw.prefilled;

        /// <summary>Tokens that the model gave, the end token included.</summary>
        public ulong Generated => raw.generated;

        /// <summary>Why the prompt's KV was reused no further than ReuseStoppedAt.</summary>
        public ReuseStopped ReuseStopped => (ReuseStopped)raw.reuse_stopped;

        /// <summary>The session's last tokens that hold the stop string; 0: none. Truncate to the length less these.</summary>
        public uint StopStringTokens => raw.stop_string_tokens;

        /// <summary>
        /// The position that ReuseStopped is about; PromptTokens when all was reused. Computing began there, or, with DIFFERENT_TOKEN, at the last
        /// end of a block before. KV after it may have been reused too.
        /// </summary>
        public ulong ReuseStoppedAt => raw.reuse_stopped_at;

        /// <summary>The seed in use, also when it was drawn.</summary>
        public ulong Seed => raw.seed;

        /// <summary>From begin to the first step with a row of this session.</summary>
        public double QueueMs => raw.queue_ms;

        /// <summary>From begin to the first token; 0: there was none.</summary>
        public double TtftMs => raw.ttft_ms;

        /// <summary>From the first step to the first token, or to the end if there was none.</summary>
        public double PrefillMs => raw.prefill_ms;

        /// <summary>From the first token to the last.</summary>
        public double DecodeMs => raw.decode_ms;

        /// <summary>DecodeMs for each token after the first.</summary>
        public double TpotMs => raw.tpot_ms;

        /// <summary>Prefilled in PrefillMs.</summary>
        public double PrefillTokensPerS => raw.prefill_tokens_per_s;

        /// <summary>Tokens after the first, in DecodeMs.</summary>
        public double DecodeTokensPerS => raw.decode_tokens_per_s;

        /// <summary>Units of this session at the end; shared ones count in full.</summary>
        public ulong KvUnits => raw.kv_units;

        /// <summary>Bytes of these units.</summary>
        public ulong KvBytes => raw.kv_bytes;

        /// <summary>Bytes of the model's pool that open sessions held when it began; a shared unit counts once.</summary>
        public ulong PoolBytesBegin => raw.pool_bytes_begin;

        /// <summary>The same at the first token, or at the end of a prefill.</summary>
        public ulong PoolBytesPrefilled => raw.pool_bytes_prefilled;

        /// <summary>The same at the end.</summary>
        public ulong PoolBytesEnd => raw.pool_bytes_end;

        /// <summary>
        /// Tokens whose KV was computed a second time: the session's units were lent to others meanwhile, or reused KV made NaN or infinite logits.
        /// </summary>
        public ulong Recomputed => raw.recomputed;

        /// <summary>Tokens that speculation proposed and a step checked.</summary>
        public ulong Drafted => raw.drafted;

        /// <summary>Of these, tokens that the answer went on with: `generated` counts them, too. The others left nothing.</summary>
        public ulong Accepted => raw.accepted;
    }

    /// <summary>A saved session, as the store lists it. Times are milliseconds since 1970, UTC.</summary>
    public sealed unsafe class StoreEntry
    {
        private kvrt_store_entry raw;

        internal StoreEntry(kvrt_store_entry raw)
        {
            this.raw = raw;
        }

        /// <summary>Its priority, 1 to 255; 0: not pinned.</summary>
        public uint Pinned => raw.pinned;

        /// <summary>Its name.</summary>
        public string Name { get { fixed (byte* text = raw.name) return Utf8.Terminated(text, 256); } }

        /// <summary>"": the default domain.</summary>
        public string Domain { get { fixed (byte* text = raw.domain) return Utf8.Terminated(text, 256); } }

        /// <summary>32 hex digits.</summary>
        public string Id { get { fixed (byte* text = raw.id) return Utf8.Terminated(text, 40); } }

        /// <summary>Grows with every save of this name; none comes twice, even if the name was removed.</summary>
        public ulong Revision => raw.revision;

        /// <summary>Tokens of the conversation.</summary>
        public ulong Tokens => raw.tokens;

        /// <summary>KV chunks on disk, windows at boundaries among them.</summary>
        public ulong Chunks => raw.chunks;

        /// <summary>Further chunks, which are missing: a resume computes them again.</summary>
        public ulong ChunksMissing => raw.chunks_missing;

        /// <summary>Bytes of its chunks on disk.</summary>
        public ulong Bytes => raw.bytes;

        /// <summary>Of these, bytes that other sessions use too.</summary>
        public ulong BytesShared => raw.bytes_shared;

        /// <summary>When the name was first saved.</summary>
        public long CreatedUnixMs => raw.created_unix_ms;

        /// <summary>When it was last saved.</summary>
        public long SavedUnixMs => raw.saved_unix_ms;

        /// <summary>When it expires; 0: never.</summary>
        public long ExpiresUnixMs => raw.expires_unix_ms;
    }

    /// <summary>A runtime's device, threads and libraries.</summary>
    public sealed unsafe class RuntimeInfo
    {
        private kvrt_runtime_props raw;

        internal RuntimeInfo(kvrt_runtime_props raw)
        {
            this.raw = raw;
        }

        /// <summary>Compute threads.</summary>
        public uint Threads => raw.threads;

        /// <summary>"cpu" or "cuda".</summary>
        public string Device { get { fixed (byte* text = raw.device) return Utf8.Terminated(text, 16); } }

        /// <summary>The kernels in use: "avx2", "sm_90".</summary>
        public string Isa { get { fixed (byte* text = raw.isa) return Utf8.Terminated(text, 16); } }

        /// <summary>The arithmetic's version: "cpu-3", "cuda-2-sm90", "cuda-1s-sm90" (strict), "cuda-2-sm90-f8".</summary>
        public string Numerics { get { fixed (byte* text = raw.numerics) return Utf8.Terminated(text, 16); } }

        /// <summary>Every set of the CPU's kernels, with "ok", "not on this machine" or "differs from scalar".</summary>
        public string IsaTables { get { fixed (byte* text = raw.isa_tables) return Utf8.Terminated(text, 128); } }

        /// <summary>Libraries in use: "sqlite 3.40.1, zstd 1.5.4, ..."</summary>
        public string Libraries { get { fixed (byte* text = raw.libraries) return Utf8.Terminated(text, 128); } }

        /// <summary>CUDA: the device, as its maker calls it. Empty on the CPU.</summary>
        public string DeviceName { get { fixed (byte* text = raw.device_name) return Utf8.Terminated(text, 64); } }

        /// <summary>CUDA: its memory in bytes. 0 on the CPU.</summary>
        public ulong DeviceMemory => raw.device_memory;

        /// <summary>CUDA: how much of that is free now. 0 on the CPU.</summary>
        public ulong DeviceMemoryFree => raw.device_memory_free;

        /// <summary>
        /// CUDA, as it was at open, a line each: the versions of driver and runtime, cuBLASLt's or why there is none, every device, the path of
        /// libkvrt_cuda.so. Empty on the CPU.
        /// </summary>
        public string Devices { get { fixed (byte* text = raw.devices) return Utf8.Terminated(text, 1024); } }
    }

    /// <summary>
    /// A model's shape, sizes and pool. Sizes are bytes. If HasWeights is 0 there are no layers, no pool and no sessions: their fields mean nothing.
    /// </summary>
    public sealed unsafe class ModelInfo
    {
        private kvrt_model_props raw;

        internal ModelInfo(kvrt_model_props raw)
        {
            this.raw = raw;
        }

        /// <summary>False: the file has only a vocabulary: tokenize, detokenize and apply_template work, sessions do not.</summary>
        public bool HasWeights => raw.has_weights != 0;

        /// <summary>As the file names it: "llama".</summary>
        public string Architecture { get { fixed (byte* text = raw.architecture) return Utf8.Terminated(text, 32); } }

        /// <summary>As the file names it; "": it does not.</summary>
        public string Name { get { fixed (byte* text = raw.name) return Utf8.Terminated(text, 128); } }

        /// <summary>Tokens that the model knows.</summary>
        public uint VocabSize => raw.vocab_size;

        /// <summary>Tokens that a session can have.</summary>
        public uint ContextLength => raw.context_length;

        /// <summary>Layers.</summary>
        public uint Layers => raw.layers;

        /// <summary>Query heads of a layer; the most of any if layers differ.</summary>
        public uint Heads => raw.heads;

        /// <summary>KV heads of a layer; the most likewise.</summary>
        public uint KvHeads => raw.kv_heads;

        /// <summary>Elements of a head of K; of a latent, which all heads share.</summary>
        public uint HeadDim => raw.head_dim;

        /// <summary>Elements of a token's embedding.</summary>
        public uint Width => raw.width;

        /// <summary>Its id; -1: none. BERT's is [CLS].</summary>
        public int BosToken => raw.bos_token;

        /// <summary>Its id; -1: none. BERT's is [SEP].</summary>
        public int EosToken => raw.eos_token;

        /// <summary>True: append_text to an empty session adds BOS.</summary>
        public bool AddBos => raw.add_bos != 0;

        /// <summary>True: the file has a chat template that parses. append_message says what is wrong.</summary>
        public bool HasTemplate => raw.has_template != 0;

        /// <summary>Tokens of a block.</summary>
        public uint BlockTokens => raw.block_tokens;

        /// <summary>The file's size.</summary>
        public ulong FileBytes => raw.file_bytes;

        /// <summary>The weights in memory.</summary>
        public ulong WeightBytes => raw.weight_bytes;

        /// <summary>KV of a token in all layers.</summary>
        public ulong KvBytesPerToken => raw.kv_bytes_per_token;

        /// <summary>Bytes of a unit.</summary>
        public ulong UnitBytes => raw.unit_bytes;

        /// <summary>Units of the pool.</summary>
        public ulong Units => raw.units;

        /// <summary>Of these, unused.</summary>
        public ulong UnitsFree => raw.units_free;

        /// <summary>Of these, held by no session, and kept for a prompt that begins the same; given up when needed.</summary>
        public ulong UnitsCached => raw.units_cached;

        /// <summary>Sessions that are open now.</summary>
        public ulong Sessions => raw.sessions;

        /// <summary>Milliseconds that Runtime.OpenModel took.</summary>
        public double LoadMs => raw.load_ms;

        /// <summary>A step's activations and logits. CUDA: with the memory of kernels and cuBLASLt, which models share.</summary>
        public ulong ScratchBytes => raw.scratch_bytes;

        /// <summary>Milliseconds that a step may take.</summary>
        public uint StepMsMax => raw.step_ms_max;

        /// <summary>The format in which K or V is stored: of K, never Default.</summary>
        public KvFormat KvFormat => (KvFormat)raw.kv_format;

        /// <summary>The format in which K or V is stored: of V, never Default.</summary>
        public KvFormat KvFormatV => (KvFormat)raw.kv_format_v;

        /// <summary>Groups of layers: how many entries of the arrays kv_group_... count. A group that keeps everything comes first.</summary>
        public uint KvGroups => raw.kv_groups;

        /// <summary>Layers of the group; not those that read another's KV (Gemma 4).</summary>
        public uint[] KvGroupLayers { get { fixed (uint* values = raw.kv_group_layers) return Utf8.Values(values, raw.kv_groups); } }

        /// <summary>WINDOW: tokens that a token sees in them, itself included. Other kinds: 0.</summary>
        public uint[] KvGroupWindow { get { fixed (uint* values = raw.kv_group_window) return Utf8.Values(values, raw.kv_groups); } }

        /// <summary>
        /// Bytes of the group's units, for each token of a block. A session of n tokens has, in each group, KV of at most n tokens, rounded up to
        /// whole blocks, or of KvGroupTokensMax if that is less. Of recurrent layers each block counted so is a recurrent state: a session has at
        /// most two, and one at each boundary.
        /// </summary>
        public uint[] KvGroupBytesPerToken { get { fixed (uint* values = raw.kv_group_bytes_per_token) return Utf8.Values(values, raw.kv_groups); } }

        /// <summary>The most tokens of which a session has KV, in whole blocks; 0: all.</summary>
        public uint[] KvGroupTokensMax { get { fixed (uint* values = raw.kv_group_tokens_max) return Utf8.Values(values, raw.kv_groups); } }

        /// <summary>What a group's layers keep of the tokens.</summary>
        public GroupKind[] KvGroupKind { get { fixed (uint* values = raw.kv_group_kind) return Utf8.Kinds(values, raw.kv_groups); } }
    }

    /// <summary>
    /// A model's counters since it was opened, and its gauges. PromptTokens to generated are sums of these fields in the reports, and count what
    /// failed, too.
    /// </summary>
    public sealed unsafe class Metrics
    {
        private kvrt_metrics raw;

        internal Metrics(kvrt_metrics raw)
        {
            this.raw = raw;
        }

        /// <summary>Sessions open now.</summary>
        public ulong Sessions => raw.sessions;

        /// <summary>Of these, from begin to DONE.</summary>
        public ulong Generating => raw.generating;

        /// <summary>Of these, waiting for their host.</summary>
        public ulong Paused => raw.paused;

        /// <summary>Units of the pool.</summary>
        public ulong Units => raw.units;

        /// <summary>Of these, held by sessions now.</summary>
        public ulong UnitsUsed => raw.units_used;

        /// <summary>Of these, held by no session, and kept for a prompt that begins the same.</summary>
        public ulong UnitsCached => raw.units_cached;

        /// <summary>Steps that were run.</summary>
        public ulong Steps => raw.steps;

        /// <summary>Rows in them, one for each token.</summary>
        public ulong StepRows => raw.step_rows;

        /// <summary>Milliseconds of all steps.</summary>
        public double StepMsTotal => raw.step_ms_total;

        /// <summary>Milliseconds of the longest.</summary>
        public double StepMsLongest => raw.step_ms_longest;

        /// <summary>Generations that were begun, prefills left out.</summary>
        public ulong Generations => raw.generations;

        /// <summary>Prefills that were begun.</summary>
        public ulong Prefills => raw.prefills;

        /// <summary>Ended by Reason.Eos.</summary>
        public ulong DoneEos => raw.done_eos;

        /// <summary>Ended by Reason.Stop.</summary>
        public ulong DoneStop => raw.done_stop;

        /// <summary>Ended by Reason.MaxTokens.</summary>
        public ulong DoneMaxTokens => raw.done_max_tokens;

        /// <summary>Ended by Reason.ContextFull.</summary>
        public ulong DoneContextFull => raw.done_context_full;

        /// <summary>Ended by Reason.Cancelled.</summary>
        public ulong DoneCancelled => raw.done_cancelled;

        /// <summary>Ended by Reason.Prefilled.</summary>
        public ulong DonePrefilled => raw.done_prefilled;

        /// <summary>Ended by a failure.</summary>
        public ulong Failed => raw.failed;

        /// <summary>Sum of PromptTokens.</summary>
        public ulong PromptTokens => raw.prompt_tokens;

        /// <summary>Sum of ReusedMemory.</summary>
        public ulong ReusedMemory => raw.reused_memory;

        /// <summary>Sum of ReusedDisk.</summary>
        public ulong ReusedDisk => raw.reused_disk;

        /// <summary>Sum of prefilled.</summary>
        public ulong Prefilled => raw.prefilled;

        /// <summary>Sum of recomputed.</summary>
        public ulong Recomputed => raw.recomputed;

        /// <summary>Sum of generated.</summary>
        public ulong Generated => raw.generated;

        /// <summary>Sum of drafted.</summary>
        public ulong Drafted => raw.drafted;

        /// <summary>Sum of accepted.</summary>
        public ulong Accepted => raw.accepted;

        /// <summary>Generations that lent their units to others.</summary>
        public ulong Preemptions => raw.preemptions;

        /// <summary>Cached blocks that were given up.</summary>
        public ulong Evictions => raw.evictions;

        /// <summary>Generations that gave a token: the sums of milliseconds below are over these.</summary>
        public ulong FirstTokens => raw.first_tokens;

        /// <summary>Sum of TtftMs.</summary>
        public double TtftMsTotal => raw.ttft_ms_total;

        /// <summary>Sum of QueueMs.</summary>
        public double QueueMsTotal => raw.queue_ms_total;

        /// <summary>Sum of PrefillMs.</summary>
        public double PrefillMsTotal => raw.prefill_ms_total;

        /// <summary>Sum of DecodeMs, over `generated - FirstTokens` tokens.</summary>
        public double DecodeMsTotal => raw.decode_ms_total;
    }

    /// <summary>The memory that a model and its sessions take. Sizes are bytes.</summary>
    public sealed unsafe class Plan
    {
        private kvrt_plan raw;

        internal Plan(kvrt_plan raw)
        {
            this.raw = raw;
        }

        /// <summary>Tokens of a block.</summary>
        public uint BlockTokens => raw.block_tokens;

        /// <summary>As in ModelInfo.</summary>
        public uint Layers => raw.layers;

        /// <summary>As in ModelInfo; 0 for a geometry.</summary>
        public uint Heads => raw.heads;

        /// <summary>As in ModelInfo.</summary>
        public uint KvHeads => raw.kv_heads;

        /// <summary>As in ModelInfo.</summary>
        public uint HeadDim => raw.head_dim;

        /// <summary>As in ModelInfo; 0 for a geometry.</summary>
        public uint ContextLength => raw.context_length;

        /// <summary>True: TotalBytes is at most MemoryBytes.</summary>
        public bool Fits => raw.fits != 0;

        /// <summary>As in ModelInfo.</summary>
        public ulong KvBytesPerToken => raw.kv_bytes_per_token;

        /// <summary>As in ModelInfo.</summary>
        public ulong UnitBytes => raw.unit_bytes;

        /// <summary>The weights in memory.</summary>
        public ulong WeightBytes => raw.weight_bytes;

        /// <summary>A step's activations and logits, as in ModelInfo.</summary>
        public ulong ScratchBytes => raw.scratch_bytes;

        /// <summary>The most units of one session; with windows it has fewer between its steps.</summary>
        public ulong SessionUnits => raw.session_units;

        /// <summary>Bytes of these.</summary>
        public ulong SessionBytes => raw.session_bytes;

        /// <summary>Share of these bytes that hold tokens' KV and recurrent states, 0 to 1.</summary>
        public double Used => raw.used;

        /// <summary>1 - used.</summary>
        public double Waste => raw.waste;

        /// <summary>Units of all sessions, shared ones once.</summary>
        public ulong Units => raw.units;

        /// <summary>Bytes of the pool with these: if layers have windows or are recurrent, it has one unit more, of zeros.</summary>
        public ulong KvBytes => raw.kv_bytes;

        /// <summary>Tokens that these units hold.</summary>
        public ulong StoredTokens => raw.stored_tokens;

        /// <summary>Tokens that they would hold without sharing.</summary>
        public ulong UnsharedTokens => raw.unshared_tokens;

        /// <summary>Weights, scratch and KV.</summary>
        public ulong TotalBytes => raw.total_bytes;

        /// <summary>The budget.</summary>
        public ulong MemoryBytes => raw.memory_bytes;

        /// <summary>Sessions of that length that fit the budget.</summary>
        public ulong SessionsMax => raw.sessions_max;

        /// <summary>Tokens of a single session that fit the budget.</summary>
        public ulong ContextMax => raw.context_max;

        /// <summary>This and the next ones: as in ModelInfo, with steps of 512 tokens.</summary>
        public uint KvGroups => raw.kv_groups;

        /// <summary>Layers of the group; not those that read another's KV.</summary>
        public uint[] KvGroupLayers { get { fixed (uint* values = raw.kv_group_layers) return Utf8.Values(values, raw.kv_groups); } }

        /// <summary>WINDOW: tokens that a token sees in them. Other kinds: 0.</summary>
        public uint[] KvGroupWindow { get { fixed (uint* values = raw.kv_group_window) return Utf8.Values(values, raw.kv_groups); } }

        /// <summary>Bytes of the group's units, for each token of a block.</summary>
        public uint[] KvGroupBytesPerToken { get { fixed (uint* values = raw.kv_group_bytes_per_token) return Utf8.Values(values, raw.kv_groups); } }

        /// <summary>The most tokens of which a session has KV; 0: all.</summary>
        public uint[] KvGroupTokensMax { get { fixed (uint* values = raw.kv_group_tokens_max) return Utf8.Values(values, raw.kv_groups); } }

        /// <summary>A recurrent state of all layers, without what its units have beyond it; 0: there is none.</summary>
        public ulong RecurrentBytes => raw.recurrent_bytes;

        /// <summary>What the pool keeps for one boundary at most (Session.Mark); 0: it needs to keep nothing.</summary>
        public ulong BoundaryBytes => raw.boundary_bytes;

        /// <summary>Boundaries of this size that the planned pool keeps beside what sessions hold, at most.</summary>
        public ulong Boundaries => raw.boundaries;

        /// <summary>What a group's layers keep of the tokens.</summary>
        public GroupKind[] KvGroupKind { get { fixed (uint* values = raw.kv_group_kind) return Utf8.Kinds(values, raw.kv_groups); } }
    }

    /// <summary>The weight cache that ModelOptions name (CacheDir, cache). Sizes are bytes.</summary>
    public sealed unsafe class CacheInfo
    {
        private kvrt_cache_props raw;

        internal CacheInfo(kvrt_cache_props raw)
        {
            this.raw = raw;
        }

        /// <summary>Models there, each in the layout of one machine's CPU.</summary>
        public uint Files => raw.files;

        /// <summary>Their size.</summary>
        public ulong Bytes => raw.bytes;

        /// <summary>CacheBytesMax, or its default there.</summary>
        public ulong BytesMax => raw.bytes_max;

        /// <summary>Free on the file system, less the part that stays free.</summary>
        public ulong BytesFree => raw.bytes_free;

        /// <summary>Absolute and without linksIt may be missing yet.</summary>
        public string Directory { get { fixed (byte* text = raw.directory) return Utf8.Terminated(text, 4096); } }
    }

    /// <summary>A store's contents and its size on disk.</summary>
    public sealed unsafe class StoreInfo
    {
        private kvrt_store_props raw;

        internal StoreInfo(kvrt_store_props raw)
        {
            this.raw = raw;
        }

        /// <summary>
        /// 1: it is open only for reading. 2: only for reading for lack of room, until a call that writes finds some: see StoreOptions.ReadOnly. 0:
        /// for writing.
        /// </summary>
        public uint ReadOnly => raw.read_only;

        /// <summary>The directory's format number.</summary>
        public uint Format => raw.format;

        /// <summary>Saved sessions, of all domains.</summary>
        public ulong Sessions => raw.sessions;

        /// <summary>KV chunks on disk.</summary>
        public ulong Chunks => raw.chunks;

        /// <summary>Files that hold them.</summary>
        public ulong Segments => raw.segments;

        /// <summary>Bytes of the chunks on disk.</summary>
        public ulong ChunkBytes => raw.chunk_bytes;

        /// <summary>Bytes of the KV in them, uncompressed.</summary>
        public ulong ChunkRawBytes => raw.chunk_raw_bytes;

        /// <summary>Lengths of catalog and segments: a hole that gc punched still counts, as it does for DiskBytesMax.</summary>
        public ulong DiskBytes => raw.disk_bytes;

        /// <summary>Damaged chunks that were found since open.</summary>
        public ulong ChunksDamaged => raw.chunks_damaged;

        /// <summary>Chunks that were given up for lack of room since open.</summary>
        public ulong ChunksEvicted => raw.chunks_evicted;

        /// <summary>Bytes of the backups of migrations and repairs, not in DiskBytes: see Store.RemoveOld.</summary>
        public ulong OldBytes => raw.old_bytes;

        /// <summary>Bytes of KV that saves may add within DiskBytesMax and FreeBytesMin, before they evict other KV.</summary>
        public ulong BytesFree => raw.bytes_free;

        /// <summary>
        /// Resumes of sessions whose KV was given up for lack of room after they were saved, since the store was made or repaired: if there are many,
        /// DiskBytesMax is small. A resume beside another process's write may not count.
        /// </summary>
        public ulong ResumesEvicted => raw.resumes_evicted;
    }

    /// <summary>The result of Store.Gc.</summary>
    public sealed unsafe class GcReport
    {
        private kvrt_gc_report raw;

        internal GcReport(kvrt_gc_report raw)
        {
            this.raw = raw;
        }

        /// <summary>Expired sessions that it removed.</summary>
        public ulong SessionsRemoved => raw.sessions_removed;

        /// <summary>Chunks that no session needs.</summary>
        public ulong ChunksRemoved => raw.chunks_removed;

        /// <summary>Files that it removed.</summary>
        public ulong SegmentsRemoved => raw.segments_removed;

        /// <summary>Bytes of these files.</summary>
        public ulong BytesFreed => raw.bytes_freed;

        /// <summary>Milliseconds that it took.</summary>
        public double Ms => raw.ms;

        /// <summary>Bytes of chunks that went from sparse segments into new ones.</summary>
        public ulong BytesRewritten => raw.bytes_rewritten;

        /// <summary>Bytes of removed chunks in segments that stay: zeros now, whose space the file system has back.</summary>
        public ulong BytesPunched => raw.bytes_punched;

        /// <summary>
        /// Bytes of the catalog's log that stay, which may hold removed data; 0: none. They stay while another process reads an older version of the
        /// catalog, or was stopped (SIGSTOP) while it read one. The next gc, save or close of this handle finishes.
        /// </summary>
        public ulong LogBytesKept => raw.log_bytes_kept;
    }

    /// <summary>The result of Runtime.RepairStore.</summary>
    public sealed unsafe class RepairReport
    {
        private kvrt_repair_report raw;

        internal RepairReport(kvrt_repair_report raw)
        {
            this.raw = raw;
        }

        /// <summary>What a repair did.</summary>
        public RepairOutcome Outcome => (RepairOutcome)raw.outcome;

        /// <summary>Sessions under their names, with all their tokens and messages.</summary>
        public ulong SessionsKept => raw.sessions_kept;

        /// <summary>Of those, sessions that lost chunks, which a resume computes again.</summary>
        public ulong SessionsWithHoles => raw.sessions_with_holes;

        /// <summary>Sessions whose name is lost: tokens, without messages, under names like recovered-0123456789ab.</summary>
        public ulong SessionsRecovered => raw.sessions_recovered;

        /// <summary>Sessions that had a name, and of which too little is left; 0 if no record told of any.</summary>
        public ulong SessionsLost => raw.sessions_lost;

        /// <summary>Chunks that are sound.</summary>
        public ulong ChunksKept => raw.chunks_kept;

        /// <summary>Chunks that are not.</summary>
        public ulong ChunksLost => raw.chunks_lost;

        /// <summary>Bytes of ChunksKept.</summary>
        public ulong BytesKept => raw.bytes_kept;

        /// <summary>Milliseconds that it took.</summary>
        public double Ms => raw.ms;

        /// <summary>Whole chunks of lost sessions: nothing tells their model and domain.</summary>
        public ulong ChunksOrphaned => raw.chunks_orphaned;
    }

    /// <summary>A session as it is now.</summary>
    public sealed unsafe class SessionInfo
    {
        private kvrt_session_props raw;

        internal SessionInfo(kvrt_session_props raw)
        {
            this.raw = raw;
        }

        /// <summary>What a session does now ("Session states" says what it may do).</summary>
        public State State => (State)raw.state;

        /// <summary>Tokens that it has.</summary>
        public ulong Tokens => raw.tokens;

        /// <summary>
        /// Leading tokens that are computed and whose KV the session has (in layers with windows: the part that the next token needs); with recurrent
        /// layers, those up to its last recurrent state. A generation first looks for more KV in the pool and the store.
        /// </summary>
        public ulong KvTokens => raw.kv_tokens;

        /// <summary>Units that it holds, shared ones in full.</summary>
        public ulong KvUnits => raw.kv_units;

        /// <summary>Bytes of these.</summary>
        public ulong KvBytes => raw.kv_bytes;

        /// <summary>Events that next has ready.</summary>
        public ulong EventsUnread => raw.events_unread;

        /// <summary>Messages of its conversation.</summary>
        public ulong Messages => raw.messages;

        /// <summary>The revision of its name that it last saved or resumed; 0: it was never saved.</summary>
        public ulong Revision => raw.revision;

        /// <summary>32 hex digits. Suspend and resume keep it; a save under another name takes a new one.</summary>
        public string Id { get { fixed (byte* text = raw.id) return Utf8.Terminated(text, 40); } }

        /// <summary>The name of the last save or resume; "": none.</summary>
        public string Name { get { fixed (byte* text = raw.name) return Utf8.Terminated(text, 256); } }

        /// <summary>The status of the last generation or save that failed; Status.Ok: none did.</summary>
        public Status LastErrorStatus => (Status)raw.last_error_status;

        /// <summary>Finer reasons, in Error.Detail.</summary>
        public Detail LastErrorDetail => (Detail)raw.last_error_detail;

        /// <summary>True: the generation waits for Session.Accept.</summary>
        public bool AwaitsAccept => raw.awaits_accept != 0;

        /// <summary>True: it was resumed with ForeignKv.Accept, and took KV of another arithmetic.</summary>
        public bool Inexact => raw.inexact != 0;

        /// <summary>The message of LastErrorStatus.</summary>
        public string LastErrorMessage { get { fixed (byte* text = raw.last_error_message) return Utf8.Terminated(text, 512); } }

        /// <summary>
        /// The id of another process that has a session of this name open for saving; 0: none is known; -1: one whose id cannot be seen from here,
        /// for example in another container. This call looks: ask after resume. The name is that of the last save or resume; before there is one,
        /// AutosaveName. Both may go on, but once one of the two has saved, a save of the other is CONFLICT: a fork can be saved under another name.
        /// Not seen are sessions in a store that is open read-only (they see others), sessions of kvrt 0.1, and sessions of another runtime of this
        /// process; when one of the last kind closes, other processes no longer see this session either.
        /// </summary>
        public int OtherProcess => raw.other_process;
    }

    /// <summary>The change of a session's tokens by a message.</summary>
    public sealed unsafe class AppendInfo
    {
        private kvrt_append_info raw;

        internal AppendInfo(kvrt_append_info raw)
        {
            this.raw = raw;
        }

        /// <summary>Tokens that were added at the end.</summary>
        public ulong Appended => raw.appended;

        /// <summary>Tokens that were dropped before, because the template now renders the earlier conversation otherwise.</summary>
        public ulong Rewritten => raw.rewritten;

        /// <summary>Position of the first of these; with none, the session's length before the call.</summary>
        public ulong RewrittenAt => raw.rewritten_at;
    }

    /// <summary>The result of a save.</summary>
    public sealed unsafe class SaveReport
    {
        private kvrt_save_report raw;

        internal SaveReport(kvrt_save_report raw)
        {
            this.raw = raw;
        }

        /// <summary>As in StoreEntry.</summary>
        public ulong Revision => raw.revision;

        /// <summary>Tokens that were saved.</summary>
        public ulong Tokens => raw.tokens;

        /// <summary>KV chunks of this session: those on disk, windows at boundaries among them, and those that are missing.</summary>
        public ulong Chunks => raw.chunks;

        /// <summary>Of these, chunks that the store did not have.</summary>
        public ulong ChunksWritten => raw.chunks_written;

        /// <summary>Bytes of ChunksWritten.</summary>
        public ulong BytesWritten => raw.bytes_written;

        /// <summary>Milliseconds that the save took.</summary>
        public double Ms => raw.ms;

        /// <summary>
        /// Of `chunks`, those that the store lacks now, for lack of room, or because their KV was not in memory. A resume computes them again.
        /// Windows at boundaries before the session's end do not count.
        /// </summary>
        public ulong ChunksMissing => raw.chunks_missing;
    }
}
