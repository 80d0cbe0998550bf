using System;
using System.Threading;

namespace Kvrt
{
    // What computes and what saves.
    public sealed unsafe partial class Session
    {
        private int begun;  // counts the generations

        /// <summary>Computes the appended tokens, to have the prompt's KV before it is needed. It blocks until DONE.</summary>
        /// <param name="logits">Which LOGITS events the callback gets.</param>
        /// <param name="callback">Receives PROGRESS, LOGITS and DONE, on this thread. What it throws stops the call and comes out of it.</param>
        /// <param name="token">Stops the call within a step, with an OperationCanceledException; the computed part stays.</param>
        /// <exception cref="KvrtException">INVALID: it has no tokens, or is FAILED. CANCELLED: by Cancel. BUSY, LIMIT, NO_MEMORY, DEVICE.</exception>
        public Report Prefill(Logits logits = Logits.None, Action<Event> callback = null, CancellationToken token = default(CancellationToken))
        {
            Enter();
            try
            {
                using (Watch watch = new Watch(callback, token))
                {
                    kvrt_error err = Failure.New();
                    kvrt_report raw = new kvrt_report { struct_size = (uint)sizeof(kvrt_report) };
                    int status;
                    using (token.Register(Stop))
                        status = Native.kvrt_session_prefill(Handle, (uint)logits, Watch.Function, watch.User, &raw, &err);
                    watch.Check(status, &err);
                    return new Report(raw);
                }
            }
            finally
            {
                Leave();
            }
        }

        /// <summary>Generates, and gives each event to a callback. It blocks until DONE.</summary>
        /// <param name="options">Null is all defaults.</param>
        /// <param name="callback">Receives TOKEN, PROGRESS, LOGITS and DONE, and with Reply the answer's parts, on this thread. What it throws stops
        /// the call and comes out of it. It may call anything but this session, of which Cancel, Accept, Checkpoint, Dispose and the reads
        /// work.</param>
        /// <param name="token">Stops the call within a step, with an OperationCanceledException; the tokens so far stay.</param>
        /// <exception cref="KvrtException">As Begin and Next. CANCELLED: by Cancel, or GenerateOptions.Cancel.</exception>
        public Report Generate(GenerateOptions options, Action<Event> callback, CancellationToken token = default(CancellationToken))
        {
            Enter();
            try
            {
                using (Arena arena = new Arena())
                using (Watch watch = new Watch(callback, token))
                {
                    token.ThrowIfCancellationRequested();
                    kvrt_error err = Failure.New();
                    kvrt_generate_options o = Fill.Of(options, arena);
                    kvrt_report raw = new kvrt_report { struct_size = (uint)sizeof(kvrt_report) };
                    int status;
                    using (token.Register(Stop))
                        status = Native.kvrt_session_generate(Handle, &o, Watch.Function, watch.User, &raw, &err);
                    watch.Check(status, &err);
                    return new Report(raw);
                }
            }
            finally
            {
                Leave();
            }
        }

        /// <summary>A generation to enumerate, by foreach or await foreach. It begins there: this call does nothing yet.</summary>
        /// <param name="options">Null is all defaults.</param>
        /// <param name="token">Ends the generation within a step; the loop then throws an OperationCanceledException.</param>
        public Generation Generate(GenerateOptions options = null, CancellationToken token = default(CancellationToken))
        {
            return new Generation(this, options, token);
        }

        /// <summary>Starts a generation, for a host that calls Next by itself. It computes nothing yet.</summary>
        /// <param name="options">Null is all defaults.</param>
        /// <exception cref="KvrtException">INVALID: an option; a malformed grammar; the template refuses the messages; the session has no tokens, or
        /// is FAILED. BUSY, LIMIT, UNSUPPORTED.</exception>
        public void Begin(GenerateOptions options = null)
        {
            BeginNumbered(options);
        }

        /// <summary>Begins, and gives the generation's number.</summary>
        internal int BeginNumbered(GenerateOptions options)
        {
            Enter();
            try
            {
                using (Arena arena = new Arena())
                {
                    kvrt_error err = Failure.New();
                    kvrt_generate_options raw = Fill.Of(options, arena);
                    Failure.Check(Native.kvrt_session_begin(Handle, &raw, &err), &err);
                    return ++begun;
                }
            }
            finally
            {
                Leave();
            }
        }

        /// <summary>Whether generation `number` is the last that was begun.</summary>
        internal bool IsLast(int number)
        {
            return Volatile.Read(ref begun) == number;
        }

        /// <summary>Gives the next event of a generation, and computes as needed.</summary>
        /// <param name="timeoutMs">Milliseconds to wait; below 0: as long as it takes; 0: only take an event that is there, never compute.</param>
        /// <returns>NONE: nothing came in time. IDLE: the session does not generate.</returns>
        /// <exception cref="KvrtException">LIMIT, DEVICE, INVALID, NO_MEMORY: the generation failed. INVALID (STATE): Accept is due.
        /// BUSY.</exception>
        public Event Next(int timeoutMs = -1)
        {
            Enter();
            bool held = false;
            try
            {
                Handle.DangerousAddRef(ref held);  // Dispose beside leaves the event's memory until it is copied
                kvrt_error err = Failure.New();
                kvrt_event raw = new kvrt_event { struct_size = (uint)sizeof(kvrt_event) };
                Failure.Check(Native.kvrt_session_next(Handle, &raw, timeoutMs, &err), &err);
                return new Event(&raw);
            }
            finally
            {
                if (held) handle.DangerousRelease();
                Leave();
            }
        }

        /// <summary>Lets the model's pump compute until this session has an event; `bell` rings then.</summary>
        internal void Kick()
        {
            pump.Kick(Handle.Model, bell);
        }

        /// <summary>Comes after each Kick, when `bell` has rung.</summary>
        internal void Rest()
        {
            pump.Forget(bell);
        }

        internal Bell Bell => bell;

        /// <summary>Says which token follows the position of the last LOGITS event, with Sampler.Host. Any thread, also in a callback.</summary>
        /// <param name="token">Its id.</param>
        /// <exception cref="KvrtException">INVALID: no token is asked for, or this one is outside the vocabulary or the grammar.</exception>
        public void Accept(int token)
        {
            kvrt_error err = Failure.New();
            Failure.Check(Native.kvrt_session_accept(Handle, token, &err), &err);
        }

        /// <summary>Ends a generation or prefill within one step, at its last token. Any thread. It waits for nothing.</summary>
        public void Cancel()
        {
            kvrt_error err = Failure.New();
            Failure.Check(Native.kvrt_session_cancel(Handle, &err), &err);
        }

        /// <summary>Cancel for a CancellationToken, which may fire when the session is closed.</summary>
        internal void Stop()
        {
            try
            {
                Cancel();
            }
            catch (ObjectDisposedException)
            {
                // Its generation has ended with it.
            }
        }

        /// <summary>
        /// Saves the session under a name in its store. It stays in memory, and goes on. Any thread, also while it generates. It blocks for a step,
        /// other
        /// saves of it, up to 5 seconds for other writers, and the disk.
        /// </summary>
        /// <param name="name">1 to 255 bytes of UTF-8.</param>
        /// <param name="options">Null is all defaults.</param>
        /// <exception cref="KvrtException">CONFLICT: another session has the name, or another handle saved it since. INVALID: it has no store, or is
        /// FAILED; no name. NO_SPACE, BUSY, IO, CORRUPT.</exception>
        public SaveReport Checkpoint(string name, SaveOptions options = null)
        {
            using (Arena arena = new Arena())
            {
                kvrt_error err = Failure.New();
                UIntPtr size;
                byte* bytes = arena.Needed(name, nameof(name), out size);
                kvrt_save_options o = Fill.Of(options);
                kvrt_save_report raw = new kvrt_save_report { struct_size = (uint)sizeof(kvrt_save_report) };
                Failure.Check(Native.kvrt_session_checkpoint(Handle, bytes, size, &o, &raw, &err), &err);
                return new SaveReport(raw);
            }
        }

        /// <summary>Saves the session as Checkpoint does, and then gives its blocks back. The next call that computes loads the KV again.</summary>
        /// <param name="name">1 to 255 bytes of UTF-8.</param>
        /// <param name="options">Null is all defaults.</param>
        /// <exception cref="KvrtException">As Checkpoint. BUSY also: it generates, or another call is inside.</exception>
        public SaveReport Suspend(string name, SaveOptions options = null)
        {
            Enter();
            try
            {
                using (Arena arena = new Arena())
                {
                    kvrt_error err = Failure.New();
                    UIntPtr size;
                    byte* bytes = arena.Needed(name, nameof(name), out size);
                    kvrt_save_options o = Fill.Of(options);
                    kvrt_save_report raw = new kvrt_save_report { struct_size = (uint)sizeof(kvrt_save_report) };
                    Failure.Check(Native.kvrt_session_suspend(Handle, bytes, size, &o, &raw, &err), &err);
                    return new SaveReport(raw);
                }
            }
            finally
            {
                Leave();
            }
        }
    }
}
