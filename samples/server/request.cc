#include "request.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "error.h"

namespace {

void read_max_tokens(const Json& v, Request* r, const char* name) {
  if (r->max_tokens_given) refuse(name, "max_tokens and max_completion_tokens are both set: send one");
  r->max_tokens_given = true;
  if (v.is(Json::kNumber) && v.number == -1) return;  // as clients of other servers say it: no limit
  r->options.max_tokens = integer(v, name, 0, kTokensMax);
  r->no_answer = r->options.max_tokens == 0;
}

void read_stop(const Json& v, Request* r) {
  const auto add = [&](const Json& one, const std::string& name) {
    const std::string& s = text(one, name);
    if (s.empty() || s.size() > 256 || s.find('\0') != s.npos) expected(name, "a string of 1 to 256 bytes without NUL", &one);
    r->stop += s + '\0';
  };
  if (v.is(Json::kString)) return add(v, "stop");
  if (!v.is(Json::kArray)) expected("stop", "a string, or a list of strings", &v);
  if (v.items.size() > 16) refuse("stop", "stop: expected at most 16 strings, found " + std::to_string(v.items.size()));
  for (size_t i = 0; i < v.items.size(); ++i) add(v.items[i], item("stop", i));
}

void read_bias(const Json& v, Request* r) {
  if (!v.is(Json::kObject)) expected("logit_bias", "an object of token ids and numbers", &v);
  for (size_t i = 0; i < v.items.size(); ++i) {
    const std::string& id = v.names[i];
    if (id.empty() || id.size() > 9 || id.find_first_not_of("0123456789") != id.npos)
      refuse("logit_bias", "logit_bias: expected token ids, found \"" + id.substr(0, 64) + "\"");
    const double value = number(v.items[i], "logit_bias." + id, -100, 100);
    // -100 bans a token, as OpenAI says.
    r->bias.push_back({std::stoi(id), value == -100 ? -INFINITY : static_cast<float>(value)});
  }
}

void read_stream_options(const Json& v, Request* r) {
  if (!v.is(Json::kObject)) expected("stream_options", "an object", &v);
  for (size_t i = 0; i < v.names.size(); ++i) {
    if (v.names[i] == "include_usage") {
      r->include_usage = flag(v.items[i], "stream_options.include_usage");
    } else if (v.names[i] != "include_obfuscation") {
      refuse("stream_options." + v.names[i], "stream_options." + v.names[i] + " is not known", "unknown_parameter");
    }
  }
}

void read_seed(const Json& v, Request* r) {
  if (!v.is(Json::kNumber) || v.number != std::floor(v.number) || std::abs(v.number) > 9.3e18) expected("seed", "a whole number", &v);
  r->options.seed = static_cast<uint64_t>(static_cast<int64_t>(std::clamp(v.number, -9.2e18, 9.2e18)));
  r->seeded = true;
}

void read_format(const Json& v, Request* r) {
  const Json& type = field(v, "response_format", "type", Json::kString);
  if (type.text == "text") return;
  r->options.grammar_kind = KVRT_GRAMMAR_JSON_SCHEMA;
  if (type.text == "json_object") {
    r->grammar = R"({"type":"object"})";
  } else if (type.text == "json_schema") {
    const Json& named = field(v, "response_format", "json_schema", Json::kObject);
    r->grammar = field(named, "response_format.json_schema", "schema", Json::kObject).raw;
  } else {
    expected("response_format.type", "text, json_object or json_schema", &type);
  }
}

void read_prediction(const Json& v, Request* r) {
  constexpr std::string_view kParts[] = {"text"};
  const Json& type = field(v, "prediction", "type", Json::kString);
  if (type.text != "content") expected("prediction.type", "content", &type);
  const Json* content = v.find("content");
  if (!content) expected("prediction.content", "a text or a list of parts", nullptr);
  r->prediction = read_parts(*content, "prediction.content", kParts, "text");
}

void read_prompt(const Json& v, Request* r) {
  const auto tokens_of = [](const Json& list, const std::string& name) {
    Prompt p;
    for (size_t i = 0; i < list.items.size(); ++i)
      p.tokens.push_back(static_cast<int32_t>(integer(list.items[i], item(name, i), 0, INT32_MAX)));
    return p;
  };
  constexpr const char* kWhat = "a string, a list of strings, of token ids, or of lists of these";
  if (v.is(Json::kString)) return r->prompts.push_back({v.text, {}});
  if (!v.is(Json::kArray)) expected("prompt", kWhat, &v);
  if (v.items.empty()) refuse("prompt", "prompt: the list is empty");
  if (v.items[0].is(Json::kNumber)) return r->prompts.push_back(tokens_of(v, "prompt"));
  for (size_t i = 0; i < v.items.size(); ++i) {
    const Json& one = v.items[i];
    if (!one.is(Json::kString) && (!one.is(Json::kArray) || one.items.empty()))
      expected(item("prompt", i), "a string, or a list of token ids", &one);
    r->prompts.push_back(one.is(Json::kString) ? Prompt{one.text, {}} : tokens_of(one, item("prompt", i)));
  }
}

const Field kFields[] = {
    {"model", [](const Json& v, Request* r) { r->model = text(v, "model"); }},
    {"stream", [](const Json& v, Request* r) { r->stream = flag(v, "stream"); }},
    {"stream_options", read_stream_options},
    {"temperature", [](const Json& v, Request* r) { r->options.temperature = static_cast<float>(number(v, "temperature", 0, 2)); }},
    // 0, which is kvrt's word for all, is here the smallest share: the best token.
    {"top_p", [](const Json& v, Request* r) { r->options.top_p = static_cast<float>(std::max(number(v, "top_p", 0, 1), 1e-6)); }},
    {"top_k", [](const Json& v, Request* r) { r->options.top_k = integer(v, "top_k", 0, kTokensMax); }},
    {"min_p", [](const Json& v, Request* r) { r->options.min_p = static_cast<float>(number(v, "min_p", 0, 1)); }},
    {"repetition_penalty",
     [](const Json& v, Request* r) { r->options.repetition_penalty = static_cast<float>(number(v, "repetition_penalty", 0, 100)); }},
    {"frequency_penalty",
     [](const Json& v, Request* r) { r->options.frequency_penalty = static_cast<float>(number(v, "frequency_penalty", -2, 2)); }},
    {"presence_penalty",
     [](const Json& v, Request* r) { r->options.presence_penalty = static_cast<float>(number(v, "presence_penalty", -2, 2)); }},
    {"logit_bias", read_bias},
    {"seed", read_seed},
    {"draft", [](const Json& v, Request* r) { r->draft = flag(v, "draft"); }},
    {"lookup", [](const Json& v, Request* r) { r->lookup = flag(v, "lookup"); }},
    {"draft_tokens_max", [](const Json& v, Request* r) { r->options.draft_tokens_max = integer(v, "draft_tokens_max", 1, 32); }},
    {"draft_tokens_min", [](const Json& v, Request* r) { r->options.draft_tokens_min = integer(v, "draft_tokens_min", 0, 32); }},
    {"prompt_cache_key", [](const Json& v, Request* r) { r->cache_key = text(v, "prompt_cache_key"); }},
    {"user", nullptr},
    {"metadata", nullptr},
    {"safety_identifier", nullptr},
    {"prompt_cache_retention", nullptr},
    {"service_tier", nullptr},
};

const Field kCompletionFields[] = {
    {"n", [](const Json& v, Request* r) { r->n = integer(v, "n", 1, 64); }},
    {"max_tokens", [](const Json& v, Request* r) { read_max_tokens(v, r, "max_tokens"); }},
    {"stop", read_stop},
};

const Field kChatFields[] = {
    {"messages", [](const Json& v, Request* r) { r->messages = read_messages(v); }},
    {"max_completion_tokens", [](const Json& v, Request* r) { read_max_tokens(v, r, "max_completion_tokens"); }},
    {"logprobs", [](const Json& v, Request* r) { r->logprobs = flag(v, "logprobs"); }},
    {"top_logprobs", [](const Json& v, Request* r) { r->options.top_logprobs = integer(v, "top_logprobs", 0, 20); }},
    {"tools", read_tools},
    {"tool_choice", read_tool_choice},
    {"parallel_tool_calls", [](const Json& v, Request* r) { r->options.parallel_calls_max = flag(v, "parallel_tool_calls") ? 0 : 1; }},
    {"response_format", read_format},
    {"prediction", read_prediction},
    {"reasoning_effort", [](const Json& v, Request* r) { add_variables("\"reasoning_effort\":" + std::string(v.raw), r); }},
    {"chat_template_kwargs", read_template_kwargs},
    {"thinking_budget", [](const Json& v, Request* r) { r->options.reasoning_tokens_max = integer(v, "thinking_budget", 1, kTokensMax); }},
    {"continue_final_message", [](const Json& v, Request* r) { r->continues = flag(v, "continue_final_message"); }},
    {"verbosity", nullptr},
    {"store",
     [](const Json& v, Request*) {
       if (flag(v, "store")) refuse("store", "store: this server keeps no responses to fetch later", "unsupported_value");
     }},
    {"modalities",
     [](const Json& v, Request*) {
       if (!v.is(Json::kArray) || v.items.size() != 1 || v.items[0].text != "text")
         refuse("modalities", "modalities: text alone is supported", "unsupported_value");
     }},
};

const Field kTextFields[] = {
    {"prompt", read_prompt},
    {"echo", [](const Json& v, Request* r) { r->echo = flag(v, "echo"); }},
    {"logprobs",
     [](const Json& v, Request* r) {
       r->options.top_logprobs = integer(v, "logprobs", 0, 20);
       r->logprobs = true;
     }},
    {"best_of", [](const Json& v, Request* r) { r->best_of = integer(v, "best_of", 1, 64); }},
};

// Known to OpenAI's API and not to this server.
constexpr std::string_view kRefused[] = {"functions", "function_call", "audio", "web_search_options", "suffix", "moderation"};

Request read_completion(std::string_view body, std::span<const Field> own) {
  Request r;
  r.options.temperature = 1;
  read_fields(read_object(body), {kSamplingFields, kCompletionFields, own}, kRefused, &r);
  return r;
}

// The last message is an answer that was cut, and goes on.
void take_cut_answer(Request* r) {
  constexpr const char* kField = "continue_final_message";
  const auto no = [&](const std::string& why) { refuse(kField, std::string(kField) + ": " + why, "unsupported_value"); };
  if (r->messages.back().role != "assistant") no("the last message has to be the assistant's");
  if (r->messages.size() == 1) no("there is no question before the answer");
  if (r->n > 1) no("n has to be 1");
  if (!r->tools.empty() || !r->grammar.empty()) no("it does not go with tools or response_format");
  r->cut = std::move(r->messages.back());
  r->messages.pop_back();
}

// Of no tokens is an answer that is the prompt alone.
void check_answers(const Request& r) {
  if (r.no_answer && !r.echo)
    refuse("max_tokens", "max_tokens: expected a whole number from 1 on, or -1 for no limit; 0 goes with echo alone");
}

}  // namespace

const std::span<const Field> kSamplingFields = kFields;

Request read_chat_request(std::string_view body) {
  Request r = read_completion(body, kChatFields);
  check_answers(r);
  if (r.messages.empty()) refuse("messages", "messages is missing", "missing_required_parameter");
  if (r.options.top_logprobs > 0 && !r.logprobs) refuse("top_logprobs", "top_logprobs: logprobs must be true");
  if (r.must_call() && r.tools.empty()) refuse("tool_choice", "tool_choice: there are no tools");
  if (!r.tool_name.empty() && std::find(r.tool_names.begin(), r.tool_names.end(), r.tool_name) == r.tool_names.end())
    refuse("tool_choice.function.name", "tool_choice.function.name: there is no tool \"" + r.tool_name + "\"");
  settle_calls(&r);
  if (r.continues) take_cut_answer(&r);
  return r;
}

Request read_text_request(std::string_view body) {
  Request r = read_completion(body, kTextFields);
  if (r.prompts.empty()) refuse("prompt", "prompt is missing", "missing_required_parameter");
  check_answers(r);
  if (!r.max_tokens_given) r.options.max_tokens = 16;
  if (r.best_of > r.n) refuse("best_of", "best_of larger than n is not supported", "unsupported_value");
  if (r.prompts.size() * r.n > 64) refuse("prompt", "prompt: n answers to each are more than 64 together");
  return r;
}

kvrt_generate_options Request::generate_options(uint32_t index) const {
  kvrt_generate_options o = options;
  // Each choice draws for itself. 0 would be a seed of chance.
  if (seeded) o.seed = (options.seed + index * 0x9E3779B97F4A7C15u) | (1ull << 63);
  if (!stop.empty()) o.stop_strings = stop.data(), o.stop_strings_size = stop.size();
  if (!bias.empty()) o.logit_bias = bias.data(), o.logit_bias_count = bias.size();
  if (!grammar.empty()) kvrt::assign(o.grammar, o.grammar_size, grammar);
  if (!prediction.empty()) kvrt::assign(o.prediction, o.prediction_size, prediction);
  if (!tool_name.empty()) kvrt::assign(o.tool_name, o.tool_name_size, tool_name);
  return o;
}
