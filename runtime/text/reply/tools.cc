#include "runtime/text/reply/tools.h"

#include <algorithm>

#include "runtime/base/limits.h"
#include "runtime/text/reply/pattern.h"
#include "runtime/text/template/json_values.h"

namespace kvrt {

using jinja::Dict;
using jinja::Kind;
using jinja::Value;

namespace {

constexpr int kDepthMax = 8;       // of references and branches
constexpr int kVisitsMax = 1'000;  // schemas and steps of references, for one question: branches may refer to each other
constexpr size_t kReferenceBytesMax = 1'000;

const Value* member(const Value* of, std::string_view name) {
  return of != nullptr && of->is(Kind::kDict) ? of->dict->find(name) : nullptr;
}

unsigned type_of(std::string_view name) {
  for (const auto& [known, type] : reply::ArgumentSchema::kTypeNames)
    if (known == name) return type;
  return reply::ArgumentSchema::kUnknown;
}

unsigned type_of(const Value& value) {
  using S = reply::ArgumentSchema;
  switch (value.kind) {
    case Kind::kNone:
      return S::kNull;
    case Kind::kBool:
      return S::kBoolean;
    case Kind::kInt:
    case Kind::kBig:
      return S::kInteger;
    case Kind::kFloat:
      return S::kNumber;
    case Kind::kString:
      return S::kString;
    case Kind::kList:
      return S::kArray;
    default:
      return S::kObject;
  }
}

// Where "#/$defs/name" leads to; null: nowhere.
const Value* resolve(const Value* root, std::string_view reference, int* visits) {
  if (!reference.starts_with('#') || reference.size() > kReferenceBytesMax) return nullptr;
  const Value* at = root;
  for (reference.remove_prefix(1); !reference.empty() && --*visits > 0;) {
    reference.remove_prefix(1);
    const size_t end = std::min(reference.find('/'), reference.size());
    at = member(at, reference.substr(0, end));
    reference.remove_prefix(end);
  }
  return reference.empty() ? at : nullptr;
}

}  // namespace

namespace reply {

ToolFunction function_of(const Value& tool) {
  const Value* inside = member(&tool, "function");
  const Value* function = inside != nullptr ? inside : &tool;
  const Value* name = member(function, "name");
  return {name != nullptr && name->is(Kind::kString) ? name : nullptr, member(function, "parameters")};
}

// The schema that $ref leads to.
const Value* ArgumentSchema::target(int* visits) const {
  const Value* at = at_;
  for (int hops = 0; hops < kDepthMax; ++hops) {
    const Value* reference = member(at, "$ref");
    if (reference == nullptr || !reference->is(Kind::kString)) break;
    at = resolve(root_, reference->str(), visits);
  }
  return at;
}

template <typename Visit>
void ArgumentSchema::each_branch(const Value* of, const int* visits, Visit visit) const {
  for (std::string_view keyword : {"anyOf", "oneOf", "allOf"}) {
    const Value* branches = member(of, keyword);
    if (branches == nullptr || !branches->is(Kind::kList)) continue;
    for (uint32_t i = 0; *visits > 0 && i < branches->list->size; ++i) visit(ArgumentSchema(root_, branches->list->data + i), keyword);
  }
}

unsigned ArgumentSchema::types() const {
  int visits = kVisitsMax;
  const unsigned found = types(0, &visits);
  return visits > 0 ? found : kUnknown;
}

// What a schema says of its types by itself: by "type", else by its constants.
unsigned ArgumentSchema::own_types(const Value* at, int* visits) {
  unsigned types = kUnknown;
  if (const Value* type = member(at, "type"); type != nullptr) {
    if (type->is(Kind::kString)) types = type_of(type->str());
    for (uint32_t i = 0; type->is(Kind::kList) && i < type->list->size && --*visits > 0; ++i)
      if (type->list->data[i].is(Kind::kString)) types |= type_of(type->list->data[i].str());
  }
  if (const Value* values = member(at, "enum"); types == kUnknown && values != nullptr && values->is(Kind::kList)) {
    *visits -= static_cast<int>(values->list->size / 256);
    for (uint32_t i = 0; i < values->list->size; ++i) types |= type_of(values->list->data[i]);
  }
  if (const Value* value = member(at, "const"); types == kUnknown && value != nullptr) types = type_of(*value);
  return types;
}

unsigned ArgumentSchema::types(int depth, int* visits) const {
  if (at_ == nullptr || depth > kDepthMax || --*visits <= 0) return kUnknown;
  const Value* at = target(visits);
  unsigned types = own_types(at, visits);
  if (types == kUnknown) {
    bool any = false;  // a branch that may be of any type
    each_branch(at, visits, [&](ArgumentSchema branch, std::string_view keyword) {
      const unsigned its = branch.types(depth + 1, visits);
      any |= its == kUnknown && keyword != "allOf";
      types |= its;
    });
    if (any) return kUnknown;
  }
  if (types == kUnknown && member(at, "properties") != nullptr) types = kObject;
  if (types == kUnknown && member(at, "items") != nullptr) types = kArray;
  const Value* nullable = member(at, "nullable");
  if (types != kUnknown && nullable != nullptr && jinja::truth(*nullable)) types |= kNull;
  return types;
}

std::vector<std::string_view> ArgumentSchema::property_names() const {
  std::vector<std::string_view> out;
  int visits = kVisitsMax;
  const Value* properties = member(target(&visits), "properties");
  const bool listed = properties != nullptr && properties->is(Kind::kDict);
  for (uint32_t i = 0; listed && i < properties->dict->size; ++i) out.push_back(properties->dict->data[i].key.str());
  return out;
}

ArgumentSchema ArgumentSchema::property(std::string_view key) const {
  int visits = kVisitsMax;
  const ArgumentSchema found = property(key, 0, &visits);
  return visits > 0 ? found : ArgumentSchema();
}

ArgumentSchema ArgumentSchema::property(std::string_view key, int depth, int* visits) const {
  if (at_ == nullptr || depth > kDepthMax || --*visits <= 0) return {};
  const Value* at = target(visits);
  ArgumentSchema found(root_, member(member(at, "properties"), key));
  if (found.at_ == nullptr)
    each_branch(at, visits, [&](ArgumentSchema branch, std::string_view) {
      if (found.at_ == nullptr) found = branch.property(key, depth + 1, visits);
    });
  return found.at_ != nullptr ? found : ArgumentSchema(root_, member(at, "additionalProperties"));
}

ArgumentSchema ArgumentSchema::items() const {
  int visits = kVisitsMax;
  const ArgumentSchema found = items(0, &visits);
  return visits > 0 ? found : ArgumentSchema();
}

ArgumentSchema ArgumentSchema::items(int depth, int* visits) const {
  if (at_ == nullptr || depth > kDepthMax || --*visits <= 0) return {};
  const Value* at = target(visits);
  ArgumentSchema found(root_, member(at, "items"));
  if (found.at_ == nullptr)
    each_branch(at, visits, [&](ArgumentSchema branch, std::string_view) {
      if (found.at_ == nullptr) found = branch.items(depth + 1, visits);
    });
  return found;
}

}  // namespace reply

ReplyTools::ReplyTools(std::string_view json) : arena_(kTemplateHeapBytesMax) {
  auto parsed = jinja::parse_json(json, "tools", &arena_);
  if (parsed.is_ok()) tools_ = *parsed;
  for (uint32_t i = 0; tools_.is(Kind::kList) && i < tools_.list->size; ++i) {
    const Value* name = reply::function_of(tools_.list->data[i]).name;
    if (name != nullptr && name->size > 0 && std::ranges::all_of(name->str(), reply::is_name)) names_.push_back(name->str());
  }
  std::ranges::sort(names_);
  names_.erase(std::unique(names_.begin(), names_.end()), names_.end());
}

reply::ArgumentSchema ReplyTools::arguments(std::string_view name) const {
  for (uint32_t i = 0; tools_.is(Kind::kList) && i < tools_.list->size; ++i) {
    const reply::ToolFunction function = reply::function_of(tools_.list->data[i]);
    if (function.name != nullptr && function.name->str() == name) return reply::ArgumentSchema(function.parameters);
  }
  return {};
}

bool ReplyTools::has(std::string_view name) const {
  for (uint32_t i = 0; tools_.is(Kind::kList) && i < tools_.list->size; ++i) {
    const reply::ToolFunction function = reply::function_of(tools_.list->data[i]);
    if (function.name != nullptr && function.name->str() == name) return true;
  }
  return false;
}

std::shared_ptr<const ReplyTools> read_reply_tools(std::string_view json) { return std::make_shared<const ReplyTools>(json); }

}  // namespace kvrt
