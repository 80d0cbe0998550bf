using System;
using System.IO;
using System.Linq;
using System.Threading;

namespace Kvrt.Tests
{
    internal static class Load
    {
        private static long ResidentKiB()
        {
            string line = File.ReadAllLines("/proc/self/status").First(l => l.StartsWith("VmRSS:", StringComparison.Ordinal));
            return long.Parse(line.Split(new[] { ' ', '\t' }, StringSplitOptions.RemoveEmptyEntries)[1]);
        }

        /// <summary>A thousand sessions come and go, half of them left to the collector: memory stays flat, and so do handles.</summary>
        internal static void ThousandSessions()
        {
            using (Rig rig = new Rig())
            {
                Action<int> some = count =>
                {
                    for (int i = 0; i < count; i++)
                    {
                        Session session = rig.Open(new SessionOptions { Wake = () => { }, Tools = "[]" });
                        Rig.Answer(session, 2);
                        if (i % 2 == 0) session.Dispose();
                        if (i % 50 == 0) Check.Fails(Status.NotFound, () => rig.Model.Resume(rig.Store, "nobody"));
                    }
                    Check.Soon(() => rig.Model.Info().Sessions <= 2, "the collector takes them");
                };
                some(300);
                long before = ResidentKiB();
                some(1000);
                long grown = ResidentKiB() - before;
                Check.True(grown < 8 * 1024, "memory grew by " + grown + " KiB");
            }
        }

        /// <summary>Each thread's exception has the text of its own call.</summary>
        internal static void ErrorText()
        {
            using (Rig rig = new Rig())
            {
                Exception failure = null;
                Thread[] threads = Enumerable.Range(0, 8).Select(n => new Thread(() =>
                {
                    try
                    {
                        for (int i = 0; i < 200; i++)
                        {
                            string path = "/nowhere/" + n + "-" + i + ".gguf", name = "name-" + n + "-" + i;
                            KvrtException open = Check.Fails(Status.NotFound, () => rig.Runtime.OpenModel(path));
                            Check.True(open.Message.Contains(path) && open.OsCode == 2, open.Message);
                            KvrtException stat = Check.Fails(Status.NotFound, () => rig.Store.Stat(name));
                            Check.True(stat.Message.Contains(name), stat.Message);
                        }
                    }
                    catch (Exception e)
                    {
                        failure = e;
                    }
                })).ToArray();
                foreach (Thread thread in threads) thread.Start();
                foreach (Thread thread in threads) thread.Join();
                if (failure != null) throw new Exception("a thread", failure);
            }
        }
    }
}
