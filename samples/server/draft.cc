#include "draft.h"

#include <algorithm>
#include <stdexcept>

#include "room.h"

namespace {

// A generation of no token with both: it says whether their vocabularies are one.
void try_both(const kvrt::Model& model, const kvrt::Model& draft) {
  auto options = kvrt::init<kvrt_generate_options>();
  options.draft = draft.get();
  kvrt::Session session = kvrt::Session::open(model).or_throw();
  const int32_t token = 0;
  session.append(kvrt::Span<const int32_t>(&token, 1)).or_throw();
  session.begin(options).or_throw();
}

}  // namespace

kvrt::Model open_draft(const kvrt::Runtime& runtime, const kvrt::Model& model, const std::string& path) {
  if (path.empty()) return {};
  try {
    const auto info = model.info().or_throw();
    const uint64_t most = tokens_max(model), bytes = most * info.kv_bytes_per_token;
    auto asked = kvrt::init<kvrt_plan_options>();
    asked.session_tokens = std::min<uint64_t>(most, runtime.plan(path, asked).or_throw().context_length);
    asked.sessions = static_cast<uint32_t>(std::clamp<uint64_t>(info.units * info.unit_bytes / std::max<uint64_t>(bytes, 1), 1, 64));
    auto options = kvrt::init<kvrt_model_options>();
    options.kv_bytes_max = runtime.plan(path, asked).or_throw().kv_bytes;
    options.cache = KVRT_CACHE_USER;
    kvrt::Model draft = kvrt::Model::open(runtime, path, options).or_throw();
    try_both(model, draft);
    return draft;
  } catch (const kvrt::Error& e) {
    throw std::runtime_error("--draft " + path + ": " + e.what());
  }
}
