using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Runtime.CompilerServices;
using System.Threading;
using System.Threading.Tasks;

namespace Kvrt.Tests
{
    /// <summary>Calls that others end, by a cancel or an exception; and one call at a time.</summary>
    internal static class Control
    {
        private static readonly GenerateOptions Endless = new GenerateOptions { IgnoreEos = true };

        private sealed class Mine : Exception
        {
        }

        internal static void CancelFromAThread()
        {
            using (Rig rig = new Rig())
            using (CancellationTokenSource source = new CancellationTokenSource())
            using (Cancel cancel = new Cancel())
            using (Session session = rig.Open())
            {
                // The loop goes on to DONE.
                int seen = 0;
                Generation generation = session.Generate(Endless);
                foreach (Event e in generation)
                    if (++seen == 3) Aside(session.Cancel);
                Check.Equal(Reason.Cancelled, generation.Report.Reason, "by Session.Cancel");

                generation = session.Generate(new GenerateOptions { IgnoreEos = true, Cancel = cancel });
                Check.True(!cancel.Fired, "not fired");
                seen = 0;
                foreach (Event e in generation)
                    if (++seen == 3) Aside(cancel.Fire);
                Check.True(cancel.Fired, "fired");
                Check.Equal(Reason.Cancelled, generation.Report.Reason, "by Cancel.Fire");

                // A token throws.
                seen = 0;
                OperationCanceledException thrown = Check.Throws<OperationCanceledException>(() =>
                {
                    foreach (Event e in session.Generate(Endless, source.Token))
                        if (++seen == 3) Aside(source.Cancel);
                });
                Check.Equal(source.Token, thrown.CancellationToken, "the token");
                Check.Equal(State.Idle, session.Info().State, "state");

                // The calls that block.
                Check.Fails(Status.Cancelled, () => session.Generate(Endless, e => Aside(session.Cancel)));
                using (CancellationTokenSource late = new CancellationTokenSource())
                {
                    late.CancelAfter(30);
                    Check.Throws<OperationCanceledException>(() => session.Generate(Endless, e => session.Truncate0(), late.Token));
                }
                Check.Throws<OperationCanceledException>(() => rig.Runtime.OpenModel(Rig.ModelFile, null, null, source.Token), "OpenModel");
                Check.Throws<OperationCanceledException>(() => rig.Store.Gc(null, source.Token), "Gc");
                Check.Equal(3, Rig.Answer(session, 3).Length, "it goes on");
            }
        }

        /// <summary>Reads within a callback: they are allowed. It keeps the context from filling up before the token fires.</summary>
        private static void Truncate0(this Session session)
        {
            session.Info();
            Thread.Sleep(1);
        }

        private static void Aside(Action work)
        {
            Task.Run(work).Wait();
        }

        internal static void CancelBeforeBegin()
        {
            using (Rig rig = new Rig())
            using (CancellationTokenSource source = new CancellationTokenSource())
            using (Cancel cancel = new Cancel())
            using (Session session = rig.Open())
            {
                cancel.Fire();
                source.Cancel();
                Generation generation = session.Generate(new GenerateOptions { Cancel = cancel });
                Check.Same(new[] { EventType.Done }, generation.Select(e => e.Type), "DONE alone");
                Check.Equal(0ul, generation.Report.Generated, "generated");
                Check.Throws<OperationCanceledException>(() => session.Generate(Endless, source.Token).Read(), "a loop");
                Check.Throws<OperationCanceledException>(() => session.Generate(Endless, e => { }, source.Token), "a callback");
                Check.Throws<OperationCanceledException>(() => session.Prefill(Logits.None, null, source.Token), "a prefill");
                Task<string> read = session.Generate(Endless).ReadAsync(source.Token);
                Check.Throws<OperationCanceledException>(() => read.GetAwaiter().GetResult(), "a task");
                Check.Equal(State.Idle, session.Info().State, "state");
                Check.Equal(4, session.Tokens().Length, "no token came");
                cancel.Dispose();
                Check.Throws<ObjectDisposedException>(() => session.Begin(new GenerateOptions { Cancel = cancel }));
            }
        }

        internal static void CancelAsync()
        {
            using (Rig rig = new Rig())
            using (Session session = rig.Open())
            {
                for (int i = 0; i < 10; i++)
                {
                    CancellationTokenSource source = new CancellationTokenSource();
                    Task<string> read = session.Generate(Endless, i % 2 == 0 ? source.Token : CancellationToken.None)
                        .ReadAsync(i % 2 == 1 ? source.Token : CancellationToken.None);
                    Thread.Sleep(i);
                    source.Cancel();
                    Check.Throws<OperationCanceledException>(() => read.GetAwaiter().GetResult(), "the task is cancelled");
                    Check.True(read.IsCanceled, "cancelled, not failed");
                    Check.Equal(State.Idle, session.Info().State, "state");
                    session.Truncate(4);
                }
                Task<string> other = session.Generate(Endless).ReadAsync();
                Thread.Sleep(5);
                session.Dispose();
                Task ended = Task.WhenAny(other);
                Check.True(ended.Wait(30000), "Dispose ends the task");
                // It took DONE, or found the session closed.
                Check.True(!other.IsFaulted || other.Exception.InnerException is ObjectDisposedException, "" + other.Exception);
            }
        }

        internal static void LeavingALoop()
        {
            using (Rig rig = new Rig())
            using (Session session = rig.Open())
            {
                Generation generation = session.Generate(Endless);
                foreach (Event e in generation)
                    if (e.Type == EventType.Token) break;
                Check.Equal(State.Idle, session.Info().State, "state after break");
                Check.Equal(Reason.Cancelled, generation.Report.Reason, "reason");
                Check.Throws<Mine>(() =>
                {
                    foreach (Event e in session.Generate(Endless)) throw new Mine();
                });
                Check.Equal(State.Idle, session.Info().State, "state after an exception");
                IEnumerator<Event> old = session.Generate(Endless).GetEnumerator();
                old.MoveNext();
                session.Cancel();
                while (session.Next().Type != EventType.Done)
                {
                }
                session.Begin(Rig.Tokens(3));
                old.Dispose();
                Event last;
                do last = session.Next(); while (last.Type != EventType.Done);
                Check.Equal(Reason.MaxTokens, last.Reason, "an old loop leaves a new generation alone");
            }
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        private static void ThrowMine(Event e)
        {
            throw new Mine();
        }

        internal static void Exceptions()
        {
            using (Rig rig = new Rig())
            using (Session session = rig.Open())
            {
                session.Checkpoint("a");
                Action<string, Action> check = (what, call) =>
                {
                    Mine thrown = Check.Throws<Mine>(call, what);
                    Check.True(thrown.StackTrace.Contains("ThrowMine"), what + ": its stack is " + thrown.StackTrace);
                };
                check("generate", () => session.Generate(Endless, ThrowMine));
                check("prefill", () => session.Prefill(Logits.Last, ThrowMine));
                check("open", () => rig.Runtime.OpenModel(Rig.ModelFile, null, ThrowMine).Dispose());
                check("gc", () => rig.Store.Gc(ThrowMine));
                check("verify", () => rig.Store.Verify(ThrowMine));
                int calls = 0;
                check("the last event", () => session.Generate(Rig.Tokens(2), e =>
                {
                    calls++;
                    if (e.Type == EventType.Done) ThrowMine(e);
                }));
                check("the first event alone", () => session.Generate(Endless, e =>
                {
                    calls = 0;
                    ThrowMine(e);
                }));
                Check.Equal(0, calls, "no event after the exception");
                Check.Equal(State.Idle, session.Info().State, "state");
                Check.Equal(2, Rig.Answer(session, 2).Length, "it goes on");
            }
        }

        internal static void KeptExceptions()
        {
            int unobserved = 0;
            EventHandler<UnobservedTaskExceptionEventArgs> note = (sender, e) =>
            {
                if (e.Exception.InnerExceptions.Any(inner => inner is Mine)) Interlocked.Increment(ref unobserved);
                e.SetObserved();
            };
            TaskScheduler.UnobservedTaskException += note;
            try
            {
                RuntimeOptions options = new RuntimeOptions { LogLevel = LogLevel.Debug, Log = (level, text) => { throw new Mine(); } };
                using (Runtime runtime = new Runtime(options))
                using (Model model = runtime.OpenModel(Rig.ModelFile))
                using (Session session = model.OpenSession(new SessionOptions { Wake = () => { throw new Mine(); } }))
                {
                    session.Append(Rig.Prompt);
                    Check.Equal(3, Rig.Answer(session, 3).Length, "the calls go on");
                    Check.True(session.Fork(() => { throw new Mine(); }).Generate(Rig.Tokens(2)).ReadAsync().Result.Length > 0, "and the tasks");
                }
                Check.Soon(() => Volatile.Read(ref unobserved) > 1, "UnobservedTaskException");
            }
            finally
            {
                TaskScheduler.UnobservedTaskException -= note;
            }
        }

        /// <summary>A line that comes on a thread of the library's own, which the collector then has to stop.</summary>
        internal static void LogFromTheLibrarysThread()
        {
            string folder = Path.Combine(Path.GetTempPath(), "kvrt-csharp-" + Guid.NewGuid().ToString("N"));
            Directory.CreateDirectory(folder);
            List<string> lines = new List<string>();
            HashSet<int> threads = new HashSet<int>();
            RuntimeOptions logged = new RuntimeOptions
            {
                Log = (level, text) =>
                {
                    lock (lines)
                    {
                        lines.Add(text);
                        threads.Add(Thread.CurrentThread.ManagedThreadId);
                    }
                }
            };
            using (Runtime runtime = new Runtime(logged))
            using (Model model = runtime.OpenModel(Rig.ModelFile))
            using (Store store = runtime.OpenStore(Path.Combine(folder, "store")))
            {
                SessionOptions same = new SessionOptions { Store = store, AutosaveName = "taken", AutosaveTurn = true };
                using (Session first = model.OpenSession(same))
                using (Session second = model.OpenSession(same))
                {
                    foreach (Session session in new[] { first, second })
                    {
                        session.Append(Rig.Prompt);
                        Rig.Answer(session, 2);
                        Check.Soon(() => store.List().Count > 0, "the first save");
                    }
                    Check.Soon(() => { lock (lines) return lines.Any(line => line.Contains("autosave")); }, "a line about the second save");
                    lock (lines) Check.True(!threads.Contains(Thread.CurrentThread.ManagedThreadId), "it came on another thread");
                    for (int i = 0; i < 20; i++) GC.Collect();
                    Check.Equal(2, Rig.Answer(first, 2).Length, "it goes on");
                }
            }
            Directory.Delete(folder, true);
        }

        internal static void OneCallAtATime()
        {
            using (Rig rig = new Rig(2))
            using (Session session = rig.Open())
            {
                using (ManualResetEventSlim inside = new ManualResetEventSlim())
                using (ManualResetEventSlim leave = new ManualResetEventSlim())
                {
                    Task call = Task.Run(() => session.Generate(Rig.Tokens(5), e =>
                    {
                        inside.Set();
                        leave.Wait();
                    }));
                    inside.Wait();
                    Check.Equal(Detail.Concurrent, Check.Fails(Status.Busy, () => session.Append(Rig.Prompt)).Detail, "append");
                    Check.Equal(Detail.Concurrent, Check.Fails(Status.Busy, () => session.Next(0)).Detail, "next");
                    Check.True(session.Tokens().Length >= 4, "reads go beside it");
                    session.Checkpoint("beside");
                    using (Session other = rig.Open()) Check.Equal(2, Rig.Answer(other, 2).Length, "so do other sessions");
                    leave.Set();
                    call.Wait();
                }
                List<Detail> details = new List<Detail>();
                session.Generate(Rig.Tokens(2), e => details.Add(Check.Fails(Status.Busy, () => session.Append(Rig.Prompt)).Detail));
                Check.True(details.Count > 2 && details.All(d => d == Detail.Reentrant), "in its own callback");
            }
        }
    }
}
