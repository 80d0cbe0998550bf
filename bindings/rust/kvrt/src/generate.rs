//! What binds an answer: a grammar or schema, and the choice of tools.
use crate::sys;

/// Constrained output: a token is chosen only if the answer can still become what the grammar says, and the end of the turn only if the answer is whole.
/// Reasoning is not part of that answer, and unconstrained. docs/SCHEMAS.md says what is taken of a schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Grammar<'a> {
    /// None.
    #[default]
    Default,
    /// Rules `name ::= ...` as in llama.cpp, beginning with `root`.
    Gbnf(&'a str),
    /// JSON text that is valid by this JSON schema.
    JsonSchema(&'a str),
    /// As JsonSchema; an object whose schema does not say additionalProperties may have others.
    JsonSchemaOpen(&'a str),
    /// The grammar of the session's last generation, from the place that its answer has reached. INVALID: there was none, or its answer is whole.
    Continue,
}

impl<'a> Grammar<'a> {
    pub(crate) fn raw(self) -> (u32, Option<&'a str>) {
        match self {
            Grammar::Default => (sys::KVRT_GRAMMAR_DEFAULT, None),
            Grammar::Gbnf(source) => (sys::KVRT_GRAMMAR_GBNF, Some(source)),
            Grammar::JsonSchema(source) => (sys::KVRT_GRAMMAR_JSON_SCHEMA, Some(source)),
            Grammar::JsonSchemaOpen(source) => (sys::KVRT_GRAMMAR_JSON_SCHEMA_OPEN, Some(source)),
            Grammar::Continue => (sys::KVRT_GRAMMAR_CONTINUE, None),
        }
    }
}

/// Which calls of the session's tools an answer has. Calls are bound: written as the model's family writes them, by names that there are, with arguments
/// that fit the tool's `parameters`. Reasoning stays free, and comes first. Auto, Required and Named are INVALID in a session without tools, and
/// UNSUPPORTED where the template does not show calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ToolChoice<'a> {
    /// Auto where that is possible; else calls are not bound.
    #[default]
    Default,
    /// No calls: the markers by which they begin cannot come; what has none is text.
    None,
    /// Text; from a call's begin on, calls. A call ends the text, another may follow.
    Auto,
    /// One call or more, and nothing else.
    Required,
    /// As Required, of the tool of this name. A name that there is not is INVALID.
    Named(&'a str),
}

impl<'a> ToolChoice<'a> {
    pub(crate) fn raw(self) -> (u32, Option<&'a str>) {
        match self {
            ToolChoice::Default => (sys::KVRT_TOOL_CHOICE_DEFAULT, None),
            ToolChoice::None => (sys::KVRT_TOOL_CHOICE_NONE, None),
            ToolChoice::Auto => (sys::KVRT_TOOL_CHOICE_AUTO, None),
            ToolChoice::Required => (sys::KVRT_TOOL_CHOICE_REQUIRED, None),
            ToolChoice::Named(name) => (sys::KVRT_TOOL_CHOICE_NAMED, Some(name)),
        }
    }
}
