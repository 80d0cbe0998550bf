using System;
using System.Runtime.InteropServices;

namespace Kvrt
{
    /// <summary>A token id with its natural log probability.</summary>
    public struct TokenValue
    {
        internal TokenValue(kvrt_token_value raw)
        {
            Token = raw.token;
            Value = raw.value;
        }

        /// <summary>A token id, from 0.</summary>
        public int Token { get; }

        /// <summary>A natural log probability.</summary>
        public float Value { get; }
    }

    /// <summary>One event, copied: it outlives the call that gave it. Type says which of the others are filled; the rest is 0, "" or null.</summary>
    public sealed unsafe class Event
    {
        private static readonly TokenValue[] NoTop = new TokenValue[0];

        internal Event(kvrt_event* raw)
        {
            Type = (EventType)raw->type;
            Token = raw->token;
            Reason = (Reason)raw->reason;
            Position = raw->position;
            Text = Utf8.Of(raw->text, raw->text_size);
            Logprob = raw->logprob;
            Done = raw->done;
            Total = raw->total;
            Top = raw->top_count == UIntPtr.Zero ? NoTop : new TokenValue[checked((int)raw->top_count)];
            for (int i = 0; i < Top.Length; i++) Top[i] = new TokenValue(raw->top[i]);
            if (raw->logits != null)
            {
                Logits = new float[checked((int)raw->logits_count)];
                Marshal.Copy((IntPtr)raw->logits, Logits, 0, Logits.Length);
            }
            if (raw->report != null) Report = new Report(*raw->report);
            if (raw->entry != null) Entry = new StoreEntry(*raw->entry);
        }

        /// <summary>What happened. Ignore a type that you do not know.</summary>
        public EventType Type { get; }

        /// <summary>TOKEN: its id.</summary>
        public int Token { get; }

        /// <summary>DONE: why.</summary>
        public Reason Reason { get; }

        /// <summary>TOKEN: its place in the session, from 0. LOGITS: the place of the token before the predicted one.</summary>
        public ulong Position { get; }

        /// <summary>TOKEN, DONE, FAULT, parts of a reply: whole characters; may be empty.</summary>
        public string Text { get; }

        /// <summary>TOKEN: the natural log of its probability before grammar, bias, penalties, temperature and truncation.</summary>
        public double Logprob { get; }

        /// <summary>PROGRESS: done so far.</summary>
        public ulong Done { get; }

        /// <summary>PROGRESS: of so much.</summary>
        public ulong Total { get; }

        /// <summary>LOGITS: one for each token of the vocabulary; else null.</summary>
        public float[] Logits { get; }

        /// <summary>DONE: the usage; else null.</summary>
        public Report Report { get; }

        /// <summary>ENTRY: a saved session; else null.</summary>
        public StoreEntry Entry { get; }

        /// <summary>TOKEN with TopLogprobs: the most probable tokens, the most probable first.</summary>
        public TokenValue[] Top { get; }
    }
}
