// Answers in OpenAI's form: whole, or as a stream.
#pragma once

#include <string>
#include <vector>

#include "error.h"
#include "generation.h"
#include "request.h"

class Reply {
 public:
  virtual ~Reply() = default;

  // What a stream says of a piece: one event or more.
  virtual std::string chunk(const Piece& piece) = 0;
  // What a stream says at its end; with the error that ended it.
  virtual std::string stream_end(const Usage& usage) = 0;
  virtual std::string stream_error(const ApiError& error) = 0;

  // Collects a piece of a whole answer, and writes it.
  virtual void add(const Piece& piece) = 0;
  virtual std::string whole(const Usage& usage) const = 0;
};

std::string random_id(const char* prefix);
// The members `token`, `logprob` and `bytes`.
void write_chance(JsonWriter* w, const TokenChance& chance);

// Of /v1/chat/completions and /v1/completions.
class CompletionReply : public Reply {
 public:
  explicit CompletionReply(const Request& request);
  std::string chunk(const Piece& piece) override;
  std::string stream_end(const Usage& usage) override;
  std::string stream_error(const ApiError& error) override;
  void add(const Piece& piece) override;
  std::string whole(const Usage& usage) const override;

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
