using System;
using System.Collections.Generic;
using System.Threading;

namespace Kvrt
{
    /// <summary>
    /// A directory of saved sessions. Any number of processes may have one open, and any number of threads may use it at once. A call that writes
    /// waits
    /// for the other writers of the store at most 5 seconds, then it is BUSY. A domain that is null or "" is the default one.
    /// </summary>
    public sealed unsafe class Store : IDisposable
    {
        private readonly StoreHandle handle;

        internal Store(StoreHandle handle)
        {
            this.handle = handle;
        }

        internal StoreHandle Handle => handle.Live();

        /// <summary>Describes the store's contents and its size on disk.</summary>
        /// <exception cref="KvrtException">IO, CORRUPT.</exception>
        public StoreInfo Info()
        {
            kvrt_error err = Failure.New();
            kvrt_store_props raw = new kvrt_store_props { struct_size = (uint)sizeof(kvrt_store_props) };
            Failure.Check(Native.kvrt_store_info(Handle, &raw, &err), &err);
            return new StoreInfo(raw);
        }

        /// <summary>Lists the saved sessions as they are now, ordered by domain and name.</summary>
        /// <param name="domain">Null: all domains; "": the default one.</param>
        /// <exception cref="KvrtException">IO, CORRUPT.</exception>
        public IReadOnlyList<StoreEntry> List(string domain = null)
        {
            List<StoreEntry> found = new List<StoreEntry>();
            using (Arena arena = new Arena())
            using (Watch watch = new Watch(e => Add(found, e.Entry), CancellationToken.None))
            {
                kvrt_error err = Failure.New();
                UIntPtr size;
                byte* bytes = arena.Text(domain, out size);
                watch.Check(Native.kvrt_store_list(Handle, bytes, size, Watch.Function, watch.User, &err), &err);
            }
            return found;
        }

        private static void Add(List<StoreEntry> list, StoreEntry entry)
        {
            if (entry != null) list.Add(entry);
        }

        /// <summary>Gives the entry of one session.</summary>
        /// <param name="name">The session's name.</param>
        /// <param name="domain">Its domain.</param>
        /// <exception cref="KvrtException">NOT_FOUND, IO, CORRUPT.</exception>
        public StoreEntry Stat(string name, string domain = null)
        {
            using (Arena arena = new Arena())
            {
                kvrt_error err = Failure.New();
                UIntPtr scope, size;
                byte* where = arena.Text(domain, out scope), what = arena.Needed(name, nameof(name), out size);
                kvrt_store_entry raw = new kvrt_store_entry { struct_size = (uint)sizeof(kvrt_store_entry) };
                Failure.Check(Native.kvrt_store_stat(Handle, where, scope, what, size, &raw, &err), &err);
                return new StoreEntry(raw);
            }
        }

        /// <summary>Gives everything that the store keeps of a session as JSON; its model is not needed. kvrt_store_show has the names.</summary>
        /// <param name="name">The session's name.</param>
        /// <param name="domain">Its domain.</param>
        /// <exception cref="KvrtException">NOT_FOUND, CORRUPT, INCOMPATIBLE, IO.</exception>
        public string Show(string name, string domain = null)
        {
            using (Arena arena = new Arena())
            {
                UIntPtr scope, size;
                byte* where = arena.Text(domain, out scope), what = arena.Needed(name, nameof(name), out size);
                UIntPtr length = size, whole = scope;
                return Utf8.Read((buffer, capacity, needed, err) =>
                    Native.kvrt_store_show(Handle, where, whole, what, length, buffer, capacity, needed, err));
            }
        }

        /// <summary>
        /// Removes a saved session, and the chunks that no other session needs. Sessions that are open go on, and may save it again.
        /// </summary>
        /// <param name="name">The session's name.</param>
        /// <param name="domain">Its domain.</param>
        /// <exception cref="KvrtException">NOT_FOUND, BUSY, NO_SPACE, IO, CORRUPT.</exception>
        public void Remove(string name, string domain = null)
        {
            using (Arena arena = new Arena())
            {
                kvrt_error err = Failure.New();
                UIntPtr scope, size;
                byte* where = arena.Text(domain, out scope), what = arena.Needed(name, nameof(name), out size);
                Failure.Check(Native.kvrt_store_remove(Handle, where, scope, what, size, &err), &err);
            }
        }

        /// <summary>Renames a saved session, never over another.</summary>
        /// <param name="from">Its name.</param>
        /// <param name="to">The name that it gets.</param>
        /// <param name="domain">Its domain.</param>
        /// <exception cref="KvrtException">NOT_FOUND, CONFLICT: there is a `to`. BUSY, NO_SPACE, IO, CORRUPT.</exception>
        public void Rename(string from, string to, string domain = null)
        {
            using (Arena arena = new Arena())
            {
                kvrt_error err = Failure.New();
                UIntPtr scope, size, newSize;
                byte* where = arena.Text(domain, out scope), what = arena.Needed(from, nameof(from), out size), target = arena.Needed(to, nameof(to), out newSize);
                Failure.Check(Native.kvrt_store_rename(Handle, where, scope, what, size, target, newSize, &err), &err);
            }
        }

        /// <summary>Pins a saved session: it does not expire, and it loses its KV later than others.</summary>
        /// <param name="name">The session's name.</param>
        /// <param name="pinned">The priority, 1 to 255; 0: not pinned, and its expiry counts again.</param>
        /// <param name="domain">Its domain.</param>
        /// <exception cref="KvrtException">NOT_FOUND, INVALID: above 255. BUSY, NO_SPACE, IO, CORRUPT.</exception>
        public void Pin(string name, uint pinned = 1, string domain = null)
        {
            using (Arena arena = new Arena())
            {
                kvrt_error err = Failure.New();
                UIntPtr scope, size;
                byte* where = arena.Text(domain, out scope), what = arena.Needed(name, nameof(name), out size);
                Failure.Check(Native.kvrt_store_pin(Handle, where, scope, what, size, pinned, &err), &err);
            }
        }

        /// <summary>Sets when a saved session expires. One that is expired and not pinned is NOT_FOUND, and Gc removes it.</summary>
        /// <param name="name">The session's name.</param>
        /// <param name="seconds">From now, at most 100 years; 0: never.</param>
        /// <param name="domain">Its domain.</param>
        /// <exception cref="KvrtException">NOT_FOUND, INVALID: more than 100 years. BUSY, NO_SPACE, IO, CORRUPT.</exception>
        public void SetTtl(string name, ulong seconds, string domain = null)
        {
            using (Arena arena = new Arena())
            {
                kvrt_error err = Failure.New();
                UIntPtr scope, size;
                byte* where = arena.Text(domain, out scope), what = arena.Needed(name, nameof(name), out size);
                Failure.Check(Native.kvrt_store_set_ttl(Handle, where, scope, what, size, seconds, &err), &err);
            }
        }

        /// <summary>Removes expired sessions, chunks that no session needs, and empty files. It blocks as long as the work takes.</summary>
        /// <param name="progress">Receives PROGRESS. What it throws stops the call and comes out of it; the store is whole then, too.</param>
        /// <param name="token">Stops the call at the next PROGRESS, with an OperationCanceledException.</param>
        /// <exception cref="KvrtException">BUSY, NO_SPACE, IO, CORRUPT.</exception>
        public GcReport Gc(Action<Event> progress = null, CancellationToken token = default(CancellationToken))
        {
            using (Watch watch = new Watch(progress, token))
            {
                kvrt_error err = Failure.New();
                kvrt_gc_report raw = new kvrt_gc_report { struct_size = (uint)sizeof(kvrt_gc_report) };
                watch.Check(Native.kvrt_store_gc(Handle, Watch.Function, watch.User, &raw, &err), &err);
                return new GcReport(raw);
            }
        }

        /// <summary>Removes the backups of migrations and repairs, which still hold sessions that were removed since.</summary>
        /// <returns>The bytes that were in them.</returns>
        /// <exception cref="KvrtException">BUSY, IO.</exception>
        public ulong RemoveOld()
        {
            kvrt_error err = Failure.New();
            ulong bytes = 0;
            Failure.Check(Native.kvrt_store_remove_old(Handle, &bytes, &err), &err);
            return bytes;
        }

        /// <summary>Reads and checks the whole store. It finds damage, not forgery. It blocks until all is read.</summary>
        /// <param name="progress">Receives PROGRESS in bytes, and FAULT. What it throws stops the call and comes out of it.</param>
        /// <param name="token">Stops the call at the next event, with an OperationCanceledException.</param>
        /// <returns>The faults, in words; none: all is well.</returns>
        /// <exception cref="KvrtException">IO.</exception>
        public IReadOnlyList<string> Verify(Action<Event> progress = null, CancellationToken token = default(CancellationToken))
        {
            List<string> faults = new List<string>();
            Action<Event> note = e =>
            {
                if (e.Type == EventType.Fault) faults.Add(e.Text);
                progress?.Invoke(e);
            };
            using (Watch watch = new Watch(note, token))
            {
                kvrt_error err = Failure.New();
                int status = Native.kvrt_store_verify(Handle, Watch.Function, watch.User, &err);
                bool told = status == Native.KVRT_CORRUPT && faults.Count > 0;
                watch.Check(told ? Native.KVRT_OK : status, &err);
                return faults;
            }
        }

        /// <summary>
        /// Gives the store back. The directory closes when its sessions are closed, too. Any thread, also beside a call; more than once.
        /// </summary>
        public void Dispose()
        {
            handle.Dispose();
        }
    }
}
