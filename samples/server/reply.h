// Answers in OpenAI's form: whole, or as a stream of chunks.
#pragma once

#include <string>
#include <vector>

#include "generation.h"
#include "request.h"

class Reply {
 public:
  explicit Reply(const Request& request);

  // What a stream says of a piece: one event or more of `data:`.
  std::string chunk(const Piece& piece);
  // What a stream says at its end; with the error that ended it.
  std::string stream_end(const Usage& usage) const;
  static std::string stream_error(const std::string& error_json);

  // Collects a piece of a whole answer, and writes it.
  void add(const Piece& piece);
  std::string whole(const Usage& usage) const;

 private:
  struct Choice {
    std::string content, reasoning;
    std::vector<std::string> calls;  // each {"id","type","function"}
    std::vector<TokenChance> chances;
    const char* reason = "stop";
    bool begun = false;
    uint64_t characters = 0;  // of the text so far
  };
  bool chat() const { return !request_.messages.empty(); }
  void head(JsonWriter* w, bool chunk) const;
  std::string call_json(const Piece& piece, Choice* choice, bool chunk) const;
  void write_chances(JsonWriter* w, const std::vector<TokenChance>& chances, uint64_t offset) const;
  std::string event_of(uint32_t index, const std::string& fields, const char* reason) const;

  const Request& request_;
  const std::string id_;
  const uint64_t created_;
  std::vector<Choice> choices_;
};
