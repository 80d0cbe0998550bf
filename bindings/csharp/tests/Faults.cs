using System;
using System.Collections;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Text.RegularExpressions;

namespace Kvrt.Tests
{
    /// <summary>What a caller does wrong, and what it is told; and whether the comments are whole sentences.</summary>
    internal static class Faults
    {
        private static void Null(string parameter, Action work)
        {
            Check.Equal(parameter, Check.Throws<ArgumentNullException>(work, parameter).ParamName, "parameter");
        }

        internal static void NullArguments()
        {
            using (Rig rig = new Rig())
            using (Session session = rig.Open())
            {
                Null("path", () => rig.Runtime.OpenModel(null));
                Null("path", () => rig.Runtime.OpenModel(null, new ModelOptions()));
                Null("path", () => rig.Runtime.OpenStore(null));
                Null("path", () => rig.Runtime.RepairStore(null));
                Null("path", () => rig.Runtime.Inspect(null));
                Null("text", () => rig.Model.Tokenize(null));
                Null("tokens", () => rig.Model.Detokenize(null));
                Null("tokens", () => rig.Model.DetokenizeBytes(null));
                Null("messages", () => rig.Model.ApplyTemplate(null));
                Null("messages", () => Model.RenderTemplate(null, new TemplateOptions { Source = "" }));
                Null("options", () => Model.RenderTemplate("[]", null));
                Null("store", () => rig.Model.Resume(null, "ann"));
                Null("name", () => rig.Model.Resume(rig.Store, null));
                Null("tokens", () => session.Append(null));
                Null("text", () => session.AppendText(null));
                Null("json", () => session.AppendMessage(null));
                Null("role", () => session.AppendMessage(null, "Hello"));
                Null("content", () => session.AppendMessage("user", null));
                Null("json", () => session.SetMessages(null));
                Null("name", () => session.Checkpoint(null));
                Null("name", () => session.Suspend(null));
                Null("StopStrings", () => session.Begin(new GenerateOptions { StopStrings = new[] { "a", null } }));
                Null("name", () => rig.Store.Stat(null));
                Null("name", () => rig.Store.Show(null));
                Null("name", () => rig.Store.Remove(null));
                Null("from", () => rig.Store.Rename(null, "b"));
                Null("to", () => rig.Store.Rename("a", null));
                Null("name", () => rig.Store.Pin(null));
                Null("name", () => rig.Store.SetTtl(null, 1));
                Null("text", () => Json.Text(null));
                Null("role", () => Json.Message(null, ""));
                Null("content", () => Json.Message("", null));
                session.Generate(Rig.Tokens(1), null);  // no callback
                Check.Equal(1, Rig.Answer(session, 1).Length, "the session goes on");
            }
        }

        private static void Gone(string name, params Action[] calls)
        {
            foreach (Action call in calls) Check.Equal(name, Check.Throws<ObjectDisposedException>(call, name).ObjectName, "name");
        }

        internal static void DisposedNames()
        {
            using (Rig rig = new Rig())
            {
                Session session = rig.Open(), other = rig.Open();
                Generation generation = session.Generate(Rig.Tokens(1));
                session.Dispose();
                Gone("Session", () => session.Info(), () => session.Append(Rig.Prompt), () => session.Next(), () => session.Cancel(), () => session.Fork(),
                    () => session.Prefill(), () => session.Generate(null, e => { }), () => generation.Read(), () => session.Checkpoint("a"),
                    () => session.Message(0), () => session.Tokens(), () => session.Generate().ReadAsync().GetAwaiter().GetResult());
                Store store = rig.Runtime.OpenStore(Path.Combine(rig.Folder, "gone"));
                store.Dispose();
                Gone("Store", () => store.Info(), () => store.List(), () => rig.Model.Resume(store, "a"),
                    () => rig.Model.OpenSession(new SessionOptions { Store = store }), () => store.Gc());
                Cancel cancel = new Cancel();
                cancel.Dispose();
                Gone("Cancel", cancel.Fire, () => cancel.Fired.ToString(), () => other.Begin(new GenerateOptions { Cancel = cancel }));
                rig.Model.Dispose();
                Gone("Model", () => rig.Model.Info(), () => rig.Model.OpenSession(), () => rig.Model.Resume(rig.Store, "a"), () => rig.Model.Step(),
                    () => rig.Model.Tokenize(""), () => rig.Model.ApplyTemplate("[]"));
                rig.Runtime.Dispose();
                Gone("Runtime", () => rig.Runtime.Info(), () => rig.Runtime.OpenModel(Rig.ModelFile), () => rig.Runtime.OpenStore(rig.Folder));
                Check.Equal(1, Rig.Answer(other, 1).Length, "the other session goes on");
                other.Dispose();
            }
        }

        /// <summary>A collection that another thread adds to: it has one item for the first three that ask.</summary>
        private class Growing<T> : IReadOnlyList<T>
        {
            protected readonly T[] Items;
            private int asked;

            internal Growing(params T[] items)
            {
                Items = items;
            }

            public int Count => ++asked > 3 ? Items.Length : 1;
            public T this[int index] => Items[index];

            public IEnumerator<T> GetEnumerator()
            {
                return ((IEnumerable<T>)Items).GetEnumerator();
            }

            IEnumerator IEnumerable.GetEnumerator()
            {
                return GetEnumerator();
            }
        }

        private sealed class GrowingMap : Growing<KeyValuePair<int, float>>, IReadOnlyDictionary<int, float>
        {
            internal GrowingMap(params KeyValuePair<int, float>[] items) : base(items)
            {
            }

            float IReadOnlyDictionary<int, float>.this[int key] => Items.First(item => item.Key == key).Value;
            public IEnumerable<int> Keys => Items.Select(item => item.Key);
            public IEnumerable<float> Values => Items.Select(item => item.Value);

            public bool ContainsKey(int key)
            {
                return Keys.Contains(key);
            }

            public bool TryGetValue(int key, out float value)
            {
                value = Items.FirstOrDefault(item => item.Key == key).Value;
                return ContainsKey(key);
            }
        }

        internal static void GrowingOptions()
        {
            using (Rig rig = new Rig())
            using (Session session = rig.Open())
            {
                Generation generation = session.Generate(new GenerateOptions
                {
                    MaxTokens = 4, IgnoreEos = true, StopTokens = new Growing<int>(10, 9),
                    LogitBias = new GrowingMap(new KeyValuePair<int, float>(11, 1f), new KeyValuePair<int, float>(9, 1000f))
                });
                Check.Same(new[] { 9 }, generation.Where(e => e.Type == EventType.Token).Select(e => e.Token).ToArray(), "all that is there");
                Check.Equal(Reason.Stop, generation.Report.Reason, "reason");
            }
        }

        internal static void Comments()
        {
            List<string> broken = new List<string>();
            int count = 0;
            foreach (string file in Directory.GetFiles(Path.Combine(Rig.Source, "bindings/csharp/src"), "*.cs"))
            {
                string text = Regex.Replace(File.ReadAllText(file), @"\s+(///\s*)?", " ");
                foreach (Match found in Regex.Matches(text, "<(summary|returns)>(.*?)</"))
                {
                    string comment = found.Groups[2].Value.Trim();
                    count++;
                    if (!Regex.IsMatch(comment, "[.][\")]?$") || Regex.IsMatch(comment, @"\b(are|is) ([A-Z][a-z]+ (are|is)\b|\.)")) broken.Add(comment);
                }
            }
            Check.True(count > 300 && broken.Count == 0, count + " comments, broken: " + string.Join(" | ", broken));
        }
    }
}
