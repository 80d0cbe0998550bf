// kvrt perplexity: how well a model predicts a text. The text is cut into windows of `context` tokens; each window's second half is scored,
// every token of it with at least half a window before it, as llama.cpp's program does: the figures compare.
#include <fmt/core.h>

#include <cmath>

#include "bindings/cli/commands.h"

namespace cli {

namespace {

struct Score {
  double sum = 0, squares = 0;  // of the negative log-likelihoods, in nats
  uint64_t count = 0;
  void add(double nll) {
    sum += nll;
    squares += nll * nll;
    ++count;
  }
  double mean() const { return sum / static_cast<double>(count); }
  double perplexity() const { return std::exp(mean()); }
  // Standard error, carried over from the mean's.
  double error() const {
    const auto n = static_cast<double>(count);
    return n > 1 ? perplexity() * std::sqrt(std::max(0.0, squares / n - mean() * mean()) / (n - 1)) : 0;
  }
};

// -ln of the probability that the row gives the token.
double negative_log_likelihood(const float* row, size_t size, int32_t token) {
  float max = row[0];
  for (size_t i = 1; i < size; ++i) max = std::max(max, row[i]);
  double sum = 0;
  for (size_t i = 0; i < size; ++i) sum += std::exp(static_cast<double>(row[i] - max));
  return std::log(sum) + static_cast<double>(max) - static_cast<double>(row[token]);
}

struct Window {
  std::vector<int32_t> tokens;
  Score* score;
};

int32_t on_row(void* user, const kvrt_event* event) {
  auto& window = *static_cast<Window*>(user);
  const uint64_t next = event->position + 1;
  if (event->type != KVRT_EVENT_LOGITS || event->position < window.tokens.size() / 2 || next >= window.tokens.size()) return 0;
  window.score->add(negative_log_likelihood(event->logits, event->logits_count, window.tokens[next]));
  return 0;
}

kvrt_status score_window(kvrt_model* model, Window& window) {
  auto options = sized<kvrt_session_options>();
  options.no_prefix_cache = 1;
  kvrt_session* raw = nullptr;
  if (kvrt_status s = kvrt_session_open(model, &options, &raw, nullptr)) return complain("cannot open a session", s);
  Session session(raw);
  if (kvrt_status s = kvrt_session_append(raw, window.tokens.data(), window.tokens.size(), nullptr))
    return complain("cannot append the tokens", s);
  const kvrt_status s = kvrt_session_prefill(raw, KVRT_LOGITS_ALL, on_row, &window, nullptr, nullptr);
  return s ? complain("cannot compute", s) : KVRT_OK;
}

kvrt_status read_tokens(const PerplexityFlags& flags, const kvrt_model* model, std::vector<int32_t>& tokens) {
  std::string text;
  if (kvrt_status s = read_file(flags.file, text)) return s;
  if (kvrt_status s = tokenize(model, text, 0, tokens)) return s;
  if (tokens.size() >= flags.context) return KVRT_OK;
  return complain(KVRT_INVALID, fmt::format("{} has {}, one window of --context {} needs as many: give a longer text", flags.file,
                                            counted(tokens.size(), "token"), flags.context));
}

}  // namespace

int cmd_perplexity(const PerplexityFlags& flags) {
  Runtime runtime;
  Model model;
  std::vector<int32_t> tokens;
  if (kvrt_status s = open_runtime(flags.model, runtime)) return s;
  if (kvrt_status s = open_model(flags.model, runtime.get(), model)) return s;
  if (kvrt_status s = read_tokens(flags, model.get(), tokens)) return s;
  auto props = sized<kvrt_model_props>();
  if (kvrt_status s = kvrt_model_info(model.get(), &props, nullptr)) return complain("cannot read the model's properties", s);
  if (flags.context > props.context_length) {
    return complain(KVRT_INVALID, fmt::format("--context is {}, the model's context is {}", flags.context, props.context_length));
  }
  const uint64_t windows = flags.chunks ? std::min<uint64_t>(flags.chunks, tokens.size() / flags.context) : tokens.size() / flags.context;
  Score score;
  Window window{{}, &score};
  Progress bar("perplexity");
  const auto start = now();
  for (uint64_t i = 0; i < windows; ++i) {
    const auto begin = tokens.begin() + static_cast<ptrdiff_t>(i * flags.context);
    window.tokens.assign(begin, begin + flags.context);
    if (props.add_bos && props.bos_token >= 0) window.tokens[0] = props.bos_token;
    if (kvrt_status s = score_window(model.get(), window)) return s;
    bar.update(i + 1, windows);
  }
  bar.clear();
  const double seconds = ms_since(start) / 1e3;
  if (flags.json) {
    Json json;
    json.add("perplexity", score.perplexity(), 6).add("standard_error", score.error(), 6).add("nll", score.mean(), 6);
    json.add("tokens_scored", score.count).add("windows", windows).add("context", uint64_t{flags.context}).add("seconds", seconds);
    json.print();
  } else {
    put("perplexity {:.4f} +/- {:.4f}\n", score.perplexity(), score.error());
    say("{} scored in {} of {}, {:.1f} s, {:.0f} tok/s\n", counted(score.count, "token"), counted(windows, "window"), flags.context,
        seconds, static_cast<double>(windows * flags.context) / seconds);
  }
  return finish(KVRT_OK);
}

}  // namespace cli
