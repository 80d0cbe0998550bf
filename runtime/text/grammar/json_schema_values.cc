#include <algorithm>

#include "runtime/base/utf8.h"
#include "runtime/text/grammar/json_schema_compiler.h"
#include "runtime/text/grammar/regex.h"

namespace kvrt {

namespace {

#define KVRT_MONTH_DAY "(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))"
#define KVRT_YEAR "(?:[1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"
#define KVRT_LEAP_YEAR "(?:(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26]))|(?:0[48]|[2468][048]|[13579][26])00)"
#define KVRT_DATE "(?:" KVRT_YEAR "-" KVRT_MONTH_DAY "|" KVRT_LEAP_YEAR "-02-29)"
#define KVRT_TIME "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,9})?(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
#define KVRT_OCTET "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define KVRT_LABEL "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
#define KVRT_HOST KVRT_LABEL "(?:\\." KVRT_LABEL "){0,3}"

// Formats with a pattern whose every text its RFC allows; nullptr: no pattern is exact, so UNSUPPORTED. Other names are annotations.
struct Format {
  std::string_view name;
  const char* pattern;
};
constexpr Format kFormats[] = {
    {"date", "^" KVRT_DATE "$"},
    {"time", "^" KVRT_TIME "$"},
    {"date-time", "^" KVRT_DATE "T" KVRT_TIME "$"},
    {"uuid", "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$"},
    {"ipv4", "^" KVRT_OCTET "(?:\\." KVRT_OCTET "){3}$"},
    {"email", "^[A-Za-z0-9_+-]{1,32}(?:\\.[A-Za-z0-9_+-]{1,16}){0,1}@" KVRT_HOST "$"},
    {"hostname", "^" KVRT_HOST "$"},
    {"uri",
     "^[a-z][a-z0-9+.-]{0,15}://" KVRT_HOST "(?::[1-9][0-9]{0,3})?(?:/[A-Za-z0-9._~-]*)*(?:\\?[A-Za-z0-9._~=&-]*)?(?:#[A-Za-z0-9._~-]*)?$"},
    {"ipv6", nullptr},
    {"duration", nullptr},
    {"idn-email", nullptr},
    {"idn-hostname", nullptr},
    {"uri-reference", nullptr},
    {"uri-template", nullptr},
    {"iri", nullptr},
    {"iri-reference", nullptr},
    {"json-pointer", nullptr},
    {"relative-json-pointer", nullptr},
    {"regex", nullptr},
};

}  // namespace

SchemaCompiler::Part SchemaCompiler::quoted(Part inside) {
  const Part open = builder_.literal("\""), close = builder_.literal("\"");
  return builder_.sequence(builder_.sequence(open, inside), close);
}

SchemaCompiler::Part SchemaCompiler::colon() {
  const Part colon = builder_.literal(":");
  return builder_.sequence(colon, builder_.optional(builder_.literal(" ")));
}

SchemaCompiler::Part SchemaCompiler::comma() {
  const Part comma = builder_.literal(",");
  return builder_.sequence(comma, builder_.call(space_rule()));
}

uint32_t SchemaCompiler::space_rule() {
  if (space_) return *space_;
  space_ = builder_.add_rule("white space");
  std::vector<Part> ways{builder_.empty(), builder_.literal(" ")};
  const Part line = builder_.literal("\n");
  ways.push_back(builder_.sequence(line, builder_.repeat(builder_.literal(" "), 0, 40)));
  builder_.define(*space_, builder_.choice(ways));
  return *space_;
}

uint32_t SchemaCompiler::character_rule() {
  if (character_) return *character_;
  character_ = builder_.add_rule("character");
  auto hex = [this](std::string_view set) {
    CodePointSet points;
    for (char c : set) points.add(static_cast<uint8_t>(c), static_cast<uint8_t>(c));
    return builder_.characters(points, GrammarBuilder::Spelling::kRaw);
  };
  auto any_hex = [&](uint32_t n) {
    const Part part = hex("0123456789abcdefABCDEF");
    return builder_.repeat(part, n, n);
  };
  std::vector<Part> ways{
      builder_.characters(CodePointSet{{0, 0x1F}, {'"', '"'}, {'\\', '\\'}}.complement(), GrammarBuilder::Spelling::kRaw)};
  auto sequence = [this](Part a, Part b) { return builder_.sequence(a, b); };
  Part escape = builder_.literal("\\");
  ways.push_back(sequence(escape, hex("\"\\/bfnrt")));
  escape = sequence(builder_.literal("\\u"), hex("0123456789abcefABCEF"));
  ways.push_back(sequence(escape, any_hex(3)));
  escape = sequence(builder_.literal("\\u"), hex("dD"));
  escape = sequence(escape, hex("01234567"));
  ways.push_back(sequence(escape, any_hex(2)));
  escape = sequence(builder_.literal("\\u"), hex("dD"));  // a character beyond U+FFFF is a pair of these
  escape = sequence(escape, hex("89abAB"));
  escape = sequence(escape, any_hex(2));
  escape = sequence(escape, builder_.literal("\\u"));
  escape = sequence(escape, hex("dD"));
  escape = sequence(escape, hex("cdefCDEF"));
  ways.push_back(sequence(escape, any_hex(2)));
  builder_.define(*character_, builder_.choice(ways));
  return *character_;
}

Result<SchemaCompiler::Part> SchemaCompiler::string_value(const Flat& flat) {
  const Node *pattern = nullptr, *format = nullptr;
  for (const Item& item : flat.items) {
    if (const Node* node = document_.member(*item.schema, "pattern")) {
      if (node->kind != Kind::kString) return invalid(*node, "pattern is a string");
      if (pattern && !document_.equal(*pattern, *node)) return unsupported(*node, "a second pattern for one value");
      pattern = node;
    }
    if (const Node* node = document_.member(*item.schema, "format")) {
      if (node->kind != Kind::kString) return invalid(*node, "format is a string");
      auto named = [&](const Format& f) { return f.name == document_.text(*node); };
      if (std::none_of(std::begin(kFormats), std::end(kFormats), named)) continue;
      if (format && !document_.equal(*format, *node)) return unsupported(*node, "a second format for one value");
      format = node;
    }
  }
  KVRT_ASSIGN(const auto min, count(flat, "minLength", true));
  KVRT_ASSIGN(const auto max, count(flat, "maxLength", false));
  if (pattern && format) return unsupported(*format, "format together with pattern");
  if (pattern || format) {
    const Node& node = pattern ? *pattern : *format;
    if (max || min.value_or(0) > 0) return unsupported(node, std::string(document_.key(node)) + " together with minLength or maxLength");
    const std::string where = "schema: " + document_.pointer(node).substr(0, 200);
    std::string_view text = document_.text(node);
    if (format) {
      const Format* found = std::find_if(std::begin(kFormats), std::end(kFormats), [&](const Format& f) { return f.name == text; });
      if (!found->pattern) return unsupported(node, "format \"" + std::string(text) + "\"");
      text = found->pattern;
    }
    KVRT_ASSIGN(const Part inside, regex_part(&builder_, text, where));
    return quoted(inside);
  }
  if (min.value_or(0) > kSchemaStringMax) {
    return error(Code::kLimit, Detail::kGrammarLimit, "schema: %.200s: minLength above %u",
                 document_.pointer(*flat.items.front().schema).c_str(), kSchemaStringMax);
  }
  if (max && *max < min.value_or(0)) return builder_.never();
  const Part one = builder_.call(character_rule());
  return quoted(builder_.repeat(one, min.value_or(0), max ? std::min(*max, kSchemaStringMax) : GrammarBuilder::kNoMax));
}

Result<SchemaCompiler::Part> SchemaCompiler::number_value(const Flat& flat, uint8_t types) {
  NumberRange range;
  for (const Item& item : flat.items) {
    for (const char* keyword : {"minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "multipleOf"}) {
      const Node* node = document_.member(*item.schema, keyword);
      if (!node) continue;
      if (node->kind != Kind::kNumber) return invalid(*node, "%s is a number", keyword);
      const auto value = Decimal::parse(document_.text(*node));
      if (!value) return unsupported(*node, "a number this large or small");
      const std::string_view name(keyword);
      const NumberRange::Bound bound{*value, name.starts_with("exclusive")};
      if (name == "multipleOf") {
        if (*value != Decimal{false, "1", ""}) return unsupported(*node, "multipleOf other than 1");
        types &= static_cast<uint8_t>(~kFraction);
      } else if (name.ends_with("inimum")) {
        range.raise_min(bound);
      } else {
        range.lower_max(bound);
      }
    }
  }
  if (!(types & kFraction)) return integer_part(&builder_, range);
  return number_part(&builder_, range);
}

Result<SchemaCompiler::Part> SchemaCompiler::array_value(const Flat& flat) {
  uint32_t leading = 0;
  for (const Item& item : flat.items) {
    const Node* prefix = document_.member(*item.schema, "prefixItems");
    if (prefix && prefix->kind != Kind::kArray) return invalid(*prefix, "prefixItems is a list of schemas");
    const Node* items = document_.member(*item.schema, "items");
    if (items && items->kind == Kind::kArray) return unsupported(*items, "a list of items as before 2020-12 (use prefixItems)");
    if (prefix) leading = std::max(leading, prefix->size);
  }
  std::vector<All> places(leading + 1);  // the last is for all others
  for (const Item& item : flat.items) {
    const Node* prefix = document_.member(*item.schema, "prefixItems");
    const Node* items = document_.member(*item.schema, "items");
    uint32_t at = 0;
    if (prefix) {
      for (const Node& schema : document_.children(*prefix)) places[at++].push_back({&schema});
    }
    for (; items && at < places.size(); ++at) places[at].push_back({items});
  }
  KVRT_ASSIGN(const auto min_items, count(flat, "minItems", true));
  KVRT_ASSIGN(const auto max_items, count(flat, "maxItems", false));
  const uint32_t min = min_items.value_or(0), max = max_items.value_or(GrammarBuilder::kNoMax);
  if (min > leading + kGrammarRepeatsMax) {
    return error(Code::kLimit, Detail::kGrammarLimit, "schema: %.200s: minItems above %u",
                 document_.pointer(*flat.items.front().schema).c_str(), kGrammarRepeatsMax);
  }
  if (max < min) return builder_.never();

  const Part open = builder_.literal("[");
  const uint32_t out = builder_.join(), first = builder_.call(space_rule()).in;
  Part close = builder_.call(space_rule());
  close = builder_.sequence(close, builder_.literal("]"));
  builder_.link(close.out, out);
  std::vector<uint32_t> ways;
  if (min == 0) {
    const Part none = builder_.literal("]");
    builder_.link(none.out, out);
    ways.push_back(none.in);
  }
  ways.push_back(first);
  builder_.link(open.out, ways);
  uint32_t at = first;  // the begin of the next item, or of the comma before it
  for (uint32_t i = 0; i < leading && i < max; ++i) {
    Part item = i == 0 ? builder_.empty() : comma();
    item = builder_.sequence(item, builder_.call(rule_for(places[i])));
    const uint32_t after = builder_.join();
    builder_.link(item.out, after);
    const uint32_t both[] = {item.in, close.in};
    builder_.link(at, std::span<const uint32_t>(both, i > 0 && i >= min ? 2 : 1));
    at = after;
    KVRT_TRY(builder_.status());
  }
  const Part others = other_items(leading, min, max, places.back());
  builder_.link(at, others.in);
  builder_.link(others.out, close.in);
  return Part{open.first, open.in, out};
}

// The items from the index `leading` on; one at least where there is none before them.
SchemaCompiler::Part SchemaCompiler::other_items(uint32_t leading, uint32_t min, uint32_t max, const All& all) {
  if (max <= leading) return leading == 0 || max == 0 ? builder_.never() : builder_.empty();
  auto rest = [&](uint32_t before) {
    const uint32_t most = max == GrammarBuilder::kNoMax ? max : std::min(max - before, kGrammarRepeatsMax);
    Part item = comma();
    item = builder_.sequence(item, builder_.call(rule_for(all)));
    return builder_.repeat(item, min > before ? min - before : 0, most);
  };
  if (leading > 0) return rest(leading);
  const Part one = builder_.call(rule_for(all));
  return builder_.sequence(one, rest(1));
}

}  // namespace kvrt
