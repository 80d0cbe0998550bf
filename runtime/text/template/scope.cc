// Variables, macros and call blocks.
#include <algorithm>

#include "runtime/text/template/render.h"

namespace kvrt::jinja {

Scope* Renderer::open_scope(Scope* parent) {
  auto scope = create<Scope>(arena_);
  if (scope != nullptr) scope->parent = parent;
  return scope;
}

void Renderer::assign(std::string_view name, Value value) {
  if (scope_ == nullptr || failed()) return;
  Scope& scope = *scope_;
  for (uint32_t i = 0; i < scope.size; ++i) {
    if (scope.data[i].name == name) return void(scope.data[i].value = value);
  }
  if (scope.size == scope.capacity) {
    uint32_t larger = scope.capacity == 0 ? 4 : scope.capacity * 2;
    auto fresh = static_cast<Variable*>(arena_->allocate(larger * sizeof(Variable), alignof(Variable)));
    if (fresh == nullptr) return;
    std::copy(scope.data, scope.data + scope.size, fresh);
    scope.data = fresh;
    scope.capacity = larger;
  }
  scope.data[scope.size++] = {name, value};
  fuel_ -= std::min<uint64_t>(fuel_, scope.size / 16);
}

// A template that makes many variables pays for looking through them.
Value Renderer::lookup(std::string_view name) {
  uint64_t seen = 0;
  for (const Scope* scope = scope_; scope != nullptr; scope = scope->parent) {
    for (uint32_t i = 0; i < scope->size; ++i) {
      if (scope->data[i].name != name) continue;
      fuel_ -= std::min(fuel_, (seen + i) / 16);
      return scope->data[i].value;
    }
    seen += scope->size + 1;
  }
  fuel_ -= std::min(fuel_, seen / 16);
  const Builtin* function = find_function(name);
  if (function == nullptr) return Value::undefined(name);
  auto value = create<Function>(arena_);
  if (value != nullptr) *value = {function->name, nullptr, nullptr, function, {}};
  return Value::of(value);
}

void Renderer::bind(const Target& target, uint32_t at, Value value) {
  if (failed()) return;
  if (!target.attribute.empty()) {
    Value space = lookup(target.name);
    if (!space.is(Kind::kNamespace)) return void(fail(at, "'" + target.name + "' is not a namespace"));
    return space.space->values.set(arena_, Value::of(std::string_view(target.attribute)), value);
  }
  if (!target.tuple) return assign(target.name, value);
  const List* items = iterate(at, value);
  if (items == nullptr) return;
  if (items->size != target.parts.size()) {
    return void(fail(at, "expected " + std::to_string(target.parts.size()) + " values to unpack, found " + std::to_string(items->size)));
  }
  for (size_t i = 0; i < target.parts.size(); ++i) bind(target.parts[i], at, items->data[i]);
}

Value Renderer::make_macro(const Node& node) {
  auto macro = create<Function>(arena_);
  if (macro != nullptr) *macro = {node.signature->name, &node, scope_, nullptr, {}};
  return Value::of(macro);
}

// The call at the end of the expression gets the block as its argument `caller`.
void Renderer::run_call_block(const Node& node) {
  Value block = make_macro(node);
  print(node.at, evaluate_chain(*node.expr, &block));
}

Value Renderer::call_macro(uint32_t at, const Function& macro, Arguments args) {
  size_t begin = output_.size();
  Scope* outer = scope_;
  scope_ = open_scope(macro.scope);
  const Signature& signature = *macro.macro->signature;
  if (spend(at, 1) && bind_parameters(at, signature, &args) && bind_rest(at, signature, &args)) run(macro.macro->branches[0].body);
  scope_ = outer;
  return captured(at, begin);
}

bool Renderer::bind_parameters(uint32_t at, const Signature& signature, Arguments* args) {
  size_t count = signature.parameters.size(), plain = count - signature.defaults.size();
  for (size_t i = 0; i < count && spend(at, 1); ++i) {
    const std::string& name = signature.parameters[i];
    auto named = std::find_if(args->named.begin(), args->named.end(), [&](const auto& arg) { return arg.first == name; });
    Value value = Value::undefined(name);
    if (i < args->list.size()) {
      value = args->list[i];
    } else if (named != args->named.end()) {
      value = named->second;
      args->named.erase(named);
    } else if (i >= plain) {
      value = evaluate(*signature.defaults[i - plain]);
    }
    assign(name, value);
  }
  args->list.erase(args->list.begin(), args->list.begin() + static_cast<ptrdiff_t>(std::min(count, args->list.size())));
  return !failed();
}

// Binds the arguments left after the parameters: the block of a call, and those that the macro takes as varargs and kwargs.
bool Renderer::bind_rest(uint32_t at, const Signature& signature, Arguments* args) {
  auto block = std::find_if(args->named.begin(), args->named.end(), [](const auto& arg) { return arg.first == "caller"; });
  if (signature.caller) {
    bool given = block != args->named.end();
    assign("caller", given ? block->second : Value::undefined("caller"));
    if (given) args->named.erase(block);
  }
  if (!args->named.empty() && !signature.kwargs)
    return fail(at, "macro '" + signature.name + "' takes no argument '" + own(args->named[0].first) + "'"), false;
  if (!args->list.empty() && !signature.varargs) return fail(at, "too many arguments for macro '" + signature.name + "'"), false;
  if (signature.kwargs) {
    auto rest = create<Dict>(arena_);
    for (const auto& [name, value] : args->named) {
      if (rest != nullptr) set(at, rest, Value::of(name), value);
    }
    assign("kwargs", Value::of(rest));
  }
  if (signature.varargs) {
    auto rest = make_list();
    for (Value value : args->list) {
      if (rest != nullptr) rest->push(arena_, value);
    }
    assign("varargs", Value::of(rest, Kind::kTuple));
  }
  return spend(at, 1);
}

}  // namespace kvrt::jinja
