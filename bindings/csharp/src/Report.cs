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
        /// <summary>Why it ended.</summary>
        public Reason Reason => (Reason)raw.reason;

        /// <summary>
        /// Tokens in the session when it began; 0 when the context was full. Of a prefill without logits of a model with recurrent layers one less:
        /// it leaves the last token to what comes after it.
        /// </summary>
        public ulong PromptTokens => raw.prompt_tokens;

        /// <summary>Prompt tokens whose KV was in this session, or shared from the pool.</summary>
        public ulong ReusedMemory => raw.reused_memory;

        /// <summary>Prompt tokens whose KV came from the store, by this generation or by a resume before it.</summary>
        public ulong ReusedDisk => raw.reused_disk;

        /// <summary>
        /// Prompt tokens that were not reused, but computed (after a cancel: or left to compute). At least 1 where logits are wanted: the last token
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

        /// <summary>From the first step to the first token, or to the end where there was none.</summary>
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
        /// Of `chunks`, those that the store lacks now, for want of room, or because their KV was not in memory. A resume computes them again.
        /// Windows at boundaries before the session's end do not count.
        /// </summary>
        public ulong ChunksMissing => raw.chunks_missing;
    }

    /// <summary>A session's state.</summary>
    public sealed unsafe class SessionInfo
    {
        private kvrt_session_props raw;

        internal SessionInfo(kvrt_session_props raw)
        {
            this.raw = raw;
        }
        /// <summary>Which calls are allowed: kvrt.h, "Session states".</summary>
        public State State => (State)raw.state;

        /// <summary>Tokens that it has.</summary>
        public ulong Tokens => raw.tokens;

        /// <summary>
        /// Leading tokens that are computed and whose KV the session has, of layers with windows as far as the next token needs it; where layers are
        /// recurrent, those up to its last state. A generation looks for more of it in the pool and the store first.
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

        /// <summary>Of the last generation or save that failed; Status.Ok: none did.</summary>
        public Status LastErrorStatus => (Status)raw.last_error_status;

        /// <summary>The finer reason of LastErrorStatus.</summary>
        public Detail LastErrorDetail => (Detail)raw.last_error_detail;

        /// <summary>True: the generation waits for Session.Accept.</summary>
        public bool AwaitsAccept => raw.awaits_accept != 0;

        /// <summary>True: it was resumed with ForeignKv.Accept, and took KV of another arithmetic.</summary>
        public bool Inexact => raw.inexact != 0;

        /// <summary>The message of LastErrorStatus.</summary>
        public string LastErrorMessage { get { fixed (byte* text = raw.last_error_message) return Utf8.Terminated(text, 512); } }

        /// <summary>The id of another process that has a session of this name open for saving; 0: none is known; -1: one whose id cannot be seen.</summary>
        public int OtherProcess => raw.other_process;
    }
}
