//! What the library tells: of runtimes, models, stores and sessions, and of calls.
// Made of include/kvrt.abi.json by bindings/raw.py (./dev abi): do not edit.
use crate::numbers::*;
use crate::value::values;

values! {
    /// The usage of one prefill or generation. prompt_tokens == reused_memory + reused_disk + prefilled, exactly. Times are in
    /// milliseconds.
    Report: kvrt_report {
        /// Why a generation ended.
        reason: Reason,
        /// Tokens in the session when it began; 0 when the context was full. One less for a prefill without logits on a model with
        /// recurrent layers, which leaves the last token to the next generation.
        prompt_tokens: u64,
        /// Prompt tokens whose KV was in this session, or shared from the pool.
        reused_memory: u64,
        /// Prompt tokens whose KV came from the store, by this generation or by a resume before it.
        reused_disk: u64,
        /// Prompt tokens that were not reused, but computed (after a cancel: or left to compute). At least 1 if logits are wanted: the
        /// last token then always runs.
        prefilled: u64,
        /// Tokens that the model gave, the end token included.
        generated: u64,
        /// Why the prompt's KV was reused no further than reuse_stopped_at.
        reuse_stopped: Reuse,
        /// The session's last tokens that hold the stop string; 0: none. Truncate to the length less these.
        stop_string_tokens: u32,
        /// The position that reuse_stopped is about; prompt_tokens when all was reused. Computing began there, or, with DIFFERENT_TOKEN,
        /// at the last end of a block before. KV after it may have been reused too.
        reuse_stopped_at: u64,
        /// The seed in use, also when it was drawn.
        seed: u64,
        /// From begin to the first step with a row of this session.
        queue_ms: f64,
        /// From begin to the first token; 0: there was none.
        ttft_ms: f64,
        /// From the first step to the first token, or to the end if there was none.
        prefill_ms: f64,
        /// From the first token to the last.
        decode_ms: f64,
        /// decode_ms for each token after the first.
        tpot_ms: f64,
        /// Prefilled in prefill_ms.
        prefill_tokens_per_s: f64,
        /// Tokens after the first, in decode_ms.
        decode_tokens_per_s: f64,
        /// Units of this session at the end; shared ones count in full.
        kv_units: u64,
        /// Bytes of these units.
        kv_bytes: u64,
        /// Bytes of the model's pool that open sessions held when it began; a shared unit counts once.
        pool_bytes_begin: u64,
        /// The same at the first token, or at the end of a prefill.
        pool_bytes_prefilled: u64,
        /// The same at the end.
        pool_bytes_end: u64,
        /// Tokens whose KV was computed a second time: the session's units were lent to others meanwhile, or reused KV made NaN or
        /// infinite logits.
        recomputed: u64,
        /// Tokens that speculation proposed and a step checked.
        drafted: u64,
        /// Of these, tokens that the answer went on with: `generated` counts them, too. The others left nothing.
        accepted: u64,
    }

    /// A saved session, as the store lists it. Times are milliseconds since 1970, UTC.
    StoreEntry: kvrt_store_entry {
        /// Its priority, 1 to 255; 0: not pinned.
        pinned: u32,
        /// Its name.
        name: String,
        /// "": the default domain.
        domain: String,
        /// 32 hex digits.
        id: String,
        /// Grows with every save of this name; none comes twice, even if the name was removed.
        revision: u64,
        /// Tokens of the conversation.
        tokens: u64,
        /// KV chunks on disk, windows at boundaries among them.
        chunks: u64,
        /// Further chunks, which are missing: a resume computes them again.
        chunks_missing: u64,
        /// Bytes of its chunks on disk.
        bytes: u64,
        /// Of these, bytes that other sessions use too.
        bytes_shared: u64,
        /// When the name was first saved.
        created_unix_ms: i64,
        /// When it was last saved.
        saved_unix_ms: i64,
        /// When it expires; 0: never.
        expires_unix_ms: i64,
    }

    /// A runtime's device, threads and libraries.
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

    /// A model's shape, sizes and pool. Sizes are bytes. If has_weights is 0 there are no layers, no pool and no sessions: their fields
    /// mean nothing.
    ModelProps: kvrt_model_props {
        /// False: the file has only a vocabulary: tokenize, detokenize and apply_template work, sessions do not.
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
        /// Query heads of a layer; the most of any if layers differ.
        heads: u32,
        /// KV heads of a layer; the most likewise.
        kv_heads: u32,
        /// Elements of a head of K; of a latent, which all heads share.
        head_dim: u32,
        /// Elements of a token's embedding.
        width: u32,
        /// Its id; -1: none. BERT's is [CLS].
        bos_token: i32,
        /// Its id; -1: none. BERT's is [SEP].
        eos_token: i32,
        /// Append_text to an empty session adds BOS.
        add_bos: bool,
        /// The file has a chat template that parses. append_message says what is wrong.
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
        /// Milliseconds that `Model::open` took.
        load_ms: f64,
        /// A step's activations and logits. CUDA: with the memory of kernels and cuBLASLt, which models share.
        scratch_bytes: u64,
        /// Milliseconds that a step may take.
        step_ms_max: u32,
        /// The format in which K or V is stored: of K, never DEFAULT.
        kv_format: KvFormat,
        /// The format in which K or V is stored: of V, never DEFAULT.
        kv_format_v: KvFormat,
        /// Groups of layers: how many entries of the arrays kv_group_... count. A group that keeps everything comes first.
        kv_groups: u32,
        /// Layers of the group; not those that read another's KV (Gemma 4).
        kv_group_layers: [u32; 8],
        /// WINDOW: tokens that a token sees in them, itself included. Other kinds: 0.
        kv_group_window: [u32; 8],
        /// Bytes of the group's units, for each token of a block. A session of n tokens has, in each group, KV of at most n tokens,
        /// rounded up to whole blocks, or of kv_group_tokens_max if that is less. Of recurrent layers each block counted so is a
        /// recurrent state: a session has at most two, and one at each boundary.
        kv_group_bytes_per_token: [u32; 8],
        /// The most tokens of which a session has KV, in whole blocks; 0: all.
        kv_group_tokens_max: [u32; 8],
        /// What a group's layers keep of the tokens.
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
        /// Sum of drafted.
        drafted: u64,
        /// Sum of accepted.
        accepted: u64,
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
        /// Total_bytes is at most memory_bytes.
        fits: bool,
        /// As in `ModelProps`.
        kv_bytes_per_token: u64,
        /// As in `ModelProps`.
        unit_bytes: u64,
        /// The weights in memory.
        weight_bytes: u64,
        /// A step's activations and logits, as in `ModelProps`.
        scratch_bytes: u64,
        /// The most units of one session; with windows it has fewer between its steps.
        session_units: u64,
        /// Bytes of these.
        session_bytes: u64,
        /// Share of these bytes that hold tokens' KV and recurrent states, 0 to 1.
        used: f64,
        /// 1 - used.
        waste: f64,
        /// Units of all sessions, shared ones once.
        units: u64,
        /// Bytes of the pool with these: if layers have windows or are recurrent, it has one unit more, of zeros.
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
        /// Layers of the group; not those that read another's KV.
        kv_group_layers: [u32; 8],
        /// WINDOW: tokens that a token sees in them. Other kinds: 0.
        kv_group_window: [u32; 8],
        /// Bytes of the group's units, for each token of a block.
        kv_group_bytes_per_token: [u32; 8],
        /// The most tokens of which a session has KV; 0: all.
        kv_group_tokens_max: [u32; 8],
        /// A recurrent state of all layers, without what its units have beyond it; 0: there is none.
        recurrent_bytes: u64,
        /// What the pool keeps for one boundary at most (`Session::mark`); 0: it needs to keep nothing.
        boundary_bytes: u64,
        /// Boundaries of this size that the planned pool keeps beside what sessions hold, at most.
        boundaries: u64,
        /// What a group's layers keep of the tokens.
        kv_group_kind: [GroupKind; 8],
    }

    /// The weight cache that `ModelOptions` name (cache_dir, cache). Sizes are bytes.
    CacheProps: kvrt_cache_props {
        /// Models there, each in the layout of one machine's CPU.
        files: u32,
        /// Their size.
        bytes: u64,
        /// cache_bytes_max, or its default there.
        bytes_max: u64,
        /// Free on the file system, less the part that stays free.
        bytes_free: u64,
        /// Absolute and without linksIt may be missing yet.
        directory: String,
    }

    /// A store's contents and its size on disk.
    StoreProps: kvrt_store_props {
        /// 1: it is open only for reading. 2: only for reading for lack of room, until a call that writes finds some: see
        /// `StoreOptions::read_only`. 0: for writing.
        read_only: u32,
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
        /// Chunks that were given up for lack of room since open.
        chunks_evicted: u64,
        /// Bytes of the backups of migrations and repairs, not in disk_bytes: see `Store::remove_old`.
        old_bytes: u64,
        /// Bytes of KV that saves may add within disk_bytes_max and free_bytes_min, before they evict other KV.
        bytes_free: u64,
        /// Resumes of sessions whose KV was given up for lack of room after they were saved, since the store was made or repaired: if
        /// there are many, disk_bytes_max is small. A resume beside another process's write may not count.
        resumes_evicted: u64,
    }

    /// The result of `Store::gc`.
    GcReport: kvrt_gc_report {
        /// Expired sessions that it removed.
        sessions_removed: u64,
        /// Chunks that no session needs.
        chunks_removed: u64,
        /// Files that it removed.
        segments_removed: u64,
        /// Bytes of these files.
        bytes_freed: u64,
        /// Milliseconds that it took.
        ms: f64,
        /// Bytes of chunks that went from sparse segments into new ones.
        bytes_rewritten: u64,
        /// Bytes of removed chunks in segments that stay: zeros now, whose space the file system has back.
        bytes_punched: u64,
        /// Bytes of the catalog's log that stay, which may hold removed data; 0: none. They stay while another process reads an older
        /// version of the catalog, or was stopped (SIGSTOP) while it read one. The next gc, save or close of this handle finishes.
        log_bytes_kept: u64,
    }

    /// The result of `Store::repair`.
    RepairReport: kvrt_repair_report {
        /// What a repair did.
        outcome: RepairOutcome,
        /// Sessions under their names, with all their tokens and messages.
        sessions_kept: u64,
        /// Of those, sessions that lost chunks, which a resume computes again.
        sessions_with_holes: u64,
        /// Sessions whose name is lost: tokens, without messages, under names like recovered-0123456789ab.
        sessions_recovered: u64,
        /// Sessions that had a name, and of which too little is left; 0 if no record told of any.
        sessions_lost: u64,
        /// Chunks that are sound.
        chunks_kept: u64,
        /// Chunks that are not.
        chunks_lost: u64,
        /// Bytes of chunks_kept.
        bytes_kept: u64,
        /// Milliseconds that it took.
        ms: f64,
        /// Whole chunks of lost sessions: nothing tells their model and domain.
        chunks_orphaned: u64,
    }

    /// A session as it is now.
    SessionProps: kvrt_session_props {
        /// What a session does now ("Session states" says what it may do).
        state: State,
        /// Tokens that it has.
        tokens: u64,
        /// Leading tokens that are computed and whose KV the session has (in layers with windows: the part that the next token needs);
        /// with recurrent layers, those up to its last recurrent state. A generation first looks for more KV in the pool and the store.
        kv_tokens: u64,
        /// Units that it holds, shared ones in full.
        kv_units: u64,
        /// Bytes of these.
        kv_bytes: u64,
        /// Events that next has ready.
        events_unread: u64,
        /// Messages of its conversation.
        messages: u64,
        /// The revision of its name that it last saved or resumed; 0: it was never saved.
        revision: u64,
        /// 32 hex digits. Suspend and resume keep it; a save under another name takes a new one.
        id: String,
        /// The name of the last save or resume; "": none.
        name: String,
        /// The status of the last generation or save that failed; `Status::OK`: none did.
        last_error_status: Status,
        /// Finer reasons, in `Error::detail`.
        last_error_detail: Detail,
        /// The generation waits for `Session::accept`.
        awaits_accept: bool,
        /// It was resumed with `ForeignKv::ACCEPT`, and took KV of another arithmetic.
        inexact: bool,
        /// The message of last_error_status.
        last_error_message: String,
        /// The id of another process that has a session of this name open for saving; 0: none is known; -1: one whose id cannot be seen
        /// from here, for example in another container. This call looks: ask after resume. The name is that of the last save or resume;
        /// before there is one, autosave_name. Both may go on, but once one of the two has saved, a save of the other is CONFLICT: a fork
        /// can be saved under another name. Not seen are sessions in a store that is open read-only (they see others), sessions of kvrt
        /// 0.1, and sessions of another runtime of this process; when one of the last kind closes, other processes no longer see this
        /// session either.
        other_process: i32,
    }

    /// The change of a session's tokens by a message.
    AppendInfo: kvrt_append_info {
        /// Tokens that were added at the end.
        appended: u64,
        /// Tokens that were dropped before, because the template now renders the earlier conversation otherwise.
        rewritten: u64,
        /// Position of the first of these; with none, the session's length before the call.
        rewritten_at: u64,
    }

    /// The result of a save.
    SaveReport: kvrt_save_report {
        /// As in `StoreEntry`.
        revision: u64,
        /// Tokens that were saved.
        tokens: u64,
        /// KV chunks of this session: those on disk, windows at boundaries among them, and those that are missing.
        chunks: u64,
        /// Of these, chunks that the store did not have.
        chunks_written: u64,
        /// Bytes of chunks_written.
        bytes_written: u64,
        /// Milliseconds that the save took.
        ms: f64,
        /// Of `chunks`, those that the store lacks now, for lack of room, or because their KV was not in memory. A resume computes them
        /// again. Windows at boundaries before the session's end do not count.
        chunks_missing: u64,
    }
}
