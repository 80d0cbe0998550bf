using System;
using System.Collections.Generic;
using System.Text;

namespace Kvrt
{
    /// <summary>The parts of options that their roles do not tell: callbacks and lists. Options that are null are all defaults.</summary>
    internal static unsafe partial class Fill
    {
        private static uint Flag(bool value)
        {
            return value ? 1u : 0u;
        }

        /// <summary>`log_user` is the callback's, if there is one: the caller frees it if the call fails.</summary>
        internal static kvrt_runtime_options Of(RuntimeOptions o, Arena arena, out IntPtr user)
        {
            kvrt_runtime_options raw = Plain(o, arena);
            user = IntPtr.Zero;
            if (o == null || o.Log == null) return raw;
            raw.log = Kept.Log;
            raw.log_user = user = Kept.Keep(o.Log);
            raw.log_user_free = Kept.UserFree;
            return raw;
        }

        /// <summary>`bell` rings at each wake. `user` is its pointer: the caller frees it if the call fails.</summary>
        internal static kvrt_session_options Of(SessionOptions o, Bell bell, Arena arena, out IntPtr user)
        {
            kvrt_session_options raw = Plain(o, arena);
            raw.wake = Kept.Wake;
            raw.wake_user_free = Kept.UserFree;
            raw.wake_user = user = Kept.Keep(bell);  // last: nothing after it throws
            return raw;
        }

        internal static kvrt_generate_options Of(GenerateOptions o, Arena arena)
        {
            kvrt_generate_options raw = Plain(o, arena);
            if (o != null) Lists(ref raw, o, arena);
            return raw;
        }

        private static void Lists(ref kvrt_generate_options raw, GenerateOptions o, Arena arena)
        {
            if (o.LogitBias != null && o.LogitBias.Count > 0)
            {
                List<KeyValuePair<int, float>> biases = new List<KeyValuePair<int, float>>(o.LogitBias);  // the caller's own may grow meanwhile
                raw.logit_bias = (kvrt_token_value*)arena.Bytes((long)biases.Count * sizeof(kvrt_token_value));
                raw.logit_bias_count = (UIntPtr)biases.Count;
                for (int i = 0; i < biases.Count; i++)
                    raw.logit_bias[i] = new kvrt_token_value { token = biases[i].Key, value = biases[i].Value };
            }
            if (o.StopTokens != null && o.StopTokens.Count > 0)
            {
                List<int> tokens = new List<int>(o.StopTokens);
                raw.stop_tokens = (int*)arena.Bytes((long)tokens.Count * sizeof(int));
                raw.stop_token_count = (UIntPtr)tokens.Count;
                for (int i = 0; i < tokens.Count; i++) raw.stop_tokens[i] = tokens[i];
            }
            if (o.StopStrings == null) return;
            StringBuilder texts = new StringBuilder();
            foreach (string text in o.StopStrings)
            {
                if (text == null) throw new ArgumentNullException("StopStrings", "a stop string is null");
                if (text.IndexOf('\0') >= 0) throw new ArgumentException("a stop string has a NUL", "StopStrings");
                texts.Append(text).Append('\0');
            }
            raw.stop_strings = arena.Text(texts.ToString(), out raw.stop_strings_size);
        }
    }
}
