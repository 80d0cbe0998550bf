using System.Collections.Generic;
using System.Linq;

namespace Kvrt.Tests
{
    /// <summary>The same answers, and what was proposed of them.</summary>
    internal static class Speculation
    {
        private static readonly int[] Again = { 5, 6, 7, 8, 5, 6, 7, 8, 5, 6, 7, 8 };

        private static Session Open(Rig rig)
        {
            Session session = rig.Model.OpenSession();
            session.Append(Again);
            return session;
        }

        private static int[] Spoken(Rig rig, GenerateOptions options, out Report report)
        {
            List<int> tokens = new List<int>();
            using (Session session = Open(rig))
                report = session.Generate(options, e => { if (e.Type == EventType.Token) tokens.Add(e.Token); });
            return tokens.ToArray();
        }

        private static GenerateOptions Plain(bool sampled)
        {
            GenerateOptions options = Rig.Tokens(24);
            options.LogitBias = new Dictionary<int, float> { { 5, 50f }, { 6, 50f } };  // answers of two tokens repeat what lookup finds
            if (!sampled) return options;
            options.Temperature = 1.2f;
            options.TopK = 40;
            options.Seed = 7;
            options.RepetitionPenalty = 1.1f;
            return options;
        }

        internal static void SameAnswer()
        {
            using (Rig rig = new Rig())
            using (Model draft = rig.Runtime.OpenModel(Rig.ModelFile))
            {
                ulong drafted = 0, accepted = 0;
                foreach (bool sampled in new[] { false, true })
                {
                    int[] want = Spoken(rig, Plain(sampled), out Report report);
                    Check.Equal(0ul, report.Drafted + report.Accepted, "without");
                    string text = rig.Model.Detokenize(want);
                    for (int kind = 0; kind < 4; kind++)
                    {
                        GenerateOptions options = Plain(sampled);
                        options.DraftTokensMax = 6;
                        options.DraftTokensMin = 3;
                        options.Lookup = kind == 0 || kind == 3;
                        options.Draft = kind == 1 || kind == 3 ? draft : null;
                        options.Prediction = kind == 2 ? text : null;
                        Check.Same(want, Spoken(rig, options, out report), "kind " + kind);
                        Check.True(report.Drafted > 0 && report.Accepted <= report.Drafted, "drafted " + report.Drafted + " of kind " + kind);
                        Check.True(report.Accepted > 0 || options.Draft == null || sampled, "it is the same model");
                        drafted += report.Drafted;
                        accepted += report.Accepted;
                    }
                }
                Metrics metrics = rig.Model.Metrics();
                Check.Equal(drafted, metrics.Drafted, "drafted");
                Check.Equal(accepted, metrics.Accepted, "accepted");
            }
        }

        internal static void KeptUntilDone()
        {
            using (Rig rig = new Rig())
            using (Session session = Open(rig))
            {
                int[] want = Spoken(rig, Rig.Tokens(20), out Report report);
                Model draft = rig.Runtime.OpenModel(Rig.ModelFile);
                GenerateOptions options = Rig.Tokens(20);
                options.Draft = draft;
                options.DraftTokensMin = 3;
                List<int> got = new List<int>();
                report = session.Generate(options, e =>
                {
                    if (e.Type == EventType.Token) got.Add(e.Token);
                    if (got.Count == 1) draft.Dispose();
                });
                Check.Same(want, got, "tokens");
                Check.True(report.Accepted > 0, "accepted");
                Check.Throws<System.ObjectDisposedException>(() => session.Generate(options, e => { }), "a draft that is disposed");
            }
        }

        internal static void Refused()
        {
            using (Rig rig = new Rig())
            using (Rig other = new Rig())
            using (Session session = Open(rig))
                foreach (GenerateOptions bad in new[]
                {
                    new GenerateOptions { Draft = rig.Model }, new GenerateOptions { Draft = other.Model },
                    new GenerateOptions { Lookup = true, DraftTokensMax = 33 },
                    new GenerateOptions { Lookup = true, DraftTokensMax = 2, DraftTokensMin = 3 }
                })
                    Check.Fails(Status.Invalid, () => session.Generate(bad, e => { }));
        }
    }
}
