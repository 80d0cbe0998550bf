// JSON, a session's messages, and the progress bar.
#include <fmt/core.h>
#include <unistd.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "bindings/cli/common.h"
#include "bindings/cli/wrap.h"

namespace cli {

kvrt_status session_messages(const Session& session, std::vector<Message>& out) {
  out.clear();
  for (std::string json;;) {
    auto props = init<kvrt_message_props>();
    const kvrt::Status s = session.message(out.size(), &props, json);
    if (s == KVRT_NOT_FOUND) return KVRT_OK;
    if (!s.ok()) return complain("cannot read the session's messages", s.code());
    const auto parsed = nlohmann::json::parse(json, nullptr, false);
    Message m{parsed.value("role", ""), {}, props.begin, props.end, props.generated != 0, props.ended != 0};
    if (const auto content = parsed.find("content"); content != parsed.end()) {
      m.content =
          content->is_string() ? content->get<std::string>() : content->dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    }
    out.push_back(std::move(m));
  }
}

std::string other_kv(const Store& store, const std::string& name, const std::string& domain, const kvrt_report& resumed,
                     const kvrt_model_props& now) {
  if (resumed.reuse_stopped != KVRT_REUSE_OTHER_NUMERICS) return "";
  std::string shown(kJsonBytes, '\0');
  const bool known = store.show(name, shown, domain).ok();
  const auto json = known ? nlohmann::json::parse(shown, nullptr, false) : nlohmann::json();
  const uint64_t saved = json.is_object() ? json.value("block_tokens", uint64_t{0}) : 0;
  std::string formats, with = "with another --device, --determinism or --prompt-gemm than now";
  if (json.is_object() && json.contains("kv_formats")) {
    for (const auto& format : json["kv_formats"]) formats += (formats.empty() ? "" : " and ") + format.get<std::string>();
  }
  const std::vector<std::string> names = kv_format_names();
  const std::string &k = names[now.kv_format - 1], &v = names[now.kv_format_v - 1], formats_now = k == v ? k : k + "/" + v;
  if (!formats.empty() && formats != formats_now) with = fmt::format("in {}, and is {} now", formats, formats_now);
  if (saved && saved != now.block_tokens) with = fmt::format("with --block-tokens {}", saved);
  return fmt::format("its KV is computed again: it was saved {}", with);
}

void say_open_elsewhere(const Session& session, const std::string& name, const std::string& how) {
  const int32_t process = session.info()->other_process;
  if (process == 0) return;
  say("({} is open in {}, too: once one of the two has saved, saves of the other are refused; {})\n", in_quotes(name),
      process > 0 ? fmt::format("process {}", process) : "another process", how);
}

std::string json_quote(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Json& Json::raw(std::string_view key, std::string_view value) {
  if (!body_.empty()) body_ += ", ";
  body_.append(json_quote(key)).append(": ").append(value);
  return *this;
}
Json& Json::add(std::string_view key, std::string_view value) { return raw(key, json_quote(value)); }
Json& Json::add(std::string_view key, uint64_t value) { return raw(key, std::to_string(value)); }
Json& Json::add(std::string_view key, int64_t value) { return raw(key, std::to_string(value)); }
Json& Json::add(std::string_view key, double value, int decimals) { return raw(key, fmt::format("{:.{}f}", value, decimals)); }
Json& Json::add(std::string_view key, bool value) { return raw(key, value ? "true" : "false"); }
Json& Json::add(std::string_view key, const std::vector<int32_t>& values) { return raw(key, fmt::format("[{}]", join(values))); }
Json& Json::add(std::string_view key, const Json& object) { return raw(key, object.text()); }
Json& Json::add(std::string_view key, const std::vector<Json>& objects) {
  std::string all;
  for (const Json& object : objects) all += (all.empty() ? "" : ",") + object.text();
  return raw(key, "[" + all + "]");
}
void Json::print() const { show(text() + "\n"); }

bool colour(FILE* stream) {
  const char *no_color = std::getenv("NO_COLOR"), *term = std::getenv("TERM");
  return isatty(fileno(stream)) && !(no_color && *no_color) && term && *term && std::string_view(term) != "dumb";
}

Progress::Progress(std::string label) : label_(std::move(label)) {
  const char* term = std::getenv("TERM");
  enabled_ = isatty(STDERR_FILENO) && term && std::string_view(term) != "dumb";
}

void Progress::update(uint64_t done, uint64_t total) {
  if (!enabled_ || !total) return;
  const auto time = now();
  if (drawn_ && done < total && time - last_ < std::chrono::milliseconds(50)) return;
  last_ = time;
  drawn_ = true;
  constexpr uint64_t kWidth = 30, kWidthLeast = 5;
  const uint64_t rest = 20 + tail_.size();  // columns of the label, the number and what is behind it
  const uint64_t window = window_columns(STDERR_FILENO), columns = window ? window : 80;
  const uint64_t percent = std::min(done, total) * 100 / total;
  if (columns <= rest + kWidthLeast) {
    if (columns >= 12) draw("\r{:3}%", percent);
    return;
  }
  const uint64_t width = std::min(kWidth, columns - 1 - rest), filled = width * percent / 100;
  const char* on = colour(stderr) ? "\x1b[32m" : "";
  const char* off = colour(stderr) ? "\x1b[0m" : "";
  draw("\r{:<12} [{}{}{}{}] {:3}%{}\x1b[K", label_, on, std::string(filled, '#'), off, std::string(width - filled, ' '), percent, tail_);
}

void Progress::update(const Event& event) {
  if (event.type == KVRT_EVENT_PROGRESS) update(event.done, event.total);
}

void Progress::note(std::string_view text) {
  const size_t window = window_columns(STDERR_FILENO);
  if (!enabled_ || (window && window <= text.size() + 4)) return;
  drawn_ = true;
  draw("\r{} ...", text);
}

void Progress::clear() {
  if (!drawn_) return;
  draw("\r\x1b[K");
  drawn_ = false;
}

}  // namespace cli
