// The answers to one request: sessions that generate together, and what comes of them piece by piece.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "conversations.h"
#include "request.h"
#include "watch.h"

struct TokenChance {
  std::string bytes;
  double logprob = 0;               // NaN: nothing comes before it
  std::vector<TokenChance> others;  // the most probable ones
};

// A piece of an answer.
struct Piece {
  enum Kind { kContent, kReasoning, kCall, kEnd };
  Kind kind = kContent;
  uint32_t choice = 0;
  std::string text;                  // whole characters; of a call its JSON
  std::vector<TokenChance> chances;  // of the tokens of the text, where they are asked for; kEnd: of those that a stop text cut
  const char* reason = nullptr;      // kEnd: OpenAI's finish_reason
};

struct Usage {
  uint64_t prompt = 0, cached = 0, completion = 0, reasoning = 0;
  uint64_t drafted = 0, accepted = 0;  // tokens that were proposed; of these, tokens of the completion
};

class Generation {
 public:
  // Begins it. `request`, `conversations` and `watcher` outlive it. Throws kvrt::Error.
  Generation(const kvrt::Model& model, Conversations& conversations, Watcher& watcher, const Request& request, const std::string& domain,
             int socket, std::chrono::seconds limit);
  ~Generation();  // cancels what goes on, and saves
  Generation(const Generation&) = delete;

  // The next piece of any choice; nothing: all have ended. Computes, together with the generations of all other requests. Throws kvrt::Error,
  // and ApiError where it was ended from outside.
  std::optional<Piece> next();
  // Saves it, once all choices have ended, without what the client did not get. `response`: this is kept with it; "": none is.
  void save(const std::string& response = {}) noexcept;
  // The client has gone.
  void cancel() { watch_.cancel().fire(); }
  const Usage& usage() const { return usage_; }  // of the choices that have ended

 private:
  struct Choice {
    kvrt::Session* session = nullptr;
    bool first = false;  // of its prompt
    bool over = false, called = false;
    uint64_t cut = 0;                  // tokens of a stop string at its end
    uint64_t unclaimed = 0;            // tokens that no piece has had yet
    std::vector<TokenChance> chances;  // of these
    std::optional<TokenChance> mark;   // of the last one, where it has no text
    bool answers = true;               // its last piece is content
    std::string held;                  // U+FFFD at the end of its text: an answer that is cut there ends before it
    Piece::Kind held_kind = Piece::kContent;
  };

  void begin_all(const std::string& domain);
  void end_all();
  void begin(uint32_t index, kvrt::Session* session, bool first);
  std::vector<TokenChance> score(kvrt::Session* session, const Prompt& prompt) const;
  void take(uint32_t index, const kvrt::Event& event);
  void add_chance(Choice* choice, const kvrt::Event& event) const;
  void add(uint32_t index, Piece::Kind kind, std::string_view text);
  void give(uint32_t index, Piece::Kind kind, std::string text);
  void release(uint32_t index);
  void end_whole(Choice* choice);
  void end(uint32_t index, const char* reason);
  void finish(uint32_t index, const kvrt::Event& event);
  TokenChance chance(int32_t token, double logprob, kvrt::Span<const kvrt_token_value> others) const;
  std::string bytes_of(int32_t token, uint32_t flags = KVRT_TEXT_SPECIAL) const;
  void check_ended() const;

  const kvrt::Model& model_;
  Conversations& conversations_;
  const Request& request_;
  Watcher::Watch watch_;
  std::shared_ptr<Conversation> conversation_;  // of a chat
  std::deque<kvrt::Session> sessions_;          // of all but the chat's first choice
  std::vector<Choice> choices_;
  std::vector<std::vector<TokenChance>> scores_;  // of the prompts, where echo and logprobs are asked for
  std::deque<Piece> ready_;
  bool saved_ = false;
  uint32_t turn_ = 0;  // the choice to look at next
  Usage usage_;
};
