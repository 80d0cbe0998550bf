//! The little JSON that a chat needs.
use std::fmt::Write;

/// A message of a conversation as JSON: `{"role": role, "content": content}`. Messages with other fields (tool calls, reasoning) are yours to write.
pub fn message(role: &str, content: &str) -> String {
    let mut out = String::from("{\"role\": ");
    quote(&mut out, role);
    out.push_str(", \"content\": ");
    quote(&mut out, content);
    out.push('}');
    out
}

fn quote(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\0'..='\x1f' => write!(out, "\\u{:04x}", c as u32).expect("a String takes all"),
            _ => out.push(c),
        }
    }
    out.push('"');
}
