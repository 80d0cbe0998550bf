#include "runtime/engine/inspect.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "runtime/base/bytes.h"
#include "runtime/engine/model_host.h"
#include "runtime/engine/plan.h"
#include "runtime/model/ggml_types.h"
#include "runtime/model/gguf_parse.h"

namespace kvrt {
namespace {

using Json = nlohmann::ordered_json;
constexpr uint64_t kFirstElements = 8;

Json scalar(GgufType type, const uint8_t* at) {
  switch (type) {
    case GgufType::kU8:
      return load<uint8_t>(at);
    case GgufType::kI8:
      return load<int8_t>(at);
    case GgufType::kU16:
      return load<uint16_t>(at);
    case GgufType::kI16:
      return load<int16_t>(at);
    case GgufType::kU32:
      return load<uint32_t>(at);
    case GgufType::kI32:
      return load<int32_t>(at);
    case GgufType::kF32:
      return load<float>(at);
    case GgufType::kBool:
      return load<uint8_t>(at) != 0;
    case GgufType::kU64:
      return load<uint64_t>(at);
    case GgufType::kI64:
      return load<int64_t>(at);
    case GgufType::kF64:
      return load<double>(at);
    case GgufType::kString:
      return std::string(reinterpret_cast<const char*>(at + 8), load<uint64_t>(at));
    case GgufType::kArray:
      break;
  }
  return nullptr;
}

Json value_of(const GgufPair& pair, bool whole) {
  if (pair.type != GgufType::kArray) return scalar(pair.type, pair.value.data());
  const uint8_t* at = pair.value.data();
  Json elements = Json::array();
  const uint64_t shown = whole ? pair.count : std::min(pair.count, kFirstElements);
  for (uint64_t i = 0; i < shown; ++i) {
    elements.push_back(scalar(pair.elem_type, at));
    at += pair.elem_type == GgufType::kString ? 8 + load<uint64_t>(at) : gguf_scalar_bytes(pair.elem_type);
  }
  return {{"array", gguf_type_name(pair.elem_type)}, {"length", pair.count}, {whole ? "elements" : "first", std::move(elements)}};
}

std::string type_name(const GgufTensor& tensor) {
  const GgmlType* type = find_ggml_type(static_cast<uint32_t>(tensor.view.type));
  return type ? type->name : "type " + std::to_string(static_cast<uint32_t>(tensor.view.type));
}

Json tensors_of(const GgufFile& file, Json* types) {
  Json tensors = Json::array();
  for (const GgufTensor& tensor : file.tensors()) {
    Json shape = Json::array();
    size_t dims = tensor.view.ne.size();
    while (dims > 1 && tensor.view.ne[dims - 1] == 1) --dims;
    for (size_t i = 0; i < dims; ++i) shape.push_back(tensor.view.ne[i]);
    const std::string name = type_name(tensor);
    Json& sum = (*types)[name];
    if (sum.is_null()) sum = {{"tensors", 0}, {"bytes", 0}};
    sum["tensors"] = sum["tensors"].get<uint64_t>() + 1;
    sum["bytes"] = sum["bytes"].get<uint64_t>() + tensor.view.data.size();
    tensors.push_back({{"name", tensor.name}, {"type", name}, {"shape", std::move(shape)}, {"bytes", tensor.view.data.size()}});
  }
  return tensors;
}

// Everything that model_open would refuse, each as it would say it; it stops at the first.
Json refusals(const GgufFile& file, const Backend& backend) {
  Json list = Json::array();
  const auto add = [&](const char* what, const Status& status) {
    list.push_back({{"what", what}, {"status", code_name(status.code())}, {"message", status.message()}});
  };
  if (auto tokenizer = make_tokenizer(file); !tokenizer.is_ok()) add("tokenizer", tokenizer.status());
  if (auto source = file.get_string("tokenizer.chat_template")) {
    if (auto parsed = ChatTemplate::parse(*source); !parsed.is_ok()) add("chat template", parsed.status());
  }
  if (file.tensors().empty()) return list;
  if (auto cost = model_cost(file, backend); !cost.is_ok()) add("model", cost.status());
  return list;
}

}  // namespace

std::string inspect(const GgufFile& file, const Backend& backend, bool whole) {
  Json json, types = Json::object(), metadata = Json::object();
  for (const GgufPair& pair : file.pairs()) metadata[std::string(pair.key)] = value_of(pair, whole);
  json["file"] = file.name();
  json["file_bytes"] = file.file_bytes();
  json["metadata"] = std::move(metadata);
  Json tensors = tensors_of(file, &types);
  json["types"] = std::move(types);
  json["tensors"] = std::move(tensors);
  json["refused"] = refusals(file, backend);
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace kvrt
