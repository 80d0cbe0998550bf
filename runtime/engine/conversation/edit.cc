#include "runtime/engine/conversation/edit.h"

#include <algorithm>
#include <span>

#include "runtime/engine/conversation/answer.h"

namespace kvrt {

namespace {

// The first `count` messages, and one more unless `extra` is empty, as a JSON array.
std::string as_array(const std::vector<Message>& messages, size_t count, std::string_view extra) {
  std::string json = "[";
  for (size_t i = 0; i < count; ++i) {
    if (i > 0) json += ',';
    json += messages[i].json;
  }
  if (!extra.empty()) {
    if (count > 0) json += ',';
    json += extra;
  }
  return json + "]";
}

bool spells_all(const Tokenizer& tokenizer, std::string_view text) {
  return std::ranges::all_of(text, [&](char c) { return tokenizer.spells(static_cast<uint8_t>(c)); });
}

// What stands first in a text: a special token's spelling, or a byte.
struct FirstPart {
  size_t size;
  bool kept;
};
FirstPart first_part(const Tokenizer& tokenizer, std::string_view text) {
  const size_t special = tokenizer.special_at(text);
  return special > 0 ? FirstPart{special, true} : FirstPart{1, tokenizer.spells(static_cast<uint8_t>(text[0]))};
}

// The text that the tokens of `text` spell: without the bytes that the vocabulary lacks, and with U+FFFD for what that leaves of a character.
std::string encodable(const Tokenizer& tokenizer, std::string_view text) {
  if (spells_all(tokenizer, text)) return std::string(text);
  std::string kept;
  for (size_t at = 0; at < text.size();) {
    const FirstPart part = first_part(tokenizer, text.substr(at));
    if (part.kept) kept += text.substr(at, part.size);
    at += part.size;
  }
  Utf8Stream utf8;
  std::string out(utf8.push(kept));
  return out.append(utf8.finish());
}

// The bytes of `text` of which `encodable` keeps its first `bytes`.
size_t place_of(const Tokenizer& tokenizer, std::string_view text, size_t bytes) {
  if (spells_all(tokenizer, text)) return bytes;
  Utf8Stream utf8;
  size_t at = 0;
  for (size_t done = 0; done < bytes && at < text.size();) {
    const FirstPart part = first_part(tokenizer, text.substr(at));
    if (part.kept) done += utf8.push(text.substr(at, part.size)).size();
    at += part.size;
  }
  return at;
}

// The token before the one at `at`; -1: there is none.
int32_t token_before(std::span<const int32_t> tokens, uint64_t at) { return at ? tokens[at - 1] : -1; }

// `bos`: the text does not spell a first token that is BOS. The count of such tokens.
uint64_t count_bos(const Tokenizer& tokenizer, std::span<const int32_t> tokens, bool bos) {
  return bos && !tokens.empty() && tokens[0] == tokenizer.bos() ? 1 : 0;
}

// A walk over the tokens of a conversation along the text that they spell. `bos`: as of count_bos.
class Spelling {
 public:
  Spelling(const Tokenizer& tokenizer, const std::vector<int32_t>& tokens, bool bos)
      : tokenizer_(tokenizer), tokens_(tokens), at_(count_bos(tokenizer, tokens, bos)) {}

  // Goes on to the last token that ends within the first `bytes` of the text. The count of tokens up to it.
  uint64_t advance(size_t bytes) {
    while (at_ < tokens_.size()) {
      Utf8Stream after = utf8_;
      const size_t next = byte_ + after.push(tokenizer_.piece_after(token_before(tokens_, at_), tokens_[at_], true)).size();
      if (next > bytes) break;
      byte_ = next;
      utf8_ = std::move(after);
      ++at_;
    }
    return std::min<uint64_t>(at_, tokens_.size());
  }

 private:
  const Tokenizer& tokenizer_;
  const std::vector<int32_t>& tokens_;
  uint64_t at_;
  size_t byte_ = 0;
  Utf8Stream utf8_;  // a message has U+FFFD where an answer was cut within a code point
};

// The text is compact JSON: in a string these quotes would be escaped.
bool is_users(const std::string& message) { return message.find(R"("role":"user")") != std::string::npos; }
bool calls(const Message& m) { return m.generated && m.json.find(R"("tool_calls":[)") != std::string::npos; }

constexpr std::string_view kSomeUsers = "{\"role\":\"user\",\"content\":\"\u00b6\"}";  // few begin so

// The count of leading tokens that the conversation has whatever its first user says. `text` is that of all its messages, of which the last
// is the user's first.
uint64_t find_preamble(const LoadedModel& model, const TemplateArguments& arguments, const Conversation& said, const std::string& text) {
  const auto spelled = model.render(as_array(said.messages, said.messages.size() - 1, kSomeUsers), false, arguments);
  if (!spelled.is_ok()) return 0;
  const std::string other = model.tokenizer().normalized(spelled.value());
  const auto same = static_cast<size_t>(std::ranges::mismatch(text, other).in1 - text.begin());
  const size_t bytes = encodable(model.tokenizer(), std::string_view(text).substr(0, same)).size();
  return Spelling(model.tokenizer(), said.tokens, model.adds_bos(text)).advance(bytes);
}

// The text with generated messages as they were generated, where it has the same message in other words: templates write a call's JSON in one
// way, models in many.
std::string as_generated(const LoadedModel& model, const std::string& tools, const Conversation& said, std::string text) {
  if (std::ranges::none_of(said.messages, calls)) return text;
  const Tokenizer& tokenizer = model.tokenizer();
  const std::span<const int32_t> tokens = said.tokens;
  uint64_t i = count_bos(tokenizer, tokens, model.adds_bos(text));
  size_t at = 0;
  const auto matches = [&](uint64_t end) {  // tokens [i, end); goes on behind them
    for (; i < end; ++i) {
      const std::string_view piece = tokenizer.piece_after(token_before(tokens, i), tokens[i], true);
      if (text.compare(at, piece.size(), piece) != 0) return false;
      at += piece.size();
    }
    return true;
  };
  for (const Message& m : said.messages) {
    if (!m.generated || m.begin < i || m.begin == m.end) continue;
    if (!matches(m.begin)) break;
    const size_t begin = at;
    if (matches(m.end)) continue;
    const size_t size = calls(m) ? size_of_same(model, tools, tokens, m, std::string_view(text).substr(begin)) : 0;
    if (size == 0) break;
    const std::string ours = tokenizer.decode(tokens.subspan(m.begin, m.end - m.begin), true, token_before(tokens, m.begin));
    text.replace(begin, size, ours);
    at = begin + ours.size();
    i = m.end;
  }
  return text;
}

// The text as its tokens spell it, where the tokenizer composes characters; generated messages are as the model wrote them.
std::string as_spelled(const Tokenizer& tokenizer, const Conversation& said, std::string text) {
  std::string out = tokenizer.normalized(text);
  if (out == text) return out;
  size_t at = 0;
  for (const Message& m : said.messages) {
    if (!m.generated || m.begin == m.end) continue;
    const auto tokens = std::span<const int32_t>(said.tokens).subspan(m.begin, m.end - m.begin);
    const std::string ours = tokenizer.decode(tokens, true, m.begin ? said.tokens[m.begin - 1] : -1), theirs = tokenizer.normalized(ours);
    const size_t found = ours == theirs ? out.npos : out.find(theirs, at);
    if (found == out.npos) continue;
    out.replace(found, theirs.size(), ours);
    at = found + ours.size();
  }
  return out;
}

// The template's text of the first `count` messages, and of one more unless `extra` is empty.
Result<std::string> spelled(const LoadedModel& model, const TemplateArguments& arguments, const Conversation& said, size_t count,
                            std::string_view extra, bool generation_prompt = false) {
  KVRT_ASSIGN(std::string text, model.render(as_array(said.messages, count, extra), generation_prompt, arguments));
  return as_generated(model, arguments.tools, said, as_spelled(model.tokenizer(), said, std::move(text)));
}

// Finds the tokens of the messages from `first` on. A message ends where the text of the conversation up to it ends.
void find_spans(const LoadedModel& model, const TemplateArguments& arguments, size_t first, Conversation* said) {
  auto& messages = said->messages;
  std::vector<size_t> ends;  // in bytes of text
  bool bos = false;
  for (size_t i = first; i < messages.size(); ++i) {
    auto text = spelled(model, arguments, *said, i + 1, "");  // a template may refuse a part of the conversation
    ends.push_back(text.is_ok() ? encodable(model.tokenizer(), *text).size() : ends.empty() ? 0 : ends.back());
    bos |= text.is_ok() && model.adds_bos(*text);
  }
  Spelling spelling(model.tokenizer(), said->tokens, bos);
  for (size_t i = first; i < messages.size(); ++i) {
    messages[i].begin = i ? messages[i - 1].end : 0;
    messages[i].end = std::max(messages[i].begin, spelling.advance(ends[i - first]));
  }
}

// Keeps the first tokens, and the messages that end within them.
void cut(Conversation* said, uint64_t tokens) {
  said->tokens.resize(tokens);
  while (!said->messages.empty() && said->messages.back().end > tokens) said->messages.pop_back();
  if (said->grammar.begin > tokens) said->grammar = {};
  if (said->preamble > tokens) said->preamble = 0;
}

// Makes the tokens spell `text`. Generated tokens stay as they are while the text up to them is the same; the rest is tokenized as one, so
// that a conversation without generated turns equals its template tokenized whole. A message that is not in *said begins at *begin.
Status rewrite(const LoadedModel& model, const std::string& text, Conversation* said, size_t* first_moved, uint64_t* begin) {
  const Tokenizer& tokenizer = model.tokenizer();
  auto& tokens = said->tokens;
  uint64_t generated = 0;  // tokens up to the end of the last generated message
  for (const Message& m : said->messages) {
    if (m.generated) generated = m.end;
  }
  // The count of tokens that spell the begin of the new text, up to a token boundary.
  uint64_t kept = count_bos(tokenizer, tokens, model.adds_bos(text));
  const std::string wanted = encodable(tokenizer, text);
  size_t byte = 0, at = 0;
  Utf8Stream utf8;  // a message has U+FFFD where an answer was cut within a code point
  for (uint64_t i = kept; i < generated; ++i) {
    std::string piece(utf8.push(tokenizer.piece_after(token_before(tokens, i), tokens[i], true)));
    if (i + 1 == generated) piece += utf8.finish();
    if (wanted.compare(at, piece.size(), piece) != 0) break;
    at += piece.size();
    if (!utf8.pending()) kept = i + 1, byte = at;
  }
  std::vector<int32_t> fresh;
  if (tokens.empty() && model.adds_bos(text)) fresh.push_back(tokenizer.bos());
  const int32_t previous = !fresh.empty() ? fresh.back() : token_before(tokens, kept);
  uint64_t dropped = 0;
  KVRT_TRY(tokenizer.encode(std::string_view(text).substr(place_of(tokenizer, text, byte)), true, &fresh, previous, &dropped));
  said->dropped = std::max(said->dropped, dropped);
  const auto old = std::span(tokens).subspan(kept);
  const auto same = static_cast<uint64_t>(std::mismatch(old.begin(), old.end(), fresh.begin(), fresh.end()).first - old.begin());
  const uint64_t base = kept + same;
  if (base < tokens.size()) {
    auto messages = said->messages;  // cut would drop those that are only rendered differently
    cut(said, base);
    said->messages = std::move(messages);
    for (Message& m : said->messages) {
      if (m.end <= base) continue;
      m = {std::move(m.json), std::min(m.begin, base), base, false};
      *first_moved = std::min(*first_moved, static_cast<size_t>(&m - said->messages.data()));
    }
  }
  tokens.insert(tokens.end(), fresh.begin() + static_cast<ptrdiff_t>(same), fresh.end());
  *begin = base;
  return {};
}

Status check_erase(const Conversation& said, uint64_t from, uint64_t to) {
  if (from > to || to > said.tokens.size()) {
    return error(Code::kInvalid, Detail::kNone, "erase: tokens %llu to %llu, the session has %zu", static_cast<unsigned long long>(from),
                 static_cast<unsigned long long>(to), said.tokens.size());
  }
  for (size_t i = 0; i < said.messages.size(); ++i) {
    const Message& m = said.messages[i];
    const bool within = from <= m.begin && m.end <= to;
    if (within || m.begin >= to || m.end <= from) continue;
    return error(Code::kInvalid, Detail::kNone, "erase: %llu to %llu cuts message %zu in two, which has tokens %llu to %llu",
                 static_cast<unsigned long long>(from), static_cast<unsigned long long>(to), i, static_cast<unsigned long long>(m.begin),
                 static_cast<unsigned long long>(m.end));
  }
  return {};
}

// The count of tokens from `to` on that must go as well so that those before `from` and the remaining ones up to the end of `next` spell
// `text`, which ends with that message; 0 if no count does it. The template may write more behind a generated message.
uint64_t joint(const LoadedModel& model, const std::vector<int32_t>& tokens, const std::string& text, uint64_t from, uint64_t to,
               const Message& next) {
  const Tokenizer& tokenizer = model.tokenizer();
  const auto decode = [&](uint64_t begin, uint64_t end) {
    return tokenizer.decode(std::span(tokens).subspan(begin, end - begin), true, token_before(tokens, begin));
  };
  const uint64_t bos = count_bos(tokenizer, tokens, model.adds_bos(text));
  const std::string whole = encodable(tokenizer, text), left = decode(std::min(bos, from), from), rest = decode(to, next.end);
  if (!whole.starts_with(left)) return 0;
  const std::string_view wanted = std::string_view(whole).substr(left.size());
  const uint64_t last = next.generated ? next.begin : next.end;  // sampled tokens stay
  size_t at = 0;
  for (uint64_t i = to; i <= last && i < next.end; ++i) {
    at += tokenizer.piece_after(token_before(tokens, i), tokens[i], true).size();
    const std::string_view first = tokenizer.piece_after(token_before(tokens, from), tokens[i], true),
                           behind = std::string_view(rest).substr(at);
    if (!next.generated && first.size() + behind.size() != wanted.size()) continue;
    if (wanted.starts_with(first) && wanted.substr(first.size()).starts_with(behind)) return i - to;
  }
  return 0;
}

// True where the template refuses what is said before the first user's message, but takes it together with one: Llama 3.1's puts tools into
// that. The message then has no tokens until the user's comes.
bool waits_for_user(const LoadedModel& model, const TemplateArguments& arguments, const Conversation& said, const std::string& message,
                    const Status& refused) {
  if (refused.detail() != Detail::kTemplateError || is_users(message)) return false;
  if (std::ranges::any_of(said.messages, [](const Message& m) { return is_users(m.json); })) return false;
  return model.render(as_array(said.messages, said.messages.size(), message + "," + std::string(kSomeUsers)), false, arguments).is_ok();
}

}  // namespace

void truncate(const LoadedModel& model, const std::string& tools, uint64_t tokens, Conversation* said) {
  const auto open =
      std::ranges::find_if(said->messages, [&](const Message& m) { return m.generated && m.begin < tokens && tokens < m.end; });
  const uint64_t begin = open == said->messages.end() ? tokens : open->begin;
  const bool called = open != said->messages.end() && calls(*open);
  const size_t had = said->messages.size();
  cut(said, tokens);
  const auto spelled_behind = [](const Message& m) { return !m.generated && m.begin == m.end; };  // by the message that went
  while (said->messages.size() < had && !said->messages.empty() && spelled_behind(said->messages.back())) said->messages.pop_back();
  if (begin == tokens) return;
  ReplyStyle style = answer_style(model, said->tokens, tools, ReplyKind::kNone, begin);
  style.calls = called;  // a part of an answer without calls has none
  said->messages.push_back({answer_message(model, std::move(style), said->tokens, begin), begin, tokens, true});
}

Status add_message(const LoadedModel& model, const TemplateArguments& arguments, std::string message, Conversation* said) {
  const size_t count = said->messages.size();
  auto rendered = spelled(model, arguments, *said, count, message);
  if (!rendered.is_ok() && waits_for_user(model, arguments, *said, message, rendered.status())) {
    said->messages.push_back({std::move(message), said->tokens.size(), said->tokens.size(), false});
    return {};
  }
  KVRT_ASSIGN(const std::string text, std::move(rendered));
  const uint64_t had = said->tokens.size();
  size_t first = count;
  uint64_t begin = 0;
  KVRT_TRY(rewrite(model, text, said, &first, &begin));
  said->messages.push_back({std::move(message), begin, said->tokens.size(), false});
  if (begin < had) find_spans(model, arguments, first, said);
  if (is_users(said->messages[count].json) &&
      std::none_of(said->messages.begin(), said->messages.end() - 1, [](const Message& m) { return is_users(m.json); }))
    said->preamble = find_preamble(model, arguments, *said, text);
  return {};
}

Status replace_messages(const LoadedModel& model, const TemplateArguments& arguments, std::vector<std::string> messages,
                        Conversation* said) {
  size_t same = 0;
  while (same < std::min(messages.size(), said->messages.size()) && same_message(messages[same], said->messages[same].json)) ++same;
  if (same < said->messages.size() || said->messages.empty()) {
    cut(said, same ? said->messages[same - 1].end : 0);
    said->messages.resize(same);
  }
  for (size_t i = same; i < messages.size(); ++i) KVRT_TRY(add_message(model, arguments, std::move(messages[i]), said));
  return {};
}

Status open_turn(const LoadedModel& model, const TemplateArguments& arguments, Conversation* said) {
  const auto& messages = said->messages;
  if (messages.empty() || messages.back().generated || messages.back().end != said->tokens.size()) return {};
  KVRT_ASSIGN(const std::string text, spelled(model, arguments, *said, messages.size(), "", true));
  const uint64_t had = said->tokens.size();
  size_t first = messages.size();
  uint64_t begin = 0;
  KVRT_TRY(rewrite(model, text, said, &first, &begin));
  if (begin < had) find_spans(model, arguments, first, said);
  return {};
}

Status erase(const LoadedModel& model, const TemplateArguments& arguments, uint64_t from, uint64_t to, Conversation* said) {
  KVRT_TRY(check_erase(*said, from, to));
  std::erase_if(said->messages, [&](const Message& m) { return m.end > from && m.begin < to; });
  const auto next = std::find_if(said->messages.begin(), said->messages.end(), [&](const Message& m) { return m.begin >= to; });
  if (next != said->messages.end() && from < to) {
    Conversation left;
    left.tokens.assign(said->tokens.begin(), said->tokens.begin() + static_cast<ptrdiff_t>(from));
    left.messages.assign(said->messages.begin(), next);
    auto text = spelled(model, arguments, left, left.messages.size(), next->json);
    if (text.is_ok()) to += joint(model, said->tokens, *text, from, to, *next);
  }
  if (said->grammar.begin >= to) {
    said->grammar.begin -= to - from;
  } else if (from < to) {
    said->grammar = {};
  }
  if (from < said->preamble) said->preamble = 0;
  said->tokens.erase(said->tokens.begin() + static_cast<ptrdiff_t>(from), said->tokens.begin() + static_cast<ptrdiff_t>(to));
  for (Message& m : said->messages) {
    if (m.end <= from) continue;
    m.begin = std::max(m.begin, to) - (to - from);
    m.end -= to - from;
  }
  return {};
}

void add_answer(const LoadedModel& model, const Generation& g, Conversation* said) {
  auto& messages = said->messages;
  const uint64_t end = said->tokens.size();
  if (messages.empty() || g.options.prefill_only || end <= g.prompt_end) return;
  const bool goes_on = messages.back().generated && messages.back().begin == g.answer.begin;
  if (!goes_on && messages.back().end > g.answer.begin) return;
  if (goes_on) messages.pop_back();
  messages.push_back({answer_message(model, g.answer.style, said->tokens, g.answer.begin, g.text.bytes_cut()), g.answer.begin, end, true});
}

}  // namespace kvrt
