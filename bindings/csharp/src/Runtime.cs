using System;
using System.Runtime.CompilerServices;
using System.Threading;

namespace Kvrt
{
    /// <summary>
    /// A device with its threads, and the log. It opens models and stores, which keep it alive: handles may be disposed in any order. Any number of
    /// threads may use it at once.
    /// </summary>
    public sealed unsafe class Runtime : IDisposable
    {
        private readonly RuntimeHandle handle;

        private RuntimeHandle Handle => handle.Live();

        /// <summary>Opens a runtime. It blocks for milliseconds: the kernels check themselves; a CUDA driver takes longer to start.</summary>
        /// <param name="options">Null is all defaults: the CPU, a thread for each CPU that affinity and cgroup leave, no log.</param>
        /// <exception cref="KvrtException">LIMIT: more than 256 threads. UNSUPPORTED, INCOMPATIBLE, DEVICE: see kvrt_runtime_open.</exception>
        public Runtime(RuntimeOptions options = null)
        {
            _ = Library.Version;
            handle = Open(options);
        }

        [MethodImpl(MethodImplOptions.NoInlining)]  // as Library.Check
        private static RuntimeHandle Open(RuntimeOptions options)
        {
            using (Arena arena = new Arena())
            {
                kvrt_error err = Failure.New();
                IntPtr user;
                kvrt_runtime_options raw = Fill.Of(options, arena, out user);
                RuntimeHandle made;
                int status = Native.kvrt_runtime_open(&raw, out made, &err);
                if (status != Native.KVRT_OK && user != IntPtr.Zero) Kept.Free(user);
                Failure.Check(status, &err);
                return made;
            }
        }

        /// <summary>Describes the device, its threads and libraries.</summary>
        public RuntimeInfo Info()
        {
            kvrt_error err = Failure.New();
            kvrt_runtime_props raw = new kvrt_runtime_props { struct_size = (uint)sizeof(kvrt_runtime_props) };
            Failure.Check(Native.kvrt_runtime_info(Handle, &raw, &err), &err);
            return new RuntimeInfo(raw);
        }

        /// <summary>Sets the number of compute threads from the next step on, at any time.</summary>
        /// <param name="threads">1 to 256; 0: one for each CPU that affinity and cgroup leave.</param>
        /// <exception cref="KvrtException">LIMIT: more than 256.</exception>
        public void SetThreads(uint threads)
        {
            kvrt_error err = Failure.New();
            Failure.Check(Native.kvrt_runtime_set_threads(Handle, threads, &err), &err);
        }

        /// <summary>Opens a GGUF file, which must not change while the model is open. It blocks until the file is read.</summary>
        /// <param name="path">The file; of a split model the first. Null with FromFd.</param>
        /// <param name="options">Null is all defaults.</param>
        /// <param name="progress">Receives PROGRESS in bytes, on this thread. What it throws stops the call and comes out of it.</param>
        /// <param name="token">Stops the call at the next PROGRESS, with an OperationCanceledException.</param>
        /// <exception cref="KvrtException">NOT_FOUND, CORRUPT, UNSUPPORTED, LIMIT, NO_MEMORY, IO: see kvrt_model_open.</exception>
        public Model OpenModel(string path, ModelOptions options = null, Action<Event> progress = null,
            CancellationToken token = default(CancellationToken))
        {
            if (path == null && (options == null || !options.FromFd)) throw new ArgumentNullException(nameof(path));
            using (Arena arena = new Arena())
            using (Watch watch = new Watch(progress, token))
            {
                kvrt_error err = Failure.New();
                UIntPtr size;
                byte* name = arena.Text(path, out size);
                kvrt_model_options raw = Fill.Of(options, arena);
                ModelHandle made;
                watch.Check(Native.kvrt_model_open(Handle, name, size, &raw, Watch.Function, watch.User, out made, &err), &err);
                return new Model(made);
            }
        }

        /// <summary>
        /// Opens a store, and makes it where there is none. Its files hold the conversations in clear: keep the directory as private as these. It
        /// blocks
        /// up to 5 seconds for other writers, and for the disk.
        /// </summary>
        /// <param name="path">The directory, on a local file system.</param>
        /// <param name="options">Null is all defaults.</param>
        /// <exception cref="KvrtException">NOT_FOUND, BUSY, CORRUPT, INCOMPATIBLE, UNSUPPORTED, INVALID, IO, NO_SPACE: see
        /// kvrt_store_open.</exception>
        public Store OpenStore(string path, StoreOptions options = null)
        {
            using (Arena arena = new Arena())
            {
                kvrt_error err = Failure.New();
                UIntPtr size;
                byte* name = arena.Needed(path, nameof(path), out size);
                kvrt_store_options raw = Fill.Of(options);
                StoreHandle made;
                Failure.Check(Native.kvrt_store_open(Handle, name, size, &raw, out made, &err), &err);
                return new Store(made);
            }
        }

        /// <summary>
        /// Repairs a store that does not open, or in which Store.Verify finds faults. Nobody may have it open. It blocks until all of the directory
        /// is
        /// read, and written anew where it must be.
        /// </summary>
        /// <param name="path">The directory.</param>
        /// <param name="callback">Receives FAULT: a fault, and its treatment; PROGRESS in bytes. A repair that it stops has changed nothing.</param>
        /// <param name="token">Stops the call at the next event, with an OperationCanceledException.</param>
        /// <exception cref="KvrtException">NOT_FOUND: no store is there. BUSY: somebody has it open. INCOMPATIBLE, NO_SPACE, IO.</exception>
        public RepairReport RepairStore(string path, Action<Event> callback = null, CancellationToken token = default(CancellationToken))
        {
            using (Arena arena = new Arena())
            using (Watch watch = new Watch(callback, token))
            {
                kvrt_error err = Failure.New();
                UIntPtr size;
                byte* name = arena.Needed(path, nameof(path), out size);
                kvrt_repair_report raw = new kvrt_repair_report { struct_size = (uint)sizeof(kvrt_repair_report) };
                watch.Check(Native.kvrt_store_repair(Handle, name, size, Watch.Function, watch.User, &raw, &err), &err);
                return new RepairReport(raw);
            }
        }

        /// <summary>Computes the memory that a model and its sessions will take, from the file's header alone.</summary>
        /// <param name="path">The file; null: a geometry, in the options.</param>
        /// <param name="options">Null: one session of the model's context.</param>
        /// <exception cref="KvrtException">NOT_FOUND, IO, CORRUPT, UNSUPPORTED, INVALID, LIMIT: see kvrt_model_plan.</exception>
        public Plan Plan(string path, PlanOptions options = null)
        {
            using (Arena arena = new Arena())
            {
                kvrt_error err = Failure.New();
                UIntPtr size;
                byte* name = arena.Text(path, out size);
                kvrt_plan_options raw = Fill.Of(options);
                kvrt_plan plan = new kvrt_plan { struct_size = (uint)sizeof(kvrt_plan) };
                Failure.Check(Native.kvrt_model_plan(Handle, name, size, &raw, &plan, &err), &err);
                return new Plan(plan);
            }
        }

        /// <summary>Describes the weight cache that the options name, and makes nothing.</summary>
        /// <param name="options">CacheDir, Cache and CacheBytesMax are read; null: the cache that OpenModel takes by itself.</param>
        /// <exception cref="KvrtException">NOT_FOUND: the options name no directory. INVALID, IO, UNSUPPORTED: it can get no new file.</exception>
        public CacheInfo Cache(ModelOptions options = null)
        {
            using (Arena arena = new Arena())
            {
                kvrt_error err = Failure.New();
                kvrt_model_options raw = Fill.Of(options, arena);
                kvrt_cache_props props = new kvrt_cache_props { struct_size = (uint)sizeof(kvrt_cache_props) };
                Failure.Check(Native.kvrt_model_cache(Handle, &raw, &props, &err), &err);
                return new CacheInfo(props);
            }
        }

        /// <summary>Describes the contents of a GGUF file as JSON, from its header alone: kvrt_model_inspect has the names.</summary>
        /// <param name="path">The file.</param>
        /// <param name="all">Arrays to their end; without it their first elements alone.</param>
        /// <exception cref="KvrtException">NOT_FOUND, CORRUPT, IO, LIMIT.</exception>
        public string Inspect(string path, bool all = false)
        {
            using (Arena arena = new Arena())
            {
                UIntPtr size;
                byte* name = arena.Needed(path, nameof(path), out size);
                uint flags = all ? (uint)Native.KVRT_INSPECT_ALL : 0;
                UIntPtr length = size;
                return Utf8.Read((buffer, capacity, needed, err) =>
                    Native.kvrt_model_inspect(Handle, name, length, flags, buffer, capacity, needed, err));
            }
        }

        /// <summary>Gives the runtime back. What it opened goes on. Any thread, also beside a call, which ends first; more than once.</summary>
        public void Dispose()
        {
            handle.Dispose();
        }
    }
}
