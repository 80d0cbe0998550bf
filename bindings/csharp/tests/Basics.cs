using System;
using System.Collections.Generic;
using System.Linq;
using System.Text;
using System.Threading;
using System.Threading.Tasks;

namespace Kvrt.Tests
{
    internal static class Basics
    {
        internal static void Open()
        {
            List<string> log = new List<string>();
            RuntimeOptions options = new RuntimeOptions { Threads = 2, LogLevel = LogLevel.Debug };
            options.Log = (level, text) => { lock (log) log.Add(text); };
            List<ulong> progress = new List<ulong>();
            using (Runtime runtime = new Runtime(options))
            using (Model model = runtime.OpenModel(Rig.ModelFile, new ModelOptions { BlockTokens = 16 }, e => progress.Add(e.Done)))
            using (Session session = model.OpenSession())
            {
                Check.Equal(2u, runtime.Info().Threads, "threads");
                runtime.SetThreads(1);
                Check.Equal(1u, runtime.Info().Threads, "threads");
                Check.Equal("cpu", runtime.Info().Device, "device");
                Check.Equal("llama", model.Info().Architecture, "architecture");
                Check.Equal(16u, model.Info().BlockTokens, "block_tokens");
                Check.Equal(1, model.Info().KvGroupLayers.Length, "groups");
                Check.Equal(1ul, model.Info().Sessions, "sessions");
                Check.Equal(State.Idle, session.Info().State, "state");
                Check.Equal(32, session.Info().Id.Length, "id");
                Check.True(session.Resumed == null, "it was not resumed");
            }
            Check.True(progress.Count > 0 && progress.Last() > 100000, "progress");
            Check.True(log.Count > 0 && log.All(line => line.Length > 0), "log");
            KvrtException e2 = Check.Fails(Status.NotFound, () => new Runtime().OpenModel("/nowhere/ä.gguf"));
            Check.True(e2.Message.Contains("/nowhere/ä.gguf") && e2.OsCode == 2, e2.Message);
            Check.Fails(Status.Invalid, () => new Runtime(new RuntimeOptions { Isa = (Isa)99, Log = options.Log }));
        }

        internal static void ResumeOrOpen()
        {
            using (Rig rig = new Rig())
            {
                int[] whole;
                using (Session session = rig.Open()) whole = Rig.Answer(session, 12);
                Check.Fails(Status.NotFound, () => rig.Model.Resume(rig.Store, "ann"));
                SessionOptions domain = new SessionOptions { Domain = "d" };
                using (Session session = rig.Model.ResumeOrOpen(rig.Store, "ann", domain))
                {
                    Check.True(session.Resumed == null && domain.Store == null, "it is new");
                    session.Append(new[] { 1, 2, 3 });
                    session.Suspend("ann");
                }
                using (Session session = rig.Model.ResumeOrOpen(rig.Store, "ann", domain))
                    Check.Equal(3ul, session.Resumed.PromptTokens, "of the domain");
                using (Session session = rig.Open())
                {
                    Check.Same(whole.Take(5), Rig.Answer(session, 5), "the first part");
                    SaveReport saved = session.Suspend("ann", new SaveOptions { Durability = Durability.Kv, Pin = 3 });
                    Check.Equal(9ul, saved.Tokens, "saved tokens");
                    Check.Equal(State.Suspended, session.Info().State, "state");
                }
                List<Event> progress = new List<Event>();
                using (Session session = rig.Model.Resume(rig.Store, "ann", null, progress.Add))
                {
                    Check.Equal(9ul, session.Resumed.PromptTokens, "resumed tokens");
                    Check.Equal(1ul, session.Resumed.Prefilled, "the last token alone is computed");
                    Check.True(progress.All(e => e.Type == EventType.Progress), "progress");
                    Check.Same(whole.Skip(5), Rig.Answer(session, 7), "the second part has the same tokens");
                    using (Session other = rig.Open())
                    {
                        KvrtException e = Check.Fails(Status.Conflict, () => other.Checkpoint("ann"));
                        Check.Equal(Detail.NameTaken, e.Detail, "detail");
                        other.Checkpoint("ann", new SaveOptions { Overwrite = true });
                    }
                }
                Check.Equal(3u, rig.Store.Stat("ann").Pinned, "pinned");
            }
        }

        internal static void Stream()
        {
            using (Rig rig = new Rig())
            using (Session session = rig.Open())
            {
                Generation generation = session.Generate(new GenerateOptions { MaxTokens = 6, IgnoreEos = true, TopLogprobs = 3 });
                Check.Equal(State.Idle, session.Info().State, "it begins with the loop");
                Check.Throws<InvalidOperationException>(() => generation.Report.ToString());
                List<Event> events = generation.ToList();
                Event[] tokens = events.Where(e => e.Type == EventType.Token).ToArray();
                Check.Equal(6, tokens.Length, "tokens");
                Check.True(tokens.All(e => e.Top.Length == 3 && e.Top[0].Token == e.Token && Math.Abs(e.Top[0].Value - e.Logprob) < 1e-4), "top");
                Check.Same(session.Tokens().Skip(4), tokens.Select(e => e.Token), "tokens of the session");
                Check.Equal(EventType.Done, events.Last().Type, "the last event");
                Check.Equal(Reason.MaxTokens, generation.Report.Reason, "reason");
                Check.Equal(6ul, generation.Report.Generated, "generated");
                Check.Throws<InvalidOperationException>(() => generation.ToList(), "a second loop");

                session.Truncate(4);
                int seen = 0;
                Report report = session.Generate(Rig.Tokens(6), e => seen += e.Type == EventType.Token ? 1 : 0);
                Check.Equal(6, seen, "tokens of the callback");
                Check.Equal(6ul, report.Generated, "generated");
                Check.Same(tokens.Select(e => e.Token), session.Tokens().Skip(4), "the callback's tokens");

                session.Truncate(4);
                string text = session.Generate(new GenerateOptions { MaxTokens = 40, IgnoreEos = true }).Read();
                Check.Equal(session.Text(4).TrimEnd('\ufffd'), text.TrimEnd('\ufffd'), "text");
                string stop = text.Substring(3, 2);
                session.Truncate(4);
                Generation stopped = session.Generate(new GenerateOptions { IgnoreEos = true, StopStrings = new[] { stop, "\u20ac" } });
                Check.Equal(text.Substring(0, text.IndexOf(stop, StringComparison.Ordinal)), stopped.Read(), "text before the stop string");
                Check.Equal(Reason.Stop, stopped.Report.Reason, "reason");
                session.Truncate(4);
                GenerateOptions biased = new GenerateOptions
                {
                    MaxTokens = 4, IgnoreEos = true, LogitBias = new Dictionary<int, float> { { 9, 1000f } }, StopTokens = new[] { 9, 10 }
                };
                Check.Same(new[] { 9 }, session.Generate(biased).Where(e => e.Type == EventType.Token).Select(e => e.Token), "bias and stop token");
            }
        }

        internal static void StreamAsync()
        {
            using (Rig rig = new Rig())
            {
                int[] expected;
                using (Session session = rig.Open()) expected = Rig.Answer(session, 20);
                // The assembly for netstandard2.0 has the shape alone.
                bool named = Environment.GetEnvironmentVariable("KVRT_TEST_TARGET") == "netstandard2.1";
                using (Session session = rig.Open())
                    Check.Equal(named, (object)session.Generate() is IAsyncEnumerable<Event>, "IAsyncEnumerable");
                if (named) Async(rig, expected).GetAwaiter().GetResult();
                Pattern(rig, expected).GetAwaiter().GetResult();
            }
        }

        /// <summary>By the interface.</summary>
        private static async Task Async(Rig rig, int[] expected)
        {
            using (Session session = rig.Open())
            {
                Generation generation = session.Generate(Rig.Tokens(20));
                IAsyncEnumerable<Event> events = (IAsyncEnumerable<Event>)(object)generation;
                List<int> tokens = new List<int>();
                IAsyncEnumerator<Event> loop = events.GetAsyncEnumerator(CancellationToken.None);
                try
                {
                    while (await loop.MoveNextAsync())
                        if (loop.Current.Type == EventType.Token) tokens.Add(loop.Current.Token);
                }
                finally
                {
                    await loop.DisposeAsync();
                }
                Check.Same(expected, tokens, "tokens");
                Check.Equal(20ul, generation.Report.Generated, "generated");
                Check.True(!await loop.MoveNextAsync(), "after the end");
            }
        }

        /// <summary>By the shape, as await foreach does; and leaving the loop.</summary>
        private static async Task Pattern(Rig rig, int[] expected)
        {
            using (Session session = rig.Open())
            {
                AsyncEvents loop = session.Generate(new GenerateOptions { IgnoreEos = true }).GetAsyncEnumerator();
                List<int> tokens = new List<int>();
                while (tokens.Count < 7 && await loop.MoveNextAsync())
                    if (loop.Current.Type == EventType.Token) tokens.Add(loop.Current.Token);
                await loop.DisposeAsync();
                await loop.DisposeAsync();
                Check.Same(expected.Take(7), tokens, "tokens");
                Check.Equal(State.Idle, session.Info().State, "state");
                session.Truncate(4);
                string text = await session.Generate(Rig.Tokens(20)).ReadAsync();
                Check.Equal(session.Text(4).TrimEnd('\ufffd'), text.TrimEnd('\ufffd'), "text");
            }
        }

        /// <summary>Many tasks need few threads, and have the tokens that each has alone.</summary>
        internal static void StreamAsyncMany()
        {
            using (Rig rig = new Rig())
            {
                string expected;
                using (Session session = rig.Open()) expected = session.Generate(Rig.Tokens(30)).Read();
                Session[] sessions = Enumerable.Range(0, 24).Select(n => rig.Open()).ToArray();
                int before = System.Diagnostics.Process.GetCurrentProcess().Threads.Count;
                Task<string>[] answers = sessions.Select(s => s.Generate(Rig.Tokens(30)).ReadAsync()).ToArray();
                Task all = Task.WhenAll(answers);
                int most = 0;
                while (!all.Wait(1)) most = Math.Max(most, System.Diagnostics.Process.GetCurrentProcess().Threads.Count);
                Check.True(answers.All(a => a.Result == expected), "each answer");
                Check.True(most - before < 16, before + " threads before, " + most + " at most");
                foreach (Session session in sessions) session.Dispose();
                Check.Soon(() => rig.Model.Info().Sessions == 0, "no session is left");
            }
        }

        internal static void Reads()
        {
            using (Rig rig = new Rig())
            using (Session session = rig.Model.OpenSession())
            {
                AppendInfo first = session.AppendMessage("system", "Be brief.");
                AppendInfo info = session.AppendMessage("user", "Hello \"you\" \\ \u0001\n\U0001f600");
                Check.Equal(0ul, info.Rewritten, "rewritten");
                Check.Equal((ulong)session.Tokens().Length, first.Appended + info.Appended, "appended");
                int[] answer = Rig.Answer(session, 5);
                Check.Equal(3ul, session.Info().Messages, "messages");
                Message user = session.Message(1), mine = session.Message(2);
                Check.Equal("{\"role\":\"user\",\"content\":\"Hello \\\"you\\\" \\\\ \\u0001\\n\U0001f600\"}", user.Json, "json");
                Check.True(!user.Generated && mine.Generated, "generated");
                Check.Same(answer, session.Tokens().Take((int)mine.End).Reverse().Take(5).Reverse(), "its tokens");
                Check.True(session.Text(user.Begin, user.End, TextFlags.Special).Contains("\U0001f600"), "text");
                byte[] bytes = session.TextBytes(user.Begin, user.End);
                Check.Equal(Encoding.UTF8.GetString(bytes), session.Text(user.Begin, user.End), "bytes");
                string messages = "[" + session.Message(0).Json + ", " + user.Json + ", " + mine.Json + "]";
                Check.Equal(0ul, session.SetMessages(messages).Rewritten, "the same messages");
                Check.True(session.SetMessages("[" + Json.Message("user", "Goodbye") + "]").Rewritten > 0, "other messages");
                Check.Fails(Status.NotFound, () => session.Message(9));
                Check.Fails(Status.Invalid, () => session.AppendMessage("no JSON"));
                Check.Throws<ArgumentException>(() => session.AppendText("half a pair: \ud83d"));
                Check.Equal("", session.Text(0, 0), "nothing");
                string large = new string('x', 5000) + "\u20ac";
                Check.Equal(large, rig.Model.Detokenize(rig.Model.Tokenize(large)), "a large text");
                Check.Equal(0, rig.Model.Tokenize("").Length, "no text");
                Check.Same(new byte[] { 0xe2 }, rig.Model.DetokenizeBytes(rig.Model.Tokenize("\u20ac").Take(1).ToArray()), "a part of a character");
            }
        }

        internal static void Templates()
        {
            using (Rig rig = new Rig())
            {
                string messages = "[" + Json.Message("user", "Hi \U0001f600") + "]";
                Check.True(rig.Model.ApplyTemplate(messages).EndsWith("assistant\n", StringComparison.Ordinal), "the model's template");
                Check.True(!rig.Model.ApplyTemplate(messages, new TemplateOptions { NoGenerationPrompt = true }).Contains("assistant"), "no turn");
                TemplateOptions own = new TemplateOptions
                {
                    Source = "{{ tools | length }}:{{ documents[0].title }}:{{ x }}:{{ messages[0].content }}", Tools = "[{\"name\": \"f\"}]",
                    Documents = "[{\"title\": \"t\"}]", Variables = "{\"x\": 7}"
                };
                Check.Equal("1:t:7:Hi \U0001f600", Model.RenderTemplate(messages, own), "a template without a model");
                KvrtException e = Check.Fails(Status.Invalid, () => Model.RenderTemplate(messages, new TemplateOptions { Source = "{{" }));
                Check.Equal(Detail.TemplateError, e.Detail, "detail");
            }
        }

        /// <summary>The host chooses: in the loop, in a callback, and one event at a time.</summary>
        internal static void Sampler()
        {
            using (Rig rig = new Rig())
            using (Session session = rig.Open())
            {
                int[] greedy = Rig.Answer(session, 6);
                GenerateOptions host = new GenerateOptions { MaxTokens = 6, IgnoreEos = true, Sampler = Kvrt.Sampler.Host };
                Func<float[], int> best = row => Array.IndexOf(row, row.Max());
                session.Truncate(4);
                List<int> tokens = new List<int>();
                foreach (Event e in session.Generate(host))
                {
                    if (e.Type == EventType.Logits) session.Accept(best(e.Logits));
                    if (e.Type == EventType.Token) tokens.Add(e.Token);
                }
                Check.Same(greedy, tokens, "in a loop");
                session.Truncate(4);
                session.Generate(host, e => { if (e.Logits != null) session.Accept(best(e.Logits)); });
                Check.Same(greedy, session.Tokens().Skip(4), "in a callback");
                session.Truncate(4);
                session.Begin(host);
                Check.Equal(EventType.None, session.Next(0).Type, "nothing is computed yet");
                Event logits;
                do logits = session.Next(); while (logits.Type != EventType.Logits);
                Check.Equal(Detail.State, Check.Fails(Status.Invalid, () => session.Next()).Detail, "accept is due");
                Check.True(session.Info().AwaitsAccept, "awaits_accept");
                session.Accept(best(logits.Logits));
                Check.Equal(greedy[0], session.Next().Token, "the token");
                session.Cancel();
                Event e2;
                do e2 = session.Next(); while (e2.Type != EventType.Done);
                Check.Equal(Reason.Cancelled, e2.Reason, "reason");
                Check.Equal(EventType.Idle, session.Next().Type, "after the end");
            }
        }

        internal static void ForkAndRewind()
        {
            using (Rig rig = new Rig())
            using (Session session = rig.Open())
            {
                int[] whole = Rig.Answer(session, 20);
                session.Mark();
                using (Session fork = session.Fork())
                {
                    fork.Truncate(4 + 8);
                    Generation again = fork.Generate(Rig.Tokens(12));
                    Check.Same(whole.Skip(8), again.Where(e => e.Type == EventType.Token).Select(e => e.Token), "the fork's tokens");
                    Check.Equal(11ul, again.Report.ReusedMemory, "reused");
                    Check.True(fork.Info().Id != session.Info().Id, "an id of its own");
                }
                Check.Same(whole, session.Tokens().Skip(4), "the first session");
                session.Erase(2, 4);
                Check.Equal(22, session.Tokens().Length, "tokens after erase");
                Check.Fails(Status.Invalid, () => session.Truncate(100));
                session.Truncate(2);
                Report report = session.Prefill();
                Check.Equal(2ul, report.PromptTokens, "prompt");
                Check.Equal(Reason.Prefilled, report.Reason, "reason");
                List<Event> rows = new List<Event>();
                session.Append(new[] { 9, 10, 11 });
                session.Prefill(Logits.All, e => { if (e.Logits != null) rows.Add(e); });
                Check.Same(Enumerable.Range(0, 5).Select(n => (ulong)n), rows.Select(e => e.Position), "positions of logits");
            }
        }

        private static string Tool(string name)
        {
            return "{\"type\": \"function\", \"function\": {\"name\": \"" + name + "\", \"parameters\": {\"type\": \"object\", " +
                "\"properties\": {\"n\": {\"enum\": [1, 2]}}, \"required\": [\"n\"]}}}";
        }

        internal static void ToolsAndSchema()
        {
            using (Rig rig = new Rig())
            {
                using (Session session = rig.Model.OpenSession(new SessionOptions { Tools = "[" + Tool("f") + ", " + Tool("g") + "]" }))
                {
                    session.AppendMessage("user", "Hello");
                    GenerateOptions named = new GenerateOptions
                    {
                        Reply = Reply.Hermes, ToolChoice = ToolChoice.Named, ToolName = "g", ParallelCallsMax = 1, Temperature = 1f, Seed = 7
                    };
                    string[] calls = session.Generate(named).Where(e => e.Type == EventType.ToolCall).Select(e => e.Text).ToArray();
                    Check.Equal(1, calls.Length, "calls");
                    string call = calls[0].Replace(" ", "");
                    Check.True(call.Contains("\"g\"") && (call.Contains("{\"n\":1}") || call.Contains("{\"n\":2}")), calls[0]);
                    named.ToolName = "h";
                    Check.Fails(Status.Invalid, () => session.Generate(named).Read());
                }
                using (Session session = rig.Open())
                {
                    string schema = "{\"enum\": [\"yes\", \"no\"]}";
                    string answer = session.Generate(new GenerateOptions { GrammarKind = GrammarKind.JsonSchema, Grammar = schema }).Read();
                    Check.True(answer == "\"yes\"" || answer == "\"no\"", answer);
                    GenerateOptions broken = new GenerateOptions { GrammarKind = GrammarKind.Gbnf, Grammar = "root ::= (" };
                    KvrtException e = Check.Fails(Status.Invalid, () => session.Generate(broken).Read());
                    Check.True(e.Detail == Detail.GrammarError && e.Message.Contains("line 1"), e.Message);
                }
            }
        }
    }
}
