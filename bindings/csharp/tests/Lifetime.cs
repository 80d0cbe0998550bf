using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Runtime.CompilerServices;
using System.Threading;

namespace Kvrt.Tests
{
    /// <summary>Handles that are disposed, or dropped, at any time.</summary>
    internal static class Lifetime
    {
        private static readonly GenerateOptions Endless = new GenerateOptions { IgnoreEos = true };

        internal static void DisposeBeside()
        {
            using (Rig rig = new Rig(2))
            {
                for (int i = 0; i < 20; i++)
                {
                    Session session = rig.Open();
                    Exception ended = null;
                    using (ManualResetEventSlim running = new ManualResetEventSlim())
                    {
                        Thread thread = new Thread(() =>
                        {
                            try
                            {
                                if (i % 2 == 0)
                                    foreach (Event e in session.Generate(Endless)) running.Set();
                                else
                                    session.Generate(Endless, e =>
                                    {
                                        running.Set();
                                        Thread.Sleep(10);  // the context is not full before Dispose comes
                                    });
                            }
                            catch (Exception e)
                            {
                                ended = e;
                            }
                        });
                        thread.Start();
                        running.Wait();
                        Thread[] closers = Enumerable.Range(0, 3).Select(n => new Thread(session.Dispose)).ToArray();
                        foreach (Thread closer in closers) closer.Start();
                        foreach (Thread closer in closers) closer.Join();
                        thread.Join();
                    }
                    KvrtException failure = ended as KvrtException;
                    bool cancelled = failure != null && failure.Status == Status.Cancelled;
                    Check.True(cancelled || i % 2 == 0 && (ended == null || ended is ObjectDisposedException), "" + ended);
                }
                Check.Equal(0ul, rig.Model.Info().Sessions, "sessions");
            }
        }

        internal static void DisposeInACallback()
        {
            using (Rig rig = new Rig())
            {
                Session session = rig.Open();
                int after = 0;
                Check.Fails(Status.Cancelled, () => session.Generate(Endless, e =>
                {
                    session.Dispose();
                    if (e.Type != EventType.Done) after++;
                    Check.Equal(1ul, rig.Model.Info().Sessions, "it is open until the call returns");
                }));
                Check.Equal(0ul, rig.Model.Info().Sessions, "sessions");
                Check.Throws<ObjectDisposedException>(() => session.Tokens());
            }
        }

        /// <summary>The last Dispose gives the weights back, without the collector.</summary>
        internal static void DisposeGivesTheModelBack()
        {
            using (Rig rig = new Rig())
            {
                string cache = Path.Combine(rig.Folder, "weights");
                Func<bool> mapped = () => File.ReadAllText("/proc/self/maps").Contains(cache);
                ModelOptions options = new ModelOptions { CacheDir = cache };
                rig.Runtime.OpenModel(Rig.ModelFile, options).Dispose();
                Model model = rig.Runtime.OpenModel(Rig.ModelFile, options);
                Session session = model.OpenSession(), fork = session.Fork();
                Check.True(mapped(), "the weights are mapped");
                model.Dispose();
                session.Dispose();
                Check.True(mapped(), "a session keeps them");
                fork.Dispose();
                Check.True(!mapped(), "the last session gives them back");
                GC.KeepAlive(session);
            }
        }

        internal static void DisposeAnyOrder()
        {
            string folder = Path.Combine(Path.GetTempPath(), "kvrt-csharp-" + Guid.NewGuid().ToString("N"));
            Directory.CreateDirectory(folder);
            for (int first = 0; first < 4; first++)
            {
                for (int step = 1; step < 4; step += 2)
                {
                    Runtime runtime = new Runtime(new RuntimeOptions { Threads = 1 });
                    Model model = runtime.OpenModel(Rig.ModelFile);
                    Store store = runtime.OpenStore(Path.Combine(folder, "store"));
                    Session session = model.OpenSession(new SessionOptions { Store = store });
                    session.Append(Rig.Prompt);
                    IDisposable[] handles = { runtime, model, store, session };
                    for (int i = 0; i < 4; i++)
                    {
                        int which = (first + i * step) % 4;
                        handles[which].Dispose();
                        handles[which].Dispose();
                        if (Enumerable.Range(0, i + 1).Any(n => (first + n * step) % 4 == 3)) continue;
                        Check.Equal(2, Rig.Answer(session, 2).Length, "the session goes on");
                        Check.True(session.Generate(Rig.Tokens(2)).ReadAsync().Result.Length > 0, "and its tasks");
                        session.Checkpoint("o", new SaveOptions { Overwrite = true });
                    }
                    Check.Throws<ObjectDisposedException>(() => runtime.Info());
                    Check.Throws<ObjectDisposedException>(() => model.OpenSession());
                    Check.Throws<ObjectDisposedException>(() => store.Info());
                    Check.Throws<ObjectDisposedException>(() => session.Info());
                }
            }
            Directory.Delete(folder, true);
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        private static void Drop(Rig rig, int count)
        {
            for (int i = 0; i < count; i++)
            {
                Session session = rig.Open();
                session.Fork();
            }
        }

        /// <summary>Garbage is made on a thread that ends: no stack of this one keeps it.</summary>
        private static void Aside(ThreadStart work, string what)
        {
            Exception failure = null;
            Thread thread = new Thread(() =>
            {
                try
                {
                    work();
                }
                catch (Exception e)
                {
                    failure = e;
                }
            });
            thread.Start();
            thread.Join();
            if (failure != null) throw new Exception(what, failure);
        }

        /// <summary>Sessions that nobody disposed go when the collector finds them, also inside a callback; one that is in a call stays.</summary>
        internal static void FinalizerDuringACall()
        {
            using (Rig rig = new Rig())
            {
                Aside(() => Drop(rig, 10), "drop");
                int seen = 0;
                Aside(() => rig.Open().Generate(Rig.Tokens(20), e =>
                {
                    if (++seen > 5) return;
                    Aside(() => Drop(rig, 10), "drop in a callback");
                    GC.Collect();
                    GC.WaitForPendingFinalizers();
                }), "a session that only its call holds");
                Check.True(seen >= 20, "its events");
                Check.Soon(() => rig.Model.Info().Sessions == 0, "no session is left");
            }
        }

        internal static void FinalizerAfterTheRuntime()
        {
            WeakReference[] dropped = null;
            using (Rig rig = new Rig())
            {
                Aside(() =>
                {
                    Runtime runtime = new Runtime(new RuntimeOptions { Threads = 1, Log = (level, text) => { } });
                    Model model = runtime.OpenModel(Rig.ModelFile);
                    Store store = runtime.OpenStore(Path.Combine(rig.Folder, "other"));
                    Session session = model.OpenSession(new SessionOptions { Store = store });
                    session.Append(Rig.Prompt);
                    Rig.Answer(session, 2);
                    runtime.Dispose();
                    model.Dispose();
                    dropped = new object[] { runtime, model, store, session }.Select(o => new WeakReference(o)).ToArray();
                }, "drop");
                Check.Soon(() => dropped.All(d => !d.IsAlive), "the collector takes them");
                // The directory closes with the last handle, so that another runtime repairs it.
                Check.Soon(() => Sound(rig), "the store is closed");
            }
        }

        private static bool Sound(Rig rig)
        {
            try
            {
                return rig.Runtime.RepairStore(Path.Combine(rig.Folder, "other")).Outcome == RepairOutcome.Sound;
            }
            catch (KvrtException e) when (e.Status == Status.Busy)
            {
                return false;
            }
        }
    }
}
