// Expressions and calls.
#include <algorithm>

#include "runtime/text/template/render.h"

namespace kvrt::jinja {

Value Renderer::evaluate(const Expr& e) {
  Nested nested(this);
  if (!spend(e.at, 1) || too_deep(e.at)) return {};
  switch (e.kind) {
    case Expr::kText:
      return Value::of(std::string_view(e.text));
    case Expr::kInt:
      return Value::of(e.integer);
    case Expr::kFloat:
      return Value::of(e.real);
    case Expr::kBool:
      return Value::of(e.integer != 0);
    case Expr::kNone:
      return Value::none();
    case Expr::kName:
      return lookup(e.text);
    case Expr::kBody:
      return body_;
    case Expr::kChain:
      return evaluate_chain(e);
    case Expr::kBinary:
      return evaluate_binary(e);
    case Expr::kDict:
      return evaluate_dict(e);
    case Expr::kNot:
      return Value::of(!truth(evaluate(*e.kids[0])));
    case Expr::kNegative:
    case Expr::kPositive:
      return evaluate_sign(e);
    case Expr::kInlineIf:
      if (truth(evaluate(*e.kids[1]))) return evaluate(*e.kids[0]);
      return e.kids[2] != nullptr ? evaluate(*e.kids[2]) : Value::undefined("inline if without else");
    case Expr::kList:
    case Expr::kTuple:
      return evaluate_list(e);
  }
  return {};
}

Value Renderer::evaluate_sign(const Expr& e) {
  Value v = evaluate(*e.kids[0]);
  if (failed()) return {};
  if (!v.is_number()) return type_error(e.at, "bad operand of a sign:", v);
  if (e.kind == Expr::kPositive) return v.is(Kind::kBool) ? Value::of(v.as_int()) : v;
  return v.is(Kind::kFloat) ? Value::of(-v.real) : apply(Op::kSub, e.at, Value::of(int64_t{0}), v);
}

Value Renderer::evaluate_list(const Expr& e) {
  auto list = make_list();
  for (const ExprPtr& kid : e.kids) {
    Value v = evaluate(*kid);
    if (failed() || list == nullptr) return {};
    list->push(arena_, v);
  }
  return Value::of(list, e.kind == Expr::kList ? Kind::kList : Kind::kTuple);
}

Value Renderer::evaluate_dict(const Expr& e) {
  auto dict = create<Dict>(arena_);
  for (size_t i = 0; i + 1 < e.kids.size(); i += 2) {
    Value key = evaluate(*e.kids[i]), value = evaluate(*e.kids[i + 1]);
    if (failed() || dict == nullptr) return {};
    if (key.is(Kind::kList) || key.is(Kind::kDict)) return fail(e.kids[i]->at, std::string("a key cannot be a ") + type_name(key));
    if (!key.is_number() && !key.is(Kind::kString) && !key.is(Kind::kNone))
      return unsupported(e.kids[i]->at, std::string("a key of type ") + type_name(key));
    set(e.kids[i]->at, dict, key, value);
  }
  return Value::of(dict);
}

Arguments Renderer::evaluate_args(const Args& args) {
  Arguments out;
  out.written = &args;
  out.list.reserve(args.list.size());
  for (const ExprPtr& arg : args.list) out.list.push_back(evaluate(*arg));
  for (const auto& [name, arg] : args.named) out.named.emplace_back(name, evaluate(*arg));
  if (args.star != nullptr) {
    const List* items = iterate(args.star->at, evaluate(*args.star));
    if (items != nullptr) out.list.insert(out.list.end(), items->data, items->data + items->size);
  }
  if (args.double_star != nullptr) spread(args.double_star->at, evaluate(*args.double_star), &out);
  return out;
}

// **dict: its items as named arguments.
void Renderer::spread(uint32_t at, Value value, Arguments* out) {
  if (failed()) return;
  if (!value.is(Kind::kDict)) return void(type_error(at, "** needs a mapping, found", value));
  for (uint32_t i = 0; i < value.dict->size; ++i) {
    const Pair& pair = value.dict->data[i];
    if (!pair.key.is(Kind::kString)) return void(fail(at, "** needs names, found a key of type " + std::string(type_name(pair.key))));
    if (!spend(at, (1 + pair.key.size / 256) * (1 + out->named.size() / 4))) return;
    for (const auto& [name, given] : out->named) {
      if (name == pair.key.str()) return void(fail(at, "the argument '" + own(name) + "' twice"));
    }
    out->named.emplace_back(pair.key.str(), pair.value);
  }
}

// `block`: the argument `caller` that a call block gives to the last call of its chain.
Value Renderer::evaluate_chain(const Expr& e, const Value* block) {
  Value v = evaluate(*e.kids[0]);
  for (size_t i = 0; i < e.links.size() && spend(e.links[i].at, 1); ++i) {
    const Link& link = e.links[i];
    bool method = link.kind == Link::kAttribute && i + 1 < e.links.size() && e.links[i + 1].kind == Link::kCall;
    if (!method && link.kind != Link::kCall) {
      v = follow(link, v);
      continue;
    }
    i += method;
    Arguments args = evaluate_args(e.links[i].args);
    if (block != nullptr && i + 1 == e.links.size()) args.named.emplace_back("caller", *block);
    if (failed()) break;
    v = method ? call_attribute(link.at, v, link.name, std::move(args)) : call(link.at, v, std::move(args));
  }
  return v;
}

Value Renderer::follow(const Link& link, Value v) {
  if (link.kind == Link::kAttribute) return attribute(link.at, v, link.name);
  if (link.kind == Link::kSlice) return slice(link, v);
  Arguments args = evaluate_args(link.args);
  if (failed()) return {};
  if (link.kind == Link::kItem) return item(link.at, v, args.list[0]);
  if (link.kind == Link::kFilter) return apply_filter(link.at, link.name, v, std::move(args));
  return Value::of(apply_test(link.at, link.name, v, std::move(args)) != link.negated);
}

Value Renderer::call_attribute(uint32_t at, Value self, std::string_view name, Arguments args) {
  if (const Builtin* method = find_method(self, name)) return run_builtin(at, *method, type_name(self), self, std::move(args));
  return call(at, attribute(at, self, name), std::move(args));
}

Value Renderer::call(uint32_t at, Value callee, Arguments args) {
  Nested nested(this);
  if (failed() || too_deep(at)) return {};
  if (callee.is(Kind::kLoop)) {
    bool one = args.list.size() == 1 && args.named.empty();
    return one ? render_loop(at, *callee.loop, args.list[0]) : fail(at, "a recursive loop takes one argument");
  }
  if (!callee.is(Kind::kFunction)) {
    return undefined(at, callee) ? Value() : fail(at, std::string(type_name(callee)) + " is not callable");
  }
  const Function& function = *callee.function;
  if (function.macro != nullptr) return call_macro(at, function, std::move(args));
  const char* what = function.self.is(Kind::kUndefined) ? "function" : type_name(function.self);
  return run_builtin(at, *function.builtin, what, function.self, std::move(args));
}

Value Renderer::apply_filter(uint32_t at, std::string_view name, Value v, Arguments args) {
  const Builtin* builtin = find_filter(name);
  if (builtin == nullptr) return fail(at, "there is no filter \"" + own(name) + "\"");
  return run_builtin(at, *builtin, "filter", v, std::move(args));
}

bool Renderer::apply_test(uint32_t at, std::string_view name, Value v, Arguments args) {
  const Builtin* builtin = find_test(name);
  if (builtin == nullptr) return fail(at, "there is no test \"" + own(name) + "\""), false;
  return truth(run_builtin(at, *builtin, "test", v, std::move(args)));
}

Value Renderer::run_builtin(uint32_t at, const Builtin& builtin, const char* what, Value self, Arguments args) {
  if (failed()) return {};
  if (builtin.run == nullptr) return unsupported(at, std::string(what) + " \"" + std::string(builtin.name) + "\"");
  if (builtin.params != "*") {
    std::string wrong = bind_arguments(builtin, &args);
    if (!wrong.empty()) return fail(at, std::string(what) + " \"" + std::string(builtin.name) + "\" " + wrong);
  }
  Call call{at, builtin.name, self, args.list, &args};
  if (self.markup && builtin.markup == Markup::kRefuse)
    return unsupported(at, std::string(what) + " \"" + std::string(builtin.name) + "\" of escaped text");
  Value result = builtin.run(*this, call);
  if (self.markup && builtin.markup == Markup::kKeep) {
    if (result.is(Kind::kString)) result.markup = true;
    for (uint32_t i = 0; result.is_sequence() && i < result.list->size; ++i) result.list->data[i].markup = true;
  }
  return result;
}

// Puts the arguments into the order of the builtin's parameters. Returns their fault, or "" where there is none.
std::string Renderer::bind_arguments(const Builtin& builtin, Arguments* args) const {
  std::string_view params = builtin.params;
  bool positional = params.substr(0, 1) == "/";
  if (positional) params.remove_prefix(std::min<size_t>(2, params.size()));
  size_t count = params.empty() ? 0 : static_cast<size_t>(std::count(params.begin(), params.end(), ' ')) + 1;
  size_t given = args->list.size();
  if (given > count) return "takes " + std::to_string(count) + " arguments, found " + std::to_string(given);
  args->list.resize(count);
  for (const auto& [name, value] : args->named) {
    size_t i = 0;
    for (std::string_view rest = params; i < count && rest.substr(0, rest.find(' ')) != name; ++i)
      rest.remove_prefix(std::min(rest.size(), rest.substr(0, rest.find(' ')).size() + 1));
    if (positional || i == count || i < given) return "takes no argument '" + own(name) + "' here";
    args->list[i] = value;
  }
  Call call{0, builtin.name, {}, args->list, args};
  for (size_t i = 0; i < builtin.required; ++i) {
    if (!call.has(i)) return "needs " + std::to_string(builtin.required) + " arguments";
  }
  return {};
}

}  // namespace kvrt::jinja
