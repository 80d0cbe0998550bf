//! What calls and the store tell of sessions.
use crate::numbers::*;
use crate::value::values;

values! {
    /// The usage of one prefill or generation. `prompt_tokens == reused_memory + reused_disk + prefilled`, exactly. Times are in
    /// milliseconds.
    Report: kvrt_report {
        /// Why it ended.
        reason: Reason,
        /// Tokens in the session when it began; 0 when the context was full. Of a prefill without logits of a model with recurrent
        /// layers one less: it leaves the last token to what comes after it.
        prompt_tokens: u64,
        /// Prompt tokens whose KV was in this session, or shared from the pool.
        reused_memory: u64,
        /// Prompt tokens whose KV came from the store, by this generation or by a resume before it.
        reused_disk: u64,
        /// Prompt tokens that were not reused, but computed (after a cancel: or left to compute). At least 1 where logits are wanted:
        /// the last token then always runs.
        prefilled: u64,
        /// Tokens that the model gave, the end token included.
        generated: u64,
        /// Why the KV was reused no further.
        reuse_stopped: Reuse,
        /// The session's last tokens that hold the stop string; 0: none. Truncate to the length less these.
        stop_string_tokens: u32,
        /// The position that reuse_stopped is about; prompt_tokens when all was reused. Computing began there, or, with
        /// DIFFERENT_TOKEN, at the last end of a block before. KV after it may have been reused too.
        reuse_stopped_at: u64,
        /// The seed in use, also when it was drawn.
        seed: u64,
        /// From begin to the first step with a row of this session.
        queue_ms: f64,
        /// From begin to the first token; 0: there was none.
        ttft_ms: f64,
        /// From the first step to the first token, or to the end where there was none.
        prefill_ms: f64,
        /// From the first token to the last.
        decode_ms: f64,
        /// `decode_ms` for each token after the first.
        tpot_ms: f64,
        /// `prefilled` in `prefill_ms`.
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
    }

    /// A saved session, as the store lists it. Times are milliseconds since 1970, UTC.
    StoreEntry: kvrt_store_entry {
        /// Its priority, 1 to 255; 0: not pinned.
        pinned: u32,
        /// NUL-terminated.
        name: String,
        /// NUL-terminated; "": the default domain.
        domain: String,
        /// 32 hex digits, NUL-terminated.
        id: String,
        /// Grows with every save of this name; none comes twice, even if the name was removed.
        revision: u64,
        /// Tokens of the conversation.
        tokens: u64,
        /// KV chunks on disk, windows at boundaries among them.
        chunks: u64,
        /// Chunks besides, that a resume would compute again.
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
        /// Of `chunks`, those that the store lacks now, for want of room, or because their KV was not in memory. A resume computes them
        /// again. Windows at boundaries before the session's end do not count.
        chunks_missing: u64,
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
        /// state of the catalog, or was stopped (SIGSTOP) as it read one. The next gc, save or close of this handle finishes.
        log_bytes_kept: u64,
    }

    /// The result of `Store::repair`.
    RepairReport: kvrt_repair_report {
        /// What it did.
        outcome: RepairOutcome,
        /// Sessions under their names, with all their tokens and messages.
        sessions_kept: u64,
        /// Of those, sessions that lost chunks, which a resume computes again.
        sessions_with_holes: u64,
        /// Sessions whose name is lost: tokens, without messages, under names like recovered-0123456789ab.
        sessions_recovered: u64,
        /// Sessions that had a name, and of which too little is left; 0 where no record told of any.
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

    /// A session as it is now. Texts are NUL-terminated.
    SessionProps: kvrt_session_props {
        /// Its state.
        state: State,
        /// Tokens that it has.
        tokens: u64,
        /// Leading tokens that are computed and whose KV the session has, of layers with windows as far as the next token needs it;
        /// where layers are recurrent, those up to its last recurrent state. A generation looks for more of it in the pool and the store first.
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
        /// Of the last generation or save that failed; OK: none did.
        last_error_status: Status,
        /// Of it.
        last_error_detail: Detail,
        /// The generation waits for `Session::accept`.
        awaits_accept: bool,
        /// It was resumed with `ForeignKv::ACCEPT`, and took KV of another arithmetic.
        inexact: bool,
        /// The message of last_error_status.
        last_error_message: String,
        /// The id of another process that has a session of this name open for saving; 0: none is known; -1: one whose id cannot be seen
        /// from here.
        other_process: i32,
    }
}
