// Renderer: one rendering of a parsed template, with Python's semantics under limits. The first error sticks: every step looks,
// and values made after it are thrown away. One thread, used once.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/status.h"
#include "runtime/text/template/ast.h"
#include "runtime/text/template/builtins.h"
#include "runtime/text/template/print.h"
#include "runtime/text/template/value.h"

namespace kvrt::jinja {

struct Variable {
  std::string_view name;
  Value value;
};

// The variables of a body. A macro sees the scopes it was written in, not those it is called from.
struct Scope {
  Scope* parent = nullptr;
  Variable* data = nullptr;
  uint32_t size = 0, capacity = 0;
};

// A template that runs. Statements, operators, filters and methods all draw on one budget of steps, memory, depth and output: so they share one
// class, whose files are the kinds of node.
class Renderer {
 public:
  // now: Unix seconds for strftime_now.
  Renderer(std::string_view source, Arena* arena, int64_t now);
  void set_global(std::string_view name, Value value) { assign(name, value); }
  Result<std::string> render(const Body& body);

  // ---- what builtins use ----
  Arena* arena() { return arena_; }
  int64_t now() const { return now_; }
  bool failed() const { return !status_.is_ok(); }
  bool spend(uint32_t at, uint64_t steps);              // false: a limit is reached or an error is set
  Value fail(uint32_t at, const std::string& message);  // INVALID, kTemplateError
  Value unsupported(uint32_t at, const std::string& construct);
  // For the text of an error: `text` if it is the template's own, else "...". Texts that a template was given, and those that it made of
  // them, lie in the arena and are in no error.
  std::string own(std::string_view text) const { return std::string(arena_->holds(text.data()) ? "..." : text); }
  Value limit(uint32_t at, const std::string& what);
  Value heap_limit(uint32_t at);
  Value type_error(uint32_t at, const std::string& what, Value value);
  bool undefined(uint32_t at, Value v);           // Python raises on undefined in most places: true if it did
  List* make_list();                              // null: failed
  Value text(std::string_view s);                 // copied
  std::string_view str(uint32_t at, Value v);     // Python's str(); fails for a value that is not printed
  const List* iterate(uint32_t at, Value value);  // the items that a for loop sees; empties a generator; null: failed
  Value attribute(uint32_t at, Value v, std::string_view name);
  Value item(uint32_t at, Value v, Value key);
  // A dict's value, null where it has none, and a new one. A long key has its cost.
  const Value* find(uint32_t at, const Dict& dict, Value key) { return spend(at, key_steps(key)) ? dict.find(key) : nullptr; }
  void set(uint32_t at, Dict* dict, Value key, Value value);
  Value apply(Op op, uint32_t at, Value a, Value b);
  bool compare(Op op, uint32_t at, Value a, Value b);
  bool same(Value a, Value b) { return equal(a, b, &fuel_); }
  int order(uint32_t at, Value a, Value b);  // below, equal, above: -1, 0, 1; fails for values that Python does not order
  Value apply_filter(uint32_t at, std::string_view name, Value v, Arguments args);
  bool apply_test(uint32_t at, std::string_view name, Value v, Arguments args);
  Value call(uint32_t at, Value callee, Arguments args);
  Value run_builtin(uint32_t at, const Builtin& builtin, const char* what, Value self, Arguments args);

 private:
  enum class Flow : uint8_t { kNext, kBreak, kContinue };
  // Counts the depth of the interpreter's own calls while it lives.
  class Nested {
   public:
    explicit Nested(Renderer* renderer) : renderer_(renderer) { ++renderer_->depth_; }
    ~Nested() { --renderer_->depth_; }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;

   private:
    Renderer* renderer_;
  };

  // render.cc
  bool too_deep(uint32_t at);
  Flow run(const Body& body);
  Flow run_node(const Node& node);
  Flow run_if(const Node& node);
  Flow run_for(const Node& node);
  Flow run_loop(const Node& node, Value iterable, uint32_t depth);
  const List* keep(const Node& node, const List* items);
  Flow run_block(const Node& node);
  Flow run_with(const Node& node);
  Value render_loop(uint32_t at, const Loop& loop, Value iterable);
  void print(uint32_t at, Value value);
  void write(uint32_t at, std::string_view text);
  Value captured(uint32_t at, size_t begin);  // takes back the text written since

  // scope.cc
  Scope* open_scope(Scope* parent);
  void assign(std::string_view name, Value value);
  void bind(const Target& target, uint32_t at, Value value);
  Value lookup(std::string_view name);
  Value make_macro(const Node& node);
  void run_call_block(const Node& node);
  Value call_macro(uint32_t at, const Function& macro, Arguments args);
  bool bind_parameters(uint32_t at, const Signature& signature, Arguments* args);
  bool bind_rest(uint32_t at, const Signature& signature, Arguments* args);

  // evaluate.cc
  Value evaluate(const Expr& e);
  Value evaluate_sign(const Expr& e);
  Value evaluate_list(const Expr& e);
  Value evaluate_dict(const Expr& e);
  Value evaluate_chain(const Expr& e, const Value* block = nullptr);
  Value follow(const Link& link, Value v);
  Value call_attribute(uint32_t at, Value self, std::string_view name, Arguments args);
  Arguments evaluate_args(const Args& args);
  void spread(uint32_t at, Value value, Arguments* out);
  std::string bind_arguments(const Builtin& builtin, Arguments* args) const;

  // operators.cc
  Value evaluate_binary(const Expr& e);
  Value concat(uint32_t at, Value a, Value b);
  Value add_texts(uint32_t at, Value a, Value b);
  Value join(uint32_t at, Value a, Value b);
  bool add(uint32_t at, Value a, Value b, Value* sum);
  Value calculate(Op op, uint32_t at, Value a, Value b);
  Value no_operator(Op op, uint32_t at, Value a, Value b);  // fails: Python has none for these values
  Value arithmetic(Op op, uint32_t at, Value a, Value b);
  Value divide(Op op, uint32_t at, Value a, Value b);
  Value power(uint32_t at, Value a, Value b);
  Value whole_power(uint32_t at, int64_t base, int64_t exponent);
  Value repeat(uint32_t at, Value sequence, int64_t count);
  const Value* unhashable(uint32_t at, const Value* v);
  int order_items(uint32_t at, const List& a, const List& b);
  int no_order(uint32_t at, Value a, Value b);
  bool take_until(uint32_t at, List* generator, Value item);
  bool contains(uint32_t at, Value container, Value item);

  // access.cc
  Value loop_attribute(uint32_t at, const Loop& loop, std::string_view name);
  bool slice_bounds(const Link& link, std::optional<int64_t> bounds[3]);
  Value copy_slice(uint32_t at, Value v, int64_t begin, int64_t end, int64_t step);
  Value slice(const Link& link, Value v);

  std::string_view source_;
  Arena* arena_;
  int64_t now_;
  Status status_;
  uint64_t fuel_;
  uint32_t depth_ = 0;
  Scope* scope_;
  Value body_;  // the text of the block whose filters run
  std::string output_;
};

}  // namespace kvrt::jinja
