// /v1/responses: its answers as items and events.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "reply.h"

// With this before it, reasoning is the `encrypted_content` of its item. A client that keeps nothing else of the item sends it back. It is
// no secret from the client; what other servers sealed is not read.
constexpr std::string_view kSealed = "kvrt:";

class ResponseReply : public Reply {
 public:
  explicit ResponseReply(const Request& request);
  std::string chunk(const Piece& piece) override;
  std::string stream_end(const Usage& usage) override;
  std::string stream_error(const ApiError& error) override;
  void add(const Piece& piece) override { (void)chunk(piece); }
  std::string whole(const Usage& usage) const override { return response(status(), &usage, nullptr); }

 private:
  struct Item {
    Piece::Kind kind;
    std::string id, text;       // of a call: its arguments
    std::string call_id, name;  // of a call
    std::vector<TokenChance> chances;
    const char* status = "in_progress";
  };
  const char* status() const { return full_ ? "incomplete" : "completed"; }
  std::string response(const char* status, const Usage* usage, const ApiError* error) const;
  void write_item(JsonWriter* w, const Item& item) const;
  void write_part(JsonWriter* w, const Item& item) const;
  void write_chances(JsonWriter* w, const Item& item, size_t from, bool bytes) const;
  std::string event(const std::string& type, const std::string& members);
  std::string place(bool part) const;  // of the last item
  std::string begin(Piece::Kind kind);
  std::string end(const char* status);
  std::string call(const Piece& piece);

  const Request& request_;
  const uint64_t created_;
  uint64_t ended_ = 0;
  std::vector<Item> items_;  // the last one may be open: its status says so
  uint64_t sequence_ = 0;
  bool begun_ = false, full_ = false;
};
