// LoadedModel: the content of a model's file: weights, tokenizer, chat template, identity. It does not change once it is made.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "runtime/base/mutex.h"
#include "runtime/compute/weight_dir.h"
#include "runtime/engine/resources/runtime.h"
#include "runtime/model/model.h"
#include "runtime/text/reply/reply_parser.h"
#include "runtime/text/template/chat_template.h"
#include "runtime/text/tokenizer/tokenizer.h"

namespace kvrt {

// false stops the call (CANCELLED).
using Progress = std::function<bool(uint64_t done, uint64_t total)>;

struct LoadOptions {
  KvFormats kv_format{};
  std::string cache_dir{};  // for packed weights, see find_cache
  CacheChoice cache = CacheChoice::kDefault;
  uint64_t cache_bytes_max = 0;
};

// The parts of a LoadedModel.
struct ModelParts {
  std::string name;                // for messages: the path
  std::unique_ptr<GgufFile> file;  // null: a toy
  std::unique_ptr<Tokenizer> tokenizer;
  std::string chat_template;       // "": none
  std::unique_ptr<Model> weights;  // null for a vocabulary-only file, and for a toy
  ModelDims dims;
};

Result<std::unique_ptr<Tokenizer>> make_tokenizer(const GgufFile& file);
// Hears of a part of a file ("tokenizer", "chat template", "model") whether it can be opened; a failure that it returns ends the check.
using PartCheck = std::function<Status(std::string_view part, Status)>;
// All that decides, but for memory, whether open takes a file: of open itself and of inspect. Fills the tokenizer and the template's text.
Status check_parts(const GgufFile& file, const Backend& backend, const PartCheck& told, ModelParts* parts);

// Thread-safe.
class LoadedModel {
 public:
  static Result<std::unique_ptr<LoadedModel>> open(Runtime* runtime, const ModelSource& source, const LoadOptions& options,
                                                   const Progress& progress);
  LoadedModel(ModelParts parts, Log* log);

  const std::string& name() const { return parts_.name; }
  const ModelDims& dims() const { return parts_.dims; }
  const GgufFile* file() const { return parts_.file.get(); }
  const Model* weights() const { return parts_.weights.get(); }
  const Tokenizer& tokenizer() const { return *parts_.tokenizer; }

  bool has_template() const { return template_ != nullptr; }
  const Hash256& template_id() const { return template_id_; }          // zero: none
  const ReplyStyle& reply_style() const { return reply_style_; }       // as the template shows it
  bool template_shows_calls() const { return template_shows_calls_; }  // the template renders a message's tool_calls
  // It renders a message's reasoning_content, and would not find reasoning within the content.
  bool template_shows_reasoning() const { return template_shows_reasoning_; }
  Result<std::string> render(std::string_view messages_json, bool generation_prompt, const TemplateArguments& arguments) const;
  // Says in the log that a text lost so many bytes, for which the vocabulary has no token.
  void tell_dropped(uint64_t bytes) const;
  // Says in the log that an appended text begins with a BOS that the session has.
  void tell_second_bos() const;
  // True if the model asks for a BOS, and the rendered text has none of its own.
  bool adds_bos(std::string_view text) const;

  // A hash of the file's bytes. It is computed once, and each store caches it by the file's place and times. Blocks meanwhile.
  Result<Hash256> id(const Runtime& runtime, const std::shared_ptr<Store>& store) const;

 private:
  void check_calls();                  // does the template write them as the family that it shows?
  bool takes_reasoning_apart() const;  // the template, of an answer's content

  const ModelParts parts_;
  Log* const log_;                          // the runtime's
  std::unique_ptr<ChatTemplate> template_;  // null without one
  Status template_status_;                  // the parser's error, if there is one
  Hash256 template_id_;
  ReplyStyle reply_style_;
  bool template_shows_calls_ = false, template_shows_reasoning_ = false;
  mutable Mutex id_mu_;
  mutable Hash256 id_ KVRT_GUARDED_BY(id_mu_);                              // zero until a store asks
  mutable std::vector<std::weak_ptr<Store>> told_ KVRT_GUARDED_BY(id_mu_);  // stores that have it
};

}  // namespace kvrt
