using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;

namespace Kvrt.Tests
{
    internal static class Stores
    {
        internal static void Calls()
        {
            using (Rig rig = new Rig())
            {
                using (Session session = rig.Open())
                {
                    session.Prefill();
                    session.Checkpoint("a");
                    session.Checkpoint("b", new SaveOptions { TtlSeconds = 1000, Codec = Codec.None });
                }
                using (Session session = rig.Open(new SessionOptions { Store = rig.Store, Domain = "d" })) session.Checkpoint("c\u00e4");
                Check.Same(new[] { "a", "b", "c\u00e4" }, rig.Store.List().Select(e => e.Name), "all domains");
                Check.Same(new[] { "a", "b" }, rig.Store.List("").Select(e => e.Name), "the default domain");
                Check.Same(new[] { "d" }, rig.Store.List("d").Select(e => e.Domain), "one domain");
                Check.Equal(3ul, rig.Store.Info().Sessions, "sessions");
                Check.True(rig.Store.Stat("b").ExpiresUnixMs > rig.Store.Stat("b").SavedUnixMs, "it expires");
                rig.Store.SetTtl("b", 0);
                Check.Equal(0L, rig.Store.Stat("b").ExpiresUnixMs, "it does not expire");
                rig.Store.Pin("a", 7);
                Check.Equal(7u, rig.Store.Stat("a").Pinned, "pinned");
                rig.Store.Rename("b", "e");
                Check.Equal(Detail.NameTaken, Check.Fails(Status.Conflict, () => rig.Store.Rename("e", "a")).Detail, "a name that is taken");
                Check.True(rig.Store.Show("c\u00e4", "d").Contains("\"tokens\""), "show");
                rig.Store.Remove("c\u00e4", "d");
                Check.Fails(Status.NotFound, () => rig.Store.Remove("c\u00e4", "d"));
                Check.Equal(0, rig.Store.Verify().Count, "faults");
                Check.True(rig.Store.Gc().Ms >= 0, "gc");
                Check.Equal(0ul, rig.Store.RemoveOld(), "no backups");
                string missing = Path.Combine(rig.Folder, "missing");
                Check.Fails(Status.NotFound, () => rig.Runtime.OpenStore(missing, new StoreOptions { MustExist = true }));
            }
        }

        internal static void Repair()
        {
            using (Rig rig = new Rig())
            {
                string path = Path.Combine(rig.Folder, "damaged");
                using (Store store = rig.Runtime.OpenStore(path))
                using (Session session = rig.Model.OpenSession(new SessionOptions { Store = store }))
                {
                    session.Append(Enumerable.Range(0, 200).Select(n => 5 + n % 50).ToArray());
                    session.Prefill();
                    session.Checkpoint("a", new SaveOptions { Durability = Durability.Kv });
                }
                Check.Fails(Status.Busy, () =>
                {
                    using (rig.Runtime.OpenStore(path)) rig.Runtime.RepairStore(path);
                });
                string segment = Directory.GetFiles(path, "*.seg", SearchOption.AllDirectories).Single();
                byte[] bytes = File.ReadAllBytes(segment);
                bytes[bytes.Length / 2] ^= 255;
                File.WriteAllBytes(segment, bytes);
                List<Event> events = new List<Event>();
                using (Store store = rig.Runtime.OpenStore(path)) Check.True(store.Verify(events.Add).Count > 0, "verify finds it");
                Check.True(events.Any(e => e.Type == EventType.Fault && e.Text.Length > 0), "FAULT");
                Check.True(events.Any(e => e.Type == EventType.Progress && e.Total > 0), "PROGRESS");
                RepairReport report = rig.Runtime.RepairStore(path);
                Check.True(report.Outcome == RepairOutcome.Mended && report.ChunksLost > 0, "" + report.Outcome);
                Check.Equal(1ul, report.SessionsKept, "sessions kept");
                Check.Fails(Status.NotFound, () => rig.Runtime.RepairStore(Path.Combine(rig.Folder, "missing")));
            }
        }

        internal static void Autosave()
        {
            using (Rig rig = new Rig())
            {
                SessionOptions options = new SessionOptions { Store = rig.Store, AutosaveName = "auto", AutosaveTurn = true };
                using (Session session = rig.Open(options)) Rig.Answer(session, 4);
                Check.Equal(8ul, rig.Store.Stat("auto").Tokens, "saved by Dispose at the latest");
                Check.Fails(Status.Invalid, () => rig.Model.OpenSession(new SessionOptions { AutosaveTurn = true }));

                SessionOptions turn = new SessionOptions { AutosaveTurn = true };
                for (int i = 1; i <= 2; i++)
                {
                    using (Session session = rig.Model.ResumeOrOpen(rig.Store, "ann", turn)) session.Append(Rig.Prompt);
                    Check.Equal((ulong)(i * Rig.Prompt.Length), rig.Store.Stat("ann").Tokens, "saved under the name that it was opened by");
                }
                turn.AutosaveName = "carl";
                using (Session session = rig.Model.ResumeOrOpen(rig.Store, "bob", turn)) session.Append(Rig.Prompt);
                Check.Equal((ulong)Rig.Prompt.Length, rig.Store.Stat("carl").Tokens, "saved under the name that was asked for");
                Check.Fails(Status.NotFound, () => rig.Store.Stat("bob"));
            }
        }

        internal static void ModelCalls()
        {
            using (Rig rig = new Rig())
            {
                Plan plan = rig.Runtime.Plan(Rig.ModelFile, new PlanOptions { Sessions = 2 });
                Check.True(plan.Fits && plan.Layers == rig.Model.Info().Layers && plan.KvGroupLayers.Length == 1, "plan");
                Check.Fails(Status.Invalid, () => rig.Runtime.Plan(null));
                PlanOptions geometry = new PlanOptions { Layers = 2, KvHeads = 1, HeadDim = 64, SessionTokens = 100 };
                Check.True(rig.Runtime.Plan(null, geometry).KvBytes > 0, "geometry");
                Check.True(rig.Runtime.Inspect(Rig.ModelFile, true).Length > rig.Runtime.Inspect(Rig.ModelFile).Length, "inspect");
                string cache = Path.Combine(rig.Folder, "cache");
                ModelOptions options = new ModelOptions { CacheDir = cache };
                Check.Equal(0u, rig.Runtime.Cache(options).Files, "an empty cache");
                using (Model model = rig.Runtime.OpenModel(Rig.ModelFile, options)) Check.True(model.Info().HasWeights, "weights");
                Check.True(rig.Runtime.Cache(options).Directory.EndsWith("/cache", StringComparison.Ordinal), "its directory");
                Check.Fails(Status.NotFound, () => rig.Runtime.Cache(new ModelOptions { Cache = Kvrt.Cache.None }));
                using (FileStream file = File.OpenRead(Rig.ModelFile))
                {
                    ModelOptions own = new ModelOptions { FromFd = true, Fd = (int)file.SafeFileHandle.DangerousGetHandle() };
                    using (Model model = rig.Runtime.OpenModel(null, own)) Check.Equal("llama", model.Info().Architecture, "by a descriptor");
                }
                using (Session session = rig.Open())
                {
                    session.Begin(Rig.Tokens(3));
                    while (rig.Model.Step() > 0)
                    {
                    }
                    int events = 0;
                    Event e;
                    while ((e = session.Next(0)).Type != EventType.Idle) events += e.Type == EventType.Token ? 1 : 0;
                    Check.Equal(3, events, "tokens of steps");
                }
                Check.Equal(3ul, rig.Model.Metrics().Generated, "metrics");
                Check.True(rig.Model.MetricsText("m\u00e4").Contains("model=\"m\u00e4\""), "metrics as text");
            }
        }
    }
}
