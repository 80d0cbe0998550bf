#include "reply.h"

#include <cmath>
#include <ctime>
#include <random>
#include <set>

namespace {

void write_usage(JsonWriter* w, const Usage& u) {
  w->key("usage").begin('{').pair("prompt_tokens", u.prompt).pair("completion_tokens", u.completion);
  w->pair("total_tokens", u.prompt + u.completion);
  w->key("prompt_tokens_details").begin('{').pair("cached_tokens", u.cached).end('}');
  w->key("completion_tokens_details").begin('{').pair("reasoning_tokens", u.reasoning).pair("accepted_prediction_tokens", u.accepted);
  w->pair("rejected_prediction_tokens", u.drafted - u.accepted).end('}');
  w->end('}');
}

uint64_t characters(std::string_view text) {
  uint64_t n = 0;
  for (const char c : text) n += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return n;
}

}  // namespace

std::string random_id(const char* prefix) {
  std::random_device random;  // an id names a conversation that is kept: no two may be the same
  constexpr char kDigits[] = "0123456789abcdefghijklmnopqrstuv";
  std::string out = prefix;
  for (uint64_t bits = uint64_t{random()} << 32 | random(), i = 0; i < 12; ++i, bits >>= 5) out += kDigits[bits & 31];
  return out;
}

// A token that holds a part of a character alone is told by its `bytes`.
void write_chance(JsonWriter* w, const TokenChance& c) {
  w->pair("token", valid_utf8(c.bytes)).key("logprob").number(c.logprob).key("bytes").begin('[');
  for (const char byte : c.bytes) w->number(static_cast<uint64_t>(static_cast<unsigned char>(byte)));
  w->end(']');
}

CompletionReply::CompletionReply(const Request& request)
    : request_(request), id_(random_id(request.messages.empty() ? "cmpl-" : "chatcmpl-")), created_(static_cast<uint64_t>(time(nullptr))) {
  choices_.resize(request.n * std::max<size_t>(request.prompts.size(), 1));
}

void CompletionReply::head(JsonWriter* w, bool chunk) const {
  w->begin('{').pair("id", id_).pair("object", !chat() ? "text_completion" : chunk ? "chat.completion.chunk" : "chat.completion");
  w->pair("created", created_).pair("model", request_.model).pair("system_fingerprint", "kvrt");
}

std::string CompletionReply::call_json(const Piece& piece, Choice* choice, bool chunk) const {
  const Json call = read_json(piece.text, kKvrtDepthMax);
  const Json *id = call.find("id"), *name = call.find("name"), *arguments = call.find("arguments");
  JsonWriter w;
  w.begin('{');
  if (chunk) w.pair("index", choice->calls.size());
  w.pair("id", id ? id->text : random_id("call_")).pair("type", "function");
  w.key("function").begin('{').pair("name", name ? name->text : "").pair("arguments", arguments ? arguments->raw : "{}").end('}').end('}');
  choice->calls.push_back(w.str());
  return w.take();
}

void CompletionReply::write_chances(JsonWriter* w, const std::vector<TokenChance>& chances, uint64_t offset) const {
  if (chances.empty()) {
    w->key("logprobs").null();
    return;
  }
  w->key("logprobs").begin('{');
  if (chat()) {
    w->key("content").begin('[');
    for (const TokenChance& c : chances) {
      write_chance(&w->begin('{'), c);
      w->key("top_logprobs").begin('[');
      for (const TokenChance& other : c.others) {
        write_chance(&w->begin('{'), other);
        w->end('}');
      }
      w->end(']').end('}');
    }
    w->end(']').key("refusal").null().end('}');
    return;
  }
  w->key("tokens").begin('[');
  for (const TokenChance& c : chances) w->string(valid_utf8(c.bytes));
  w->end(']').key("token_logprobs").begin('[');
  for (const TokenChance& c : chances) std::isnan(c.logprob) ? w->null() : w->number(c.logprob);
  w->end(']').key("text_offset").begin('[');
  for (const TokenChance& c : chances) w->number(offset), offset += characters(valid_utf8(c.bytes));
  w->end(']').key("top_logprobs").begin('[');
  for (const TokenChance& c : chances) {
    if (std::isnan(c.logprob)) {
      w->null();
      continue;
    }
    w->begin('{');
    std::set<std::string> seen;  // tokens that are parts of a character have one text, U+FFFD: the most probable one stands
    for (const TokenChance& other : c.others) {
      if (const auto [text, fresh] = seen.insert(valid_utf8(other.bytes)); fresh) w->key(*text).number(other.logprob);
    }
    w->end('}');
  }
  w->end(']').end('}');
}

std::string CompletionReply::event_of(uint32_t index, const std::string& fields, const char* reason) const {
  JsonWriter w;
  head(&w, true);
  w.key("choices").begin('[').begin('{').pair("index", uint64_t{index}).raw(fields);
  reason ? w.pair("finish_reason", reason) : w.key("finish_reason").null();
  w.end('}').end(']');
  if (request_.include_usage) w.key("usage").null();
  return "data: " + w.end('}').take() + "\n\n";
}

std::string CompletionReply::chunk(const Piece& piece) {
  Choice& c = choices_[piece.choice];
  std::string out;
  JsonWriter w;
  if (!chat()) {
    w.pair("text", piece.text);
    write_chances(&w, piece.chances, c.characters);
    c.characters += characters(piece.text);
    return event_of(piece.choice, w.take(), piece.reason);
  }
  const char* none = request_.must_call() ? "null" : R"("")";
  if (!c.begun)
    out = event_of(piece.choice, R"("delta":{"role":"assistant","content":)" + std::string(none) + R"(},"logprobs":null)", nullptr);
  c.begun = true;
  w.key("delta").begin('{');
  if (piece.kind == Piece::kContent) w.pair("content", piece.text);
  if (piece.kind == Piece::kReasoning) w.pair("reasoning_content", piece.text);
  if (piece.kind == Piece::kCall) w.key("tool_calls").begin('[').raw(call_json(piece, &c, true)).end(']');
  w.end('}');
  write_chances(&w, piece.chances, 0);
  return out + event_of(piece.choice, w.take(), piece.reason);
}

std::string CompletionReply::stream_end(const Usage& usage) {
  std::string out;
  if (request_.include_usage) {
    JsonWriter w;
    head(&w, true);
    w.key("choices").begin('[').end(']');
    write_usage(&w, usage);
    out = "data: " + w.end('}').take() + "\n\n";
  }
  return out + "data: [DONE]\n\n";
}

std::string CompletionReply::stream_error(const ApiError& error) { return "data: " + error.json() + "\n\n"; }

void CompletionReply::add(const Piece& piece) {
  Choice& c = choices_[piece.choice];
  if (piece.kind == Piece::kContent) c.content += piece.text;
  if (piece.kind == Piece::kReasoning) c.reasoning += piece.text;
  if (piece.kind == Piece::kCall) (void)call_json(piece, &c, false);
  c.chances.insert(c.chances.end(), piece.chances.begin(), piece.chances.end());
  if (piece.reason) c.reason = piece.reason;
}

std::string CompletionReply::whole(const Usage& usage) const {
  JsonWriter w;
  head(&w, false);
  w.key("choices").begin('[');
  for (size_t i = 0; i < choices_.size(); ++i) {
    const Choice& c = choices_[i];
    w.begin('{').pair("index", i);
    if (chat()) {
      w.key("message").begin('{').pair("role", "assistant");
      c.content.empty() && (!c.calls.empty() || request_.must_call()) ? w.key("content").null() : w.pair("content", c.content);
      w.key("refusal").null();
      if (!c.reasoning.empty()) w.pair("reasoning_content", c.reasoning);
      if (!c.calls.empty()) {
        w.key("tool_calls").begin('[');
        for (const std::string& call : c.calls) w.raw(call);
        w.end(']');
      }
      w.end('}');
    } else {
      w.pair("text", c.content);
    }
    write_chances(&w, c.chances, 0);
    w.pair("finish_reason", c.reason).end('}');
  }
  w.end(']');
  write_usage(&w, usage);
  return w.end('}').take();
}
