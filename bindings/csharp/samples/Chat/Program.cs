// A chat at the console that remembers: Chat MODEL [STORE [NAME]]. It is saved after each turn, and goes on where it was.
//
//   /history   what was said, a message a line
//   /back      takes back the last question and its answer
//   Ctrl-C     stops the answer; at the prompt it ends the program, as Ctrl-D does; never between an answer and its save
using System;
using System.Threading;
using Kvrt;

internal static class Program
{
    /// <summary>Of the turn that is not saved yet; null at the prompt. Ctrl-C comes on a thread of its own.</summary>
    private static volatile CancellationTokenSource turn;

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
            CancellationTokenSource now = turn;
            if (now == null) return;
            e.Cancel = true;
            try
            {
                now.Cancel();
            }
            catch (ObjectDisposedException) // the turn was saved meanwhile
            {
            }
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
        if (line.Length == 0) return true;
        using (CancellationTokenSource stop = new CancellationTokenSource())
        {
            turn = stop;
            try
            {
                if (line == "/history") History(chat);
                else if (line == "/back") Back(chat);
                else Answer(chat, line, stop.Token);
                chat.Checkpoint(name);
            }
            finally
            {
                turn = null; // not before: a second Ctrl-C would lose the answer that the first one stopped
            }
        }
        return true;
    }

    private static void Answer(Session chat, string line, CancellationToken stop)
    {
        chat.AppendMessage("user", line);
        try
        {
            Generation answer = chat.Generate(new GenerateOptions { MaxTokens = 256, Temperature = 0.7f, TopP = 0.95f }, stop);
            foreach (Event e in answer) Console.Write(e.Text);
            Console.WriteLine("\n[{0} tokens, {1:F0} a second]", answer.Report.Generated, answer.Report.DecodeTokensPerS);
        }
        catch (OperationCanceledException)
        {
            Console.WriteLine("\n[stopped]");
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
