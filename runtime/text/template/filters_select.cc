// map, and select, reject, selectattr, rejectattr.
#include <algorithm>
#include <charconv>

#include "runtime/text/template/select.h"
#include "runtime/text/template/text.h"

namespace kvrt::jinja {

Value member(Renderer& r, uint32_t at, Value item, Value path, const Value* otherwise) {
  if (!path.is(Kind::kString)) {
    Value found = r.item(at, item, path);
    return otherwise != nullptr && found.is(Kind::kUndefined) ? *otherwise : found;
  }
  for (std::string_view rest = path.str();; rest.remove_prefix(rest.find('.') + 1)) {
    std::string_view part = rest.substr(0, rest.find('.'));
    if (!r.spend(at, 1 + part.size() / 64)) return {};
    int64_t index = 0;
    auto read = std::from_chars(part.data(), part.data() + part.size(), index);
    bool digits = !part.empty() && part[0] != '-' && read.ec == std::errc() && read.ptr == part.data() + part.size();
    item = r.item(at, item, digits ? Value::of(index) : Value::of(part));
    if (otherwise != nullptr && item.is(Kind::kUndefined)) item = *otherwise;
    if (r.failed() || rest.find('.') == std::string_view::npos) return item;
  }
}

Value fold_case(Renderer& r, uint32_t at, Value v) { return v.is(Kind::kString) ? change_text(r, at, v.str(), "lower") : v; }

namespace {

Value map_attribute(Renderer& r, const Call& c) {
  const Value *path = nullptr, *otherwise = nullptr;
  for (const auto& [name, value] : c.raw->named) {
    if (name != "attribute" && name != "default") return r.fail(c.at, "map takes no argument '" + r.own(name) + "' here");
    (name == "attribute" ? path : otherwise) = &value;
  }
  if (path == nullptr) return r.fail(c.at, "map needs a filter or attribute=");
  if (otherwise != nullptr && otherwise->is(Kind::kNone)) otherwise = nullptr;
  const List* items = r.iterate(c.at, c.self);
  auto out = r.make_list();
  if (items == nullptr || out == nullptr) return {};
  for (uint32_t i = 0; i < items->size && r.spend(c.at, 2); ++i) out->push(r.arena(), member(r, c.at, items->data[i], *path, otherwise));
  return r.failed() ? Value() : Value::generator(out);
}

// Jinja looks at no argument of these filters where the value is not true: none, undefined, 0 and the like have no items.
Value map(Renderer& r, const Call& c) {
  if (!truth(c.self)) return Value::generator(r.make_list());
  if (c.raw->list.empty()) return map_attribute(r, c);
  Value name = c.raw->list[0];
  if (!name.is(Kind::kString)) return r.type_error(c.at, "map: expected the name of a filter, found", name);
  Arguments rest{{c.raw->list.begin() + 1, c.raw->list.end()}, c.raw->named};
  const List* items = r.iterate(c.at, c.self);
  auto out = r.make_list();
  if (items == nullptr || out == nullptr) return {};
  for (uint32_t i = 0; i < items->size && r.spend(c.at, 2); ++i)
    out->push(r.arena(), r.apply_filter(c.at, name.str(), items->data[i], rest));
  return r.failed() ? Value() : Value::generator(out);
}

// Arguments: a test of the item, or for ...attr an attribute and a test of that. Without a test the value's truth counts.
Value select(Renderer& r, const Call& c) {
  if (!truth(c.self)) return Value::generator(r.make_list());
  bool by_attribute = c.name.ends_with("attr"), wanted = c.name[0] == 's';
  const auto& given = c.raw->list;
  size_t skip = by_attribute ? 1 : 0;
  if (given.size() < skip) return r.fail(c.at, std::string(c.name) + " needs the name of an attribute");
  Value name = given.size() > skip ? given[skip] : Value::none();
  if (given.size() > skip && !name.is(Kind::kString))
    return r.type_error(c.at, std::string(c.name) + ": expected the name of a test, found", name);
  Arguments rest{{}, c.raw->named};
  if (given.size() > skip + 1) rest.list.assign(given.begin() + static_cast<ptrdiff_t>(skip) + 1, given.end());
  const List* items = r.iterate(c.at, c.self);
  auto out = r.make_list();
  if (items == nullptr || out == nullptr) return {};
  for (uint32_t i = 0; i < items->size && r.spend(c.at, 2); ++i) {
    Value tested = by_attribute ? member(r, c.at, items->data[i], given[0]) : items->data[i];
    bool holds = name.is(Kind::kString) ? r.apply_test(c.at, name.str(), tested, rest) : truth(tested);
    if (holds == wanted) out->push(r.arena(), items->data[i]);
  }
  return r.failed() ? Value() : Value::generator(out);
}

constexpr Builtin kSelectionFilters[] = {{"map", "*", 0, map},
                                         {"select", "*", 0, select},
                                         {"reject", "*", 0, select},
                                         {"selectattr", "*", 0, select},
                                         {"rejectattr", "*", 0, select}};

}  // namespace

std::span<const Builtin> selection_filters() { return kSelectionFilters; }

}  // namespace kvrt::jinja
