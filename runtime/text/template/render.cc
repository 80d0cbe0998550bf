// Statements.
#include "runtime/text/template/render.h"

#include "runtime/base/limits.h"
#include "runtime/text/template/lexer.h"

namespace kvrt::jinja {

Renderer::Renderer(std::string_view source, Arena* arena, int64_t now)
    : source_(source), arena_(arena), now_(now), fuel_(kTemplateStepsMax), scope_(open_scope(nullptr)) {}

Result<std::string> Renderer::render(const Body& body) {
  scope_ = open_scope(scope_);
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
Value Renderer::heap_limit(uint32_t at) {
  if (arena_->deep()) return limit(at, "values nested deeper than " + std::to_string(kTemplateValueDepthMax));
  return limit(at, "needs more than the heap limit of " + std::to_string(kTemplateHeapBytesMax) + " bytes");
}
Value Renderer::type_error(uint32_t at, const std::string& what, Value value) {
  return undefined(at, value) ? Value() : fail(at, what + " " + type_name(value));
}
bool Renderer::undefined(uint32_t at, Value v) {
  if (v.is(Kind::kUndefined)) fail(at, "'" + (v.size == 0 ? "value" : own(v.str())) + "' is undefined");
  return v.is(Kind::kUndefined);
}

bool Renderer::spend(uint32_t at, uint64_t steps) {
  if (failed()) return false;
  if (steps >= fuel_) {
    fuel_ = 0;
    limit(at, "more than " + std::to_string(kTemplateStepsMax) + " steps");
  } else if (arena_->full()) {
    heap_limit(at);
  } else {
    fuel_ -= steps;
  }
  return !failed();
}

List* Renderer::make_list() { return create<List>(arena_); }
Value Renderer::text(std::string_view s) { return Value::of(s.empty() ? std::string_view("") : arena_->copy(s)); }

bool Renderer::too_deep(uint32_t at) {
  if (depth_ > kTemplateCallsMax) limit(at, "nested deeper than " + std::to_string(kTemplateCallsMax) + " calls");
  return failed();
}

Renderer::Flow Renderer::run(const Body& body) {
  Nested nested(this);
  for (const Node& node : body) {
    if (!spend(node.at, 1) || too_deep(node.at)) break;
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
      return run_if(node);
    case Node::kFor:
      return run_for(node);
    case Node::kSet:
      bind(node.target, node.at, evaluate(*node.expr));
      return Flow::kNext;
    case Node::kSetBlock:
    case Node::kFilterBlock:
    case Node::kScope:
      return run_block(node);
    case Node::kWith:
      return run_with(node);
    case Node::kMacro:
      assign(node.signature->name, make_macro(node));
      return Flow::kNext;
    case Node::kCallBlock:
      run_call_block(node);
      return Flow::kNext;
    case Node::kBreak:
      return Flow::kBreak;
    case Node::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNext;
}

Renderer::Flow Renderer::run_if(const Node& node) {
  for (const Branch& branch : node.branches) {
    if (branch.condition != nullptr && !truth(evaluate(*branch.condition))) continue;
    return failed() ? Flow::kNext : run(branch.body);
  }
  return Flow::kNext;
}

// A body with a scope of its own; a set block and a filter block take its text.
Renderer::Flow Renderer::run_block(const Node& node) {
  size_t begin = output_.size();
  Scope* outer = scope_;
  scope_ = open_scope(outer);
  Flow flow = scope_ == nullptr ? Flow::kNext : run(node.branches[0].body);
  scope_ = outer;
  if (node.kind == Node::kScope || !spend(node.at, 1)) return flow;
  Value body = captured(node.at, begin);
  if (node.expr != nullptr) {
    std::swap(body_, body);
    Value filtered = evaluate(*node.expr);
    std::swap(body_, body);
    body = filtered;
  }
  if (node.kind == Node::kSetBlock) {
    bind(node.target, node.at, body);
  } else {
    print(node.at, body);
  }
  return flow;
}

Renderer::Flow Renderer::run_with(const Node& node) {
  Scope* outer = scope_;
  Scope* inner = open_scope(outer);
  Flow flow = Flow::kNext;
  for (size_t i = 0; i < node.names.size() && !failed(); ++i) {
    Value value = evaluate(*node.values[i]);  // sees the variables from before, not its neighbours
    scope_ = inner;
    bind(node.names[i], node.at, value);
    scope_ = outer;
  }
  scope_ = inner;
  if (spend(node.at, 1)) flow = run(node.branches[0].body);
  scope_ = outer;
  return flow;
}

Renderer::Flow Renderer::run_for(const Node& node) {
  Value iterable = evaluate(*node.expr);
  return failed() ? Flow::kNext : run_loop(node, iterable, 1);
}

// The items that pass the loop's condition.
const List* Renderer::keep(const Node& node, const List* items) {
  auto kept = make_list();
  Scope* outer = scope_;
  scope_ = open_scope(outer);
  if (kept == nullptr || scope_ == nullptr) return scope_ = outer, nullptr;
  for (uint32_t i = 0; i < items->size && spend(node.at, 1); ++i) {
    scope_->size = 0;
    bind(node.target, node.at, items->data[i]);
    if (truth(evaluate(*node.filter)) && !failed()) kept->push(arena_, items->data[i]);
  }
  scope_ = outer;
  return kept;
}

Renderer::Flow Renderer::run_loop(const Node& node, Value iterable, uint32_t depth) {
  const List* items = iterate(node.expr->at, iterable);
  if (items != nullptr && node.filter != nullptr) items = keep(node, items);
  Scope* outer = scope_;
  Scope* inner = open_scope(outer);
  auto loop = create<Loop>(arena_);
  if (items == nullptr || loop == nullptr || !spend(node.at, 1)) return Flow::kNext;
  *loop = {items, 0, depth, node.recursive ? &node : nullptr, outer, nullptr};
  uint32_t ran = 0;
  scope_ = inner;
  while (ran < items->size && spend(node.at, 1)) {
    scope_->size = 0;  // each round has its own scope: nothing set in it is seen by the next
    loop->index = ran;
    bind(node.target, node.at, items->data[ran++]);
    assign("loop", Value::of(loop));
    Flow flow = failed() ? Flow::kBreak : run(node.branches[0].body);
    if (flow == Flow::kBreak) break;
  }
  Flow flow = Flow::kNext;
  if (ran == 0 && node.branches.size() > 1 && !failed()) {
    scope_->size = 0;
    flow = run(node.branches[1].body);
  }
  scope_ = outer;
  return flow;
}

// loop(items) in a recursive loop: the loop again, as a text.
Value Renderer::render_loop(uint32_t at, const Loop& loop, Value iterable) {
  if (loop.node == nullptr) return fail(at, "the loop is not recursive");
  size_t begin = output_.size();
  Scope* outer = scope_;
  scope_ = loop.scope;
  run_loop(*loop.node, iterable, loop.depth + 1);
  scope_ = outer;
  return captured(at, begin);
}

void Renderer::write(uint32_t at, std::string_view s) {
  if (failed()) return;
  if (s.size() > kTemplateOutputBytesMax - output_.size()) {
    limit(at, "more than " + std::to_string(kTemplateOutputBytesMax) + " bytes of output");
    return;
  }
  if (s.size() > 256 && !spend(at, s.size() / 256)) return;
  output_.append(s);
}

Value Renderer::captured(uint32_t at, size_t begin) {
  if (!spend(at, (output_.size() - begin) / 256)) return {};
  Value body = text(std::string_view(output_).substr(begin));
  output_.resize(begin);
  return body;
}

std::string_view Renderer::str(uint32_t at, Value v) {
  if (v.is(Kind::kString)) return v.str();
  TextBuilder out(arena_);
  if (!append_str(v, &out)) {
    bool lazy = v.is_sequence() && v.list->form != ListForm::kPlain, container = v.is_sequence() || v.is(Kind::kDict);
    unsupported(at, lazy ? "printing a generator, view or range"
                         : std::string(container ? "printing what is in this " : "printing a ") + type_name(v));
    return {};
  }
  spend(at, out.view().size() / 256);
  return out.value().str();
}

void Renderer::print(uint32_t at, Value value) {
  if (failed()) return;
  std::string_view s = str(at, value);
  if (!failed()) write(at, s);
}

const List* Renderer::iterate(uint32_t at, Value value) {
  if (failed()) return nullptr;
  if (value.is_sequence() && value.list->form != ListForm::kGenerator) return value.list;
  auto items = make_list();
  if (items == nullptr) return spend(at, 0), nullptr;
  if (value.is_sequence()) {
    *items = *value.list;
    items->form = ListForm::kPlain;
    *value.list = List();  // taken
    value.list->form = ListForm::kGenerator;
  } else if (value.is(Kind::kDict)) {
    for (uint32_t i = 0; i < value.dict->size; ++i) items->push(arena_, value.dict->data[i].key);
  } else if (value.is(Kind::kString)) {
    for (std::string_view s = value.str(); !s.empty();) {
      size_t n = 1;
      while (n < s.size() && (static_cast<unsigned char>(s[n]) & 0xC0) == 0x80) ++n;
      items->push(arena_, Value::of(s.substr(0, n)));
      s.remove_prefix(n);
    }
  } else if (!value.is(Kind::kUndefined)) {
    return fail(at, std::string(type_name(value)) + " is not iterable"), nullptr;
  }
  return spend(at, items->size / 16) ? items : nullptr;
}

}  // namespace kvrt::jinja
