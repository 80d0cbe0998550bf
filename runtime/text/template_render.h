// Renderer: one rendering of a parsed template, with Python's semantics under limits. The first error sticks: every step looks,
// and values made after it are thrown away. One thread, used once.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/text/template_ast.h"
#include "runtime/text/template_value.h"

namespace kvrt::jinja {

class Renderer {
 public:
  Renderer(std::string_view source, Arena* arena) : source_(source), arena_(arena) {}
  void set_global(std::string_view name, Value value) { variables_.push_back({name, value}); }
  Result<std::string> render(const Body& body);

 private:
  enum class Flow : uint8_t { kNext, kBreak, kContinue };
  struct Variable {
    std::string_view name;
    Value value;
  };
  // Arguments of a call, evaluated.
  struct Arguments {
    std::vector<Value> list;
    std::vector<std::pair<std::string_view, Value>> named;
    size_t count() const { return list.size() + named.size(); }
    // The positional argument i or the named one; null: not given.
    const Value* get(size_t i, std::string_view name) const;
  };

  // template_render.cc
  Flow run(const Body& body);
  Flow run_node(const Node& node);
  Flow run_for(const Node& node);
  void run_set(const Node& node, Value value);
  void print(uint32_t at, Value value);
  void write(uint32_t at, std::string_view text);
  void bind(const Target& target, uint32_t at, Value value);
  void assign(std::string_view name, Value value);
  Value lookup(std::string_view name) const;
  Value evaluate(const Expr& e);
  Value evaluate_chain(const Expr& e);
  Value evaluate_dict(const Expr& e);
  Arguments evaluate_args(const Args& args);
  const List* iterate(uint32_t at, Value value);  // what a for loop sees; null: failed
  bool spend(uint32_t at, uint64_t steps);        // false: a limit is reached or an error is set
  bool failed() const { return !status_.is_ok(); }
  Value fail(uint32_t at, const std::string& message);  // INVALID, kTemplateError
  Value unsupported(uint32_t at, const std::string& construct);
  Value limit(uint32_t at, const std::string& what);
  Value type_error(uint32_t at, const std::string& what, Value value);
  Value text(std::string_view s) { return Value::of(arena_->copy(s)); }
  std::string describe(Value v) const;
  std::string str(uint32_t at, Value v);  // Python's str(); fails for what is not printed
  // Python raises on undefined in most places: true if it did.
  bool undefined(uint32_t at, Value v);

  // template_operators.cc
  Value evaluate_binary(const Expr& e);
  Value apply(Op op, uint32_t at, Value a, Value b);
  Value arithmetic(Op op, uint32_t at, Value a, Value b);
  Value divide(Op op, uint32_t at, Value a, Value b);
  Value repeat(uint32_t at, Value sequence, int64_t count);
  bool compare(Op op, uint32_t at, Value a, Value b);
  bool contains(uint32_t at, Value container, Value item);
  Value negate(uint32_t at, Value v);
  Value attribute(uint32_t at, Value v, std::string_view name);
  Value item(uint32_t at, Value v, Value key);
  Value slice(const Link& link, Value v);

  // template_calls.cc
  Value call_global(const Link& link, std::string_view name, const Arguments& args);
  Value call_method(uint32_t at, Value self, std::string_view name, const Arguments& args);
  Value string_method(uint32_t at, std::string_view s, std::string_view name, const Arguments& args);
  Value dict_method(uint32_t at, const Dict& dict, std::string_view name, const Arguments& args);
  Value split(uint32_t at, std::string_view s, const Arguments& args);
  Value range(uint32_t at, const Arguments& args);
  Value make_namespace(uint32_t at, const Arguments& args);
  Value change_case(uint32_t at, std::string_view s, std::string_view how);
  Value replace(uint32_t at, std::string_view s, std::string_view from, std::string_view to, int64_t count);
  bool has_prefix(uint32_t at, std::string_view s, Value prefix, bool suffix);
  Value dict_items(const Dict& dict, ListForm form, bool keys, bool values);
  bool expect_args(uint32_t at, std::string_view what, const Arguments& args, size_t min, size_t max);

  // template_filters.cc
  Value filter(const Link& link, Value v, const Arguments& args);
  Value text_filter(const Link& link, Value v, const Arguments& args);
  Value sequence_filter(const Link& link, Value v, const Arguments& args);
  Value join(uint32_t at, Value v, const Arguments& args);
  Value select(const Link& link, Value v, const Arguments& args);
  Value map(const Link& link, Value v, const Arguments& args);
  Value to_json(uint32_t at, Value v, const Arguments& args);
  Value to_number(const Link& link, Value v, const Arguments& args);
  Value length(uint32_t at, Value v);
  bool test(uint32_t at, std::string_view name, Value v, const Arguments& args);

  std::string_view source_;
  Arena* arena_;
  Status status_;
  uint64_t steps_ = 0;
  std::vector<Variable> variables_;  // all scopes in a row, the innermost last
  size_t scope_ = 0;                 // where the innermost one begins
  uint32_t loop_depth_ = 0;
  std::string output_;
  std::string* out_ = &output_;
};

// The code points of a text, as Python counts it.
size_t count_code_points(std::string_view s);
// Python's strip(chars); without chars white space.
std::string_view strip(std::string_view s, const Value* chars, bool left, bool right);

}  // namespace kvrt::jinja
