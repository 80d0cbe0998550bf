namespace Kvrt
{
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

        /// <summary>The name that it is saved under.</summary>
        public string Name { get { fixed (byte* text = raw.name) return Utf8.Terminated(text, 256); } }

        /// <summary>"": the default domain.</summary>
        public string Domain { get { fixed (byte* text = raw.domain) return Utf8.Terminated(text, 256); } }

        /// <summary>32 hex digits. Suspend and resume keep it; a save under another name takes a new one.</summary>
        public string Id { get { fixed (byte* text = raw.id) return Utf8.Terminated(text, 40); } }

        /// <summary>Grows with every save of this name; none comes twice, even if the name was removed.</summary>
        public ulong Revision => raw.revision;

        /// <summary>Tokens of the conversation.</summary>
        public ulong Tokens => raw.tokens;

        /// <summary>KV chunks on disk, windows at boundaries among them.</summary>
        public ulong Chunks => raw.chunks;

        /// <summary>Chunks besides, that a resume would compute again.</summary>
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

    /// <summary>A store's contents and its size on disk.</summary>
    public sealed unsafe class StoreInfo
    {
        private kvrt_store_props raw;

        internal StoreInfo(kvrt_store_props raw)
        {
            this.raw = raw;
        }
        /// <summary>True: it is open for reading only.</summary>
        public bool ReadOnly => raw.read_only != 0;

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

        /// <summary>Chunks that were given up for want of room since open.</summary>
        public ulong ChunksEvicted => raw.chunks_evicted;

        /// <summary>Bytes of the backups of migrations and repairs, not in DiskBytes: see Store.RemoveOld.</summary>
        public ulong OldBytes => raw.old_bytes;

        /// <summary>Bytes of KV that saves may add within DiskBytesMax and FreeBytesMin, before they evict other KV.</summary>
        public ulong BytesFree => raw.bytes_free;

        /// <summary>Resumes, ever, of sessions that lacked KV which was given up for want of room after they were saved.</summary>
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
        /// Bytes of the catalog's log that stay, which may hold removed data; 0: none. They stay while another process reads an older state of the
        /// catalog, or was stopped (SIGSTOP) as it read one. The next gc, save or close of this handle finishes.
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
        /// <summary>What it did.</summary>
        public RepairOutcome Outcome => (RepairOutcome)raw.outcome;

        /// <summary>Sessions under their names, with all their tokens and messages.</summary>
        public ulong SessionsKept => raw.sessions_kept;

        /// <summary>Of those, sessions that lost chunks, which a resume computes again.</summary>
        public ulong SessionsWithHoles => raw.sessions_with_holes;

        /// <summary>Sessions whose name is lost: tokens, without messages, under names like recovered-0123456789ab.</summary>
        public ulong SessionsRecovered => raw.sessions_recovered;

        /// <summary>Sessions that had a name, and of which too little is left; 0 where no record told of any.</summary>
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
}
