using System;
using System.Collections.Generic;
using System.Text;

namespace Kvrt
{
    /// <summary>Options as the structs of kvrt.h. What they point to lies in the arena. Options that are null are all defaults.</summary>
    internal static unsafe class Fill
    {
        private static uint Flag(bool value)
        {
            return value ? 1u : 0u;
        }

        /// <summary>`log_user` is the callback's, if there is one: the caller frees it where the call fails.</summary>
        internal static kvrt_runtime_options Of(RuntimeOptions o, Arena arena, out IntPtr user)
        {
            kvrt_runtime_options raw = new kvrt_runtime_options { struct_size = (uint)sizeof(kvrt_runtime_options) };
            user = IntPtr.Zero;
            if (o == null) return raw;
            raw.threads = o.Threads;
            raw.isa = (uint)o.Isa;
            raw.log_level = (uint)o.LogLevel;
            raw.device = (uint)o.Device;
            raw.device_index = o.DeviceIndex;
            raw.cuda_library = arena.Text(o.CudaLibrary, out raw.cuda_library_size);
            raw.determinism = (uint)o.Determinism;
            raw.prompt_gemm = (uint)o.PromptGemm;
            if (o.Log == null) return raw;
            raw.log = Kept.Log;
            raw.log_user = user = Kept.Keep(o.Log);
            raw.log_user_free = Kept.UserFree;
            return raw;
        }

        internal static kvrt_model_options Of(ModelOptions o, Arena arena)
        {
            kvrt_model_options raw = new kvrt_model_options { struct_size = (uint)sizeof(kvrt_model_options) };
            if (o == null) return raw;
            raw.kv_format = (uint)o.KvFormat;
            raw.block_tokens = o.BlockTokens;
            raw.prefill_chunk = o.PrefillChunk;
            raw.kv_bytes_max = o.KvBytesMax;
            raw.step_ms_max = o.StepMsMax;
            raw.from_fd = Flag(o.FromFd);
            raw.fd = o.Fd;
            raw.kv_populate = Flag(o.KvPopulate);
            raw.fd_offset = o.FdOffset;
            raw.fd_size = o.FdSize;
            raw.cache_dir = arena.Text(o.CacheDir, out raw.cache_dir_size);
            raw.cache = (uint)o.Cache;
            raw.kv_format_v = (uint)o.KvFormatV;
            raw.cache_bytes_max = o.CacheBytesMax;
            return raw;
        }

        internal static kvrt_template_options Of(TemplateOptions o, Arena arena)
        {
            kvrt_template_options raw = new kvrt_template_options { struct_size = (uint)sizeof(kvrt_template_options) };
            if (o == null) return raw;
            raw.no_generation_prompt = Flag(o.NoGenerationPrompt);
            raw.source = arena.Text(o.Source, out raw.source_size);
            raw.tools = arena.Text(o.Tools, out raw.tools_size);
            raw.documents = arena.Text(o.Documents, out raw.documents_size);
            raw.variables = arena.Text(o.Variables, out raw.variables_size);
            return raw;
        }

        internal static kvrt_plan_options Of(PlanOptions o)
        {
            kvrt_plan_options raw = new kvrt_plan_options { struct_size = (uint)sizeof(kvrt_plan_options) };
            if (o == null) return raw;
            raw.kv_format = (uint)o.KvFormat;
            raw.block_tokens = o.BlockTokens;
            raw.sessions = o.Sessions;
            raw.session_tokens = o.SessionTokens;
            raw.shared_tokens = o.SharedTokens;
            raw.memory_bytes = o.MemoryBytes;
            raw.layers = o.Layers;
            raw.kv_heads = o.KvHeads;
            raw.head_dim = o.HeadDim;
            raw.kv_format_v = (uint)o.KvFormatV;
            return raw;
        }

        internal static kvrt_store_options Of(StoreOptions o)
        {
            kvrt_store_options raw = new kvrt_store_options { struct_size = (uint)sizeof(kvrt_store_options) };
            if (o == null) return raw;
            raw.read_only = Flag(o.ReadOnly);
            raw.must_exist = Flag(o.MustExist);
            raw.disk_bytes_max = o.DiskBytesMax;
            raw.free_bytes_min = o.FreeBytesMin;
            return raw;
        }

        internal static kvrt_save_options Of(SaveOptions o)
        {
            kvrt_save_options raw = new kvrt_save_options { struct_size = (uint)sizeof(kvrt_save_options) };
            if (o == null) return raw;
            raw.durability = (uint)o.Durability;
            raw.overwrite = Flag(o.Overwrite);
            raw.pin = o.Pin;
            raw.ttl_seconds = o.TtlSeconds;
            raw.codec = (uint)o.Codec;
            return raw;
        }

        /// <summary>`bell` rings at each wake. `user` is its pointer: the caller frees it where the call fails.</summary>
        internal static kvrt_session_options Of(SessionOptions o, Bell bell, Arena arena, out IntPtr user)
        {
            kvrt_session_options raw = new kvrt_session_options { struct_size = (uint)sizeof(kvrt_session_options) };
            if (o != null)
            {
                raw.no_prefix_cache = Flag(o.NoPrefixCache);
                if (o.Store != null) raw.store = arena.Hold(o.Store.Handle);
                raw.domain = arena.Text(o.Domain, out raw.domain_size);
                raw.tools = arena.Text(o.Tools, out raw.tools_size);
                raw.documents = arena.Text(o.Documents, out raw.documents_size);
                raw.variables = arena.Text(o.Variables, out raw.variables_size);
                raw.autosave_name = arena.Text(o.AutosaveName, out raw.autosave_name_size);
                raw.autosave_turn = Flag(o.AutosaveTurn);
                raw.autosave_tokens = o.AutosaveTokens;
                raw.autosave_idle_ms = o.AutosaveIdleMs;
                raw.foreign_kv = (uint)o.ForeignKv;
            }
            raw.wake = Kept.Wake;
            raw.wake_user_free = Kept.UserFree;
            raw.wake_user = user = Kept.Keep(bell);  // last: nothing after it throws
            return raw;
        }

        internal static kvrt_generate_options Of(GenerateOptions o, Arena arena)
        {
            kvrt_generate_options raw = new kvrt_generate_options { struct_size = (uint)sizeof(kvrt_generate_options) };
            if (o == null) return raw;
            raw.max_tokens = o.MaxTokens;
            raw.temperature = o.Temperature;
            raw.top_k = o.TopK;
            raw.top_p = o.TopP;
            raw.min_p = o.MinP;
            raw.repetition_penalty = o.RepetitionPenalty;
            raw.frequency_penalty = o.FrequencyPenalty;
            raw.presence_penalty = o.PresencePenalty;
            raw.penalty_window = o.PenaltyWindow;
            raw.seed = o.Seed;
            raw.ignore_eos = Flag(o.IgnoreEos);
            raw.top_logprobs = o.TopLogprobs;
            raw.sampler = (uint)o.Sampler;
            raw.emit_logits = Flag(o.EmitLogits);
            raw.no_generation_prompt = Flag(o.NoGenerationPrompt);
            raw.all_or_nothing = Flag(o.AllOrNothing);
            raw.prefill = Flag(o.Prefill);
            raw.logits = (uint)o.Logits;
            raw.grammar_kind = (uint)o.GrammarKind;
            raw.reply = (uint)o.Reply;
            raw.grammar = arena.Text(o.Grammar, out raw.grammar_size);
            if (o.Cancel != null) raw.cancel = arena.Hold(o.Cancel.Handle);
            raw.tool_choice = (uint)o.ToolChoice;
            raw.parallel_calls_max = o.ParallelCallsMax;
            raw.reasoning_tokens_max = o.ReasoningTokensMax;
            raw.tool_name = arena.Text(o.ToolName, out raw.tool_name_size);
            Lists(ref raw, o, arena);
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
