#include <algorithm>

#include "runtime/base/utf8.h"
#include "runtime/text/grammar/json_schema_compiler.h"

namespace kvrt {

uint32_t SchemaCompiler::space_rule() {
  if (space_) return *space_;
  space_ = builder_.add_rule("white space");
  std::vector<Part> ways{builder_.empty(), builder_.literal(" ")};
  const Part line = builder_.literal("\n");
  ways.push_back(builder_.sequence(line, builder_.repeat(builder_.literal(" "), 0, 40)));
  builder_.define(*space_, builder_.choice(ways));
  return *space_;
}

uint32_t SchemaCompiler::character_rule(char quote) {
  auto [known, fresh] = characters_.try_emplace(quote, 0);
  if (!fresh) return known->second;
  known->second = builder_.add_rule("character");
  const auto end = static_cast<uint8_t>(quote);
  std::vector<Part> ways{
      builder_.characters(CodePointSet{{0, 0x1F}, {end, end}, {'\\', '\\'}}.complement(), GrammarBuilder::Spelling::kRaw)};
  add_escapes(&ways);
  builder_.define(known->second, builder_.choice(ways));
  return known->second;
}

uint32_t SchemaCompiler::escape_rule() {
  if (escape_) return *escape_;
  escape_ = builder_.add_rule("escape");
  std::vector<Part> ways;
  add_escapes(&ways);
  builder_.define(*escape_, builder_.choice(ways));
  return *escape_;
}

void SchemaCompiler::add_escapes(std::vector<Part>* ways) {
  auto hex = [this](std::string_view set) {
    CodePointSet points;
    for (char c : set) points.add(static_cast<uint8_t>(c), static_cast<uint8_t>(c));
    return builder_.characters(points, GrammarBuilder::Spelling::kRaw);
  };
  auto any_hex = [&](uint32_t n) {
    const Part part = hex("0123456789abcdefABCDEF");
    return builder_.repeat(part, n, n);
  };
  auto sequence = [this](Part a, Part b) { return builder_.sequence(a, b); };
  Part escape = builder_.literal("\\");
  ways->push_back(sequence(escape, hex(spelling().text == ValueSpelling::Text::kPython ? "\"'\\bfnrt" : "\"\\/bfnrt")));
  escape = sequence(builder_.literal("\\u"), hex("0123456789abcefABCEF"));
  ways->push_back(sequence(escape, any_hex(3)));
  escape = sequence(builder_.literal("\\u"), hex("dD"));
  escape = sequence(escape, hex("01234567"));
  ways->push_back(sequence(escape, any_hex(2)));
  escape = sequence(builder_.literal("\\u"), hex("dD"));  // a character beyond U+FFFF is a pair of these
  escape = sequence(escape, hex("89abAB"));
  escape = sequence(escape, any_hex(2));
  escape = sequence(escape, builder_.literal("\\u"));
  escape = sequence(escape, hex("dD"));
  escape = sequence(escape, hex("cdefCDEF"));
  ways->push_back(sequence(escape, any_hex(2)));
}

Result<Decimal> SchemaCompiler::decimal(const Node& node) const {
  if (node.kind != Kind::kNumber) return invalid(node, "%s is a number", std::string(document_.key(node)).c_str());
  auto value = Decimal::parse(document_.text(node));
  if (!value) return unsupported(node, "a number this large or small");
  return *std::move(value);
}

Status SchemaCompiler::add_factor(const Node& node, bool denied, NumberRules* rules) const {
  KVRT_ASSIGN(Decimal value, decimal(node));
  if (denied) return unsupported(node, "the denial of multipleOf");
  if (value.negative || value.is_zero()) return invalid(node, "multipleOf is above 0");
  rules->factors.push_back(std::move(value));
  return Status::ok();
}

// Of minimum, maximum and what excludes them, which was a flag in draft 4.
Status SchemaCompiler::add_bound(const Node& schema, const Node& node, bool denied, NumberRules* rules) const {
  KVRT_ASSIGN(const Decimal value, decimal(node));
  const std::string_view name = document_.key(node);
  bool exclusive = name.starts_with("exclusive");
  if (!exclusive) {
    const Node* flag = document_.member(schema, name == "minimum" ? "exclusiveMinimum" : "exclusiveMaximum");
    exclusive = flag && flag->kind == Kind::kBoolean && flag->truth;
  }
  const NumberRange::Bound bound{value, denied ? !exclusive : exclusive};
  if (name.ends_with("inimum") != denied) {
    rules->range.raise_min(bound);
  } else {
    rules->range.lower_max(bound);
  }
  return Status::ok();
}

Result<NumberRules> SchemaCompiler::number_rules(const Flat& flat, uint8_t types) const {
  NumberRules rules;
  rules.fractions = types & kFraction;
  rules.integers = types & kInteger;
  for (const Item& item : flat.items) {
    const bool denied = item.what == What::kDenied;
    if ((item.what != What::kSchema && !denied) || only_ref(*item.schema)) continue;
    for (std::string_view keyword : {"minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "multipleOf"}) {
      const Node* node = document_.member(*item.schema, keyword);
      if (!node || node->kind == Kind::kBoolean || (denied && node != item.part)) continue;
      KVRT_TRY(keyword == "multipleOf" ? add_factor(*node, denied, &rules) : add_bound(*item.schema, *node, denied, &rules));
    }
  }
  for (const Node* value : excluded(flat)) {
    if (value->kind != Kind::kNumber) continue;
    KVRT_ASSIGN(Decimal d, decimal(*value));
    rules.excluded.push_back(std::move(d));
  }
  return rules;
}

Result<SchemaCompiler::Part> SchemaCompiler::number_value(const Flat& flat, uint8_t types) {
  KVRT_ASSIGN(NumberRules rules, number_rules(flat, types));
  auto whole = [](const Decimal& d) { return d.is_integer(); };
  // Multiples of a whole number are whole.
  if (std::any_of(rules.factors.begin(), rules.factors.end(), whole)) rules.fractions = false;
  if (!rules.fractions && !rules.integers) return builder_.never();
  if (!rules.fractions) std::erase(rules.factors, Decimal{false, "1", ""});
  const size_t digits = rules.fractions ? 15 : rules.factors.empty() ? SIZE_MAX : 18;  // number_range.h
  const auto beyond = [&](const std::optional<NumberRange::Bound>& bound, bool negative) {
    return bound && bound->value.negative == negative && bound->value.whole.size() > digits;
  };
  if (beyond(rules.range.min, false) || beyond(rules.range.max, true)) {
    leave_out(about(flat), "a number of more than " + std::to_string(digits) + " digits");
    return builder_.never();
  }
  const auto part = number_part(&builder_, rules);
  if (part) return *part;
  for (const Item& item : flat.items) {
    if (const Node* factor = document_.member(*item.schema, "multipleOf")) return unsupported(*factor, "a multipleOf this large or small");
  }
  return builder_.never();
}

// The constants that denials of enum and const name.
std::vector<const JsonDocument::Node*> SchemaCompiler::excluded(const Flat& flat) const {
  std::vector<const Node*> out;
  for (const Item& item : flat.items) {
    if (item.what != What::kDenied) continue;
    if (document_.key(*item.part) == "const") out.push_back(item.part);
    if (document_.key(*item.part) != "enum") continue;
    for (const Node& value : document_.children(*item.part)) out.push_back(&value);
  }
  looked_at_ += out.size() / 4;
  return out;
}

}  // namespace kvrt
