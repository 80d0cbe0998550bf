//! What runtimes, models and stores tell of themselves.
use crate::numbers::*;
use crate::value::values;

values! {
    /// A runtime's device, threads and libraries. Texts are NUL-terminated.
    RuntimeProps: kvrt_runtime_props {
        /// Compute threads.
        threads: u32,
        /// "cpu" or "cuda".
        device: String,
        /// The kernels in use: "avx2", "sm_90".
        isa: String,
        /// The arithmetic's version: "cpu-3", "cuda-2-sm90", "cuda-1s-sm90" (strict), "cuda-2-sm90-f8".
        numerics: String,
        /// Every set of the CPU's kernels, with "ok", "not on this machine" or "differs from scalar".
        isa_tables: String,
        /// Libraries in use: "sqlite 3.40.1, zstd 1.5.4, ..."
        libraries: String,
        /// CUDA: the device, as its maker calls it. Empty on the CPU.
        device_name: String,
        /// CUDA: its memory in bytes. 0 on the CPU.
        device_memory: u64,
        /// CUDA: how much of that is free now. 0 on the CPU.
        device_memory_free: u64,
        /// CUDA, as it was at open, a line each: the versions of driver and runtime, cuBLASLt's or why there is none, every device, the
        /// path of libkvrt_cuda.so. Empty on the CPU.
        devices: String,
    }

    /// A model's shape, sizes and pool. Texts are NUL-terminated. Sizes are bytes. Where has_weights is 0 there are no layers, no pool
    /// and no sessions: their fields mean nothing.
    ModelProps: kvrt_model_props {
        /// False: the file has a vocabulary alone: tokenize, detokenize and apply_template work, sessions do not.
        has_weights: bool,
        /// As the file names it: "llama".
        architecture: String,
        /// As the file names it; "": it does not.
        name: String,
        /// Tokens that the model knows.
        vocab_size: u32,
        /// Tokens that a session can have.
        context_length: u32,
        /// Layers.
        layers: u32,
        /// Query heads of a layer; the most of any where layers differ.
        heads: u32,
        /// KV heads of a layer; the most likewise.
        kv_heads: u32,
        /// Elements of a head of K; of a latent, which all heads share.
        head_dim: u32,
        /// Elements of a token's embedding.
        width: u32,
        /// Its id; -1: none. BERT's is `[CLS]`.
        bos_token: i32,
        /// Its id; -1: none. BERT's is `[SEP]`.
        eos_token: i32,
        /// Append_text to an empty session adds BOS.
        add_bos: bool,
        /// The file has a chat template.
        has_template: bool,
        /// Tokens of a block.
        block_tokens: u32,
        /// The file's size.
        file_bytes: u64,
        /// The weights in memory.
        weight_bytes: u64,
        /// KV of a token in all layers.
        kv_bytes_per_token: u64,
        /// Bytes of a unit.
        unit_bytes: u64,
        /// Units of the pool.
        units: u64,
        /// Of these, unused.
        units_free: u64,
        /// Of these, held by no session, and kept for a prompt that begins the same; given up when needed.
        units_cached: u64,
        /// Sessions that are open now.
        sessions: u64,
        /// Milliseconds that model_open took.
        load_ms: f64,
        /// A step's activations and logits. CUDA: with the memory of kernels and cuBLASLt, which models share.
        scratch_bytes: u64,
        /// Milliseconds that a step may take.
        step_ms_max: u32,
        /// Of K, never DEFAULT.
        kv_format: KvFormat,
        /// Of V, never DEFAULT.
        kv_format_v: KvFormat,
        /// Groups of layers: how many entries of the arrays kv_group_... count. A group that keeps everything comes first.
        kv_groups: u32,
        /// Layers of the group; not those that read another's KV (Gemma 4).
        kv_group_layers: [u32; 8],
        /// `GroupKind::WINDOW`: tokens that a token sees in them, itself included. Other kinds: 0.
        kv_group_window: [u32; 8],
        /// Bytes of the group's units, for each token of a block. A session of n tokens has, in each group, KV of at most n tokens, rounded
        /// up to whole blocks, or of kv_group_tokens_max if that is less. Of recurrent layers each block counted so is a recurrent state: a
        /// session has at most two, and one at each boundary.
        kv_group_bytes_per_token: [u32; 8],
        /// Tokens, in whole blocks, of which a session has KV at most; 0: all.
        kv_group_tokens_max: [u32; 8],
        /// What the group's layers keep of the tokens.
        kv_group_kind: [GroupKind; 8],
    }

    /// A model's counters since it was opened, and its gauges. prompt_tokens to generated are sums of these fields in the reports, and
    /// count what failed, too.
    Metrics: kvrt_metrics {
        /// Sessions open now.
        sessions: u64,
        /// Of these, from begin to DONE.
        generating: u64,
        /// Of these, waiting for their host.
        paused: u64,
        /// Units of the pool.
        units: u64,
        /// Of these, held by sessions now.
        units_used: u64,
        /// Of these, held by no session, and kept for a prompt that begins the same.
        units_cached: u64,
        /// Steps that were run.
        steps: u64,
        /// Rows in them, one for each token.
        step_rows: u64,
        /// Milliseconds of all steps.
        step_ms_total: f64,
        /// Milliseconds of the longest.
        step_ms_longest: f64,
        /// Generations that were begun, prefills left out.
        generations: u64,
        /// Prefills that were begun.
        prefills: u64,
        /// Ended by `Reason::EOS`.
        done_eos: u64,
        /// Ended by `Reason::STOP`.
        done_stop: u64,
        /// Ended by `Reason::MAX_TOKENS`.
        done_max_tokens: u64,
        /// Ended by `Reason::CONTEXT_FULL`.
        done_context_full: u64,
        /// Ended by `Reason::CANCELLED`.
        done_cancelled: u64,
        /// Ended by `Reason::PREFILLED`.
        done_prefilled: u64,
        /// Ended by a failure.
        failed: u64,
        /// Sum of prompt_tokens.
        prompt_tokens: u64,
        /// Sum of reused_memory.
        reused_memory: u64,
        /// Sum of reused_disk.
        reused_disk: u64,
        /// Sum of prefilled.
        prefilled: u64,
        /// Sum of recomputed.
        recomputed: u64,
        /// Sum of generated.
        generated: u64,
        /// Generations that lent their units to others.
        preemptions: u64,
        /// Cached blocks that were given up.
        evictions: u64,
        /// Generations that gave a token: the sums of milliseconds below are over these.
        first_tokens: u64,
        /// Sum of ttft_ms.
        ttft_ms_total: f64,
        /// Sum of queue_ms.
        queue_ms_total: f64,
        /// Sum of prefill_ms.
        prefill_ms_total: f64,
        /// Sum of decode_ms, over `generated - first_tokens` tokens.
        decode_ms_total: f64,
    }

    /// The memory that a model and its sessions take. Sizes are bytes.
    Plan: kvrt_plan {
        /// Tokens of a block.
        block_tokens: u32,
        /// As in `ModelProps`.
        layers: u32,
        /// As in `ModelProps`; 0 for a geometry.
        heads: u32,
        /// As in `ModelProps`.
        kv_heads: u32,
        /// As in `ModelProps`.
        head_dim: u32,
        /// As in `ModelProps`; 0 for a geometry.
        context_length: u32,
        /// `total_bytes` is at most memory_bytes.
        fits: bool,
        /// As in `ModelProps`.
        kv_bytes_per_token: u64,
        /// As in `ModelProps`.
        unit_bytes: u64,
        /// The weights in memory.
        weight_bytes: u64,
        /// A step's activations and logits, as in `ModelProps`.
        scratch_bytes: u64,
        /// The most units of one session: with windows it has fewer between its steps.
        session_units: u64,
        /// Bytes of these.
        session_bytes: u64,
        /// Share of these bytes that hold tokens' KV and recurrent states, 0 to 1.
        used: f64,
        /// 1 - used.
        waste: f64,
        /// Units of all sessions, shared ones once.
        units: u64,
        /// Bytes of the pool with these: if layers have windows or are recurrent, it has one unit more, of
        /// zeros.
        kv_bytes: u64,
        /// Tokens that these units hold.
        stored_tokens: u64,
        /// Tokens that they would hold without sharing.
        unshared_tokens: u64,
        /// Weights, scratch and KV.
        total_bytes: u64,
        /// The budget.
        memory_bytes: u64,
        /// Sessions of that length that fit the budget.
        sessions_max: u64,
        /// Tokens of a single session that fit the budget.
        context_max: u64,
        /// This and the next ones: as in `ModelProps`, with steps of 512 tokens.
        kv_groups: u32,
        /// Layers of the group with KV of their own.
        kv_group_layers: [u32; 8],
        /// `GroupKind::WINDOW`: tokens that a token sees in them. Other kinds: 0.
        kv_group_window: [u32; 8],
        /// Bytes of the group's units, for each token of a block.
        kv_group_bytes_per_token: [u32; 8],
        /// Tokens of which a session has KV at most; 0: all.
        kv_group_tokens_max: [u32; 8],
        /// A recurrent state of all layers, without what its units have beyond it; 0: there is none.
        recurrent_bytes: u64,
        /// What the pool keeps for one boundary at most (`Session::mark`); 0: it needs to keep nothing.
        boundary_bytes: u64,
        /// Boundaries of this size that the planned pool keeps beside what sessions hold, at most.
        boundaries: u64,
        /// What the group's layers keep of the tokens.
        kv_group_kind: [GroupKind; 8],
    }

    /// The weight cache that `ModelOptions` name (cache_dir, cache). Sizes are bytes.
    CacheProps: kvrt_cache_props {
        /// Models there, each in the layout of one machine's CPU.
        files: u32,
        /// Their size.
        bytes: u64,
        /// `cache_bytes_max`, or its default there.
        bytes_max: u64,
        /// Free on the file system, less the part that stays free.
        bytes_free: u64,
        /// Absolute and without links, NUL-terminated. It may be missing yet.
        directory: String,
    }

    /// A store's contents and its size on disk.
    StoreProps: kvrt_store_props {
        /// It is open for reading only.
        read_only: bool,
        /// The directory's format number.
        format: u32,
        /// Saved sessions, of all domains.
        sessions: u64,
        /// KV chunks on disk.
        chunks: u64,
        /// Files that hold them.
        segments: u64,
        /// Bytes of the chunks on disk.
        chunk_bytes: u64,
        /// Bytes of the KV in them, uncompressed.
        chunk_raw_bytes: u64,
        /// Lengths of catalog and segments: a hole that gc punched still counts, as it does for disk_bytes_max.
        disk_bytes: u64,
        /// Damaged chunks that were found since open.
        chunks_damaged: u64,
        /// Chunks that were given up for want of room since open.
        chunks_evicted: u64,
        /// Bytes of the backups of migrations and repairs, not in disk_bytes: see `Store::remove_old`.
        old_bytes: u64,
        /// Bytes of KV that saves may add within disk_bytes_max and free_bytes_min, before they evict other KV.
        bytes_free: u64,
        /// Resumes, ever, of sessions that lacked KV which was given up for want of room after they were saved.
        resumes_evicted: u64,
    }
}
