// Filters of sequences: their items, lengths and parts.
#include <algorithm>

#include "runtime/text/template/select.h"
#include "runtime/text/template/text.h"

namespace kvrt::jinja {

namespace {

Value length(Renderer& r, const Call& c) {
  Value v = c.self;
  auto number = [](size_t n) { return Value::of(static_cast<int64_t>(n)); };
  if (v.is(Kind::kUndefined)) return number(0);
  if (v.is(Kind::kString)) return r.spend(c.at, v.size / 64) ? number(count_code_points(v.str())) : Value();
  if (v.is(Kind::kDict)) return number(v.dict->size);
  if (v.is(Kind::kLoop)) return number(v.loop->items->size);
  if (v.is_sequence() && v.list->form != ListForm::kGenerator) return number(v.list->size);
  return r.fail(c.at, std::string("no length: ") + (v.is_sequence() ? "generator" : type_name(v)));
}

Value first(Renderer& r, const Call& c) {
  if (c.self.is_sequence() && c.self.list->form == ListForm::kGenerator && c.self.list->size > 0) {  // takes one
    --c.self.list->size;
    c.self.list->capacity = 0;
    return *c.self.list->data++;
  }
  const List* items = r.iterate(c.at, c.self);
  if (items == nullptr) return {};
  return items->size > 0 ? items->data[0] : Value::undefined("no first item, sequence was empty");
}

// Python's reversed(): false for a value that has no end to begin at.
bool reversible(Value v) {
  if (v.is_sequence()) return v.list->form != ListForm::kGenerator;
  return v.is(Kind::kString) || v.is(Kind::kDict) || v.is(Kind::kUndefined);
}

Value last(Renderer& r, const Call& c) {
  if (!reversible(c.self))
    return r.fail(c.at, std::string("no last item of a ") + (c.self.is_sequence() ? "generator" : type_name(c.self)));
  const List* items = r.iterate(c.at, c.self);
  if (items == nullptr) return {};
  return items->size > 0 ? items->data[items->size - 1] : Value::undefined("no last item, sequence was empty");
}

Value list(Renderer& r, const Call& c) {
  const List* items = r.iterate(c.at, c.self);
  auto out = r.make_list();
  if (items == nullptr || out == nullptr || !r.spend(c.at, items->size / 16)) return {};
  for (uint32_t i = 0; i < items->size; ++i) out->push(r.arena(), items->data[i]);
  return Value::of(out);
}

Value reverse(Renderer& r, const Call& c) {
  const List* items = r.iterate(c.at, c.self);
  if (items == nullptr || !r.spend(c.at, items->size / 16)) return {};
  if (c.self.is(Kind::kString)) {
    TextBuilder out(r.arena());
    for (uint32_t i = items->size; i > 0; --i) out.append(items->data[i - 1].str());
    return out.value();
  }
  auto out = r.make_list();
  for (uint32_t i = items->size; i > 0 && out != nullptr; --i) out->push(r.arena(), items->data[i - 1]);
  return reversible(c.self) ? Value::generator(out) : Value::of(out);
}

Value items(Renderer& r, const Call& c) {
  if (c.self.is(Kind::kUndefined)) return Value::generator(r.make_list());
  if (!c.self.is(Kind::kDict)) return r.fail(c.at, "items needs a mapping");
  Value all = r.call(c.at, r.attribute(c.at, c.self, "items"), {});
  if (r.failed()) return {};
  return Value::generator(all.list);
}

Value join(Renderer& r, const Call& c) {
  std::string_view between = c.has(0) ? r.str(c.at, c[0]) : "";
  const List* items = r.iterate(c.at, c.self);
  TextBuilder out(r.arena());
  if (items == nullptr) return {};
  for (uint32_t i = 0; i < items->size && r.spend(c.at, 1 + between.size() / 256); ++i) {
    if (i > 0) out.append(between);
    Value item = c.given(1) ? member(r, c.at, items->data[i], c[1]) : items->data[i];
    size_t before = out.view().size();
    if (item.is(Kind::kString) || item.is_number() || item.is(Kind::kUndefined)) {
      append_str(item, &out);  // straight to where the text grows
    } else {
      out.append(r.str(c.at, item));
    }
    r.spend(c.at, (out.view().size() - before) / 256);
  }
  return r.failed() ? Value() : out.value();
}

Value sum(Renderer& r, const Call& c) {
  Value total = c.has(1) ? c[1] : Value::of(int64_t{0});
  if (total.is(Kind::kString)) return r.fail(c.at, "sum of strings");
  const List* items = r.iterate(c.at, c.self);
  if (items == nullptr) return {};
  for (uint32_t i = 0; i < items->size && r.spend(c.at, 1); ++i)
    total = r.apply(Op::kAdd, c.at, total, c.given(0) ? member(r, c.at, items->data[i], c[0]) : items->data[i]);
  return total;
}

Value batch(Renderer& r, const Call& c) {
  int64_t count = 0;
  if (!whole_number(r, c, 0, &count)) return {};
  const List* items = r.iterate(c.at, c.self);
  auto out = r.make_list(), part = r.make_list();
  if (items == nullptr || out == nullptr || part == nullptr) return {};
  for (uint32_t i = 0; i < items->size && r.spend(c.at, 1); ++i) {
    if (part->size == count) {
      out->push(r.arena(), Value::of(part));
      part = r.make_list();
      if (part == nullptr) return r.heap_limit(c.at);
    }
    part->push(r.arena(), items->data[i]);
  }
  while (part->size > 0 && c.given(1) && part->size < count && r.spend(c.at, 1)) part->push(r.arena(), c[1]);
  if (part->size > 0) out->push(r.arena(), Value::of(part));
  return r.failed() ? Value() : Value::generator(out);
}

Value slice(Renderer& r, const Call& c) {
  int64_t slices = 0;
  if (!whole_number(r, c, 0, &slices)) return {};
  const List* items = r.iterate(c.at, c.self);
  auto out = r.make_list();
  if (items == nullptr || out == nullptr) return {};
  if (slices == 0) return r.fail(c.at, "slice: division by zero");
  int64_t each = items->size / slices, extra = items->size % slices;
  uint32_t at = 0;
  for (int64_t n = 0; n < slices && r.spend(c.at, 2); ++n) {
    auto part = r.make_list();
    if (part == nullptr) return r.heap_limit(c.at);
    for (int64_t end = at + each + (n < extra); at < end && r.spend(c.at, 1); ++at) part->push(r.arena(), items->data[at]);
    if (c.given(1) && n >= extra) part->push(r.arena(), c[1]);
    out->push(r.arena(), Value::of(part));
  }
  return r.failed() ? Value() : Value::generator(out);
}

Value attr(Renderer& r, const Call& c) {
  if (!c[0].is(Kind::kString)) return r.type_error(c.at, "attr: expected a string, found", c[0]);
  if (r.undefined(c.at, c.self)) return {};
  bool key = c.self.is(Kind::kDict) && find_method(c.self, c[0].str()) == nullptr;  // keys are no attributes
  return key ? Value::undefined(c[0].str()) : r.attribute(c.at, c.self, c[0].str());
}

constexpr Builtin kSequenceFilters[] = {{"length", "", 0, length, Markup::kTake},
                                        {"count", "", 0, length, Markup::kTake},
                                        {"first", "", 0, first},
                                        {"last", "", 0, last},
                                        {"list", "", 0, list},
                                        {"reverse", "", 0, reverse},
                                        {"items", "", 0, items},
                                        {"join", "d attribute", 0, join},
                                        {"sum", "attribute start", 0, sum},
                                        {"batch", "linecount fill_with", 1, batch},
                                        {"slice", "slices fill_with", 1, slice},
                                        {"attr", "name", 1, attr},
                                        {"random", "*", 0, nullptr}};

}  // namespace

std::span<const Builtin> sequence_filters() { return kSequenceFilters; }

}  // namespace kvrt::jinja
