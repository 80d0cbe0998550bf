// The sampling defaults of a chat.
#include <cmath>
#include <nlohmann/json.hpp>

#include "bindings/cli/common.h"

namespace cli {

namespace {

// The values of general.sampling.* in the file that the options would accept. any(): there was one.
class Suggested {
 public:
  explicit Suggested(const nlohmann::json& metadata) : metadata_(metadata) {}
  bool any() const { return any_; }

  template <typename T>
  void take(const char* key, double low, double high, std::optional<T>& flag) {
    const auto found = metadata_.find(std::string("general.sampling.") + key);
    if (found == metadata_.end() || !found->is_number()) return;
    const double value = found->get<double>();
    if (!(value >= low && value <= high)) return;  // llama.cpp writes -1 for off
    any_ = true;
    if (!flag) flag = static_cast<T>(value);
  }

 private:
  const nlohmann::json& metadata_;
  bool any_ = false;
};

}  // namespace

void suggest_sampling(const Runtime& runtime, const std::string& model, SamplingFlags& flags) {
  std::string text(kJsonBytes, '\0');
  const bool known = runtime.inspect(model, 0, text).ok();
  const auto json = known ? nlohmann::json::parse(text, nullptr, false) : nlohmann::json();
  const nlohmann::json none = nlohmann::json::object();
  Suggested suggested(json.contains("metadata") ? json["metadata"] : none);
  suggested.take("temp", 0, 100, flags.temperature);
  suggested.take("top_k", 0, UINT32_MAX, flags.top_k);
  suggested.take("top_p", 0, 1, flags.top_p);
  suggested.take("min_p", 0, 1, flags.min_p);
  suggested.take("penalty_repeat", 0, 100, flags.repetition_penalty);
  suggested.take("penalty_last_n", 0, UINT32_MAX, flags.penalty_window);
  // Files that suggest other values and no temperature mean 1: their values come from a generation_config.json, whose default it is.
  if (!flags.temperature) flags.temperature = suggested.any() ? 1.0f : 0.7f;
  if (!suggested.any() && !flags.min_p) flags.min_p = 0.05f;
}

}  // namespace cli
