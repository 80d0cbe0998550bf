// Values as they are written in a place: JSON, or as a family writes the arguments of a call. What a call's reader would read otherwise than
// it is meant is not written.
#include <algorithm>
#include <cmath>
#include <set>

#include "runtime/base/numbers.h"
#include "runtime/base/utf8.h"
#include "runtime/text/grammar/free_text.h"
#include "runtime/text/grammar/json_schema_compiler.h"

namespace kvrt {

namespace {

std::string escaped(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (std::string_view(R"(\^$.*+?()[]{}|/)").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

std::string with_entities(std::string_view name) {
  std::string out;
  for (char c : name) out += c == '&' ? "&amp;" : c == '"' ? "&quot;" : std::string(1, c);
  return out;
}

size_t character_size(std::string_view text) { return read_code_point(text).size; }

}  // namespace

GrammarBuilder::Spelling SchemaCompiler::string_spelling() const {
  return spelling().text == ValueSpelling::Text::kRaw ? GrammarBuilder::Spelling::kRaw : GrammarBuilder::Spelling::kJson;
}

GrammarBuilder::Spelling SchemaCompiler::name_spelling() const {
  return spelling().bare_names ? GrammarBuilder::Spelling::kRaw : GrammarBuilder::Spelling::kJson;
}

SchemaCompiler::Part SchemaCompiler::mark(std::string_view text) {
  return vocab_ ? FreeText(*vocab_, &builder_).mark(text) : builder_.literal(text);
}

SchemaCompiler::Part SchemaCompiler::typed(uint8_t type, Part part) {
  const ValueSpelling& s = spelling();
  if (s.typed.empty()) return part;
  const std::string& name = type == kNull      ? s.null_type
                            : type == kBoolean ? s.boolean_type
                            : type == kString  ? s.string_type
                            : type == kArray   ? s.array_type
                            : type == kObject  ? s.object_type
                                               : s.number_type;
  return builder_.sequence(mark(name + s.typed), part);
}

SchemaCompiler::Part SchemaCompiler::quoted(Part inside) {
  const Part open = mark(spelling().string), close = mark(spelling().string_end);
  return builder_.sequence(builder_.sequence(open, inside), close);
}

SchemaCompiler::Part SchemaCompiler::string_in(Part inside, StringForm form) {
  if (form != StringForm::kQuoted) return quoted(inside);
  const Part open = mark(spelling().quote), close = mark(spelling().quote_end);
  return builder_.sequence(builder_.sequence(open, inside), close);
}

SchemaCompiler::Part SchemaCompiler::space() { return spelling().space ? builder_.call(space_rule()) : builder_.empty(); }

SchemaCompiler::Part SchemaCompiler::comma() {
  const Part comma = mark(spelling().comma);
  return spelling().space ? builder_.sequence(comma, builder_.call(space_rule())) : comma;
}

SchemaCompiler::Part SchemaCompiler::word(const std::string& usual, const std::string& other) {
  const Part part = builder_.literal(usual);
  if (other.empty() || !type_is_known()) return part;
  const Part ways[] = {part, builder_.literal(other)};
  return builder_.choice(ways);
}

std::vector<SchemaCompiler::NameMarks> SchemaCompiler::name_marks() const {
  const ValueSpelling& s = spelling();
  std::vector<NameMarks> marks{{s.name, s.named}};
  if (!s.other_name.empty()) marks.push_back({s.other_name, s.other_named});
  return marks;
}

std::optional<std::string> SchemaCompiler::spelled_name(std::string_view name, const NameMarks& marks) const {
  const ValueSpelling& s = spelling();
  if (!s.other_name.empty() && marks.open == s.other_name && name.find(s.other_name) != name.npos) return std::nullopt;
  if (!s.bare_names) return GrammarBuilder::json_text(name);
  return s.entities ? with_entities(name) : std::string(name);
}

SchemaCompiler::Part SchemaCompiler::member_name(std::string_view name) {
  std::vector<Part> ways;
  for (const NameMarks& marks : name_marks()) {
    const auto written = spelled_name(name, marks);
    if (!written) continue;
    const Part open = mark(marks.open), inside = builder_.literal(*written);
    ways.push_back(builder_.sequence(builder_.sequence(open, inside), named(marks.close)));
  }
  return builder_.choice(ways);
}

// From a member's name to its value.
SchemaCompiler::Part SchemaCompiler::named(std::string_view close) {
  const Part part = mark(close);
  return spelling().space ? builder_.sequence(part, builder_.optional(builder_.literal(" "))) : part;
}

// A member that is whole but for its end.
SchemaCompiler::Part SchemaCompiler::ended(Part member, std::string_view name) {
  const ValueSpelling& s = spelling();
  if (!s.member_end.empty()) member = builder_.sequence(member, mark(s.member_end));
  if (s.name_again.empty()) return member;
  member = builder_.sequence(member, builder_.literal(name));
  return builder_.sequence(member, mark(s.name_again));
}

SchemaCompiler::Part SchemaCompiler::item(const All& all) { return item_of(builder_.call(rule_for(all, item_place()))); }

SchemaCompiler::Part SchemaCompiler::item_of(Part value) {
  const ValueSpelling& s = spelling();
  if (s.item.empty()) return value;
  return builder_.sequence(builder_.sequence(mark(s.item), value), mark(s.item_end));
}

SchemaCompiler::Place SchemaCompiler::member_place(std::string_view name) const {
  const ValueSpelling* members = spelling().members;
  if (!members) return place_;
  return {members, reader_ ? reader_->member(place_.seen, name) : 0};
}

SchemaCompiler::Place SchemaCompiler::item_place() const {
  const ValueSpelling* items = spelling().items;
  if (!items) return place_;
  return {items, reader_ ? reader_->items(place_.seen) : 0};
}

// The place of an object or an array as it is written here.
SchemaCompiler::Place SchemaCompiler::structure_place(uint8_t type) const {
  const ValueSpelling& s = spelling();
  if (!s.structures) return place_;
  const uint8_t seen = s.nested ? reader_->types(place_.seen) & (kObject | kArray | kString) : 0;
  return seen == type ? place_ : Place{s.structures};
}

// `text` of an object or an array, in each way to write it here.
Result<SchemaCompiler::Part> SchemaCompiler::structure(uint8_t type, const std::function<Result<Part>()>& text) {
  KVRT_ASSIGN(const Part usual, within(structure_place(type), text));
  const ValueSpelling* other = spelling().other_structures;
  if (other == nullptr || !type_is_known()) return usual;
  KVRT_ASSIGN(const Part part, within({other}, text));
  const Part ways[] = {usual, part};
  return builder_.choice(ways);
}

// To the reader of a value here.
bool SchemaCompiler::type_is_known() const { return !spelling().untyped_reader || reader_->types(place_.seen) != 0; }

// The types that a value here may have for the reader.
uint8_t SchemaCompiler::types_read() const {
  const uint8_t types = spelling().untyped_reader ? reader_->types(place_.seen) : 0;
  return types ? types : uint8_t{kAnyType};
}

// One of ours: it parses.
const Regex* SchemaCompiler::own_regex(const std::string& pattern) const {
  auto& known = regexes_["own " + pattern];
  if (!known) known = std::make_unique<const Regex>(std::move(Regex::parse(pattern, "spelling")).value());
  return known.get();
}

// What a string must not be to be written here. `few_states`: an automaton of two states, which denies more.
std::vector<SchemaCompiler::Demand> SchemaCompiler::written_demands(StringForm form, bool few_states) const {
  const ValueSpelling& s = spelling();
  std::vector<Demand> out;
  if (form == StringForm::kQuoted && s.text == ValueSpelling::Text::kPython) out.push_back({own_regex(escaped(s.quote)), true});
  if (s.stop.empty()) return out;
  const bool raw = s.text == ValueSpelling::Text::kRaw;
  std::string stop = (form == StringForm::kQuoted && raw ? s.quote_end : "") + s.stop;
  if (few_states) {
    const size_t first = character_size(stop);
    stop.resize(first + character_size(std::string_view(stop).substr(first)));
  }
  out.push_back({own_regex(escaped(stop)), true});
  if (form == StringForm::kUsual && !s.quote.empty() && raw) out.push_back({own_regex("^" + escaped(s.quote)), true});
  if (!s.untyped_reader) return out;
  const uint8_t types = reader_->types(place_.seen);
  if (types == kString || (types == 0 && !s.typed.empty())) return out;
  const uint8_t read = types ? types : uint8_t{kAnyType};
  std::string words;
  auto add = [&](const std::string& word) { words += word.empty() ? "" : "|" + word; };
  if (read & kNull) add(s.null), add(s.other_null);
  if (read & kBoolean) add(s.yes), add(s.no), add(s.other_yes), add(s.other_no);
  if (read & kFraction) {
    words += R"(|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)";
  } else if (read & kInteger) {  // and what a double has no fraction of
    words += R"(|-?(?:0|[1-9][0-9]*)(?:\.0+|(?:\.[0-9]+)?[eE][-+]?[0-9]+)?|-?[0-9.]{15,})";
  }
  constexpr const char* kSpace = "[ \\t\\n\\r]*";
  if (!words.empty()) out.push_back({own_regex(std::string("^") + kSpace + "(?:" + words.substr(1) + ")" + kSpace + "$"), true});
  const std::string opens = std::string(read & kArray ? "\\[" : "") + (read & kObject ? "{" : "");
  if (!opens.empty()) out.push_back({own_regex(std::string("^") + kSpace + "[" + opens + "]"), true});
  return out;
}

// How a known string may be written here.
std::vector<SchemaCompiler::StringForm> SchemaCompiler::string_forms(std::string_view text) const {
  std::vector<StringForm> forms;
  for (StringForm form : {StringForm::kUsual, StringForm::kQuoted}) {
    if (form == StringForm::kQuoted && spelling().quote.empty()) continue;
    const auto denied = written_demands(form);
    auto fits = [&](const Demand& demand) { return demand.regex->find_in(text, &search_steps_) == Regex::Found::kNone; };
    if (std::all_of(denied.begin(), denied.end(), fits)) forms.push_back(form);
  }
  return forms;
}

// Whether a constant as it is written here is read as itself.
bool SchemaCompiler::reads_back(const Node& value) {
  if (!arguments_) return true;
  const uint8_t type = type_of(value);
  const std::string_view text = document_.text(value);
  if (!(type & types_read())) return false;
  if (value.kind == Kind::kString) return !string_forms(text).empty();
  if (value.kind == Kind::kNumber) {
    double real = 0;
    return text.find_first_of(".eE") == text.npos || (read_real(text, &real) && std::isfinite(real));
  }
  return within(structure_place(type), [&] {
    for (const Node& child : document_.children(value)) {
      const Place place = value.kind == Kind::kObject ? member_place(document_.key(child)) : item_place();
      if (!within(place, [&] { return reads_back(child); })) return false;
    }
    return true;
  });
}

Status SchemaCompiler::check_name(std::string_view name, const Node& at) const {
  const ValueSpelling& s = spelling();
  std::string written(name);
  if (s.entities)
    std::replace_if(
        written.begin(), written.end(), [](char c) { return c == '&' || c == '"'; }, '_');
  const bool fits = s.name_pattern.empty() || own_regex(s.name_pattern)->find_in(written, &search_steps_) == Regex::Found::kEvery;
  if (fits && (s.bare_names || s.stop.empty() || name.find(s.stop) == name.npos)) return Status::ok();
  return unsupported(at, "\"" + std::string(name) + "\" as the name of a member, which this model's calls cannot have,");
}

// The names that a reader may know, whatever the branch.
std::vector<std::string> SchemaCompiler::names_read() const {
  std::set<std::string> names;
  if (!reader_ || !spelling().members) return {};
  std::vector<const Node*> open{&document_.root()};
  while (!open.empty()) {
    const Node* at = open.back();
    open.pop_back();
    const bool lists = at->kind == Kind::kObject && at != &document_.root() && document_.key(*at) == "properties";
    for (const Node& child : document_.children(*at)) {
      if (lists) names.emplace(document_.key(child));
      open.push_back(&child);
    }
  }
  return {names.begin(), names.end()};
}

// With what the names of other members must be to be written.
SchemaCompiler::Members SchemaCompiler::written_names(Members found) const {
  const ValueSpelling& s = spelling();
  if (!s.name_pattern.empty()) found.names.push_back({own_regex(s.name_pattern)});
  if (!s.bare_names && !s.stop.empty()) found.names.push_back({own_regex(escaped(s.stop)), true});
  return found;
}

}  // namespace kvrt
