namespace Kvrt
{
    /// <summary>The status classes, each with the thing to do next.</summary>
    public enum Status
    {
        /// <summary>It is done.</summary>
        Ok = Native.KVRT_OK,
        /// <summary>The caller's mistake: correct the call.</summary>
        Invalid = Native.KVRT_INVALID,
        /// <summary>No such file, session or message: create it or name another.</summary>
        NotFound = Native.KVRT_NOT_FOUND,
        /// <summary>The name is taken, or another handle saved it since: resume it, take another name, or overwrite.</summary>
        Conflict = Native.KVRT_CONFLICT,
        /// <summary>In use by another call, a generation or another process: try again when that is over.</summary>
        Busy = Native.KVRT_BUSY,
        /// <summary>Stopped by Session.Cancel, Cancel.Fire or a callback.</summary>
        Cancelled = Native.KVRT_CANCELLED,
        /// <summary>The system gave no memory: release something, or lower KvBytesMax.</summary>
        NoMemory = Native.KVRT_NO_MEMORY,
        /// <summary>The buffer is smaller than `*needed`: call again with a larger one.</summary>
        TooSmall = Native.KVRT_TOO_SMALL,
        /// <summary>Past a limit. The message names it, and the option that raises it where there is one.</summary>
        Limit = Native.KVRT_LIMIT,
        /// <summary>A file is damaged: get it again; for a store see Runtime.RepairStore.</summary>
        Corrupt = Native.KVRT_CORRUPT,
        /// <summary>Sound, but of another model, program or version: use the one that it belongs to.</summary>
        Incompatible = Native.KVRT_INCOMPATIBLE,
        /// <summary>The system failed to read or write. OsCode is errno (EMFILE: raise RLIMIT_NOFILE) or SQLite's extended code.</summary>
        Io = Native.KVRT_IO,
        /// <summary>
        /// The disk, a quota, RLIMIT_FSIZE or DiskBytesMax is full: free space and call again. No tokens were lost; other saved sessions may have
        /// lost KV.
        /// </summary>
        NoSpace = Native.KVRT_NO_SPACE,
        /// <summary>The compute device failed, or its logits are no numbers (detail NUMERIC).</summary>
        Device = Native.KVRT_DEVICE,
        /// <summary>This build or version cannot do it. The message names the thing.</summary>
        Unsupported = Native.KVRT_UNSUPPORTED,
        /// <summary>A defect of kvrt: please report the message.</summary>
        Internal = Native.KVRT_INTERNAL
    }

    /// <summary>Finer reasons, in Error.detail. Treat one that you do not know as Detail.None.</summary>
    public enum Detail
    {
        /// <summary>The status says it all.</summary>
        None = Native.KVRT_DETAIL_NONE,
        /// <summary>Bytes that break the format.</summary>
        Format = Native.KVRT_DETAIL_FORMAT,
        /// <summary>The store's catalog is damaged, or another store's: see Runtime.RepairStore.</summary>
        CatalogCorrupt = Native.KVRT_DETAIL_CATALOG_CORRUPT,
        /// <summary>A store's directory without its catalog: see Runtime.RepairStore.</summary>
        CatalogMissing = Native.KVRT_DETAIL_CATALOG_MISSING,
        /// <summary>A later kvrt wrote the store. It is left as it is.</summary>
        StoreTooNew = Native.KVRT_DETAIL_STORE_TOO_NEW,
        /// <summary>The directory or database belongs to another program.</summary>
        OtherProgram = Native.KVRT_DETAIL_OTHER_PROGRAM,
        /// <summary>The store, its directory or its file system cannot be written.</summary>
        ReadOnly = Native.KVRT_DETAIL_READ_ONLY,
        /// <summary>The system refused access.</summary>
        Permission = Native.KVRT_DETAIL_PERMISSION,
        /// <summary>Others own or can write the directory; or a file in it is theirs, a link, or no file.</summary>
        UnsafeDirectory = Native.KVRT_DETAIL_UNSAFE_DIRECTORY,
        /// <summary>Another process writes the store, or repairs it.</summary>
        StoreLocked = Native.KVRT_DETAIL_STORE_LOCKED,
        /// <summary>The name was saved since this handle last saw it.</summary>
        Revision = Native.KVRT_DETAIL_REVISION,
        /// <summary>Another session has the name.</summary>
        NameTaken = Native.KVRT_DETAIL_NAME_TAKEN,
        /// <summary>The session was made with another model.</summary>
        ModelMismatch = Native.KVRT_DETAIL_MODEL_MISMATCH,
        /// <summary>The handle was opened before a fork(2).</summary>
        Forked = Native.KVRT_DETAIL_FORKED,
        /// <summary>A callback called into its own session.</summary>
        Reentrant = Native.KVRT_DETAIL_REENTRANT,
        /// <summary>Another thread is inside a call on this session.</summary>
        Concurrent = Native.KVRT_DETAIL_CONCURRENT,
        /// <summary>The chat template is malformed, or refuses the messages.</summary>
        TemplateError = Native.KVRT_DETAIL_TEMPLATE_ERROR,
        /// <summary>The chat template takes too many steps, too much memory, depth or output.</summary>
        TemplateLimit = Native.KVRT_DETAIL_TEMPLATE_LIMIT,
        /// <summary>The call does not fit the session's state.</summary>
        State = Native.KVRT_DETAIL_STATE,
        /// <summary>Logits are NaN or infinite.</summary>
        Numeric = Native.KVRT_DETAIL_NUMERIC,
        /// <summary>An option that this library does not know is set.</summary>
        StructTail = Native.KVRT_DETAIL_STRUCT_TAIL,
        /// <summary>The grammar or schema is malformed, or nothing fits it.</summary>
        GrammarError = Native.KVRT_DETAIL_GRAMMAR_ERROR,
        /// <summary>The grammar or schema exceeds a limit.</summary>
        GrammarLimit = Native.KVRT_DETAIL_GRAMMAR_LIMIT
    }
}
