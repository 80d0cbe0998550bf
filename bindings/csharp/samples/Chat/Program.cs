// A chat at the console that remembers: Chat MODEL [STORE [NAME]]. It is saved after each turn, and goes on where it was.
//
//   /history   what was said, a message a line
//   /back      takes back the last question and its answer
//   Ctrl-C     stops the answer; at the prompt it ends the program, as Ctrl-D does
using System;
using System.Threading;
using Kvrt;

internal static class Program
{
    private static CancellationTokenSource answering;

    private static int Main(string[] arguments)
    {
        if (arguments.Length < 1 || arguments.Length > 3)
        {
            Console.Error.WriteLine("usage: Chat MODEL [STORE [NAME]]");
            return 2;
        }
        string folder = arguments.Length > 1 ? arguments[1] : "memory", name = arguments.Length > 2 ? arguments[2] : "chat";
        Console.CancelKeyPress += (sender, e) =>
        {
            CancellationTokenSource now = answering;
            if (now == null) return;
            e.Cancel = true;
            now.Cancel();
        };
        try
        {
            using (Runtime runtime = new Runtime())
            using (Model model = runtime.OpenModel(arguments[0], new ModelOptions { Cache = Cache.User }))
            using (Store store = runtime.OpenStore(folder))
            using (Session chat = model.ResumeOrOpen(store, name))
            {
                if (chat.Resumed != null) Console.WriteLine("{0} goes on after {1} messages", name, chat.Info().Messages);
                while (Turn(chat, name))
                {
                }
            }
            return 0;
        }
        catch (KvrtException e)
        {
            Console.Error.WriteLine("Chat: " + e.Message);
            return 1;
        }
    }

    /// <summary>One line and its answer. False: the end.</summary>
    private static bool Turn(Session chat, string name)
    {
        Console.Write("> ");
        string line = Console.ReadLine();
        if (line == null) return false;
        if (line == "/history") History(chat);
        else if (line == "/back") Back(chat);
        else if (line.Length > 0) Answer(chat, line);
        if (line.Length > 0) chat.Checkpoint(name);
        return true;
    }

    private static void Answer(Session chat, string line)
    {
        chat.AppendMessage("user", line);
        using (answering = new CancellationTokenSource())
        {
            try
            {
                Generation answer = chat.Generate(new GenerateOptions { MaxTokens = 256, Temperature = 0.7f, TopP = 0.95f }, answering.Token);
                foreach (Event e in answer) Console.Write(e.Text);
                Console.WriteLine("\n[{0} tokens, {1:F0} a second]", answer.Report.Generated, answer.Report.DecodeTokensPerS);
            }
            catch (OperationCanceledException)
            {
                Console.WriteLine("\n[stopped]");
            }
            finally
            {
                answering = null;
            }
        }
    }

    private static void History(Session chat)
    {
        for (ulong i = 0; i < chat.Info().Messages; i++) Console.WriteLine(chat.Message(i).Json);
    }

    private static void Back(Session chat)
    {
        for (ulong i = chat.Info().Messages; i-- > 0;)
        {
            Message message = chat.Message(i);
            chat.Truncate(i == 0 ? 0 : chat.Message(i - 1).End);
            if (!message.Generated) return;
        }
    }
}
