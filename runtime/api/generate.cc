// The calls that generate: prefill, begin, next, accept, generate, cancel.
#include <cstddef>
#include <limits>

#include "runtime/api/boundary.h"
#include "runtime/api/session_call.h"
#include "runtime/base/limits.h"
#include "runtime/base/numbers.h"

using namespace kvrt::api;
using kvrt::Code;
using kvrt::Detail;
using kvrt::error;
using kvrt::Status;

namespace {

static_assert(static_cast<int>(kvrt::EventType::kDone) == KVRT_EVENT_DONE && static_cast<int>(kvrt::EventType::kIdle) == KVRT_EVENT_IDLE &&
              static_cast<int>(kvrt::EventType::kLogits) == KVRT_EVENT_LOGITS);
static_assert(static_cast<int>(kvrt::Reason::kFailed) == KVRT_REASON_FAILED && static_cast<int>(kvrt::Reason::kStop) == KVRT_REASON_STOP);
static_assert(static_cast<int>(kvrt::WantLogits::kAll) == KVRT_LOGITS_ALL);
static_assert(static_cast<int>(kvrt::EventType::kToolCall) == KVRT_EVENT_TOOL_CALL);
static_assert(static_cast<int>(kvrt::GrammarKind::kContinue) == KVRT_GRAMMAR_CONTINUE);
static_assert(static_cast<int>(kvrt::GrammarKind::kJsonSchemaOpen) == KVRT_GRAMMAR_JSON_SCHEMA_OPEN);
static_assert(static_cast<int>(kvrt::ReplyKind::kDeepSeek) == KVRT_REPLY_DEEPSEEK);

Status check_range(const char* name, float value, float low, float high) {
  if (value >= low && value <= high) return {};  // false for NaN, too
  return error(Code::kInvalid, Detail::kNone, "%s is %s, expected %s to %s", name, kvrt::shown(value).c_str(), kvrt::shown(low).c_str(),
               kvrt::shown(high).c_str());
}

Status check_flag(const char* name, uint32_t value) {
  return value <= 1 ? Status() : error(Code::kInvalid, Detail::kNone, "%s is %u, expected 0 or 1", name, value);
}

Status check_token(const char* name, size_t index, int32_t token, const kvrt::Tokenizer& tokenizer) {
  if (token >= 0 && static_cast<uint32_t>(token) < tokenizer.vocab_size()) return {};
  return error(Code::kInvalid, Detail::kNone, "%s[%zu] is %d, the vocabulary has %u", name, index, token, tokenizer.vocab_size());
}

Status check_logits(uint32_t logits) {
  if (logits <= KVRT_LOGITS_ALL) return {};
  return error(Code::kInvalid, Detail::kNone, "logits is %u, expected KVRT_LOGITS_NONE to KVRT_LOGITS_ALL", logits);
}

Status read_sampling(const kvrt_generate_options& o, const kvrt::Tokenizer& tokenizer, kvrt::SamplingOptions* out) {
  KVRT_TRY(check_range("temperature", o.temperature, 0, 100));
  KVRT_TRY(check_range("top_p", o.top_p, 0, 1));
  KVRT_TRY(check_range("min_p", o.min_p, 0, 1));
  KVRT_TRY(check_range("repetition_penalty", o.repetition_penalty, 0, 100));
  KVRT_TRY(check_range("frequency_penalty", o.frequency_penalty, -100, 100));
  KVRT_TRY(check_range("presence_penalty", o.presence_penalty, -100, 100));
  if (o.top_logprobs > kvrt::kTopLogprobsMax) {
    return error(Code::kInvalid, Detail::kNone, "top_logprobs is %u, expected 0 to %u", o.top_logprobs, kvrt::kTopLogprobsMax);
  }
  if (o.logit_bias_count) KVRT_TRY(check_not_null(o.logit_bias, "logit_bias"));
  if (o.logit_bias_count > tokenizer.vocab_size()) {
    return error(Code::kInvalid, Detail::kNone, "logit_bias_count is %zu, the vocabulary has %u", o.logit_bias_count,
                 tokenizer.vocab_size());
  }
  for (size_t i = 0; i < o.logit_bias_count; ++i) {
    KVRT_TRY(check_token("logit_bias", i, o.logit_bias[i].token, tokenizer));
    float value = o.logit_bias[i].value;
    if (!(value < std::numeric_limits<float>::infinity())) {
      return error(Code::kInvalid, Detail::kNone, "logit_bias[%zu] is %s, expected a number or -infinity", i, kvrt::shown(value).c_str());
    }
    out->logit_bias.push_back({o.logit_bias[i].token, value});
  }
  out->temperature = o.temperature;
  out->top_k = o.top_k;
  out->top_p = o.top_p;
  out->min_p = o.min_p;
  out->repetition_penalty = o.repetition_penalty;
  out->frequency_penalty = o.frequency_penalty;
  out->presence_penalty = o.presence_penalty;
  out->penalty_window = o.penalty_window;
  out->top_logprobs = o.top_logprobs;
  out->seed = o.seed;
  return {};
}

Status read_stops(const kvrt_generate_options& o, const kvrt::Tokenizer& tokenizer, kvrt::GenerateOptions* out) {
  if (o.stop_token_count) KVRT_TRY(check_not_null(o.stop_tokens, "stop_tokens"));
  if (o.stop_token_count > tokenizer.vocab_size()) {
    return error(Code::kInvalid, Detail::kNone, "stop_token_count is %zu, the vocabulary has %u", o.stop_token_count,
                 tokenizer.vocab_size());
  }
  for (size_t i = 0; i < o.stop_token_count; ++i) KVRT_TRY(check_token("stop_tokens", i, o.stop_tokens[i], tokenizer));
  out->stop_tokens.assign(o.stop_tokens, o.stop_tokens + o.stop_token_count);
  KVRT_TRY(check_text(o.stop_strings, o.stop_strings_size, "stop_strings"));
  if (o.stop_strings_size && o.stop_strings[o.stop_strings_size - 1] != '\0') {
    return error(Code::kInvalid, Detail::kNone, "stop_strings: the last one is not ended by a NUL");
  }
  for (size_t at = 0; at < o.stop_strings_size;) {
    std::string stop(o.stop_strings + at);
    at += stop.size() + 1;
    if (stop.empty() || stop.size() > kvrt::kStopBytesMax || out->stop_strings.size() == kvrt::kStopStringsMax) {
      return error(Code::kInvalid, Detail::kNone, "stop_strings: number %zu has %zu bytes, expected 1 to %u bytes in at most %u strings",
                   out->stop_strings.size(), stop.size(), kvrt::kStopBytesMax, kvrt::kStopStringsMax);
    }
    out->stop_strings.push_back(std::move(stop));
  }
  return {};
}

Status read_grammar(const kvrt_generate_options& o, kvrt::GenerateOptions* out) {
  if (o.grammar_kind > KVRT_GRAMMAR_JSON_SCHEMA_OPEN) {
    return error(Code::kInvalid, Detail::kNone, "grammar_kind is %u, expected KVRT_GRAMMAR_*", o.grammar_kind);
  }
  KVRT_TRY(check_text(o.grammar, o.grammar_size, "grammar"));
  const bool has_source = o.grammar_kind != KVRT_GRAMMAR_DEFAULT && o.grammar_kind != KVRT_GRAMMAR_CONTINUE;
  if (has_source != (o.grammar_size > 0)) {
    return error(Code::kInvalid, Detail::kNone, "grammar has %zu bytes with grammar_kind %u: GBNF and JSON_SCHEMA* need one, others none",
                 o.grammar_size, o.grammar_kind);
  }
  if (o.grammar_kind && (o.ignore_eos || o.prefill)) {
    return error(Code::kInvalid, Detail::kNone, "grammar_kind is %u with %s, which it excludes", o.grammar_kind,
                 o.prefill ? "prefill" : "ignore_eos");
  }
  out->ask.kind = static_cast<kvrt::GrammarKind>(o.grammar_kind);
  if (has_source) out->ask.source.assign(o.grammar, o.grammar_size);
  return {};
}

// What binds calls and reasoning.
Status read_choice(const kvrt_generate_options& o, kvrt::GenerateOptions* out) {
  if (o.tool_choice > KVRT_TOOL_CHOICE_NAMED) {
    return error(Code::kInvalid, Detail::kNone, "tool_choice is %u, expected KVRT_TOOL_CHOICE_*", o.tool_choice);
  }
  KVRT_TRY(check_text(o.tool_name, o.tool_name_size, "tool_name"));
  const bool calls = o.tool_choice > KVRT_TOOL_CHOICE_NONE, named = o.tool_choice == KVRT_TOOL_CHOICE_NAMED;
  if (named != (o.tool_name_size > 0)) {
    return error(Code::kInvalid, Detail::kNone, "tool_name has %zu bytes with tool_choice %u: NAMED needs one, others none",
                 o.tool_name_size, o.tool_choice);
  }
  const bool limits = o.parallel_calls_max || o.reasoning_tokens_max;
  if (o.grammar_kind == KVRT_GRAMMAR_CONTINUE && (o.tool_choice || limits)) {
    return error(
        Code::kInvalid, Detail::kNone,
        "grammar_kind is CONTINUE with tool_choice %u, parallel_calls_max %u, reasoning_tokens_max %u: the answer goes on with those "
        "that it began with",
        o.tool_choice, o.parallel_calls_max, o.reasoning_tokens_max);
  }
  if (calls && o.tool_choice != KVRT_TOOL_CHOICE_AUTO && o.grammar_kind) {
    return error(Code::kInvalid, Detail::kNone, "tool_choice is %u with grammar_kind %u, which AUTO and NONE alone go with", o.tool_choice,
                 o.grammar_kind);
  }
  if ((o.tool_choice || limits) && (o.ignore_eos || o.prefill)) {
    return error(Code::kInvalid, Detail::kNone, "tool_choice, parallel_calls_max or reasoning_tokens_max with %s, which it excludes",
                 o.prefill ? "prefill" : "ignore_eos");
  }
  out->ask.choice = static_cast<kvrt::ToolChoice>(o.tool_choice);
  out->ask.tool_name.assign(named ? o.tool_name : "", o.tool_name_size);
  out->ask.calls_max = o.parallel_calls_max;
  out->ask.reasoning_tokens_max = o.reasoning_tokens_max;
  return {};
}

Status read_speculation(const kvrt_generate_options& o, const kvrt::Engine& engine, kvrt::SpeculationOptions* out) {
  KVRT_TRY(check_flag("lookup", o.lookup));
  KVRT_TRY(check_text(o.prediction, o.prediction_size, "prediction"));
  if (o.prediction_size > kvrt::kPredictionBytesMax) {
    return error(Code::kLimit, Detail::kNone,
                 "prediction has %zu bytes, at most %zu are taken: give the part that is likely to be repeated", o.prediction_size,
                 kvrt::kPredictionBytesMax);
  }
  if (o.draft_tokens_max > kvrt::kDraftTokensMax) {
    return error(Code::kInvalid, Detail::kNone, "draft_tokens_max is %u, expected 0 to %u", o.draft_tokens_max, kvrt::kDraftTokensMax);
  }
  if (o.draft_tokens_max) out->most = o.draft_tokens_max;
  if (o.draft_tokens_min > out->most) {
    return error(Code::kInvalid, Detail::kNone, "draft_tokens_min is %u, draft_tokens_max %u", o.draft_tokens_min, out->most);
  }
  if (o.reserved) return error(Code::kInvalid, Detail::kNone, "reserved is %u, expected 0", o.reserved);
  out->least = o.draft_tokens_min;
  out->lookup = o.lookup || o.prediction;
  if (o.prediction) out->prediction.assign(o.prediction, o.prediction_size);
  if (!o.draft) return {};
  KVRT_ASSIGN(const auto draft, hold(o.draft, "draft"));
  KVRT_ASSIGN(out->draft, draft->draft_for(engine));
  return {};
}

Status read_generate_options(const kvrt_generate_options* options, const kvrt::Engine& engine, kvrt::GenerateOptions* out) {
  const kvrt::Tokenizer& tokenizer = engine.model().tokenizer();
  kvrt_generate_options o;
  KVRT_TRY(read_options(options, "kvrt_generate_options", &o));
  KVRT_TRY(read_sampling(o, tokenizer, &out->sampling));
  KVRT_TRY(read_stops(o, tokenizer, out));
  KVRT_TRY(check_flag("ignore_eos", o.ignore_eos));
  KVRT_TRY(check_flag("emit_logits", o.emit_logits));
  KVRT_TRY(check_flag("no_generation_prompt", o.no_generation_prompt));
  KVRT_TRY(check_flag("all_or_nothing", o.all_or_nothing));
  if (o.sampler > KVRT_SAMPLER_HOST) {
    return error(Code::kInvalid, Detail::kNone, "sampler is %u, expected KVRT_SAMPLER_DEFAULT or KVRT_SAMPLER_HOST", o.sampler);
  }
  KVRT_TRY(check_flag("prefill", o.prefill));
  KVRT_TRY(check_logits(o.logits));
  if (o.logits && !o.prefill) return error(Code::kInvalid, Detail::kNone, "logits is %u without prefill; see emit_logits", o.logits);
  KVRT_TRY(read_grammar(o, out));
  KVRT_TRY(read_choice(o, out));
  if (o.reply > KVRT_REPLY_DEEPSEEK) return error(Code::kInvalid, Detail::kNone, "reply is %u, expected KVRT_REPLY_*", o.reply);
  if (o.cancel) {
    KVRT_ASSIGN(out->cancel, hold(o.cancel, "cancel"));
  }
  KVRT_TRY(read_speculation(o, engine, &out->speculation));
  out->reply = static_cast<kvrt::ReplyKind>(o.reply);
  out->prefill_only = o.prefill;
  out->logits = static_cast<kvrt::WantLogits>(o.logits);
  out->max_tokens = o.max_tokens;
  out->ignore_eos = o.ignore_eos;
  out->emit_logits = o.emit_logits;
  out->generation_prompt = !o.no_generation_prompt;
  out->host_samples = o.sampler == KVRT_SAMPLER_HOST;
  out->all_or_nothing = o.all_or_nothing;
  return {};
}

// Makes the host's event. It points into the handle, and is valid until the next event.
kvrt_event show(kvrt_session* handle, kvrt::Event event) {
  handle->event = std::move(event);
  const kvrt::Event& e = handle->event;
  kvrt_event out{};
  out.struct_size = sizeof out;
  out.type = static_cast<uint32_t>(e.type);
  out.token = e.token;
  out.position = e.position;
  const bool says = e.type == kvrt::EventType::kToken || e.type == kvrt::EventType::kDone || e.type >= kvrt::EventType::kContent;
  out.text = says ? e.text.data() : nullptr;
  out.text_size = e.text.size();
  out.logprob = e.logprob;
  static_assert(sizeof(kvrt_token_value) == sizeof(kvrt::TokenValue) &&
                offsetof(kvrt_token_value, value) == offsetof(kvrt::TokenValue, value));
  out.top = e.top.empty() ? nullptr : reinterpret_cast<const kvrt_token_value*>(e.top.data());
  out.top_count = e.top.size();
  out.done = e.done;
  out.total = e.total;
  if (!e.logits.empty()) {
    out.logits = e.logits.data();
    out.logits_count = e.logits.size();
  }
  if (e.type == kvrt::EventType::kDone) {
    handle->report = to_report(e.report);
    out.reason = handle->report.reason;
    out.report = &handle->report;
  }
  return out;
}

// Calls next until DONE, and gives the events to the callback.
Status drive(kvrt_session* handle, kvrt_event_fn callback, void* user, kvrt_report* report) {
  kvrt::Engine& engine = *handle->engine;
  Status stopped;
  for (;;) {
    auto next = engine.driver().next(handle->session, -1);
    if (!next.is_ok()) {
      Status failed = next.take_status();
      if (engine.sessions().info(handle->session).state != kvrt::SessionState::kGenerating) return failed;
      stopped = std::move(failed);  // the generation asked the host for a token, and got none
      engine.driver().cancel(handle->session);
      continue;
    }
    kvrt_event event = show(handle, std::move(next).value());
    bool done = event.type == KVRT_EVENT_DONE;
    if (callback && stopped.is_ok() && callback(user, &event) && !done) {
      stopped = error(Code::kCancelled, Detail::kNone, "stopped by the callback");
      engine.driver().cancel(handle->session);
    }
    if (!done) continue;
    if (stopped.is_ok() && event.reason == KVRT_REASON_CANCELLED) {
      stopped = error(Code::kCancelled, Detail::kNone, "cancelled by kvrt_session_cancel or kvrt_cancel_fire");
    }
    if (stopped.is_ok() || stopped.code() == Code::kCancelled) write_output(report, handle->report);
    return stopped;
  }
}

// A template or a grammar may take its time: a cancel of another thread that came meanwhile ends the generation at once.
Status begin(kvrt_session* handle, kvrt::GenerateOptions options) {
  KVRT_TRY(handle->engine->driver().begin(handle->session, std::move(options)));
  bool cancelled;
  {
    kvrt::Lock lock(handle->mu);
    cancelled = handle->cancel_asked;
  }
  if (cancelled) handle->engine->driver().cancel(handle->session);
  return {};
}

Status run_to_done(kvrt_session* handle, kvrt::GenerateOptions options, kvrt_event_fn callback, void* user, kvrt_report* report) {
  try {
    KVRT_TRY(begin(handle, std::move(options)));
    return drive(handle, callback, user, report);
  } catch (...) {  // no memory: the session must not generate for ever
    handle->engine->driver().abandon(handle->session);
    throw;
  }
}

}  // namespace

extern "C" {

kvrt_status kvrt_session_prefill(kvrt_session* session, uint32_t logits, kvrt_event_fn callback, void* user, kvrt_report* report,
                                 kvrt_error* err) {
  return guard(err, [&]() -> Status {
    SessionCall call(session);
    KVRT_TRY(call.enter("prefill"));
    KVRT_TRY(check_logits(logits));
    if (report) KVRT_TRY(check_output_struct(report, "report"));
    kvrt::GenerateOptions options;
    options.prefill_only = true;
    options.logits = static_cast<kvrt::WantLogits>(logits);
    return run_to_done(session, std::move(options), callback, user, report);
  });
}

kvrt_status kvrt_session_begin(kvrt_session* session, const kvrt_generate_options* options, kvrt_error* err) {
  return guard(err, [&]() -> Status {
    SessionCall call(session);
    KVRT_TRY(call.enter("begin"));
    kvrt::GenerateOptions o;
    KVRT_TRY(read_generate_options(options, *session->engine, &o));
    return begin(session, std::move(o));
  });
}

kvrt_status kvrt_session_next(kvrt_session* session, kvrt_event* event, int32_t timeout_ms, kvrt_error* err) {
  return guard(err, [&]() -> Status {
    SessionCall call(session);
    KVRT_TRY(call.enter("next"));
    KVRT_TRY(check_output_struct(event, "event"));
    KVRT_ASSIGN(kvrt::Event next, session->engine->driver().next(session->session, timeout_ms));
    write_output(event, show(session, std::move(next)));
    return {};
  });
}

kvrt_status kvrt_session_generate(kvrt_session* session, const kvrt_generate_options* options, kvrt_event_fn callback, void* user,
                                  kvrt_report* report, kvrt_error* err) {
  return guard(err, [&]() -> Status {
    SessionCall call(session);
    KVRT_TRY(call.enter("generate"));
    if (report) KVRT_TRY(check_output_struct(report, "report"));
    kvrt::GenerateOptions o;
    KVRT_TRY(read_generate_options(options, *session->engine, &o));
    if (o.host_samples && !callback) return error(Code::kInvalid, Detail::kNone, "callback is NULL with sampler KVRT_SAMPLER_HOST");
    return run_to_done(session, std::move(o), callback, user, report);
  });
}

kvrt_status kvrt_session_cancel(kvrt_session* session, kvrt_error* err) {
  return guard(err, [&]() -> Status {
    BesideCall call(session);
    KVRT_TRY(call.enter());
    {
      kvrt::Lock lock(session->mu);
      session->cancel_asked = true;
    }
    session->engine->driver().cancel(session->session);
    return {};
  });
}

kvrt_status kvrt_session_accept(kvrt_session* session, int32_t token, kvrt_error* err) {
  return guard(err, [&]() -> Status {
    BesideCall call(session);
    KVRT_TRY(call.enter());
    return session->engine->driver().accept(session->session, token);
  });
}

}  // extern "C"
