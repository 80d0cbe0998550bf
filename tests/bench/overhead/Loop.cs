// The event loop of C#: as loop.c, by foreach and by a callback.
using System;
using System.Diagnostics;
using Kvrt;

static class Loop
{
    private static ulong events, tokens;
    private static long size;

    private static void See(Event e)
    {
        events++;
        tokens += (ulong)e.Token;
        size += e.Text.Length;
    }

    private static void Main(string[] arguments)
    {
        using (var runtime = new Runtime(new RuntimeOptions { Threads = 1 }))
        using (var model = runtime.OpenModel(arguments[0]))
        using (var session = model.OpenSession())
        {
            session.Append(new[] { 5, 6, 7, 8 });
            for (string line = Console.ReadLine(); line != null; line = Console.ReadLine())
            {
                string[] words = line.Split(' ');
                var options = new GenerateOptions { MaxTokens = uint.Parse(words[1]), IgnoreEos = true };
                session.Truncate(4);
                events = tokens = 0;
                long begin = Stopwatch.GetTimestamp();
                if (words[0] == "next")
                {
                    foreach (Event e in session.Generate(options)) See(e);
                }
                else
                {
                    session.Generate(options, See);
                }
                double ns = (Stopwatch.GetTimestamp() - begin) * (1e9 / Stopwatch.Frequency);
                Console.WriteLine("{0} {1} {2}", (ulong)ns, events, tokens);
            }
        }
    }
}
