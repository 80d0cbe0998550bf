using System;
using System.Collections;
using System.Collections.Generic;
using System.Text;
using System.Threading;
using System.Threading.Tasks;

namespace Kvrt
{
    /// <summary>
    /// A generation to enumerate once: its events up to DONE, by foreach, or by await foreach, which needs no thread while it waits. It begins when
    /// the
    /// loop does. Leaving the loop ends the generation, and waits for the step that it is in.
    /// </summary>
    public sealed partial class Generation : IEnumerable<Event>
    {
        private readonly Session session;
        private readonly GenerateOptions options;
        private readonly CancellationToken token;
        private int enumerated;
        private Report report;

        internal Generation(Session session, GenerateOptions options, CancellationToken token)
        {
            this.session = session;
            this.options = options;
            this.token = token;
        }

        /// <summary>The usage, once the generation has ended.</summary>
        /// <exception cref="InvalidOperationException">It has not ended, or it failed.</exception>
        public Report Report
        {
            get
            {
                if (report == null) throw new InvalidOperationException("the generation has not ended, or it failed");
                return report;
            }
        }

        /// <summary>Begins the generation. MoveNext blocks until there is an event.</summary>
        /// <exception cref="InvalidOperationException">It has been enumerated.</exception>
        /// <exception cref="KvrtException">As Session.Begin; MoveNext: as Session.Next.</exception>
        public IEnumerator<Event> GetEnumerator()
        {
            return new Events(Begin(CancellationToken.None));
        }

        IEnumerator IEnumerable.GetEnumerator()
        {
            return GetEnumerator();
        }

        /// <summary>
        /// Begins the generation, for await foreach. One thread of the pool computes for all tasks that wait for sessions of the model.
        /// </summary>
        /// <param name="cancellationToken">Ends the generation within a step; MoveNextAsync then throws an OperationCanceledException.</param>
        /// <exception cref="InvalidOperationException">It has been enumerated.</exception>
        /// <exception cref="KvrtException">As Session.Begin; MoveNextAsync: as Session.Next.</exception>
        public AsyncEvents GetAsyncEnumerator(CancellationToken cancellationToken = default(CancellationToken))
        {
            return new AsyncEvents(Begin(cancellationToken));
        }

        /// <summary>The whole text, up to the end.</summary>
        /// <exception cref="KvrtException">As Session.Begin and Session.Next.</exception>
        public string Read()
        {
            StringBuilder text = new StringBuilder();
            foreach (Event e in this) Add(text, e);
            return text.ToString();
        }

        /// <summary>The whole text, up to the end, as a task.</summary>
        /// <param name="cancellationToken">Ends the generation within a step; the task is then cancelled.</param>
        public async Task<string> ReadAsync(CancellationToken cancellationToken = default(CancellationToken))
        {
            StringBuilder text = new StringBuilder();
            AsyncEvents events = GetAsyncEnumerator(cancellationToken);
            try
            {
                while (await events.MoveNextAsync().ConfigureAwait(false)) Add(text, events.Current);
            }
            finally
            {
                await events.DisposeAsync().ConfigureAwait(false);
            }
            return text.ToString();
        }

        private static void Add(StringBuilder text, Event e)
        {
            if (e.Type == EventType.Token || e.Type == EventType.Done) text.Append(e.Text);
        }

        private Running Begin(CancellationToken second)
        {
            if (Interlocked.Exchange(ref enumerated, 1) != 0) throw new InvalidOperationException("a generation is enumerated once");
            return new Running(session, options, token, second, done => report = done);
        }
    }

    /// <summary>A generation that has begun.</summary>
    internal sealed class Running
    {
        private readonly Action<Report> ended;
        private readonly int number;
        private readonly CancellationToken[] tokens;
        private readonly CancellationTokenRegistration[] registrations;

        internal Running(Session session, GenerateOptions options, CancellationToken first, CancellationToken second, Action<Report> ended)
        {
            Session = session;
            this.ended = ended;
            tokens = new[] { first, second };
            ThrowIfCancelled();
            number = session.BeginNumbered(options);
            registrations = new[] { first.Register(session.Stop), second.Register(session.Stop) };
        }

        internal Session Session { get; }

        internal bool Over { get; private set; }

        internal bool Cancelled => tokens[0].IsCancellationRequested || tokens[1].IsCancellationRequested;

        /// <summary>
        /// To be called with the event that came at last, if any: a generation that ended by itself is whole, whatever fired since.
        /// </summary>
        internal void ThrowIfCutShort(Event last)
        {
            if (Over && (last == null || last.Reason == Reason.Cancelled)) ThrowIfCancelled();
        }

        private void ThrowIfCancelled()
        {
            foreach (CancellationToken token in tokens) token.ThrowIfCancellationRequested();
        }

        /// <summary>The next event. Null: there is none yet, or it is over.</summary>
        internal Event Pull(int timeoutMs)
        {
            Event e;
            try
            {
                e = Session.Next(timeoutMs);
            }
            catch (KvrtException x) when (x.Status == Status.Busy || x.Detail == Detail.State || x.Status == Status.NoMemory)
            {
                throw;  // it may generate on
            }
            catch
            {
                End(null);
                throw;
            }
            if (e.Type == EventType.None) return null;
            if (e.Type != EventType.Done && e.Type != EventType.Idle) return e;
            End(e.Report);
            return e.Type == EventType.Done ? e : null;
        }

        /// <summary>Lets the model compute until the bell rings.</summary>
        internal async Task Wait(Task rung)
        {
            Session.Kick();
            try
            {
                await rung.ConfigureAwait(false);
            }
            finally
            {
                Session.Rest();
            }
        }

        /// <summary>Asks for the end. False: there is nothing left to take.</summary>
        internal bool Leave()
        {
            if (Over) return false;
            if (!Session.IsLast(number))
            {
                End(null);
                return false;
            }
            Session.Stop();
            return true;
        }

        /// <summary>Takes an event of a generation that was left. False: there is none yet, or it is over.</summary>
        internal bool Drain(int timeoutMs)
        {
            try
            {
                return Pull(timeoutMs) != null && !Over;
            }
            catch (KvrtException e) when (e.Status != Status.Busy)
            {
                End(null);  // it failed at last: nobody asks for its events any more
            }
            catch (ObjectDisposedException)
            {
                End(null);
            }
            return false;
        }

        private void End(Report report)
        {
            Over = true;
            if (report != null) ended(report);
            foreach (CancellationTokenRegistration registration in registrations) registration.Dispose();
        }
    }

    internal sealed class Events : IEnumerator<Event>
    {
        private readonly Running running;

        internal Events(Running running)
        {
            this.running = running;
        }

        public Event Current { get; private set; }

        object IEnumerator.Current => Current;

        public bool MoveNext()
        {
            if (running.Over) return false;
            Current = null;
            if (running.Cancelled) Dispose();
            else Current = running.Pull(-1);
            running.ThrowIfCutShort(Current);
            return Current != null;
        }

        public void Reset()
        {
            throw new NotSupportedException();
        }

        public void Dispose()
        {
            if (!running.Leave()) return;
            while (!running.Over) running.Drain(-1);
        }
    }

    /// <summary>The events of a generation, for await foreach.</summary>
    public sealed partial class AsyncEvents
    {
        private readonly Running running;

        internal AsyncEvents(Running running)
        {
            this.running = running;
        }

        /// <summary>The event that the last MoveNextAsync came to.</summary>
        public Event Current { get; private set; }

        /// <summary>Goes to the next event. False: the generation is over.</summary>
        /// <exception cref="OperationCanceledException">A CancellationToken ended it.</exception>
        /// <exception cref="KvrtException">As Session.Next.</exception>
        public async Task<bool> MoveNextAsync()
        {
            Current = null;
            while (!running.Over && !running.Cancelled)
            {
                Task rung = running.Session.Bell.Arm();
                Current = running.Pull(0);
                if (Current != null || running.Over) break;
                await running.Wait(rung).ConfigureAwait(false);
            }
            if (running.Cancelled && !running.Over && Current == null) await DisposeAsync().ConfigureAwait(false);
            running.ThrowIfCutShort(Current);
            return Current != null;
        }

        /// <summary>Ends the generation, and waits for the step that it is in.</summary>
        public async Task DisposeAsync()
        {
            if (!running.Leave()) return;
            while (true)
            {
                Task rung = running.Session.Bell.Arm();
                while (running.Drain(0))
                {
                }
                if (running.Over) return;
                await running.Wait(rung).ConfigureAwait(false);
            }
        }
    }
}
