namespace Kvrt
{
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
    /// A model's shape, sizes and pool. Sizes are bytes. Where HasWeights is 0 there are no layers, no pool and no sessions: their fields
    /// mean nothing.
    /// </summary>
    public sealed unsafe class ModelInfo
    {
        private kvrt_model_props raw;

        internal ModelInfo(kvrt_model_props raw)
        {
            this.raw = raw;
        }
        /// <summary>0: the file has a vocabulary alone: tokenize, detokenize and apply_template work, sessions do not.</summary>
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

        /// <summary>Query heads of a layer; the most of any where layers differ.</summary>
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

        /// <summary>True: Session.AppendText to an empty session adds BOS.</summary>
        public bool AddBos => raw.add_bos != 0;

        /// <summary>True: the file has a chat template.</summary>
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

        /// <summary>Of K, never Default.</summary>
        public KvFormat KvFormat => (KvFormat)raw.kv_format;

        /// <summary>Of V, never Default.</summary>
        public KvFormat KvFormatV => (KvFormat)raw.kv_format_v;

        /// <summary>Groups of layers: how many entries of the arrays KvGroup... have. A group that keeps everything comes first.</summary>
        public uint KvGroups => raw.kv_groups;

        /// <summary>Layers of the group; not those that read another's KV (Gemma 4).</summary>
        public uint[] KvGroupLayers { get { fixed (uint* values = raw.kv_group_layers) return Utf8.Values(values, raw.kv_groups); } }

        /// <summary>GroupKind.Window: tokens that a token sees in them, itself included. Other kinds: 0.</summary>
        public uint[] KvGroupWindow { get { fixed (uint* values = raw.kv_group_window) return Utf8.Values(values, raw.kv_groups); } }

        /// <summary>
        /// Bytes of the group's units, for each token of a block. A session of n tokens has, in each group, KV of at most n tokens, rounded up to
        /// whole blocks, or of KvGroupTokensMax if that is less. Of recurrent layers each block counted so is a recurrent state: a session has at
        /// most two, and one at each boundary.
        /// </summary>
        public uint[] KvGroupBytesPerToken { get { fixed (uint* values = raw.kv_group_bytes_per_token) return Utf8.Values(values, raw.kv_groups); } }

        /// <summary>Tokens, in whole blocks, of which a session has KV at most; 0: all.</summary>
        public uint[] KvGroupTokensMax { get { fixed (uint* values = raw.kv_group_tokens_max) return Utf8.Values(values, raw.kv_groups); } }

        /// <summary>What the group's layers keep of the tokens.</summary>
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

        /// <summary>Absolute and without links, It may be missing yet.</summary>
        public string Directory { get { fixed (byte* text = raw.directory) return Utf8.Terminated(text, 4096); } }
    }
}
