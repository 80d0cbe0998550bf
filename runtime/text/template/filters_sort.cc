// Filters that order: sort, dictsort, unique, groupby, min, max.
#include <algorithm>
#include <numeric>

#include "runtime/text/template/select.h"
#include "runtime/text/template/text.h"

namespace kvrt::jinja {

namespace {

bool hashable(Value v) { return !v.is(Kind::kDict) && !(v.is(Kind::kList)); }

// The sort keys of the items: an attribute or the item itself, without regard to case unless asked for.
Value key_of(Renderer& r, uint32_t at, Value item, Value path, bool case_sensitive, const Value* otherwise = nullptr) {
  Value key = path.is(Kind::kNone) ? item : member(r, at, item, path, otherwise);
  return case_sensitive ? key : fold_case(r, at, key);
}

// The order of the items by their keys, equal ones as they came, as Python's sorted gives it. `in_lists`: Jinja compares lists of
// keys, and equal ones are not asked for their order.
std::vector<uint32_t> sorted(Renderer& r, uint32_t at, const List& keys, bool reverse, bool in_lists) {
  std::vector<uint32_t> order(keys.size);
  std::iota(order.begin(), order.end(), 0u);
  auto before = [&](uint32_t a, uint32_t b) {
    if (reverse) std::swap(a, b);
    Value x = keys.data[a], y = keys.data[b];
    return r.spend(at, 2) && !(in_lists && r.same(x, y)) && r.order(at, x, y) < 0;
  };
  std::stable_sort(order.begin(), order.end(), before);
  return order;
}

// Keys by several attributes, "a,b", compare as lists.
Value multi_key(Renderer& r, uint32_t at, Value item, Value paths, bool case_sensitive) {
  if (!paths.is(Kind::kString) || paths.str().find(',') == std::string_view::npos) return key_of(r, at, item, paths, case_sensitive);
  auto key = r.make_list();
  for (std::string_view rest = paths.str(); key != nullptr; rest.remove_prefix(rest.find(',') + 1)) {
    key->push(r.arena(), key_of(r, at, item, Value::of(rest.substr(0, rest.find(','))), case_sensitive));
    if (rest.find(',') == std::string_view::npos) break;
  }
  return Value::of(key);
}

Value sort(Renderer& r, const Call& c) {
  bool reverse = c.has(0) && truth(c[0]), case_sensitive = c.has(1) && truth(c[1]);
  const List* items = r.iterate(c.at, c.self);
  auto keys = r.make_list(), out = r.make_list();
  if (items == nullptr || keys == nullptr || out == nullptr) return {};
  Value paths = c.given(2) ? c[2] : Value::none();
  for (uint32_t i = 0; i < items->size && r.spend(c.at, 1); ++i)
    keys->push(r.arena(), multi_key(r, c.at, items->data[i], paths, case_sensitive));
  if (!r.spend(c.at, 0)) return {};
  for (uint32_t i : sorted(r, c.at, *keys, reverse, true)) out->push(r.arena(), items->data[i]);
  return Value::of(out);
}

Value dictsort(Renderer& r, const Call& c) {
  if (!c.self.is(Kind::kDict)) return r.type_error(c.at, "dictsort of", c.self);
  bool case_sensitive = c.has(0) && truth(c[0]), reverse = c.has(2) && truth(c[2]);
  std::string_view by = c.has(1) ? c[1].is(Kind::kString) ? c[1].str() : "?" : "key";
  if (by != "key" && by != "value") return r.fail(c.at, "dictsort: by is \"key\" or \"value\"");
  auto keys = r.make_list(), out = r.make_list();
  if (keys == nullptr || out == nullptr) return {};
  const Dict& dict = *c.self.dict;
  for (uint32_t i = 0; i < dict.size && r.spend(c.at, 1); ++i)
    keys->push(r.arena(), key_of(r, c.at, by == "key" ? dict.data[i].key : dict.data[i].value, Value::none(), case_sensitive));
  if (!r.spend(c.at, 0)) return {};
  for (uint32_t i : sorted(r, c.at, *keys, reverse, false)) {
    auto pair = r.make_list();
    if (pair == nullptr) return r.heap_limit(c.at);
    pair->push(r.arena(), dict.data[i].key);
    pair->push(r.arena(), dict.data[i].value);
    out->push(r.arena(), Value::of(pair, Kind::kTuple));
  }
  return Value::of(out);
}

Value unique(Renderer& r, const Call& c) {
  bool case_sensitive = c.has(0) && truth(c[0]);
  const List* items = r.iterate(c.at, c.self);
  auto out = r.make_list();
  auto seen = create<Dict>(r.arena());
  if (items == nullptr || out == nullptr || seen == nullptr) return {};
  for (uint32_t i = 0; i < items->size && r.spend(c.at, 2); ++i) {
    Value key = key_of(r, c.at, items->data[i], c.given(1) ? c[1] : Value::none(), case_sensitive);
    if (key.is_sequence() && key.list->form == ListForm::kRange) return r.unsupported(c.at, "unique of ranges");
    if (!hashable(key)) return r.fail(c.at, std::string("unique of unhashable ") + type_name(key));
    if (key.is(Kind::kTuple)) return r.unsupported(c.at, "unique of tuples");
    if (r.find(c.at, *seen, key) != nullptr) continue;
    r.set(c.at, seen, key, Value::none());
    out->push(r.arena(), items->data[i]);
  }
  out->form = ListForm::kGenerator;
  return r.failed() ? Value() : Value::of(out);
}

// Groups grow after they were put into their pairs: so does the depth.
void deepen(List* groups) {
  for (uint32_t i = 0; i < groups->size; ++i) {
    List* pair = groups->data[i].list;
    pair->depth = std::max(pair->depth, pair->data[1].list->depth + 1);
    groups->depth = std::max(groups->depth, pair->depth + 1);
  }
}

Value group(Renderer& r, const Call& c) {
  bool case_sensitive = c.has(2) && truth(c[2]);
  Value fallback = c.given(1) ? c[1] : Value::none();
  const Value* otherwise = c.given(1) ? &fallback : nullptr;
  const List* items = r.iterate(c.at, c.self);
  auto keys = r.make_list(), out = r.make_list();
  if (items == nullptr || keys == nullptr || out == nullptr) return {};
  for (uint32_t i = 0; i < items->size && r.spend(c.at, 1); ++i)
    keys->push(r.arena(), key_of(r, c.at, items->data[i], c[0], case_sensitive, otherwise));
  if (!r.spend(c.at, 0)) return {};
  List* group = nullptr;
  Value last;
  for (uint32_t i : sorted(r, c.at, *keys, false, false)) {
    if (!r.spend(c.at, 2)) return {};
    if (group == nullptr || !r.same(last, keys->data[i])) {
      group = r.make_list();
      auto pair = r.make_list();
      if (group == nullptr || pair == nullptr) return r.heap_limit(c.at);
      pair->push(r.arena(), key_of(r, c.at, items->data[i], c[0], true, otherwise));
      pair->push(r.arena(), Value::of(group));
      out->push(r.arena(), Value::of(pair, Kind::kTuple));
    }
    last = keys->data[i];
    group->push(r.arena(), items->data[i]);
  }
  deepen(out);
  return r.failed() ? Value() : Value::of(out);
}

Value extreme(Renderer& r, const Call& c) {
  bool case_sensitive = c.has(0) && truth(c[0]);
  const List* items = r.iterate(c.at, c.self);
  if (items == nullptr) return {};
  if (items->size == 0) return Value::undefined("no aggregated item, sequence was empty");
  Value path = c.given(1) ? c[1] : Value::none(), best = items->data[0], best_key = key_of(r, c.at, best, path, case_sensitive);
  for (uint32_t i = 1; i < items->size && r.spend(c.at, 2); ++i) {
    Value key = key_of(r, c.at, items->data[i], path, case_sensitive);
    if (!r.compare(c.name == "min" ? Op::kLt : Op::kGt, c.at, key, best_key)) continue;
    best = items->data[i];
    best_key = key;
  }
  return best;
}

constexpr Builtin kSortingFilters[] = {
    {"sort", "reverse case_sensitive attribute", 0, sort}, {"dictsort", "case_sensitive by reverse", 0, dictsort},
    {"unique", "case_sensitive attribute", 0, unique},     {"groupby", "attribute default case_sensitive", 1, group},
    {"min", "case_sensitive attribute", 0, extreme},       {"max", "case_sensitive attribute", 0, extreme}};

}  // namespace

std::span<const Builtin> sorting_filters() { return kSortingFilters; }

}  // namespace kvrt::jinja
