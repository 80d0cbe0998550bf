#include "runtime/text/reply/payload.h"

#include "runtime/base/limits.h"
#include "runtime/base/utf8.h"
#include "runtime/text/template/json.h"
#include "runtime/text/template/print.h"

namespace kvrt::reply {

using std::string_view_literals::operator""sv;

namespace {

constexpr std::string_view kCallKeys[] = {"name", "arguments", "parameters", "type", "id"};

bool begins_key(std::string_view text, bool whole) {
  for (std::string_view key : kCallKeys)
    if (whole ? key == text : key.starts_with(text)) return true;
  return false;
}

char closing(char open) { return open == '{' ? '}' : open == '[' ? ']' : ')'; }

bool begins_word(char c) { return is_word(c) && !is_digit(c); }

}  // namespace

bool PayloadScan::begins(const CallSyntax& syntax, bool named, char c) {
  if (named) return c == ((syntax.flags & CallSyntax::kTags) ? '<' : '{');
  return c == '{' || c == '[' || ((syntax.flags & CallSyntax::kPython) && !syntax.begin.empty() && begins_word(c));
}

void PayloadScan::reset(unsigned flags, bool named) {
  *this = PayloadScan();
  flags_ = flags;
  named_ = named;
}

PayloadScan::State PayloadScan::in_string(char c) {
  if (static_cast<unsigned char>(c) < 0x20) return State::kRefused;  // neither JSON nor Python has them in a string
  bool ends = !escaped_ && c == quote_;
  escaped_ = !escaped_ && c == '\\';
  if (ends) quote_ = 0;
  if (!in_key_) return State::kMore;
  if (ends) in_key_ = false;
  if (!ends) key_.push_back(c);
  return begins_key(key_, ends) ? State::kMore : State::kRefused;
}

PayloadScan::State PayloadScan::bracket(char c) {
  if (c == '{' || c == '[' || c == '(') {
    if (open_.size() >= kJsonDepthMax || (c == '(' && !in_word_)) return State::kRefused;
    if (open_.empty() && !named_)
      level_ = c == '[' ? 1 : 0;
    else if (c == '[' && calls_level())
      return State::kRefused;
    in_word_ = false;
    open_.push_back(c);
    key_next_ = keys_level();
    return State::kMore;
  }
  if (open_.empty() || c != closing(open_.back()) || in_word_) return State::kRefused;
  open_.pop_back();
  key_next_ = false;
  return open_.empty() ? State::kDone : State::kMore;
}

PayloadScan::State PayloadScan::feed_control(std::string_view spelling) {
  State state = State::kRefused;
  if (!(flags_ & CallSyntax::kTags)) return state;
  for (char c : spelling) {
    state = tags_.feed(c);
    if (state == State::kRefused) return state;
  }
  return state == State::kDone || tags_.between_tags() ? state : State::kRefused;
}

PayloadScan::State PayloadScan::feed(char c) {
  if (flags_ & CallSyntax::kTags) return tags_.feed(c);
  if (quote_ != 0) return in_string(c);
  const bool python = flags_ & CallSyntax::kPython;
  if (python && calls_level() && (in_word_ ? is_word(c) || c == '.' : begins_word(c))) {
    in_word_ = true;
    return State::kMore;
  }
  if (in_word_ && c != '(') return State::kRefused;
  if (is_space(c)) return State::kMore;
  if (c == '{' || c == '}' || c == '[' || c == ']' || c == '(' || c == ')') return bracket(c);
  if (c == ',') {
    key_next_ = keys_level();
    return State::kMore;
  }
  if (calls_level() || (key_next_ && c != '"')) return State::kRefused;
  if (c == '"' || (python && c == '\'')) {
    quote_ = c;
    in_key_ = key_next_;
    key_next_ = false;
    key_.clear();
    return State::kMore;
  }
  bool plain = is_word(c) || c == ':' || c == '-' || c == '+' || c == '.' || (python && c == '=');
  return plain ? State::kMore : State::kRefused;
}

namespace {

// Python calls rewritten as the JSON of calls: f(k='v', b=True) -> {"name":"f","arguments":{"k":"v","b":true}}. It looks at one word at
// a time and keeps the brackets; any other text that is no Python of literals comes out as a text that is no JSON.
class PythonCalls {
 public:
  PythonCalls(std::string_view text, std::string* out) : text_(text), out_(out) {}

  bool to_json() {
    while (at_ < text_.size()) {
      char c = text_[at_];
      bool ok = c == '"' || c == '\'' ? string() : begins_word(c) ? word() : is_digit(c) || c == '-' || c == '.' ? number() : mark();
      if (!ok) return false;
    }
    return open_.empty();
  }

 private:
  char top() const { return open_.empty() ? '\0' : open_.back(); }

  bool mark() {
    char c = text_[at_++];
    if (c == '[' || c == '{') open_.push_back(c);
    if (c == ']' || c == '}' || c == ')') {
      if (open_.empty() || c != closing(open_.back())) return false;
      open_.pop_back();
      if (c == ')') return out_->append("}}"), true;
    }
    if (c == '(' || c == '=' || (c == ':' && top() != '{')) return false;  // those of calls and of keywords are read with their words
    out_->push_back(c);
    return true;
  }

  bool number() {
    for (char c; at_ < text_.size() && (is_word(c = text_[at_]) || c == '.' || c == '-' || c == '+'); ++at_) out_->push_back(c);
    return true;
  }

  bool word() {
    size_t begin = at_;
    while (at_ < text_.size() && (is_word(text_[at_]) || text_[at_] == '.')) ++at_;
    std::string_view word = text_.substr(begin, at_ - begin);
    if (open_.empty() || open_ == "[") {
      if (at_ == text_.size() || text_[at_] != '(') return false;
      if (word.ends_with(".call")) word.remove_suffix(5);  // Llama's built-in tools
      out_->append("{\"name\":\"").append(word).append("\",\"arguments\":{");
      open_.push_back('(');
      ++at_;
      return true;
    }
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
    if (top() == '(' && at_ < text_.size() && text_[at_] == '=') {
      out_->append("\"").append(word).append("\":");
      ++at_;
      return word.find('.') == std::string_view::npos;
    }
    bool yes = word == "True" || word == "true", no = word == "False" || word == "false";
    if (!yes && !no && word != "None" && word != "null") return false;
    out_->append(yes ? " true " : no ? " false " : " null ");
    return true;
  }

  bool string() {
    char quote = text_[at_++];
    out_->push_back('"');
    for (char c; at_ < text_.size() && (c = text_[at_++]) != quote;) {
      if (c == '\\' && !escape()) return false;
      if (c == '"') out_->push_back('\\');
      if (c != '\\') out_->push_back(c);
    }
    out_->push_back('"');
    return true;
  }

  bool escape() {
    char c = at_ < text_.size() ? text_[at_++] : '\0';
    static constexpr std::string_view kJsonToo = "ntrbf\\\"u";
    if (kJsonToo.find(c) != std::string_view::npos) return out_->append({'\\', c}), true;
    if (c == 'x') return out_->append("\\u00"), true;
    out_->push_back(c);
    return c == '\'';  // not \N{..}, octal, \a, \v
  }

  std::string_view text_;
  size_t at_ = 0;
  std::string open_;
  std::string* out_;
};

using jinja::Arena;
using jinja::Dict;
using jinja::Kind;
using jinja::Value;

const Value* find(const Dict& dict, std::string_view name, std::string_view other_name) {
  const Value* value = dict.find(name);
  return value != nullptr ? value : dict.find(other_name);
}

// One call as the families write it, and its canonical form.
class Calls {
 public:
  Calls(unsigned flags, Arena* arena, std::vector<ReplyPart>* out) : flags_(flags), arena_(arena), out_(out) {}

  // {"name", "arguments"}, by the names that the families have for them, or OpenAI's {"id", "function": {"name", "arguments"}}.
  bool append(Value value) {
    if (!value.is(Kind::kDict)) return false;
    const Value* function = value.dict->find("function");
    const Dict& call = function != nullptr && function->is(Kind::kDict) ? *function->dict : *value.dict;
    const Value *name = find(call, "name", "tool_name"), *id = find(*value.dict, "id", "tool_call_id");
    const Value* arguments = find(call, "arguments", "parameters");
    if (name == nullptr || (arguments == nullptr && (flags_ & CallSyntax::kStrict))) return false;
    return append(*name, arguments == nullptr ? Value::of(jinja::create<Dict>(arena_)) : *arguments, id == nullptr ? Value() : *id);
  }

  bool append(Value name, Value arguments, Value id) {
    if (arguments.is(Kind::kString)) {  // as OpenAI's API has them
      auto parsed = jinja::parse_json(arguments.str(), "arguments", arena_);
      if (!parsed.is_ok()) return false;
      arguments = *parsed;
    }
    if (!name.is(Kind::kString) || name.size == 0 || !arguments.is(Kind::kDict)) return false;
    Dict* call = jinja::create<Dict>(arena_);
    if (call == nullptr) return false;
    call->set(arena_, Value::of("name"sv), name);
    call->set(arena_, Value::of("arguments"sv), arguments);
    if (id.is(Kind::kString) && id.size > 0) call->set(arena_, Value::of("id"sv), id);
    jinja::TextBuilder json(arena_);
    if (!jinja::append_json(Value::of(call), {",", ":", {}, false, false, false}, &json) || arena_->full()) return false;
    out_->push_back({ReplyPart::Kind::kToolCall, std::string(json.view())});
    return true;
  }

 private:
  unsigned flags_;
  Arena* arena_;
  std::vector<ReplyPart>* out_;
};

// A value that reads as JSON other than a string is that; any other value is a string as it stands.
bool append_tagged(std::string_view payload, const HeadReader::Head& head, Arena* arena, std::vector<ReplyPart>* out) {
  TagScan scan;
  for (char c : payload) (void)scan.feed(c);
  Dict* arguments = jinja::create<Dict>(arena);
  for (const auto& [key, text] : scan.arguments()) {
    if (arena->full() || find_invalid_utf8(key) != std::string_view::npos || find_invalid_utf8(text) != std::string_view::npos)
      return false;
    auto parsed = jinja::parse_json(text, "argument", arena);
    Value value = parsed.is_ok() && !parsed->is(Kind::kString) ? *parsed : Value::of(arena->copy(text));
    arguments->set(arena, Value::of(arena->copy(key)), value);
  }
  return Calls(0, arena, out).append(Value::of(std::string_view(head.name)), Value::of(arguments), Value());
}

}  // namespace

bool append_calls(std::string_view payload, const HeadReader::Head& head, unsigned flags, std::vector<ReplyPart>* out) {
  Arena arena(kTemplateHeapBytesMax);
  if (flags & CallSyntax::kTags) return append_tagged(payload, head, &arena, out);
  auto parsed = jinja::parse_json(payload, "tool call", &arena);
  std::string json;
  if (!parsed.is_ok() && (flags & CallSyntax::kPython) && PythonCalls(payload, &json).to_json())
    parsed = jinja::parse_json(json, "tool call", &arena);
  if (!parsed.is_ok()) return false;
  std::vector<ReplyPart> parts;
  Calls calls(flags, &arena, &parts);
  if (!head.name.empty()) {
    if (!calls.append(Value::of(std::string_view(head.name)), *parsed, Value::of(std::string_view(head.id)))) return false;
  } else if (parsed->is(Kind::kList)) {
    for (uint32_t i = 0; i < parsed->list->size; ++i)
      if (!calls.append(parsed->list->data[i])) return false;
  } else if (!calls.append(*parsed)) {
    return false;
  }
  for (ReplyPart& part : parts) out->push_back(std::move(part));
  return !parts.empty();
}

}  // namespace kvrt::reply
