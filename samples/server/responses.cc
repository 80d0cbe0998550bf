#include "responses.h"

#include <ctime>

ResponseReply::ResponseReply(const Request& request) : request_(request), created_(static_cast<uint64_t>(time(nullptr))) {}

std::string ResponseReply::response(const char* status, const Usage* usage, const ApiError* error) const {
  JsonWriter w;
  w.begin('{').pair("id", request_.response.id).pair("object", "response").pair("created_at", created_).pair("status", status);
  w.key("completed_at");
  status == std::string_view("completed") ? w.number(ended_) : w.null();
  w.key("error");
  if (error) {
    w.begin('{').pair("code", "server_error").pair("message", valid_utf8(error->message)).end('}');
  } else {
    w.null();
  }
  w.key("incomplete_details");
  if (status == std::string_view("incomplete")) {
    w.begin('{').pair("reason", "max_output_tokens").end('}');
  } else {
    w.null();
  }
  w.pair("model", request_.model).raw(request_.response.said);
  w.key("output").begin('[');
  for (const Item& item : items_) write_item(&w, item);
  w.end(']').key("usage");
  if (!usage) return w.null().end('}').take();
  w.begin('{').pair("input_tokens", usage->prompt);
  w.key("input_tokens_details").begin('{').pair("cached_tokens", usage->cached).pair("cache_write_tokens", uint64_t{0}).end('}');
  w.pair("output_tokens", usage->completion);
  w.key("output_tokens_details").begin('{').pair("reasoning_tokens", usage->reasoning).end('}');
  return w.pair("total_tokens", usage->prompt + usage->completion).end('}').end('}').take();
}

// Those of the item from one on. An event has no bytes, the item has.
void ResponseReply::write_chances(JsonWriter* w, const Item& item, size_t from, bool bytes) const {
  const auto write = [&](const TokenChance& c) {
    w->begin('{');
    if (bytes)
      write_chance(w, c);
    else
      w->pair("token", valid_utf8(c.bytes)).key("logprob").number(c.logprob);
  };
  w->key("logprobs").begin('[');
  for (size_t i = from; i < item.chances.size(); ++i) {
    write(item.chances[i]);
    w->key("top_logprobs").begin('[');
    for (const TokenChance& other : item.chances[i].others) {
      write(other);
      w->end('}');
    }
    w->end(']').end('}');
  }
  w->end(']');
}

void ResponseReply::write_part(JsonWriter* w, const Item& item) const {
  w->begin('{').pair("type", item.kind == Piece::kReasoning ? "reasoning_text" : "output_text").pair("text", item.text);
  if (item.kind == Piece::kContent) {
    w->key("annotations").begin('[').end(']');
    write_chances(w, item, 0, true);
  }
  w->end('}');
}

void ResponseReply::write_item(JsonWriter* w, const Item& item) const {
  w->begin('{').pair("id", item.id);
  if (item.kind == Piece::kCall) {
    w->pair("type", "function_call").pair("call_id", item.call_id).pair("name", item.name).pair("arguments", item.text);
    w->pair("status", item.status).end('}');
    return;
  }
  if (item.kind == Piece::kReasoning) {
    w->pair("type", "reasoning").key("summary").begin('[').end(']');
    if (request_.response.encrypted) w->pair("encrypted_content", std::string(kSealed) + item.text);
  } else {
    w->pair("type", "message").pair("role", "assistant");
  }
  w->pair("status", item.status).key("content").begin('[');
  if (item.status != std::string_view("in_progress") || !item.text.empty()) write_part(w, item);
  w->end(']').end('}');
}

std::string ResponseReply::event(const std::string& type, const std::string& members) {
  JsonWriter w;
  w.begin('{').pair("type", type).pair("sequence_number", sequence_++).raw(members);
  return "event: " + type + "\ndata: " + w.end('}').take() + "\n\n";
}

std::string ResponseReply::place(bool part) const {
  JsonWriter w;
  if (part) w.pair("item_id", items_.back().id);
  w.pair("output_index", items_.size() - 1);
  if (part && items_.back().kind != Piece::kCall) w.pair("content_index", uint64_t{0});
  return w.take();
}

// A new item, which is open.
std::string ResponseReply::begin(Piece::Kind kind) {
  std::string out = end("completed");
  Item item{};
  item.kind = kind;
  item.id = random_id(kind == Piece::kCall ? "fc_" : kind == Piece::kReasoning ? "rs_" : "msg_");
  item.status = "in_progress";
  items_.push_back(std::move(item));
  if (kind == Piece::kCall) return out;  // it is there whole
  JsonWriter added, part;
  added.raw(place(false)).key("item");
  write_item(&added, items_.back());
  part.raw(place(true)).key("part");
  write_part(&part, items_.back());
  out += event("response.output_item.added", added.take());  // one after another: events are numbered as they are made
  return out += event("response.content_part.added", part.take());
}

// Ends the item that is open.
std::string ResponseReply::end(const char* status) {
  if (items_.empty() || items_.back().status != std::string_view("in_progress")) return "";
  Item& item = items_.back();
  item.status = status;
  std::string out;
  if (item.kind != Piece::kCall) {
    JsonWriter text, part;
    text.raw(place(true)).pair("text", item.text);
    if (item.kind == Piece::kContent) write_chances(&text, item, 0, false);
    part.raw(place(true)).key("part");
    write_part(&part, item);
    out = event(item.kind == Piece::kContent ? "response.output_text.done" : "response.reasoning_text.done", text.take());
    out += event("response.content_part.done", part.take());
  }
  JsonWriter done;
  done.raw(place(false)).key("item");
  write_item(&done, item);
  return out += event("response.output_item.done", done.take());
}

// A call comes whole: its arguments are one delta.
std::string ResponseReply::call(const Piece& piece) {
  const Json json = read_json(piece.text, kKvrtDepthMax);
  const Json *id = json.find("id"), *name = json.find("name"), *arguments = json.find("arguments");
  std::string out = begin(Piece::kCall);
  Item& item = items_.back();
  item.call_id = id ? id->text : random_id("call_");
  item.name = name ? name->text : "";
  JsonWriter added, delta, done;
  added.raw(place(false)).key("item");
  write_item(&added, item);
  item.text = arguments ? arguments->raw : "{}";
  delta.raw(place(true)).pair("delta", item.text);
  done.raw(place(true)).pair("arguments", item.text);
  out += event("response.output_item.added", added.take());
  out += event("response.function_call_arguments.delta", delta.take());
  out += event("response.function_call_arguments.done", done.take());
  return out += end("completed");
}

std::string ResponseReply::chunk(const Piece& piece) {
  std::string out;
  if (!begun_) {
    const std::string members = JsonWriter().key("response").raw(response("in_progress", nullptr, nullptr)).take();
    out = event("response.created", members);
    out += event("response.in_progress", members);
    begun_ = true;
  }
  if (piece.kind == Piece::kCall) return out += call(piece);
  if (piece.kind == Piece::kEnd) {
    ended_ = static_cast<uint64_t>(time(nullptr));
    full_ = piece.reason == std::string_view("length");
    const bool nothing = items_.empty() || items_.back().kind == Piece::kReasoning;
    if (nothing && !full_ && !request_.must_call()) out += begin(Piece::kContent);  // an answer without words is one, too
    if (!items_.empty() && items_.back().kind == Piece::kContent)
      items_.back().chances.insert(items_.back().chances.end(), piece.chances.begin(), piece.chances.end());
    return out += end(full_ ? "incomplete" : "completed");
  }
  if (items_.empty() || items_.back().kind != piece.kind || items_.back().status != std::string_view("in_progress"))
    out += begin(piece.kind);
  Item& item = items_.back();
  const size_t before = item.chances.size();
  item.text += piece.text;
  item.chances.insert(item.chances.end(), piece.chances.begin(), piece.chances.end());
  JsonWriter w;
  w.raw(place(true)).pair("delta", piece.text);
  if (piece.kind == Piece::kContent) write_chances(&w, item, before, false);
  return out += event(piece.kind == Piece::kContent ? "response.output_text.delta" : "response.reasoning_text.delta", w.take());
}

std::string ResponseReply::stream_end(const Usage& usage) {
  return event(std::string("response.") + status(), JsonWriter().key("response").raw(response(status(), &usage, nullptr)).take());
}

std::string ResponseReply::stream_error(const ApiError& error) {
  std::string out = end("incomplete");
  return out += event("response.failed", JsonWriter().key("response").raw(response("failed", nullptr, &error)).take());
}
