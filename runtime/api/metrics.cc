// kvrt_model_step for hosts with a loop of their own, and a model's counters, as a struct and as Prometheus text.

#include "runtime/api/boundary.h"
#include "runtime/base/numbers.h"
#include "runtime/base/utf8.h"

using namespace kvrt::api;
using kvrt::Status;

namespace {

kvrt_metrics to_metrics(const kvrt::EngineMetrics& m) {
  const kvrt::Counters& c = m.counters;
  kvrt_metrics out{};
  out.sessions = m.sessions;
  out.generating = m.generating;
  out.paused = m.paused;
  out.units = m.units;
  out.units_used = m.units_used;
  out.units_cached = m.units_cached;
  out.steps = c.steps;
  out.step_rows = c.step_rows;
  out.step_ms_total = static_cast<double>(c.step_ns) * 1e-6;
  out.step_ms_longest = static_cast<double>(c.step_ns_longest) * 1e-6;
  out.generations = c.generations;
  out.prefills = c.prefills;
  out.done_eos = c.done[KVRT_REASON_EOS];
  out.done_stop = c.done[KVRT_REASON_STOP];
  out.done_max_tokens = c.done[KVRT_REASON_MAX_TOKENS];
  out.done_context_full = c.done[KVRT_REASON_CONTEXT_FULL];
  out.done_cancelled = c.done[KVRT_REASON_CANCELLED];
  out.done_prefilled = c.done[KVRT_REASON_PREFILLED];
  out.failed = c.done[KVRT_REASON_FAILED];
  out.prompt_tokens = c.prompt_tokens;
  out.reused_memory = c.reused_memory;
  out.reused_disk = c.reused_disk;
  out.prefilled = c.prefilled;
  out.recomputed = c.recomputed;
  out.generated = c.generated;
  out.drafted = c.speculated.drafted;
  out.accepted = c.speculated.accepted;
  out.preemptions = c.preemptions;
  out.evictions = m.evictions;
  out.first_tokens = c.first_tokens;
  out.ttft_ms_total = c.ttft_ms;
  out.queue_ms_total = c.queue_ms;
  out.prefill_ms_total = c.prefill_ms;
  out.decode_ms_total = c.decode_ms;
  return out;
}

// Prometheus' text format 0.0.4: prometheus.io/docs/instrumenting/exposition_formats.
class Exposition {
 public:
  explicit Exposition(std::string_view model) {
    label_ = "model=\"";
    for (char c : model) {
      if (c == '\\' || c == '"') label_ += '\\';
      if (c == '\n')
        label_ += "\\n";
      else
        label_ += c;
    }
    label_ += '"';
  }
  void family(const char* name, const char* type, const char* help) {
    name_ = name;
    text_ += std::string("# HELP ") + name + ' ' + help + "\n# TYPE " + name + ' ' + type + '\n';
  }
  void value(double number, const char* more = "") {
    text_ += name_ + '{' + label_ + more + "} " + kvrt::print_real(number, 'g', 17) + '\n';
  }
  void one(const char* name, const char* type, const char* help, double number) {
    family(name, type, help);
    value(number);
  }
  // A sum and a count; no quantiles.
  void summary(const char* name, const char* help, double ms, uint64_t count) {
    family(name, "summary", help);
    name_ = std::string(name) + "_sum";
    value(ms * 1e-3);
    name_ = std::string(name) + "_count";
    value(static_cast<double>(count));
  }
  const std::string& text() const { return text_; }

 private:
  std::string label_, name_, text_;
};

std::string expose(const kvrt_metrics& m, std::string_view model) {
  auto number = [](uint64_t n) { return static_cast<double>(n); };
  Exposition e(model);
  e.one("kvrt_sessions", "gauge", "Open sessions.", number(m.sessions));
  e.one("kvrt_sessions_generating", "gauge", "Sessions between begin and DONE.", number(m.generating));
  e.one("kvrt_sessions_paused", "gauge", "Generating sessions that wait for their host.", number(m.paused));
  e.family("kvrt_kv_units", "gauge", "Units of the KV pool by state.");
  e.value(number(m.units_used), ",state=\"used\"");
  e.value(number(m.units_cached), ",state=\"cached\"");
  e.value(number(m.units - m.units_used - m.units_cached), ",state=\"free\"");
  e.one("kvrt_steps_total", "counter", "Steps computed.", number(m.steps));
  e.one("kvrt_step_rows_total", "counter", "Rows in those steps.", number(m.step_rows));
  e.one("kvrt_step_seconds_total", "counter", "Time spent in steps.", m.step_ms_total * 1e-3);
  e.one("kvrt_step_seconds_longest", "gauge", "The longest step since the model was opened.", m.step_ms_longest * 1e-3);
  e.one("kvrt_generations_total", "counter", "Generations begun.", number(m.generations));
  e.one("kvrt_prefills_total", "counter", "Prefills begun.", number(m.prefills));
  e.family("kvrt_done_total", "counter", "Generations and prefills ended, by reason.");
  e.value(number(m.done_eos), ",reason=\"eos\"");
  e.value(number(m.done_stop), ",reason=\"stop\"");
  e.value(number(m.done_max_tokens), ",reason=\"max_tokens\"");
  e.value(number(m.done_context_full), ",reason=\"context_full\"");
  e.value(number(m.done_cancelled), ",reason=\"cancelled\"");
  e.value(number(m.done_prefilled), ",reason=\"prefilled\"");
  e.value(number(m.failed), ",reason=\"failed\"");
  e.family("kvrt_prompt_tokens_total", "counter", "Prompt tokens by where their KV came from.");
  e.value(number(m.reused_memory), ",source=\"memory\"");
  e.value(number(m.reused_disk), ",source=\"disk\"");
  e.value(number(m.prefilled), ",source=\"prefilled\"");
  e.one("kvrt_recomputed_tokens_total", "counter", "Rows run again after their units were lent to others.", number(m.recomputed));
  e.one("kvrt_generated_tokens_total", "counter", "Tokens sampled.", number(m.generated));
  e.one("kvrt_drafted_tokens_total", "counter", "Tokens that speculation proposed and steps checked.", number(m.drafted));
  e.one("kvrt_accepted_tokens_total", "counter", "Of these, tokens that answers have.", number(m.accepted));
  e.one("kvrt_preemptions_total", "counter", "Generations that lent their units to others.", number(m.preemptions));
  e.one("kvrt_evictions_total", "counter", "Cached blocks given up.", number(m.evictions));
  e.summary("kvrt_ttft_seconds", "Time to the first token.", m.ttft_ms_total, m.first_tokens);
  e.summary("kvrt_queue_seconds", "Time from begin to the first step.", m.queue_ms_total, m.first_tokens);
  e.summary("kvrt_tpot_seconds", "Time per token after the first.", m.decode_ms_total, m.generated - m.first_tokens);
  return e.text();
}

}  // namespace

extern "C" {

kvrt_status kvrt_model_step(kvrt_model* model, uint32_t ms, uint32_t* runnable, kvrt_error* err) {
  return guard(err, [&]() -> Status {
    KVRT_ASSIGN(const auto engine, hold(model, "model"));
    const uint32_t left = engine->check_sessions().is_ok() ? engine->driver().step(ms) : 0;
    if (runnable) *runnable = left;
    return {};
  });
}

kvrt_status kvrt_model_metrics(const kvrt_model* model, kvrt_metrics* out, kvrt_error* err) {
  return guard(err, [&]() -> Status {
    KVRT_ASSIGN(const auto engine, hold(model, "model"));
    KVRT_TRY(check_output_struct(out, "out"));
    write_output(out, to_metrics(engine->metrics()));
    return {};
  });
}

kvrt_status kvrt_model_metrics_text(const kvrt_model* model, const char* label_value, size_t label_value_size, char* text, size_t capacity,
                                    size_t* needed, kvrt_error* err) {
  return guard(err, [&]() -> Status {
    KVRT_ASSIGN(const auto engine, hold(model, "model"));
    KVRT_TRY(check_text(label_value, label_value_size, "label_value"));
    KVRT_TRY(check_buffer(text, capacity, needed));
    if (label_value && kvrt::find_invalid_utf8({label_value, label_value_size}) != std::string_view::npos) {
      return kvrt::error(kvrt::Code::kInvalid, kvrt::Detail::kNone, "label_value is not UTF-8");
    }
    std::string label = label_value ? std::string(label_value, label_value_size) : engine->info().name;
    std::string all = expose(to_metrics(engine->metrics()), label);
    return write_buffer(all.data(), all.size(), text, capacity, needed);
  });
}

}  // extern "C"
