using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.Globalization;
using System.IO;
using System.Linq;
using System.Runtime.InteropServices;
using System.Threading;

namespace Kvrt.Tests
{
    /// <summary>Cases that need a process of their own.</summary>
    internal static class Processes
    {
        internal static int Child(string kind, string[] arguments)
        {
            if (kind == "answer") Answer(arguments[0]);
            else if (kind == "exit") Exit(arguments[0]);
            else if (kind == "version") Console.WriteLine(Library.Version);
            else if (kind == "wrong") Refused();
            else if (kind == "runtime") new Runtime().Dispose();
            else if (kind == "cancel") Fire();
            else if (kind == "template") Model.RenderTemplate("[]", new TemplateOptions { Source = "" });
            else Numbers();
            return 0;
        }

        private static void Fire()
        {
            using (Cancel cancel = new Cancel())
            {
                Check.True(!cancel.Fired, "not fired");
                cancel.Fire();
                Check.True(cancel.Fired, "fired");
            }
        }

        /// <summary>Starts this program as a child; KVRT_TEST_HOST is what runs assemblies here: mono or dotnet.</summary>
        private static Process Start(string arguments, Action<IDictionary<string, string>> environment = null)
        {
            ProcessStartInfo start = new ProcessStartInfo
            {
                FileName = Environment.GetEnvironmentVariable("KVRT_TEST_HOST"),
                Arguments = "\"" + typeof(Processes).Assembly.Location + "\" --child " + arguments,
                UseShellExecute = false, RedirectStandardOutput = true, RedirectStandardError = true
            };
            environment?.Invoke(start.Environment);
            return Process.Start(start);
        }

        private static string Output(Process process, int expected)
        {
            using (process)
            {
                string error = "";
                process.ErrorDataReceived += (sender, e) => error += e.Data + "\n";
                process.BeginErrorReadLine();
                string output = process.StandardOutput.ReadToEnd();
                process.WaitForExit();
                Check.Equal(expected, process.ExitCode, "status of the child, which says " + output + error);
                return output + (expected == 0 ? "" : error);
            }
        }

        /// <summary>Generates without end, and checkpoints after each token.</summary>
        private static void Answer(string store)
        {
            using (Runtime runtime = new Runtime(new RuntimeOptions { Threads = 1 }))
            using (Model model = runtime.OpenModel(Rig.ModelFile))
            using (Store opened = runtime.OpenStore(store))
            using (Session session = model.OpenSession(new SessionOptions { Store = opened }))
            {
                session.AppendMessage("user", "Tell me about lighthouses.");
                foreach (Event e in session.Generate(new GenerateOptions { IgnoreEos = true }))
                {
                    if (e.Type != EventType.Token) continue;
                    session.Checkpoint("k");
                    Console.WriteLine(session.Tokens().Length);
                    Thread.Sleep(20);
                }
            }
        }

        internal static void KillAndGoOn()
        {
            using (Rig rig = new Rig())
            {
                string store = Path.Combine(rig.Folder, "killed");
                int[] whole;
                using (Session session = rig.Model.OpenSession())
                {
                    session.AppendMessage("user", "Tell me about lighthouses.");
                    Rig.Answer(session, 60);
                    whole = session.Tokens();
                }
                int saved = 0;
                using (Process child = Start("answer \"" + store + "\""))
                {
                    for (int i = 0; i < 10; i++) saved = int.Parse(child.StandardOutput.ReadLine());
                    child.Kill();
                    child.WaitForExit();
                }
                using (Store opened = rig.Runtime.OpenStore(store))
                using (Session session = rig.Model.Resume(opened, "k"))
                {
                    int[] tokens = session.Tokens();
                    Check.True(tokens.Length >= saved && tokens.Length < whole.Length, saved + " were told, " + tokens.Length + " are saved");
                    Check.Same(whole.Take(tokens.Length), tokens, "the saved tokens");
                    Check.True(session.Resumed.ReusedDisk + session.Resumed.ReusedMemory > 0, "KV came back");
                    Rig.Answer(session, (uint)(whole.Length - tokens.Length));
                    Check.Same(whole, session.Tokens(), "it goes on as if nothing had been");
                    Check.Equal(0, opened.Verify().Count, "faults");
                }
            }
        }

        /// <summary>Ends while loops, tasks and other threads are inside, and nothing is disposed.</summary>
        private static void Exit(string store)
        {
            Runtime runtime = new Runtime(new RuntimeOptions { LogLevel = LogLevel.Debug, Log = (level, text) => { } });
            Model model = runtime.OpenModel(Rig.ModelFile);
            Store opened = runtime.OpenStore(store);
            Session[] sessions = Enumerable.Range(0, 3).Select(n => model.OpenSession(new SessionOptions
            {
                Store = opened, AutosaveName = "x" + n, AutosaveTokens = 1, Wake = () => { }
            })).ToArray();
            foreach (Session session in sessions) session.Append(Rig.Prompt);
            GenerateOptions endless = new GenerateOptions { IgnoreEos = true };
            sessions[0].Generate(endless).GetEnumerator().MoveNext();
            sessions[1].Generate(endless).GetAsyncEnumerator().MoveNextAsync().Wait();
            sessions[1].Generate(endless).ReadAsync();
            foreach (Action work in new Action[] { () => sessions[2].Generate(endless, e => { }), () => runtime.OpenModel(Rig.ModelFile) })
            {
                Thread thread = new Thread(() =>
                {
                    try
                    {
                        while (true) work();
                    }
                    catch (KvrtException)
                    {
                        // Its context is full.
                    }
                });
                thread.IsBackground = true;
                thread.Start();
            }
            Thread.Sleep(50);
            Console.WriteLine("end");
        }

        internal static void ExitWithEverythingOpen()
        {
            using (Rig rig = new Rig())
                for (int i = 0; i < 3; i++) Check.Equal("end\n", Output(Start("exit \"" + Path.Combine(rig.Folder, "exit" + i) + "\""), 0), "output");
        }

        internal static void NoLibrary()
        {
            string text = Path.GetTempFileName();
            File.WriteAllText(text, "no library, but a text that is longer than the header of an ELF file, so that the loader reads it");
            Missing("/nowhere/libkvrt.so.0", "KVRT_LIBRARY is \"/nowhere/libkvrt.so.0\"", "cannot open shared object file", "or unset it");
            Missing(text, "KVRT_LIBRARY is \"" + text + "\"", "invalid ELF header");
            File.Delete(text);
            Check.Equal(Library.Version + "\n", Output(Start("version"), 0), "by its path it is found");
            foreach (string first in new[] { "runtime", "cancel", "template" }) Output(Start(first), 0);  // whatever the first call is
        }

        /// <summary>The message of the library that cannot be loaded, where KVRT_LIBRARY has this value.</summary>
        private static void Missing(string value, params string[] parts)
        {
            Process child = Start("version", environment =>
            {
                environment["KVRT_LIBRARY"] = value;
                environment.Remove("LD_LIBRARY_PATH");
            });
            string output = Output(child, Environment.GetEnvironmentVariable("KVRT_TEST_HOST").EndsWith("mono") ? 1 : 134);
            foreach (string part in parts) Check.True(output.Contains(part), "\"" + part + "\" in " + output);
        }

        /// <summary>A library of another ABI, with other sizes or other offsets is refused by a message that names the difference.</summary>
        internal static void WrongLibrary()
        {
            foreach (string wrong in new[] { "abi: the ABI's version: this assembly knows 0, the library has 7", "size: sizeof kvrt_error: ",
                "offset: kvrt_error.struct_size: this assembly knows 0, the library has 7" })
            {
                string[] parts = wrong.Split(new[] { ": " }, 2, StringSplitOptions.None);
                string path = Path.Combine(Environment.GetEnvironmentVariable("KVRT_TEST_WRONG"), parts[0], "libkvrt.so.0");
                string output = Output(Start("wrong", environment => environment["KVRT_LIBRARY"] = path), 0);
                Check.True(output.StartsWith("Incompatible libkvrt.so.0: " + parts[1], StringComparison.Ordinal), output);
            }
        }

        private static void Refused()
        {
            KvrtException e = Check.Throws<KvrtException>(() => new Runtime());
            Console.WriteLine(e.Status + " " + e.Message);
        }

        [DllImport("libc.so.6")]
        private static extern IntPtr setlocale(int category, string name);

        [DllImport("libc.so.6")]
        private static extern IntPtr localeconv();

        /// <summary>Everything here that has numbers in it.</summary>
        private static void Numbers()
        {
            const int All = 6;
            if (Environment.GetEnvironmentVariable("KVRT_TEST_LOCALE") != null)
            {
                Check.True(setlocale(All, "") != IntPtr.Zero, "setlocale");
                Check.Equal(",", Marshal.PtrToStringAnsi(Marshal.ReadIntPtr(localeconv())), "the C library's point");
                CultureInfo culture = (CultureInfo)CultureInfo.InvariantCulture.Clone();
                culture.NumberFormat.NumberDecimalSeparator = ",";
                culture.NumberFormat.NegativeSign = "\u2212";
                Thread.CurrentThread.CurrentCulture = culture;
                Check.Equal("0,5", 0.5.ToString(), "the runtime's point");
            }
            using (Rig rig = new Rig())
            using (Session session = rig.Open())
            {
                GenerateOptions options = new GenerateOptions
                {
                    MaxTokens = 20, Temperature = 0.7f, TopP = 0.9f, Seed = 5, GrammarKind = GrammarKind.JsonSchema,
                    Grammar = "{\"enum\": [0.5, -1.25, 1e-3]}", LogitBias = new Dictionary<int, float> { { 9, -0.5f } }
                };
                Console.WriteLine(session.Generate(options).Read());
                string seconds = rig.Model.MetricsText("a,b").Split('\n').First(line => line.Contains("step_seconds") && line.Contains("{"));
                Console.WriteLine(seconds.Contains("."));
                Console.WriteLine(Model.RenderTemplate("[]", new TemplateOptions { Source = "{{ x * 2 }}", Variables = "{\"x\": 1.25}" }));
                Console.WriteLine(Json.Text("\u0001\u001f"));
                Console.WriteLine(string.Join(" ", session.Tokens()));
            }
        }

        internal static void Locale()
        {
            string plain = Output(Start("numbers"), 0);
            string german = Output(Start("numbers", environment =>
            {
                environment["KVRT_TEST_LOCALE"] = "1";
                environment["LC_ALL"] = "de_DE.UTF-8";
            }), 0);
            Check.Equal(plain, german, "what is said in de_DE");
            Check.True(plain.Contains("2.5\n") && plain.Contains("\nTrue\n"), plain);
        }
    }
}
