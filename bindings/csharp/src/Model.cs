using System;
using System.Threading;

namespace Kvrt
{
    /// <summary>Weights, tokenizer and chat template of a GGUF file, and a pool of KV blocks for its sessions, which keep it alive. Any number of
    /// threads may use it at once.</summary>
    public sealed unsafe class Model : IDisposable
    {
        private readonly ModelHandle handle;
        private readonly Pump pump = new Pump();

        internal ModelHandle Handle => handle.Live();

        internal Model(ModelHandle handle)
        {
            this.handle = handle;
        }

        /// <summary>Describes the model, and its pool as it is now.</summary>
        public ModelInfo Info()
        {
            kvrt_error err = Failure.New();
            kvrt_model_props raw = new kvrt_model_props { struct_size = (uint)sizeof(kvrt_model_props) };
            Failure.Check(Native.kvrt_model_info(Handle, &raw, &err), &err);
            return new ModelInfo(raw);
        }

        /// <summary>Turns text into tokens.</summary>
        /// <param name="text">The text. Half a surrogate pair is an ArgumentException, here and everywhere.</param>
        /// <param name="flags">Special, Bos.</param>
        /// <exception cref="KvrtException">INVALID: an unknown flag. LIMIT: the text is too long.</exception>
        public int[] Tokenize(string text, TextFlags flags = TextFlags.None)
        {
            using (Arena arena = new Arena())
            {
                UIntPtr size;
                byte* bytes = arena.Needed(text, nameof(text), out size);
                UIntPtr length = size;
                return Utf8.Read((buffer, capacity, needed, err) =>
                    Native.kvrt_model_tokenize(Handle, bytes, length, (uint)flags, (int*)buffer, capacity, needed, err), sizeof(int), Utf8.Tokens);
            }
        }

        /// <summary>Turns tokens into text. Bytes that are no whole character become U+FFFD; DetokenizeBytes gives them as they are.</summary>
        /// <param name="tokens">Token ids.</param>
        /// <param name="flags">Special.</param>
        /// <exception cref="KvrtException">INVALID: an unknown flag, or an id outside the vocabulary.</exception>
        public string Detokenize(int[] tokens, TextFlags flags = TextFlags.None)
        {
            return Detokenize(tokens, flags, Utf8.Of);
        }

        /// <summary>Turns tokens into their bytes. Where the last token ends within a character, they end within it, too.</summary>
        /// <param name="tokens">Token ids.</param>
        /// <param name="flags">Special.</param>
        /// <exception cref="KvrtException">INVALID: an unknown flag, or an id outside the vocabulary.</exception>
        public byte[] DetokenizeBytes(int[] tokens, TextFlags flags = TextFlags.None)
        {
            return Detokenize(tokens, flags, Utf8.Copy);
        }

        private T Detokenize<T>(int[] tokens, TextFlags flags, Utf8.Taker<T> take)
        {
            if (tokens == null) throw new ArgumentNullException(nameof(tokens));
            fixed (int* pinned = tokens)
            {
                int* ids = pinned;
                UIntPtr count = (UIntPtr)tokens.Length;
                return Utf8.Read((buffer, capacity, needed, err) =>
                    Native.kvrt_model_detokenize(Handle, ids, count, (uint)flags, buffer, capacity, needed, err), 1, take);
            }
        }

        /// <summary>Renders messages with the model's chat template, or with TemplateOptions.Source. It blocks for about 100 ms at most.</summary>
        /// <param name="messages">A JSON array of messages.</param>
        /// <param name="options">Null is all defaults.</param>
        /// <exception cref="KvrtException">INVALID: no JSON array of messages, or the template refuses them. LIMIT, UNSUPPORTED.</exception>
        public string ApplyTemplate(string messages, TemplateOptions options = null)
        {
            return Render(Handle, messages, options);
        }

        /// <summary>Renders messages with TemplateOptions.Source, without a model.</summary>
        /// <param name="messages">A JSON array of messages.</param>
        /// <param name="options">The template, and its variables.</param>
        /// <exception cref="KvrtException">INVALID: no JSON array of messages, or the template refuses them. LIMIT, UNSUPPORTED.</exception>
        public static string RenderTemplate(string messages, TemplateOptions options)
        {
            if (options == null) throw new ArgumentNullException(nameof(options));
            _ = Library.Version;
            using (ModelHandle none = new ModelHandle()) return Render(none, messages, options);
        }

        private static string Render(ModelHandle model, string messages, TemplateOptions options)
        {
            using (Arena arena = new Arena())
            {
                UIntPtr size;
                byte* bytes = arena.Needed(messages, nameof(messages), out size);
                UIntPtr length = size;
                kvrt_template_options* raw = (kvrt_template_options*)arena.Bytes(sizeof(kvrt_template_options));
                *raw = Fill.Of(options, arena);
                return Utf8.Read((buffer, capacity, needed, err) =>
                    Native.kvrt_model_apply_template(model, bytes, length, raw, buffer, capacity, needed, err));
            }
        }

        /// <summary>
        /// Computes for all generating sessions, for hosts with a loop of their own; take the events with Session.Next(0). It blocks for `ms`, or one
        /// step where that is longer.
        /// </summary>
        /// <param name="ms">Milliseconds; 0: one step.</param>
        /// <returns>The number of sessions that could go on now.</returns>
        public uint Step(uint ms = 0)
        {
            return Step(Handle, ms);
        }

        internal static uint Step(ModelHandle model, uint ms)
        {
            kvrt_error err = Failure.New();
            uint runnable = 0;
            Failure.Check(Native.kvrt_model_step(model, ms, &runnable, &err), &err);
            return runnable;
        }

        /// <summary>Gives the model's counters now.</summary>
        public Metrics Metrics()
        {
            kvrt_error err = Failure.New();
            kvrt_metrics raw = new kvrt_metrics { struct_size = (uint)sizeof(kvrt_metrics) };
            Failure.Check(Native.kvrt_model_metrics(Handle, &raw, &err), &err);
            return new Metrics(raw);
        }

        /// <summary>Gives the model's counters as text in Prometheus' format, version 0.0.4.</summary>
        /// <param name="label">The value of the label `model`; null: the model's name.</param>
        public string MetricsText(string label = null)
        {
            using (Arena arena = new Arena())
            {
                UIntPtr size;
                byte* bytes = arena.Text(label, out size);
                UIntPtr length = size;
                return Utf8.Read((buffer, capacity, needed, err) =>
                    Native.kvrt_model_metrics_text(Handle, bytes, length, buffer, capacity, needed, err));
            }
        }

        /// <summary>Opens an empty session. The first session with a store reads the whole model file.</summary>
        /// <param name="options">Null is all defaults: no store.</param>
        /// <exception cref="KvrtException">UNSUPPORTED: the file has a vocabulary alone. LIMIT: 65536 sessions are open. INVALID, IO.</exception>
        public Session OpenSession(SessionOptions options = null)
        {
            Bell bell = new Bell(options?.Wake);
            using (Arena arena = new Arena())
            {
                kvrt_error err = Failure.New();
                IntPtr user;
                kvrt_session_options raw = Fill.Of(options, bell, arena, out user);
                SessionHandle made = null;
                int status = Native.KVRT_INVALID;
                try
                {
                    status = Native.kvrt_session_open(Handle, &raw, out made, &err);
                }
                finally
                {
                    if (status != Native.KVRT_OK) Kept.Free(user);
                }
                Failure.Check(status, &err);
                return new Session(made, Handle, pump, bell, null);
            }
        }

        /// <summary>Opens a saved session, in this process or another, and loads its KV. It blocks until its chunks are read. One that is longer than
        /// the pool holds is SUSPENDED: it can be read, and made shorter.</summary>
        /// <param name="store">Where it was saved; SessionOptions.Store is ignored.</param>
        /// <param name="name">Its name.</param>
        /// <param name="options">The domain must be the one that it was saved in. Tools, Documents and Variables that are null stay as they were
        /// saved; all other options are as given here.</param>
        /// <param name="progress">Receives PROGRESS in chunks. What it throws stops the call and comes out of it.</param>
        /// <param name="token">Stops the call at the next PROGRESS, with an OperationCanceledException.</param>
        /// <returns>The session; Session.Resumed tells what came back.</returns>
        /// <exception cref="KvrtException">NOT_FOUND: no session of this name. INCOMPATIBLE, CORRUPT, LIMIT, UNSUPPORTED, BUSY, IO, INVALID: see
        /// kvrt_session_resume.</exception>
        public Session Resume(Store store, string name, SessionOptions options = null, Action<Event> progress = null,
            CancellationToken token = default(CancellationToken))
        {
            if (store == null) throw new ArgumentNullException(nameof(store));
            Bell bell = new Bell(options?.Wake);
            using (Arena arena = new Arena())
            using (Watch watch = new Watch(progress, token))
            {
                kvrt_error err = Failure.New();
                UIntPtr size;
                byte* bytes = arena.Needed(name, nameof(name), out size);
                kvrt_report report = new kvrt_report { struct_size = (uint)sizeof(kvrt_report) };
                IntPtr user;
                kvrt_session_options raw = Fill.Of(options, bell, arena, out user);
                SessionHandle made = null;
                int status = Native.KVRT_INVALID;
                try
                {
                    status = Native.kvrt_session_resume(
                        Handle, store.Handle, bytes, size, &raw, Watch.Function, watch.User, &report, out made, &err);
                }
                finally
                {
                    if (status != Native.KVRT_OK) Kept.Free(user);
                }
                watch.Check(status, &err);
                return new Session(made, Handle, pump, bell, new Report(report));
            }
        }

        /// <summary>
        /// The saved session of this name; where there is none, an empty one with these options and the store: Session.Resumed is null then. Autosave
        /// saves it under that name, unless AutosaveName is another; without autosave, save it under that name. Parameters and exceptions are those of
        /// Resume, but NOT_FOUND.
        /// </summary>
        public Session ResumeOrOpen(Store store, string name, SessionOptions options = null, Action<Event> progress = null,
            CancellationToken token = default(CancellationToken))
        {
            try
            {
                return Resume(store, name, options, progress, token);
            }
            catch (KvrtException e) when (e.Status == Status.NotFound)
            {
                return OpenSession((options ?? new SessionOptions()).With(store, name));
            }
        }

        /// <summary>Gives the model back; its sessions go on. Any thread, also beside a call, which ends first; more than once.</summary>
        public void Dispose()
        {
            handle.Dispose();
        }
    }
}
