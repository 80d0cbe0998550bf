// Functions that every template finds.
#include "runtime/base/limits.h"
#include "runtime/text/template/text.h"

namespace kvrt::jinja {

namespace {

Value range(Renderer& r, const Call& c) {
  int64_t bounds[3] = {0, 0, 1};
  size_t count = c.has(2) ? 3 : c.has(1) ? 2 : 1;
  for (size_t i = 0; i < count; ++i) {
    if (!whole_number(r, c, i, &bounds[count == 1 ? 1 : i])) return {};
  }
  auto [begin, end, step] = bounds;
  if (step == 0) return r.fail(c.at, "range: the step is zero");
  // Unsigned: the distance of two 64-bit integers, and the items between them, wrap to the right value.
  auto from = static_cast<uint64_t>(begin), to = static_cast<uint64_t>(end), stride = static_cast<uint64_t>(step);
  bool none = step > 0 ? end <= begin : end >= begin;
  uint64_t items = none ? 0 : step > 0 ? (to - from - 1) / stride + 1 : (from - to - 1) / (0 - stride) + 1;
  if (items > kTemplateRangeMax) return r.limit(c.at, "range: more than " + std::to_string(kTemplateRangeMax) + " items");
  auto list = r.make_list();
  if (list == nullptr || !r.spend(c.at, items / 16)) return {};
  for (uint64_t i = 0; i < items; ++i) list->push(r.arena(), Value::of(static_cast<int64_t>(from + i * stride)));
  list->form = ListForm::kRange;
  return Value::of(list);
}

// Fills a dict(...) or namespace(...): with a mapping or pairs, then with the named arguments.
bool fill(Renderer& r, const Call& c, Dict* out) {
  if (c.raw->list.size() > 1) return r.fail(c.at, std::string(c.name) + " takes one argument beside named ones"), false;
  if (!c.raw->list.empty()) {
    Value from = c.raw->list[0];
    if (from.is(Kind::kDict)) {
      for (uint32_t i = 0; i < from.dict->size; ++i) r.set(c.at, out, from.dict->data[i].key, from.dict->data[i].value);
    } else {
      const List* pairs = r.iterate(c.at, from);
      for (uint32_t i = 0; pairs != nullptr && i < pairs->size && r.spend(c.at, 1); ++i) {
        const List* pair = r.iterate(c.at, pairs->data[i]);
        if (pair == nullptr || pair->size != 2) return r.fail(c.at, std::string(c.name) + ": expected pairs"), false;
        Value key = pair->data[0];
        if (!key.is_number() && !key.is(Kind::kString) && !key.is(Kind::kNone))
          return r.unsupported(c.at, std::string("a key of type ") + type_name(key)), false;
        r.set(c.at, out, key, pair->data[1]);
      }
    }
  }
  for (const auto& [name, value] : c.raw->named) r.set(c.at, out, Value::of(name), value);
  return r.spend(c.at, out->size / 4);
}

Value make_dict(Renderer& r, const Call& c) {
  auto dict = create<Dict>(r.arena());
  return dict != nullptr && fill(r, c, dict) ? Value::of(dict) : Value();
}

Value make_namespace(Renderer& r, const Call& c) {
  auto space = create<Namespace>(r.arena());
  return space != nullptr && fill(r, c, &space->values) ? Value::of(space) : Value();
}

// The template's own words in an expression that makes a text: its literals, and "..." for the values that it was given.
std::string own_words(const Expr& e) {
  if (e.kind == Expr::kText) return e.text;
  if (e.kind == Expr::kChain) return own_words(*e.kids[0]);  // 'a {}'.format(x)
  std::string words;
  if (e.kind == Expr::kBinary && e.ops[0] == Op::kMod) return own_words(*e.kids[0]);  // 'a %s' % x
  if (e.kind == Expr::kBinary && (e.ops[0] == Op::kAdd || e.ops[0] == Op::kConcat)) {
    for (const ExprPtr& kid : e.kids) words += own_words(*kid);
  }
  return words.empty() ? "..." : words;
}

Value raise_exception(Renderer& r, const Call& c) {
  std::string_view message = r.str(c.at, c[0]);
  const Args* args = c.raw->written;
  const bool joined = r.arena()->holds(message.data()) && args != nullptr && args->list.size() == 1;
  const std::string said = joined ? own_words(*args->list[0]) : r.own(message);
  return r.fail(c.at, "the template raised: " + said.substr(0, bytes_of_code_points(said, kTemplateMessageCharsMax)));
}

constexpr Builtin kFunctions[] = {{"range", "/ start stop step", 1, range},
                                  {"dict", "*", 0, make_dict},
                                  {"namespace", "*", 0, make_namespace},
                                  {"raise_exception", "message", 1, raise_exception},
                                  {"strftime_now", "format", 1, strftime_now},
                                  {"cycler", "*", 0, nullptr},
                                  {"joiner", "*", 0, nullptr},
                                  {"lipsum", "*", 0, nullptr},
                                  {"self", "*", 0, nullptr}};

}  // namespace

std::span<const Builtin> functions() { return kFunctions; }

}  // namespace kvrt::jinja
