// /tokenizer_info, /tokenize and /detokenize, in the form of vLLM's server: harnesses such as lm-eval ask for them.
#include "tokenizer.h"

#include "app.h"
#include "room.h"

namespace {

constexpr const char* kJsonForm = "application/json";

std::string text_of(const kvrt::Model& model, int32_t token) {
  std::string text;
  if (token >= 0) model.detokenize(kvrt::Span<const int32_t>(&token, 1), KVRT_TEXT_SPECIAL, text).or_throw();
  return text;
}

std::string tokenize(const kvrt::Model& model, const std::string& body) {
  const Json object = read_object(body);
  std::string prompt;
  const uint32_t bos = model.info().or_throw().add_bos ? KVRT_TEXT_BOS : 0;
  uint32_t flags = KVRT_TEXT_SPECIAL | bos;  // as in vLLM, unless the request says otherwise
  bool there = false;
  for (size_t i = 0; i < object.items.size(); ++i) {
    const std::string& name = object.names[i];
    const Json& value = object.items[i];
    if (name == "model" || name == "return_token_strs") continue;
    if (name == "prompt") {
      prompt = text(value, "prompt");
      there = true;
    } else if (name == "add_special_tokens") {
      if (!flag(value, name)) flags = KVRT_TEXT_SPECIAL;
    } else {
      refuse(name, "unrecognized request argument: " + name, "unknown_parameter");
    }
  }
  if (!there) expected("prompt", "a string", nullptr);
  std::vector<int32_t> tokens;
  model.tokenize(prompt, flags, tokens).or_throw();
  JsonWriter w;
  w.begin('{').pair("count", uint64_t{tokens.size()}).pair("max_model_len", tokens_max(model)).key("tokens").begin('[');
  for (const int32_t token : tokens) w.number(static_cast<uint64_t>(token));
  return w.end(']').end('}').take();
}

std::string detokenize(const kvrt::Model& model, const std::string& body) {
  const Json object = read_object(body);
  const auto vocab = model.info().or_throw().vocab_size;
  std::vector<int32_t> tokens;
  const Json& list = field(object, "the body", "tokens", Json::kArray);
  for (size_t i = 0; i < list.items.size(); ++i)
    tokens.push_back(static_cast<int32_t>(integer(list.items[i], item("tokens", i), 0, vocab - 1)));
  std::string text;
  model.detokenize(tokens, KVRT_TEXT_SPECIAL, text).or_throw();
  return JsonWriter().begin('{').pair("prompt", valid_utf8(text)).end('}').take();
}

}  // namespace

std::string tokenizer_info(const kvrt::Runtime& runtime, const kvrt::Model& model, const std::string& path) {
  const kvrt_model_props props = model.info().or_throw();
  JsonWriter w;
  w.begin('{').pair("tokenizer_class", "kvrt").pair("model_max_length", tokens_max(model));
  w.key("eos_token");
  props.eos_token >= 0 ? w.string(text_of(model, props.eos_token)) : w.null();
  if (props.bos_token >= 0) w.pair("bos_token", text_of(model, props.bos_token));
  std::string inspected;
  if (runtime.inspect(path, 0, inspected).ok()) {
    const Json json = read_json(inspected);
    const Json* metadata = json.find("metadata");
    const Json* chat = metadata ? metadata->find("tokenizer.chat_template") : nullptr;
    if (chat && chat->is(Json::kString)) w.pair("chat_template", chat->text);
  }
  return w.end('}').take();
}

void App::add_tokenizer(HttpServer* server) {
  using httplib::Request;
  using httplib::Response;
  server->Get("/tokenizer_info", [this](const Request&, Response& response) { response.set_content(options_.tokenizer_info, kJsonForm); });
  server->Post("/tokenize", [this](const Request&, Response& response, const httplib::ContentReader&) {
    response.set_content(tokenize(model_, HttpServer::read_body()), kJsonForm);
  });
  server->Post("/detokenize", [this](const Request&, Response& response, const httplib::ContentReader&) {
    response.set_content(detokenize(model_, HttpServer::read_body()), kJsonForm);
  });
}
