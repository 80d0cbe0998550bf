// What a session's tools say of their arguments' types.
#pragma once

#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/text/reply/reply_style.h"
#include "runtime/text/template/value.h"

namespace kvrt {

namespace reply {

// A JSON schema within a tool's parameters. It may be missing: then nothing is known of the value.
class ArgumentSchema {
 public:
  ArgumentSchema() = default;
  explicit ArgumentSchema(const jinja::Value* root) : root_(root), at_(root) {}

  enum Types : unsigned { kUnknown = 0, kNull = 1, kBoolean = 2, kInteger = 4, kNumber = 8, kString = 16, kArray = 32, kObject = 64 };
  static constexpr std::pair<std::string_view, unsigned> kTypeNames[] = {{"null", kNull},     {"boolean", kBoolean}, {"integer", kInteger},
                                                                         {"number", kNumber}, {"string", kString},   {"array", kArray},
                                                                         {"object", kObject}};
  const void* id() const { return at_; }  // tells schemas of one document apart
  unsigned types() const;                 // kUnknown also if there is too much to look at
  ArgumentSchema property(std::string_view key) const;
  std::vector<std::string_view> property_names() const;  // those of branches are left out
  ArgumentSchema items() const;

 private:
  ArgumentSchema(const jinja::Value* root, const jinja::Value* at) : root_(root), at_(at) {}
  // `visits` is how much may still be looked at. Once it is 0 or less, an answer means nothing.
  const jinja::Value* target(int* visits) const;
  unsigned types(int depth, int* visits) const;
  static unsigned own_types(const jinja::Value* at, int* visits);
  ArgumentSchema property(std::string_view key, int depth, int* visits) const;
  ArgumentSchema items(int depth, int* visits) const;
  template <typename Visit>
  void each_branch(const jinja::Value* of, const int* visits, Visit visit) const;  // the branches are those of anyOf, oneOf and allOf

  const jinja::Value* root_ = nullptr;
  const jinja::Value* at_ = nullptr;
};

// A tool's name and parameters, in OpenAI's form or bare; null: it has none. The name is a string.
struct ToolFunction {
  const jinja::Value *name = nullptr, *parameters = nullptr;
};
ToolFunction function_of(const jinja::Value& tool);

}  // namespace reply

class ReplyTools {
 public:
  explicit ReplyTools(std::string_view json);
  reply::ArgumentSchema arguments(std::string_view name) const;  // of the function
  bool has(std::string_view name) const;
  const std::vector<std::string_view>& names() const { return names_; }  // of letters, digits and _-./ only; sorted, each once

 private:
  jinja::Arena arena_;
  jinja::Value tools_;
  std::vector<std::string_view> names_;
};

}  // namespace kvrt
