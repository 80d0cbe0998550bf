#include "runtime/engine/describe/inspect.h"

#include <algorithm>
#include <concepts>
#include <cstring>

#include "runtime/base/bytes.h"
#include "runtime/base/json.h"
#include "runtime/engine/resources/loaded_model.h"
#include "runtime/engine/resources/memory_cost.h"
#include "runtime/model/ggml_types.h"
#include "runtime/model/gguf_parse.h"

namespace kvrt {
namespace {

constexpr uint64_t kFirstElements = 8;

// JSON that grows at its end: members and elements one after another. The code that opens a container closes it.
class Writer {
 public:
  Writer& key(std::string_view name) {
    comma();
    append_json_string(name, &out_);
    out_ += ':';
    return *this;
  }
  void open(char bracket) {
    comma();
    out_ += bracket;
  }
  void close(char bracket) { out_ += bracket; }
  void value(std::string_view text) {
    comma();
    append_json_string(text, &out_);
  }
  void value(double number) {
    comma();
    append_json_real(number, &out_);
  }
  void value(bool b) {
    comma();
    out_ += b ? "true" : "false";
  }
  template <std::integral I>
  void value(I number) {
    comma();
    out_ += std::to_string(number);
  }
  std::string take() { return std::move(out_); }

 private:
  void comma() {
    if (!out_.empty() && out_.back() != '{' && out_.back() != '[' && out_.back() != ':') out_ += ',';
  }
  std::string out_;
};

void add_scalar(GgufType type, const uint8_t* at, Writer* json) {
  switch (type) {
    case GgufType::kU8:
      return json->value(load<uint8_t>(at));
    case GgufType::kI8:
      return json->value(load<int8_t>(at));
    case GgufType::kU16:
      return json->value(load<uint16_t>(at));
    case GgufType::kI16:
      return json->value(load<int16_t>(at));
    case GgufType::kU32:
      return json->value(load<uint32_t>(at));
    case GgufType::kI32:
      return json->value(load<int32_t>(at));
    case GgufType::kF32:
      return json->value(double{load<float>(at)});
    case GgufType::kBool:
      return json->value(load<uint8_t>(at) != 0);
    case GgufType::kU64:
      return json->value(load<uint64_t>(at));
    case GgufType::kI64:
      return json->value(load<int64_t>(at));
    case GgufType::kF64:
      return json->value(load<double>(at));
    case GgufType::kString:
      return json->value(std::string_view(reinterpret_cast<const char*>(at + 8), load<uint64_t>(at)));
    case GgufType::kArray:
      break;
  }
}

void add_value(const GgufPair& pair, bool whole, Writer* json) {
  const uint8_t* at = pair.value.data();
  if (pair.type != GgufType::kArray) return add_scalar(pair.type, at, json);
  json->open('{');
  json->key("array").value(std::string_view(gguf_type_name(pair.elem_type)));
  json->key("length").value(pair.count);
  json->key(whole ? "elements" : "first").open('[');
  const uint64_t count = whole ? pair.count : std::min(pair.count, kFirstElements);
  for (uint64_t i = 0; i < count; ++i) {
    add_scalar(pair.elem_type, at, json);
    at += pair.elem_type == GgufType::kString ? 8 + load<uint64_t>(at) : gguf_scalar_bytes(pair.elem_type);
  }
  json->close(']');
  json->close('}');
}

std::string type_name(const GgufTensor& tensor) {
  const GgmlType* type = find_ggml_type(static_cast<uint32_t>(tensor.view.type));
  return type ? type->name : "type " + std::to_string(static_cast<uint32_t>(tensor.view.type));
}

// Adds the count of tensors of each type; the types are in the order of their first tensors.
void add_types(const GgufFile& file, Writer* json) {
  struct Sum {
    std::string type;
    uint64_t tensors = 0, bytes = 0;
  };
  std::vector<Sum> sums;
  for (const GgufTensor& tensor : file.tensors()) {
    const std::string name = type_name(tensor);
    auto sum = std::find_if(sums.begin(), sums.end(), [&](const Sum& s) { return s.type == name; });
    if (sum == sums.end()) sum = sums.insert(sum, {name});
    ++sum->tensors;
    sum->bytes += tensor.view.data.size();
  }
  json->open('{');
  for (const Sum& sum : sums) {
    json->key(sum.type).open('{');
    json->key("tensors").value(sum.tensors);
    json->key("bytes").value(sum.bytes);
    json->close('}');
  }
  json->close('}');
}

void add_tensors(const GgufFile& file, Writer* json) {
  json->open('[');
  for (const GgufTensor& tensor : file.tensors()) {
    size_t dims = tensor.view.ne.size();
    while (dims > 1 && tensor.view.ne[dims - 1] == 1) --dims;
    json->open('{');
    json->key("name").value(std::string_view(tensor.name));
    json->key("type").value(std::string_view(type_name(tensor)));
    json->key("shape").open('[');
    for (size_t i = 0; i < dims; ++i) json->value(tensor.view.ne[i]);
    json->close(']');
    json->key("bytes").value(tensor.view.data.size());
    json->close('}');
  }
  json->close(']');
}

// Adds every reason for which model_open would refuse the file, in its words; model_open itself stops at the first. It takes a template that
// it cannot read: what needs one fails then.
Status add_refusals(const GgufFile& file, const Backend& backend, Writer* json) {
  json->open('[');
  const auto add = [&](std::string_view what, Status status) -> Status {
    if (status.is_ok() || status.code() == Code::kNoMemory) return status;  // no fault of the file
    json->open('{');
    json->key("what").value(what);
    json->key("status").value(std::string_view(code_name(status.code())));
    json->key("message").value(std::string_view(status.message()));
    json->close('}');
    return {};
  };
  const auto told = [&](std::string_view what, Status status) -> Status {
    const auto source = file.get_string("tokenizer.chat_template");
    if (what == "chat template" && source) status = ChatTemplate::parse(*source).take_status();
    return add(what, std::move(status));
  };
  ModelParts parts;
  KVRT_TRY(check_parts(file, backend, told, &parts));
  json->close(']');
  return {};
}

}  // namespace

Result<std::string> inspect(const GgufFile& file, const Backend& backend, bool whole) {
  Writer json;
  json.open('{');
  json.key("file").value(std::string_view(file.name()));
  json.key("file_bytes").value(file.file_bytes());
  json.key("metadata").open('{');
  for (const GgufPair& pair : file.pairs()) add_value(pair, whole, &json.key(pair.key));
  json.close('}');
  add_types(file, &json.key("types"));
  add_tensors(file, &json.key("tensors"));
  KVRT_TRY(add_refusals(file, backend, &json.key("refused")));
  json.close('}');
  return json.take();
}

}  // namespace kvrt
