namespace Kvrt
{
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

        /// <summary>The most units of one session: with windows it has fewer between its steps.</summary>
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

        /// <summary>Layers of the group with KV of their own.</summary>
        public uint[] KvGroupLayers { get { fixed (uint* values = raw.kv_group_layers) return Utf8.Values(values, raw.kv_groups); } }

        /// <summary>GroupKind.Window: tokens that a token sees in them. Other kinds: 0.</summary>
        public uint[] KvGroupWindow { get { fixed (uint* values = raw.kv_group_window) return Utf8.Values(values, raw.kv_groups); } }

        /// <summary>Bytes of the group's units, for each token of a block.</summary>
        public uint[] KvGroupBytesPerToken { get { fixed (uint* values = raw.kv_group_bytes_per_token) return Utf8.Values(values, raw.kv_groups); } }

        /// <summary>Tokens of which a session has KV at most; 0: all.</summary>
        public uint[] KvGroupTokensMax { get { fixed (uint* values = raw.kv_group_tokens_max) return Utf8.Values(values, raw.kv_groups); } }

        /// <summary>A recurrent state of all layers, without what its units have beyond it; 0: there is none.</summary>
        public ulong RecurrentBytes => raw.recurrent_bytes;

        /// <summary>What the pool keeps for one boundary at most (Session.Mark); 0: it needs to keep nothing.</summary>
        public ulong BoundaryBytes => raw.boundary_bytes;

        /// <summary>Boundaries of this size that the planned pool keeps beside what sessions hold, at most.</summary>
        public ulong Boundaries => raw.boundaries;

        /// <summary>What the group's layers keep of the tokens.</summary>
        public GroupKind[] KvGroupKind { get { fixed (uint* values = raw.kv_group_kind) return Utf8.Kinds(values, raw.kv_groups); } }
    }
}
