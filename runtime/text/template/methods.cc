// Methods of dicts, lists, tuples, numbers and loops.
#include <algorithm>

#include "runtime/text/template/text.h"

namespace kvrt::jinja {

namespace {

Value refuse(Renderer& r, const Call& c) {
  return r.fail(c.at,
                std::string(type_name(c.self)) + "." + std::string(c.name) + ": the sandbox does not let a template change its values");
}

Value dict_items(Renderer& r, const Call& c) {
  const Dict& dict = *c.self.dict;
  auto list = r.make_list();
  if (list == nullptr || !r.spend(c.at, dict.size / 4)) return {};
  for (uint32_t i = 0; i < dict.size; ++i) {
    const Pair& pair = dict.data[i];
    Value item = c.name == "keys" ? pair.key : pair.value;
    if (c.name == "items") {
      auto tuple = r.make_list();
      if (tuple == nullptr) return r.heap_limit(c.at);
      tuple->push(r.arena(), pair.key);
      tuple->push(r.arena(), pair.value);
      item = Value::of(tuple, Kind::kTuple);
    }
    list->push(r.arena(), item);
  }
  list->form = ListForm::kView;
  return Value::of(list);
}

Value dict_get(Renderer& r, const Call& c) {
  if (c[0].is(Kind::kList) || c[0].is(Kind::kDict)) return r.fail(c.at, std::string("a key cannot be a ") + type_name(c[0]));
  const Value* found = r.find(c.at, *c.self.dict, c[0]);
  return found != nullptr ? *found : c.has(1) ? c[1] : Value::none();
}

Value dict_copy(Renderer& r, const Call& c) {
  auto copy = create<Dict>(r.arena());
  if (copy == nullptr || !r.spend(c.at, c.self.dict->size / 4)) return {};
  for (uint32_t i = 0; i < c.self.dict->size; ++i) r.set(c.at, copy, c.self.dict->data[i].key, c.self.dict->data[i].value);
  return r.failed() ? Value() : Value::of(copy);
}

Value list_copy(Renderer& r, const Call& c) {
  auto copy = r.make_list();
  if (copy == nullptr || !r.spend(c.at, c.self.list->size / 16)) return {};
  for (uint32_t i = 0; i < c.self.list->size; ++i) copy->push(r.arena(), c.self.list->data[i]);
  return Value::of(copy);
}

Value list_count(Renderer& r, const Call& c) {
  const List& list = *c.self.list;
  if (list.form > ListForm::kRange) return r.fail(c.at, "a generator has no count");
  return Value::of(static_cast<int64_t>(std::count_if(list.data, list.data + list.size, [&](Value v) { return r.same(v, c[0]); })));
}

Value list_index(Renderer& r, const Call& c) {
  const List& list = *c.self.list;
  if (list.form > ListForm::kRange) return r.fail(c.at, "a generator has no index");
  if (c.has(1)) return r.unsupported(c.at, "index with a start");
  for (uint32_t i = 0; i < list.size; ++i) {
    if (r.same(list.data[i], c[0])) return Value::of(int64_t{i});
  }
  return r.fail(c.at, "index: the value is not in the list");
}

Value loop_cycle(Renderer& r, const Call& c) {
  return c.args.empty() ? r.fail(c.at, "loop.cycle without items") : c[c.self.loop->index % c.args.size()];
}

Value loop_changed(Renderer& r, const Call& c) {
  Loop& loop = *c.self.loop;
  auto now = r.make_list();
  if (now == nullptr) return {};
  for (Value v : c.args) now->push(r.arena(), v);
  bool changed = loop.seen == nullptr || loop.seen->size != now->size ||
                 !std::equal(now->data, now->data + now->size, loop.seen->data, [&](Value a, Value b) { return r.same(a, b); });
  if (changed) loop.seen = now;
  return Value::of(changed);
}

constexpr Builtin kDict[] = {
    {"items", "/", 0, dict_items}, {"keys", "/", 0, dict_items},   {"values", "/", 0, dict_items}, {"get", "/ key default", 1, dict_get},
    {"copy", "/", 0, dict_copy},   {"fromkeys", "*", 0, nullptr},  {"clear", "*", 0, refuse},      {"pop", "*", 0, refuse},
    {"popitem", "*", 0, refuse},   {"setdefault", "*", 0, refuse}, {"update", "*", 0, refuse}};
constexpr Builtin kList[] = {{"count", "/ value", 1, list_count},
                             {"index", "/ value start stop", 1, list_index},
                             {"copy", "/", 0, list_copy},
                             {"append", "*", 0, refuse},
                             {"clear", "*", 0, refuse},
                             {"pop", "*", 0, refuse},
                             {"reverse", "*", 0, refuse},
                             {"insert", "*", 0, refuse},
                             {"sort", "*", 0, refuse},
                             {"extend", "*", 0, refuse},
                             {"remove", "*", 0, refuse}};
constexpr Builtin kTuple[] = {{"count", "/ value", 1, list_count}, {"index", "/ value start stop", 1, list_index},
                              {"grouper", "*", 0, nullptr},        {"list", "*", 0, nullptr},
                              {"start", "*", 0, nullptr},          {"stop", "*", 0, nullptr},
                              {"step", "*", 0, nullptr},           {"mapping", "*", 0, nullptr},
                              {"isdisjoint", "*", 0, nullptr},     {"send", "*", 0, nullptr},
                              {"throw", "*", 0, nullptr},          {"close", "*", 0, nullptr}};
constexpr Builtin kNumber[] = {{"real", "*", 0, nullptr},       {"imag", "*", 0, nullptr},
                               {"numerator", "*", 0, nullptr},  {"denominator", "*", 0, nullptr},
                               {"bit_length", "*", 0, nullptr}, {"bit_count", "*", 0, nullptr},
                               {"conjugate", "*", 0, nullptr},  {"to_bytes", "*", 0, nullptr},
                               {"from_bytes", "*", 0, nullptr}, {"as_integer_ratio", "*", 0, nullptr},
                               {"is_integer", "*", 0, nullptr}, {"hex", "*", 0, nullptr},
                               {"fromhex", "*", 0, nullptr}};
constexpr Builtin kLoop[] = {{"cycle", "*", 0, loop_cycle}, {"changed", "*", 0, loop_changed}};

}  // namespace

std::span<const Builtin> container_methods(Kind kind) {
  switch (kind) {
    case Kind::kDict:
      return kDict;
    case Kind::kList:
      return kList;
    case Kind::kTuple:
      return kTuple;
    case Kind::kLoop:
      return kLoop;
    default:
      return kNumber;
  }
}

}  // namespace kvrt::jinja
