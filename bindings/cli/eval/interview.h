// Interview: a model answers the questions of cases, writes long texts, and reads texts beside another configuration of it.
#pragma once

#include "bindings/cli/eval/cases/case.h"
#include "bindings/cli/eval/record.h"

namespace cli::eval {

// CANCELLED: Ctrl-C came.
class Interview {
 public:
  // A failure leaves its position in `place`.
  Interview(const Model& model, Place* place);

  // Questions that are no turns share the KV of the case's document, and cases nothing: what is computed does not depend on those before.
  // `name`: the case's, unlike others'.
  kvrt_status ask(const Case& about, const std::string& name, Answers* out);
  // The answer that follows these messages, a JSON array. What follows the messages of an earlier call shares its KV.
  kvrt_status converse(const std::string& messages, uint32_t tokens_max, const std::string& name, Answers* out);
  kvrt_status write(const std::string& request, uint32_t tokens_max, const std::string& name, Decode* out);
  // Messages as the model's template renders them; nothing: it refuses them, or there is none.
  static std::optional<std::string> rendered(const Model& model, const std::string& messages);
  uint64_t kv_bytes_peak() const { return kv_bytes_peak_; }  // of a session, so far
  uint64_t rows() const { return rows_; }                    // that were computed so far
  // What the base and this model predict after each of the tokens, side by side, so that few rows are in memory.
  kvrt_status read(const Model& base, const std::vector<int32_t>& tokens, Reading* out);

 private:
  kvrt_status open(const std::string& name, Session* out) const;
  kvrt_status tell(Session* session, std::string_view role, std::string_view content) const;
  // kept: tokens of the answer that the session has.
  kvrt_status answer(Session* session, uint32_t tokens_max, std::string* text, uint64_t* rows, uint64_t* kept = nullptr);

  const Model& model_;
  Place* const place_;
  uint64_t kv_bytes_peak_ = 0, rows_ = 0;
  bool chats_ = false;  // it has a template; else a dialogue is spelled as text
  bool takes_system_ = false;
};

}  // namespace cli::eval
