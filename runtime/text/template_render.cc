#include "runtime/text/template_render.h"

#include "runtime/base/limits.h"
#include "runtime/text/template_lexer.h"

namespace kvrt::jinja {

Result<std::string> Renderer::render(const Body& body) {
  scope_ = variables_.size();
  run(body);
  if (failed()) return std::move(status_);
  return std::move(output_);
}

Value Renderer::fail(uint32_t at, const std::string& message) {
  if (!failed()) status_ = error_at(source_, at, Code::kInvalid, Detail::kTemplateError, message);
  return {};
}
Value Renderer::unsupported(uint32_t at, const std::string& construct) {
  if (!failed()) status_ = error_at(source_, at, Code::kUnsupported, Detail::kNone, construct + " is not supported");
  return {};
}
Value Renderer::limit(uint32_t at, const std::string& what) {
  if (!failed()) status_ = error_at(source_, at, Code::kLimit, Detail::kTemplateLimit, what);
  return {};
}
Value Renderer::type_error(uint32_t at, const std::string& what, Value value) {
  return undefined(at, value) ? Value() : fail(at, what + " " + type_name(value));
}
std::string Renderer::describe(Value v) const { return "'" + std::string(v.size == 0 ? "value" : v.str()) + "'"; }
bool Renderer::undefined(uint32_t at, Value v) {
  if (v.is(Kind::kUndefined)) fail(at, describe(v) + " is undefined");
  return v.is(Kind::kUndefined);
}

bool Renderer::spend(uint32_t at, uint64_t steps) {
  if (failed()) return false;
  steps_ += steps;
  if (steps_ > kTemplateStepsMax) limit(at, "more than " + std::to_string(kTemplateStepsMax) + " steps");
  if (arena_->full()) limit(at, "needs more than the heap limit of " + std::to_string(kTemplateHeapBytesMax) + " bytes");
  return !failed();
}

Renderer::Flow Renderer::run(const Body& body) {
  for (const Node& node : body) {
    if (!spend(node.at, 1)) break;
    Flow flow = run_node(node);
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Renderer::Flow Renderer::run_node(const Node& node) {
  switch (node.kind) {
    case Node::kText:
      write(node.at, node.text);
      return Flow::kNext;
    case Node::kOutput:
      print(node.at, evaluate(*node.expr));
      return Flow::kNext;
    case Node::kIf:
      for (const Branch& branch : node.branches) {
        if (branch.condition != nullptr && !truth(evaluate(*branch.condition))) continue;
        return failed() ? Flow::kNext : run(branch.body);
      }
      return Flow::kNext;
    case Node::kFor:
      return run_for(node);
    case Node::kSet:
      bind(node.target, node.at, evaluate(*node.expr));
      return Flow::kNext;
    case Node::kSetBlock:
    case Node::kScope: {
      std::string captured;
      std::string* outer = out_;
      size_t outer_scope = scope_;
      if (node.kind == Node::kSetBlock) out_ = &captured;
      scope_ = variables_.size();
      Flow flow = run(node.branches[0].body);
      variables_.resize(scope_);
      scope_ = outer_scope;
      out_ = outer;
      if (node.kind == Node::kSetBlock && spend(node.at, 1)) bind(node.target, node.at, text(captured));
      return flow;
    }
    case Node::kBreak:
      return Flow::kBreak;
    case Node::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNext;
}

Renderer::Flow Renderer::run_for(const Node& node) {
  const List* items = iterate(node.expr->at, evaluate(*node.expr));
  if (items == nullptr) return Flow::kNext;
  size_t outer_scope = scope_;
  scope_ = variables_.size();
  if (node.filter != nullptr) {
    auto kept = create<List>(arena_);
    for (uint32_t i = 0; i < items->size && spend(node.at, 1); ++i) {
      bind(node.target, node.at, items->data[i]);
      if (truth(evaluate(*node.filter))) kept->push(arena_, items->data[i]);
      variables_.resize(scope_);
    }
    items = kept;
  }
  auto loop = create<Loop>(arena_);
  uint32_t ran = 0;
  ++loop_depth_;
  while (spend(node.at, 1) && ran < items->size) {
    *loop = {items, ran, loop_depth_};
    Value loop_value;
    loop_value.kind = Kind::kLoop;
    loop_value.loop = loop;
    assign("loop", loop_value);
    bind(node.target, node.at, items->data[ran++]);
    Flow flow = failed() ? Flow::kBreak : run(node.branches[0].body);
    variables_.resize(scope_);  // each round has its own scope: nothing set in it is seen by the next
    if (flow == Flow::kBreak) break;
  }
  --loop_depth_;
  Flow flow = Flow::kNext;
  if (ran == 0 && node.branches.size() > 1 && !failed()) flow = run(node.branches[1].body);
  variables_.resize(scope_);
  scope_ = outer_scope;
  return flow;
}

void Renderer::bind(const Target& target, uint32_t at, Value value) {
  if (failed()) return;
  if (!target.attribute.empty()) {
    Value space = lookup(target.names[0]);
    if (!space.is(Kind::kNamespace)) return void(fail(at, "'" + target.names[0] + "' is not a namespace"));
    return space.space->values.set(arena_, text(target.attribute), value);
  }
  if (!target.tuple) return assign(target.names[0], value);
  const List* items = iterate(at, value);
  if (items == nullptr) return;
  if (items->size != target.names.size()) {
    return void(fail(at, "expected " + std::to_string(target.names.size()) + " values to unpack, found " + std::to_string(items->size)));
  }
  for (size_t i = 0; i < target.names.size(); ++i) assign(target.names[i], items->data[i]);
}

void Renderer::assign(std::string_view name, Value value) {
  for (size_t i = variables_.size(); i > scope_; --i) {
    if (variables_[i - 1].name == name) return void(variables_[i - 1].value = value);
  }
  variables_.push_back({name, value});
}

Value Renderer::lookup(std::string_view name) const {
  for (size_t i = variables_.size(); i > 0; --i) {
    if (variables_[i - 1].name == name) return variables_[i - 1].value;
  }
  return Value::undefined(name);
}

void Renderer::write(uint32_t at, std::string_view s) {
  if (s.size() > kTemplateOutputBytesMax - out_->size()) {
    limit(at, "more than " + std::to_string(kTemplateOutputBytesMax) + " bytes of output");
    return;
  }
  out_->append(s);
}

std::string Renderer::str(uint32_t at, Value v) {
  if (v.is(Kind::kNamespace) || v.is(Kind::kLoop) || (v.is_sequence() && v.list->form != ListForm::kPlain)) {
    unsupported(at, std::string("printing a ") + (v.is_sequence() ? "generator or view" : type_name(v)));
    return {};
  }
  std::string s;
  append_str(v, &s);
  spend(at, s.size() / 256);
  return s;
}

void Renderer::print(uint32_t at, Value value) {
  if (failed()) return;
  if (value.is(Kind::kString)) return write(at, value.str());
  std::string s = str(at, value);
  if (!failed()) write(at, s);
}

const List* Renderer::iterate(uint32_t at, Value value) {
  if (failed()) return nullptr;
  if (value.is_sequence()) return value.list;
  auto items = create<List>(arena_);
  if (items == nullptr) return spend(at, 0), nullptr;
  if (value.is(Kind::kUndefined)) return items;
  if (value.is(Kind::kDict)) {
    for (uint32_t i = 0; i < value.dict->size; ++i) items->push(arena_, value.dict->data[i].key);
  } else if (value.is(Kind::kString)) {
    for (std::string_view s = value.str(); !s.empty();) {
      size_t n = 1;
      while (n < s.size() && (static_cast<unsigned char>(s[n]) & 0xC0) == 0x80) ++n;
      items->push(arena_, Value::of(s.substr(0, n)));
      s.remove_prefix(n);
    }
  } else {
    return fail(at, std::string(type_name(value)) + " is not iterable"), nullptr;
  }
  return spend(at, items->size / 16) ? items : nullptr;
}

Value Renderer::evaluate(const Expr& e) {
  if (!spend(e.at, 1)) return {};
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
    case Expr::kChain:
      return evaluate_chain(e);
    case Expr::kBinary:
      return evaluate_binary(e);
    case Expr::kDict:
      return evaluate_dict(e);
    case Expr::kNot:
      return Value::of(!truth(evaluate(*e.kids[0])));
    case Expr::kNegative:
    case Expr::kPositive: {
      Value v = evaluate(*e.kids[0]);
      if (failed()) return {};
      if (!v.is_number()) return type_error(e.at, "bad operand of a sign:", v);
      return e.kind == Expr::kNegative ? negate(e.at, v) : v.is(Kind::kBool) ? Value::of(v.as_int()) : v;
    }
    case Expr::kInlineIf:
      if (truth(evaluate(*e.kids[1]))) return evaluate(*e.kids[0]);
      return e.kids[2] != nullptr ? evaluate(*e.kids[2]) : Value::undefined("inline if without else");
    case Expr::kList:
    case Expr::kTuple: {
      auto list = create<List>(arena_);
      for (const ExprPtr& kid : e.kids) {
        Value v = evaluate(*kid);
        if (failed() || list == nullptr) return {};
        list->push(arena_, v);
      }
      if (list != nullptr && list->depth > 2 * kTemplateDepthMax)
        return limit(e.at, "values nested deeper than " + std::to_string(2 * kTemplateDepthMax));
      return Value::of(list, e.kind == Expr::kList ? Kind::kList : Kind::kTuple);
    }
  }
  return {};
}

Value Renderer::evaluate_dict(const Expr& e) {
  auto dict = create<Dict>(arena_);
  for (size_t i = 0; i + 1 < e.kids.size(); i += 2) {
    Value key = evaluate(*e.kids[i]), value = evaluate(*e.kids[i + 1]);
    if (failed() || dict == nullptr) return {};
    if (!key.is_number() && !key.is(Kind::kString) && !key.is(Kind::kNone))
      return unsupported(e.kids[i]->at, std::string("a key of type ") + type_name(key));
    dict->set(arena_, key, value);
  }
  if (dict != nullptr && dict->depth > 2 * kTemplateDepthMax)
    return limit(e.at, "values nested deeper than " + std::to_string(2 * kTemplateDepthMax));
  return Value::of(dict);
}

Renderer::Arguments Renderer::evaluate_args(const Args& args) {
  Arguments out;
  for (const ExprPtr& arg : args.list) out.list.push_back(evaluate(*arg));
  for (const auto& [name, arg] : args.named) out.named.emplace_back(name, evaluate(*arg));
  return out;
}

const Value* Renderer::Arguments::get(size_t i, std::string_view name) const {
  if (i < list.size()) return &list[i];
  for (const auto& [given, value] : named) {
    if (given == name) return &value;
  }
  return nullptr;
}

Value Renderer::evaluate_chain(const Expr& e) {
  const Expr& base = *e.kids[0];
  size_t i = 0;
  Value v;
  bool global = base.kind == Expr::kName && e.links[0].kind == Link::kCall && lookup(base.text).is(Kind::kUndefined);
  if (global) {
    Arguments args = evaluate_args(e.links[0].args);
    if (!failed()) v = call_global(e.links[0], base.text, args);
    i = 1;
  } else {
    v = evaluate(base);
  }
  for (; i < e.links.size() && spend(e.links[i].at, 1); ++i) {
    const Link& link = e.links[i];
    if (link.kind == Link::kAttribute && i + 1 < e.links.size() && e.links[i + 1].kind == Link::kCall) {
      Arguments args = evaluate_args(e.links[++i].args);
      if (!failed()) v = call_method(link.at, v, link.name, args);
      continue;
    }
    if (link.kind == Link::kAttribute) {
      v = attribute(link.at, v, link.name);
    } else if (link.kind == Link::kSlice) {
      v = slice(link, v);
    } else if (link.kind == Link::kCall) {
      if (!undefined(link.at, v)) fail(link.at, std::string(type_name(v)) + " is not callable");
    } else {
      Arguments args = evaluate_args(link.args);
      if (failed()) break;
      if (link.kind == Link::kItem) v = item(link.at, v, args.list[0]);
      if (link.kind == Link::kFilter) v = filter(link, v, args);
      if (link.kind == Link::kTest) v = Value::of(test(link.at, link.name, v, args) != link.negated);
    }
  }
  return v;
}

}  // namespace kvrt::jinja
