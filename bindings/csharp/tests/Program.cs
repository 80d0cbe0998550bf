using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.IO;
using System.Linq;
using System.Threading;

namespace Kvrt.Tests
{
    /// <summary>
    /// The binding's tests, without a framework: mcs has none. Tests [CASE...] runs them, and says "ok CASE" or "FAILED CASE: why". Tests --child
    /// KIND
    /// ARGUMENT... is a process that a case starts.
    /// </summary>
    internal static class Program
    {
        private const int CaseSeconds = 180;

        private static readonly Dictionary<string, Action> Cases = new Dictionary<string, Action>
        {
            { "abi_functions", Abi.Functions }, { "abi_layout", Abi.Layout }, { "abi_enums", Abi.Enums }, { "abi_options", Abi.Options },
            { "abi_values", Abi.Values }, { "abi_runtime_has_all", Abi.EveryMember }, { "open", Basics.Open },
            { "resume_or_open", Basics.ResumeOrOpen }, { "stream", Basics.Stream }, { "stream_async", Basics.StreamAsync },
            { "stream_async_many", Basics.StreamAsyncMany }, { "reads", Basics.Reads }, { "templates", Basics.Templates },
            { "sampler", Basics.Sampler }, { "fork_and_rewind", Basics.ForkAndRewind }, { "tools_and_schema", Basics.ToolsAndSchema },
            { "cancel_from_a_thread", Control.CancelFromAThread }, { "cancel_before_begin", Control.CancelBeforeBegin },
            { "cancel_async", Control.CancelAsync }, { "leaving_a_loop", Control.LeavingALoop },
            { "exception_in_a_callback", Control.Exceptions }, { "exception_in_log_and_wake", Control.KeptExceptions },
            { "log_from_the_librarys_thread", Control.LogFromTheLibrarysThread }, { "one_call_at_a_time", Control.OneCallAtATime },
            { "dispose_beside_a_call", Lifetime.DisposeBeside }, { "dispose_in_a_callback", Lifetime.DisposeInACallback },
            { "dispose_gives_the_model_back", Lifetime.DisposeGivesTheModelBack }, { "dispose_any_order", Lifetime.DisposeAnyOrder },
            { "finalizer_during_a_call", Lifetime.FinalizerDuringACall }, { "finalizer_after_the_runtime", Lifetime.FinalizerAfterTheRuntime },
            { "kill_and_go_on", Processes.KillAndGoOn }, { "exit_with_everything_open", Processes.ExitWithEverythingOpen },
            { "no_library", Processes.NoLibrary }, { "wrong_library", Processes.WrongLibrary }, { "locale", Processes.Locale },
            { "thousand_sessions", Load.ThousandSessions }, { "error_text_of_threads", Load.ErrorText }, { "store", Stores.Calls },
            { "store_repair", Stores.Repair }, { "autosave", Stores.Autosave }, { "model_calls", Stores.ModelCalls },
            { "speculation", Speculation.SameAnswer }, { "draft_is_kept", Speculation.KeptUntilDone }, { "speculation_refused", Speculation.Refused },
            { "null_arguments", Faults.NullArguments }, { "disposed_names", Faults.DisposedNames },
            { "growing_options", Faults.GrowingOptions }, { "comments", Faults.Comments }
        };

        private static int Main(string[] arguments)
        {
            if (arguments.Length > 1 && arguments[0] == "--child") return Processes.Child(arguments[1], arguments.Skip(2).ToArray());
            int failed = 0;
            foreach (string name in arguments.Length > 0 ? arguments : Cases.Keys.ToArray()) failed += Run(name, Cases[name]) ? 0 : 1;
            Console.WriteLine(failed == 0 ? "all passed" : failed + " FAILED");
            return failed == 0 ? 0 : 1;
        }

        /// <summary>A thread of its own: what it drops is on no stack afterwards, and a case that hangs has a name.</summary>
        private static bool Run(string name, Action work)
        {
            Exception failure = null;
            Stopwatch watch = Stopwatch.StartNew();
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
            thread.IsBackground = true;
            thread.Start();
            if (!thread.Join(CaseSeconds * 1000))
            {
                Console.WriteLine("FAILED " + name + ": it runs for " + CaseSeconds + " s");
                Environment.Exit(1);
            }
            Console.WriteLine(failure == null ? "ok " + name + " " + watch.ElapsedMilliseconds + " ms" : "FAILED " + name + ": " + failure);
            return failure == null;
        }
    }

    internal static class Check
    {
        internal static void True(bool value, string what)
        {
            if (!value) throw new Exception("not so: " + what);
        }

        internal static void Equal<T>(T expected, T found, string what = "")
        {
            if (!EqualityComparer<T>.Default.Equals(expected, found)) throw new Exception(what + ": expected " + expected + ", found " + found);
        }

        internal static void Same<T>(IEnumerable<T> expected, IEnumerable<T> found, string what = "")
        {
            if (!expected.SequenceEqual(found))
                throw new Exception(what + ": expected " + string.Join(" ", expected) + ", found " + string.Join(" ", found));
        }

        internal static T Throws<T>(Action work, string what = "") where T : Exception
        {
            try
            {
                work();
            }
            catch (T e)
            {
                return e;
            }
            throw new Exception(what + ": no " + typeof(T).Name);
        }

        internal static KvrtException Fails(Status status, Action work, string what = "")
        {
            KvrtException e = Throws<KvrtException>(work, what);
            Equal(status, e.Status, what + ": " + e.Message);
            return e;
        }

        internal static void Soon(Func<bool> done, string what)
        {
            Stopwatch watch = Stopwatch.StartNew();
            while (!done())
            {
                if (watch.ElapsedMilliseconds > 60000) throw new Exception("not within a minute: " + what);
                GC.Collect();
                GC.WaitForPendingFinalizers();
                Thread.Sleep(2);
            }
        }
    }

    /// <summary>A runtime, a tiny model, a directory and a store in it.</summary>
    internal sealed class Rig : IDisposable
    {
        internal static readonly string Source = Environment.GetEnvironmentVariable("KVRT_SOURCE_DIR");
        internal static readonly string ModelFile = Path.Combine(Source, "tests/golden/tiny/llama_gqa_f32.gguf");
        internal static readonly int[] Prompt = { 5, 6, 7, 8 };

        internal readonly Runtime Runtime;
        internal readonly Model Model;
        internal readonly Store Store;
        internal readonly string Folder = Path.Combine(Path.GetTempPath(), "kvrt-csharp-" + Guid.NewGuid().ToString("N"));

        internal Rig(uint threads = 1)
        {
            Directory.CreateDirectory(Folder);
            Runtime = new Runtime(new RuntimeOptions { Threads = threads });
            Model = Runtime.OpenModel(ModelFile);
            Store = Runtime.OpenStore(Path.Combine(Folder, "store"));
        }

        internal Session Open(SessionOptions options = null)
        {
            Session session = Model.OpenSession(options ?? new SessionOptions { Store = Store });
            session.Append(Prompt);
            return session;
        }

        internal static GenerateOptions Tokens(uint count)
        {
            return new GenerateOptions { MaxTokens = count, IgnoreEos = true };
        }

        internal static int[] Answer(Session session, uint count)
        {
            return session.Generate(Tokens(count)).Where(e => e.Type == EventType.Token).Select(e => e.Token).ToArray();
        }

        public void Dispose()
        {
            Store.Dispose();
            Model.Dispose();
            Runtime.Dispose();
            Directory.Delete(Folder, true);
        }
    }
}
