namespace Kvrt
{
    /// <summary>What resume does with saved KV of another arithmetic, a CPU's on a GPU or the other way round.</summary>
    public enum ForeignKv
    {
        /// <summary>RECOMPUTE.</summary>
        Default = Native.KVRT_FOREIGN_KV_DEFAULT,
        /// <summary>The tokens are computed again, and the session is as exact as any.</summary>
        Recompute = Native.KVRT_FOREIGN_KV_RECOMPUTE,
        /// <summary>
        /// KV of the same format and block size is taken as it is. The answer may then differ from a computed one where two tokens are nearly as
        /// likely. Such a session is `inexact` for good, and no exact session shares its KV.
        /// </summary>
        Accept = Native.KVRT_FOREIGN_KV_ACCEPT
    }

    /// <summary>Which logits a prefill gives.</summary>
    public enum Logits
    {
        /// <summary>None.</summary>
        None = Native.KVRT_LOGITS_NONE,
        /// <summary>A LOGITS event for the last position.</summary>
        Last = Native.KVRT_LOGITS_LAST,
        /// <summary>A LOGITS event for every position. Nothing is reused then: all is computed.</summary>
        All = Native.KVRT_LOGITS_ALL
    }

    /// <summary>Who chooses the tokens.</summary>
    public enum Sampler
    {
        /// <summary>Kvrt, by the options.</summary>
        Default = Native.KVRT_SAMPLER_DEFAULT,
        /// <summary>The host: it answers each LOGITS event with Session.Accept.</summary>
        Host = Native.KVRT_SAMPLER_HOST
    }

    /// <summary>
    /// Constrained output. A token is chosen only if the answer can still become what the grammar says, and the end of the turn only where the answer
    /// is whole. Reasoning is no part of that answer: where the prompt has opened it, or the model opens it with the marks of its template, it is
    /// free, and the answer comes behind its end and up to two line breaks; where the prompt has closed it, there is none. A GBNF that itself begins
    /// with the mark by which reasoning opens binds reasoning, too.
    /// </summary>
    public enum GrammarKind
    {
        /// <summary>None.</summary>
        Default = Native.KVRT_GRAMMAR_DEFAULT,
        /// <summary>
        /// Rules `name ::= ...` as in llama.cpp, beginning with `root`. Text never matches control tokens, nor those that the file calls unused; the
        /// rules `&lt;[1000]&gt;` (by its id) and `&lt;think&gt;` (spelled so, with the brackets) match one token, of whatever kind, and
        /// `!&lt;think&gt;` any token but that, unused ones, and those that end the turn. A token that the vocabulary lacks is INVALID, with line and
        /// column.
        /// </summary>
        Gbnf = Native.KVRT_GRAMMAR_GBNF,
        /// <summary>
        /// JSON text that is valid by this JSON schema: 2020-12, and what earlier drafts write in another way ($schema names one before 2019-09: what
        /// stands beside $ref says nothing). What is valid and cannot be written: - Members in another order than `properties`, then those that only
        /// `required` names, then others. Where an object has properties or patternProperties and does not say additionalProperties, others:
        /// JSON_SCHEMA_OPEN lets them. - Values of another type than a keyword is about, where no type is named. kvrt.h says more.
        /// </summary>
        JsonSchema = Native.KVRT_GRAMMAR_JSON_SCHEMA,
        /// <summary>
        /// The grammar of the session's last generation, from where its answer stands: after MaxTokens, a cancel or a resume. Tokens that were
        /// appended since must fit it. INVALID: there was none, or its answer is whole.
        /// </summary>
        Continue = Native.KVRT_GRAMMAR_CONTINUE,
        /// <summary>As JSON_SCHEMA; an object whose schema does not say additionalProperties may have others.</summary>
        JsonSchemaOpen = Native.KVRT_GRAMMAR_JSON_SCHEMA_OPEN
    }

    /// <summary>
    /// Which calls of the session's tools an answer has. Calls are bound: in the way that the model's family writes them, by names that there are,
    /// with arguments that fit the tool's `parameters`, as JSON_SCHEMA says, their members in any order. Reasoning stays free, and comes first. It
    /// works with every `reply`; where that names a family, the calls are that family's. AUTO, REQUIRED and NAMED are INVALID in a session without tools, and UNSUPPORTED where
    /// the template does not show calls. kvrt.h says more.
    /// </summary>
    public enum ToolChoice
    {
        /// <summary>AUTO where that is possible; else calls are not bound.</summary>
        Default = Native.KVRT_TOOL_CHOICE_DEFAULT,
        /// <summary>No calls: the marks by which they begin cannot come; what has none is text.</summary>
        None = Native.KVRT_TOOL_CHOICE_NONE,
        /// <summary>Text; from a call's begin on, calls. A call ends the text, another may follow.</summary>
        Auto = Native.KVRT_TOOL_CHOICE_AUTO,
        /// <summary>One call or more, and nothing else.</summary>
        Required = Native.KVRT_TOOL_CHOICE_REQUIRED,
        /// <summary>As REQUIRED, of the tool ToolName. Another name is INVALID.</summary>
        Named = Native.KVRT_TOOL_CHOICE_NAMED
    }

    /// <summary>
    /// How an answer is split into content, reasoning and tool calls. A tool call that is malformed or cut short is content; one
    /// that was cut comes as a call when the answer goes on and ends it. The message does not depend on it. A session without tools has no tool calls, whatever its text. An argument that a model writes as bare text has a type that the tool's schema allows, if it reads so,
    /// and else is a string. With a reply, a stop string does not reach over a control token. AUTO goes by the chat template. PLAIN to DEEPSEEK are
    /// for files whose template does not show tool calls: they name the way in which a family of models writes them.
    /// </summary>
    public enum Reply
    {
        /// <summary>Not at all: there are TOKEN events alone.</summary>
        Default = Native.KVRT_REPLY_DEFAULT,
        /// <summary>As the model's chat template shows tool calls and reasoning.</summary>
        Auto = Native.KVRT_REPLY_AUTO,
        /// <summary>No tool calls.</summary>
        Plain = Native.KVRT_REPLY_PLAIN,
        /// <summary>`&lt;tool_call&gt;{...}&lt;/tool_call&gt;`: Hermes, Qwen 2.5 and 3.</summary>
        Hermes = Native.KVRT_REPLY_HERMES,
        /// <summary>Llama 3.</summary>
        Llama3 = Native.KVRT_REPLY_LLAMA3,
        /// <summary>Mistral.</summary>
        Mistral = Native.KVRT_REPLY_MISTRAL,
        /// <summary>Gemma.</summary>
        Gemma = Native.KVRT_REPLY_GEMMA,
        /// <summary>DeepSeek.</summary>
        Deepseek = Native.KVRT_REPLY_DEEPSEEK
    }

    /// <summary>Which part of a save is safely on the disk when it returns.</summary>
    public enum Durability
    {
        /// <summary>TOKENS.</summary>
        Default = Native.KVRT_DURABILITY_DEFAULT,
        /// <summary>As PROCESS.</summary>
        None = Native.KVRT_DURABILITY_NONE,
        /// <summary>The save survives the process, not a power cut.</summary>
        Process = Native.KVRT_DURABILITY_PROCESS,
        /// <summary>The tokens survive a power cut; KV may have to be computed again.</summary>
        Tokens = Native.KVRT_DURABILITY_TOKENS,
        /// <summary>The saved KV survives it too.</summary>
        Kv = Native.KVRT_DURABILITY_KV
    }

    /// <summary>How a save stores the KV chunks that it writes. Chunks that the store has stay as they are.</summary>
    public enum Codec
    {
        /// <summary>ZSTD.</summary>
        Default = Native.KVRT_CODEC_DEFAULT,
        /// <summary>
        /// As they are, which loads sooner. A last block that is not full is packed all the same: its empty slots take no room then.
        /// </summary>
        None = Native.KVRT_CODEC_NONE,
        /// <summary>Packed (level 1), about a quarter smaller.</summary>
        Zstd = Native.KVRT_CODEC_ZSTD
    }
}
