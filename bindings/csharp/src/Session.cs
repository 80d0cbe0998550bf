using System;
using System.Threading;

namespace Kvrt
{
    /// <summary>A message of a session, and where it lies in it.</summary>
    public sealed class Message
    {
        internal Message(kvrt_message_props raw, string json)
        {
            Generated = raw.generated != 0;
            Begin = raw.begin;
            End = raw.end;
            Ended = raw.ended != 0;
            Json = json;
        }

        /// <summary>The message as JSON.</summary>
        public string Json { get; }

        /// <summary>Whether it is the model's own turn.</summary>
        public bool Generated { get; }

        /// <summary>The position of its first token. Between two messages there may be tokens that open a turn.</summary>
        public ulong Begin { get; }

        /// <summary>The position after its last token.</summary>
        public ulong End { get; }

        /// <summary>
        /// Whether the model ended it: it is generated, and its last token ends a turn. A generated message that has not ended was cut off, by a
        /// limit, a stop string, a cancellation or a kill, or is being generated: the next generation goes on with it.
        /// </summary>
        public bool Ended { get; }
    }

    /// <summary>
    /// One conversation with a model. It takes one call at a time: a second one is BUSY (CONCURRENT, or REENTRANT in a callback). Beside that call
    /// any
    /// thread may call Cancel, Accept, Checkpoint, Dispose, and the reads: Info, Tokens, Text, Message.
    /// </summary>
    public sealed unsafe partial class Session : IDisposable
    {
        private readonly object turn = new object();
        private readonly SessionHandle handle;
        private readonly Pump pump;
        private readonly Bell bell;

        private SessionHandle Handle => handle.Live();

        internal Session(SessionHandle handle, ModelHandle model, Pump pump, Bell bell, Report resumed)
        {
            this.handle = handle;
            this.pump = pump;
            this.bell = bell;
            Resumed = resumed;
            handle.Model = model.Retain();
        }

        /// <summary>What Model.Resume brought back; null: the session was not resumed.</summary>
        public Report Resumed { get; }

        /// <summary>
        /// The library lets one call in at a time; but the pointers of an event from next hold until the next call, and are read after next returns.
        /// So
        /// other threads stay out until then. A callback's own thread passes, and the library says REENTRANT.
        /// </summary>
        private void Enter()
        {
            if (!Monitor.TryEnter(turn))
                throw new KvrtException(Status.Busy, Detail.Concurrent, 0, "session: another thread is inside a call on it");
        }

        private void Leave()
        {
            Monitor.Exit(turn);
        }

        /// <summary>Describes the session as it is now. It waits for no step.</summary>
        public SessionInfo Info()
        {
            kvrt_error err = Failure.New();
            kvrt_session_props raw = new kvrt_session_props { struct_size = (uint)sizeof(kvrt_session_props) };
            Failure.Check(Native.kvrt_session_info(Handle, &raw, &err), &err);
            return new SessionInfo(raw);
        }

        /// <summary>Gives all token ids of the session.</summary>
        public int[] Tokens()
        {
            return Utf8.Read((buffer, capacity, needed, err) =>
                Native.kvrt_session_tokens(Handle, (int*)buffer, capacity, needed, err), sizeof(int), Utf8.Tokens);
        }

        /// <summary>
        /// Gives the text of the tokens [from, to). Bytes that are no whole character become U+FFFD; TextBytes gives them as they are.
        /// </summary>
        /// <param name="from">The first token.</param>
        /// <param name="to">The token after the last; ulong.MaxValue: the session's length.</param>
        /// <param name="flags">Special.</param>
        /// <exception cref="KvrtException">INVALID: an unknown flag, or a range past the end.</exception>
        public string Text(ulong from = 0, ulong to = ulong.MaxValue, TextFlags flags = TextFlags.None)
        {
            return Utf8.Read((buffer, capacity, needed, err) =>
                Native.kvrt_session_text(Handle, from, to, (uint)flags, buffer, capacity, needed, err));
        }

        /// <summary>Gives the bytes of the tokens [from, to). A range may begin or end within a character.</summary>
        /// <param name="from">The first token.</param>
        /// <param name="to">The token after the last; ulong.MaxValue: the session's length.</param>
        /// <param name="flags">Special.</param>
        /// <exception cref="KvrtException">INVALID: an unknown flag, or a range past the end.</exception>
        public byte[] TextBytes(ulong from = 0, ulong to = ulong.MaxValue, TextFlags flags = TextFlags.None)
        {
            return Utf8.Read((buffer, capacity, needed, err) =>
                Native.kvrt_session_text(Handle, from, to, (uint)flags, buffer, capacity, needed, err), 1, Utf8.Copy);
        }

        /// <summary>Gives a message, and where it lies.</summary>
        /// <param name="index">From 0 to SessionInfo.Messages.</param>
        /// <exception cref="KvrtException">NOT_FOUND: the session has fewer messages.</exception>
        public Message Message(ulong index)
        {
            kvrt_message_props raw = new kvrt_message_props { struct_size = (uint)sizeof(kvrt_message_props) };
            kvrt_message_props* props = &raw;
            string json = Utf8.Read((buffer, capacity, needed, err) =>
                Native.kvrt_session_message(Handle, index, props, buffer, capacity, needed, err));
            return new Message(raw, json);
        }

        /// <summary>Appends tokens as they are. The next generation computes them.</summary>
        /// <param name="tokens">Token ids.</param>
        /// <exception cref="KvrtException">INVALID: an id outside the vocabulary, or the session is FAILED. BUSY. LIMIT.</exception>
        public void Append(int[] tokens)
        {
            if (tokens == null) throw new ArgumentNullException(nameof(tokens));
            Enter();
            try
            {
                kvrt_error err = Failure.New();
                fixed (int* ids = tokens)
                    Failure.Check(Native.kvrt_session_append(Handle, ids, (UIntPtr)tokens.Length, &err), &err);
            }
            finally
            {
                Leave();
            }
        }

        /// <summary>
        /// Appends text, tokenized as Model.Tokenize does. The first text of an empty session gets a BOS where the model asks for it.
        /// </summary>
        /// <param name="text">The text.</param>
        /// <param name="flags">Special.</param>
        /// <exception cref="KvrtException">INVALID: an unknown flag, or the session is FAILED. BUSY. LIMIT.</exception>
        public void AppendText(string text, TextFlags flags = TextFlags.None)
        {
            Enter();
            try
            {
                using (Arena arena = new Arena())
                {
                    kvrt_error err = Failure.New();
                    UIntPtr size;
                    byte* bytes = arena.Needed(text, nameof(text), out size);
                    Failure.Check(Native.kvrt_session_append_text(Handle, bytes, size, (uint)flags, &err), &err);
                }
            }
            finally
            {
                Leave();
            }
        }

        /// <summary>Appends one message of text.</summary>
        /// <param name="role">Who says it: "system", "user", "assistant", "tool".</param>
        /// <param name="content">What is said.</param>
        /// <exception cref="KvrtException">As the other AppendMessage.</exception>
        public AppendInfo AppendMessage(string role, string content)
        {
            return AppendMessage(Json.Message(role, content));
        }

        /// <summary>
        /// Appends one message. The model's template renders it with the conversation before it; the next generation computes its tokens and makes a
        /// message of the answer. Tokens that belong to no message are dropped. It blocks for about 100 ms at most, longer where it
        /// rewrites tokens of earlier messages.
        /// </summary>
        /// <param name="json">A JSON object: `{"role": "user", "content": "Hello"}`.</param>
        /// <exception cref="KvrtException">INVALID: no JSON object with a role, the template refuses it, or the session is FAILED. LIMIT,
        /// UNSUPPORTED,
        /// BUSY.</exception>
        public AppendInfo AppendMessage(string json)
        {
            return Edit(json, false);
        }

        /// <summary>Makes the conversation be these messages. Leading messages that are equal stay as they are, with their KV.</summary>
        /// <param name="json">A JSON array of messages.</param>
        /// <returns>Where the tokens parted.</returns>
        /// <exception cref="KvrtException">As AppendMessage.</exception>
        public AppendInfo SetMessages(string json)
        {
            return Edit(json, true);
        }

        private AppendInfo Edit(string json, bool all)
        {
            Enter();
            try
            {
                using (Arena arena = new Arena())
                {
                    kvrt_error err = Failure.New();
                    UIntPtr size;
                    byte* bytes = arena.Needed(json, nameof(json), out size);
                    kvrt_append_info raw = new kvrt_append_info { struct_size = (uint)sizeof(kvrt_append_info) };
                    int status = all
                        ? Native.kvrt_session_set_messages(Handle, bytes, size, &raw, &err)
                        : Native.kvrt_session_append_message(Handle, bytes, size, &raw, &err);
                    Failure.Check(status, &err);
                    return new AppendInfo(raw);
                }
            }
            finally
            {
                Leave();
            }
        }

        /// <summary>
        /// Keeps the first `count` tokens, the messages that end within them, and of an answer that ends beyond what its tokens there say.
        /// Their KV stays.
        /// </summary>
        /// <param name="count">Tokens to keep.</param>
        /// <exception cref="KvrtException">INVALID: it has fewer tokens, or it is FAILED. BUSY.</exception>
        public void Truncate(ulong count)
        {
            Enter();
            try
            {
                kvrt_error err = Failure.New();
                Failure.Check(Native.kvrt_session_truncate(Handle, count, &err), &err);
            }
            finally
            {
                Leave();
            }
        }

        /// <summary>Drops the tokens [from, to) and the messages in them. The tokens after them move up and are computed again.</summary>
        /// <param name="from">The first token.</param>
        /// <param name="to">The token after the last.</param>
        /// <exception cref="KvrtException">INVALID: the range ends past the session, or cuts a message in two, or it is FAILED. BUSY.</exception>
        public void Erase(ulong from, ulong to)
        {
            Enter();
            try
            {
                kvrt_error err = Failure.New();
                Failure.Check(Native.kvrt_session_erase(Handle, from, to, &err), &err);
            }
            finally
            {
                Leave();
            }
        }

        /// <summary>Makes a boundary, from which a rewind goes on where layers have windows or are recurrent: kvrt_session_mark says more.</summary>
        /// <param name="tokens">The last end of a block within so many tokens; 0: all that it has.</param>
        /// <exception cref="KvrtException">INVALID: it has fewer tokens, or it is FAILED. BUSY. LIMIT: the pool has no room for it.</exception>
        public void Mark(ulong tokens = 0)
        {
            Enter();
            try
            {
                kvrt_error err = Failure.New();
                Failure.Check(Native.kvrt_session_mark(Handle, tokens, &err), &err);
            }
            finally
            {
                Leave();
            }
        }

        /// <summary>Makes a copy that shares all KV. It is not saved, and has a new id.</summary>
        /// <param name="wake">As SessionOptions.Wake.</param>
        /// <exception cref="KvrtException">INVALID: it is FAILED. BUSY. LIMIT: 65536 sessions of the model are open.</exception>
        public Session Fork(Action wake = null)
        {
            Bell fresh = new Bell(wake);
            Enter();
            try
            {
                using (Arena arena = new Arena())
                {
                    kvrt_error err = Failure.New();
                    IntPtr user;
                    kvrt_session_options raw = Fill.Of((SessionOptions)null, fresh, arena, out user);
                    SessionHandle made = null;
                    int status = Native.KVRT_INVALID;
                    try
                    {
                        status = Native.kvrt_session_fork(Handle, &raw, out made, &err);
                    }
                    finally
                    {
                        if (status != Native.KVRT_OK) Kept.Free(user);
                    }
                    Failure.Check(status, &err);
                    return new Session(made, Handle.Model, pump, fresh, null);
                }
            }
            finally
            {
                Leave();
            }
        }

        /// <summary>
        /// Ends the session. A call that another thread has on it is cancelled, and closes the session when it returns; so does the call of a
        /// callback
        /// that disposes. Else it blocks as kvrt_session_close does: for a checkpoint of another thread, and with autosave for a save. Any thread,
        /// more
        /// than once.
        /// </summary>
        public void Dispose()
        {
            try
            {
                if (!handle.IsClosed) Cancel();
            }
            catch (ObjectDisposedException)
            {
                // Another thread was faster.
            }
            handle.Dispose();  // a task that waits was woken by the cancel, and finds the session closed
        }
    }
}
