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

kvrt_status score_window(const Model& model, const std::vector<int32_t>& window, Score& score) {
  auto options = init<kvrt_session_options>();
  options.no_prefix_cache = 1;
  Result<Session> session = Session::open(model, options);
  if (kvrt_status s = checked(session.status(), "cannot open a session")) return s;
  if (kvrt_status s = checked(session->append(window), "cannot append the tokens")) return s;
  std::optional<uint64_t> wrong;  // the position of a row that gives no number
  const auto on_row = [&](const Event& event) {
    const uint64_t next = event.position + 1;
    if (event.type != KVRT_EVENT_LOGITS || event.position < window.size() / 2 || next >= window.size()) return;
    const double nll = negative_log_likelihood(event.logits, event.logits_count, window[next]);
    if (!std::isfinite(nll) && !wrong) wrong = event.position;
    score.add(nll);
  };
  if (kvrt_status s = checked(session->prefill(KVRT_LOGITS_ALL, on_row).status(), "cannot compute")) return s;
  if (!wrong) return KVRT_OK;
  return complain(KVRT_DEVICE,
                  fmt::format("cannot score the text: logits of position {} of a window hold a NaN or an infinity: the model's "
                              "weights may hold one, or the device failed",
                              *wrong));
}

kvrt_status read_tokens(const PerplexityFlags& flags, const Model& model, std::vector<int32_t>& tokens) {
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
  if (kvrt_status s = open_model(flags.model, runtime, model)) return s;
  if (kvrt_status s = read_tokens(flags, model, tokens)) return s;
  const Result<kvrt_model_props> props = model.info();
  if (kvrt_status s = checked(props.status(), "cannot read the model's properties")) return s;
  if (flags.context > props->context_length) {
    return complain(KVRT_INVALID, fmt::format("--context is {}, the model's context is {}", flags.context, props->context_length));
  }
  const uint64_t windows = flags.chunks ? std::min<uint64_t>(flags.chunks, tokens.size() / flags.context) : tokens.size() / flags.context;
  Score score;
  Progress bar("perplexity");
  const auto start = now();
  for (uint64_t i = 0; i < windows; ++i) {
    const auto begin = tokens.begin() + static_cast<ptrdiff_t>(i * flags.context);
    std::vector<int32_t> window(begin, begin + flags.context);
    if (props->add_bos && props->bos_token >= 0) window[0] = props->bos_token;
    if (kvrt_status s = score_window(model, window, score)) return s;
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
