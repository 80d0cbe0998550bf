// SchemaCompiler does the work of json_schema.cc. A rule of the grammar is a conjunction: schemas, and denials of schemas, that all apply to one
// value. A choice (anyOf, oneOf, if, dependencies, the denial of more than one keyword) becomes branches, each with one way of the choice
// added, until no choice is left. So each branch is exact, whatever the keywords say together. Only the last step, by types, narrows.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/text/grammar/automaton.h"
#include "runtime/text/grammar/json_schema.h"
#include "runtime/text/grammar/number_range.h"
#include "runtime/text/grammar/regex.h"
#include "runtime/text/grammar/spelling.h"
#include "runtime/text/json_document.h"

namespace kvrt {

class SchemaCompiler {
 public:
  SchemaCompiler(JsonDocument document, SchemaMembers members, GrammarBuilder* builder);
  Result<uint32_t> compile();  // the rule of what fits the schema
  // The rule of the objects that fit it, written as a call's arguments: what the call's reader makes of them fits.
  Result<uint32_t> compile_arguments(const ArgumentsSpelling& how);

 private:
  using Node = JsonDocument::Node;
  using Kind = JsonDocument::Kind;
  using Part = GrammarBuilder::Part;
  enum class What : uint8_t {
    kSchema,     // `schema` applies
    kNot,        // it does not
    kDenied,     // one assertion of `schema` does not hold: `part` is its keyword, or a part of that
    kIsObject,   // the value is an object
    kHas,        // an object with the member `name`
    kLacks,      // not an object, or one without it
    kMemberNot,  // an object with it, and `schema` does not apply to its value
    kLeftOut,    // `schema` fails in another way, by `part`: such a value is valid, and never written
  };
  // Which keywords of a schema have been dealt with. What they lead to ($ref, allOf, a branch) is an item of its own, which applies beside it.
  enum Done { kFollowed = 1, kAnyOf = 2, kOneOf = 4, kIf = 8, kDenial = 16, kDependents = 32 };  // kDependents: times their count
  struct Item {
    const Node* schema = nullptr;
    What what = What::kSchema;
    int done = 0;
    const Node* part = nullptr;
    std::string_view name{};
    friend auto operator<=>(const Item&, const Item&) = default;
  };
  using All = std::vector<Item>;  // what applies to one value
  // `All`, after its $ref and allOf were followed and its denials split into those of one assertion. Its schemas are objects.
  struct Flat {
    All items;
    bool nothing_fits = false;        // one of the schemas is `false`
    std::vector<const Node*> open{};  // the schemas whose $ref, allOf and not are being followed
  };
  using enum ValueTypes::Type;
  static constexpr uint8_t kNumber = kFraction | kInteger;
  // How a value is written, and where the reader meets it.
  struct Place {
    const ValueSpelling* spelling;
    uint32_t seen = 0;
    friend auto operator<=>(const Place&, const Place&) = default;
  };
  enum class Fits { kNo, kUnknown, kYes };

  [[gnu::format(printf, 3, 4)]] Status invalid(const Node& at, const char* format, ...) const;
  Status unsupported(const Node& at, const std::string& what) const;
  Status limit(const Node& at, const std::string& what) const;
  bool equal(const Node& a, const Node& b) const { return document_.equal(a, b, &looked_at_); }
  Status look(const Node& at, uint64_t schemas) const;  // LIMIT: too many schemas have been looked at
  const Node& about(const Flat& flat) const { return flat.items.empty() ? document_.root() : *flat.items.front().schema; }  // for messages

  // json_schema.cc: from schemas to types
  using RuleKey = std::pair<Place, All>;
  Result<uint32_t> compile(All whole);
  Status compile_pending();
  Status compile_rule(uint32_t rule, const RuleKey& key);
  Status widen();
  uint32_t rule_for(All all) { return rule_for(std::move(all), place_); }
  uint32_t rule_for(All all, const Place& place);
  Result<Part> value(Flat flat, const RuleKey& key);
  Result<Part> typed_value(const Flat& flat, uint8_t types);
  Result<Flat> flatten(const All& all) const;
  Status follow(const Item& item, size_t before, uint32_t depth, Flat* flat) const;
  Status follow_schema(const Item& item, size_t before, uint32_t depth, Flat* flat) const;
  Status follow_parts(const Node& schema, size_t before, uint32_t depth, Flat* flat) const;
  static uint8_t types_about(std::string_view keyword);  // the types that a keyword says something about
  Result<uint8_t> types_of(const Flat& flat, bool implied) const;
  Result<uint8_t> types_named(const Node& type) const;
  Result<std::vector<const Node*>> schemas(const Node& list) const;
  Result<std::optional<uint32_t>> count(const Node& node) const;
  // The stronger bound of a count, by positive keywords and by denials of the opposite ones.
  struct Counts {
    uint32_t min = 0, max = GrammarBuilder::kNoMax;
  };
  Result<Counts> counts(const Flat& flat, const char* min, const char* max) const;
  // One of these at least if the value may not be empty. `what`: a value that is not, and is excluded, cannot be followed.
  Status exclude_empty(const Flat& flat, Kind kind, const char* what, Counts* counts) const;

  // json_schema_refs.cc
  Result<const Node*> target(const Node& ref) const;
  void index_names();
  std::string base_of(const Node& node) const;
  bool only_ref(const Node& schema) const;  // before 2019-09, what stands beside $ref says nothing

  // json_schema_choices.cc
  using Ways = std::vector<All>;
  Result<std::optional<Ways>> next_choice(Flat* flat);  // marks it as done
  Result<std::optional<Ways>> choice_of(Item* item, int kind, const Flat& flat) const;
  Result<std::optional<Ways>> denial_of(Item* item, const Flat& flat) const;
  Result<std::optional<Ways>> dependent_of(Item* item) const;
  Result<Ways> one_of(const Node& list) const;
  Result<Ways> conditional(const Node& schema, const Flat& flat) const;
  Result<Ways> dependent(const Node& dependency, const Node& schema) const;
  Result<Ways> denials(const Node& schema, const Flat& flat) const;
  Status deny_keyword(const Node& schema, const Node& keyword, const Flat& flat, Ways* ways) const;
  Status deny_items(const Node& schema, const Node& keyword, const Flat& flat, Ways* ways) const;
  Status deny_required(const Node& schema, const Node& keyword, const Flat& flat, Ways* ways) const;
  Status deny_properties(const Node& schema, const Node& keyword, const Flat& flat, Ways* ways) const;
  Status deny_others(const Node& schema, const Node& keyword, const Flat& flat, Ways* ways) const;
  Status deny_all_of(const Node& schema, const Node& keyword, const Flat& flat, Ways* ways) const;
  Status deny_any_of(const Node& schema, const Node& keyword, const Flat& flat, Ways* ways) const;
  Status deny_not(const Node& schema, const Node& keyword, const Flat& flat, Ways* ways) const;
  Status deny_if(const Node& schema, const Node& keyword, const Flat& flat, Ways* ways) const;
  Status deny_dependents(const Node& schema, const Node& keyword, const Flat& flat, Ways* ways) const;
  static void leave_denial_out(const Node& schema, const Node& keyword, Ways* ways);
  void leave_out(const Node& keyword, const std::string& what) const;
  bool leaves_out(const All& all) const;
  Result<bool> possible(const All& all, uint32_t depth) const;
  Result<bool> disjoint(const All& a, const All& b, uint32_t depth) const;

  // json_schema_constants.cc
  Result<std::optional<std::vector<const Node*>>> constants(const Flat& flat) const;
  Result<Part> constants_part(const Flat& flat, const std::vector<const Node*>& values);
  uint8_t type_of(const Node& value) const;
  Result<Part> constant_text(const Node& value);
  Result<Part> array_text(const Node& value);
  Result<Part> object_text(const Node& value);
  // json_schema_fits.cc: whether a value that is known fits
  Result<Fits> fits(const Node& value, const Item& item, uint32_t depth) const;
  Result<Fits> fits_schema(const Node& value, const Node& schema, uint32_t depth) const;
  Result<Fits> fits_keyword(const Node& value, const Node& schema, const Node& keyword, uint32_t depth) const;
  Result<Fits> fits_applicator(const Node& value, const Node& schema, const Node& keyword, uint32_t depth) const;
  Result<Fits> fits_number(const Node& value, const Node& schema, const Node& keyword) const;
  Result<Fits> fits_text(const Node& value, const Node& keyword) const;
  Result<Fits> fits_unique(const Node& value, const Node& keyword) const;
  Result<Fits> fits_array(const Node& value, const Node& schema, const Node& keyword, uint32_t depth) const;
  Result<Fits> fits_items(const Node& value, const Node& schema, const Node& keyword, uint32_t depth) const;
  Result<Fits> fits_object(const Node& value, const Node& schema, const Node& keyword, uint32_t depth) const;
  Result<Fits> fits_dependents(const Node& value, const Node& schema, const Node& keyword, uint32_t depth) const;
  Result<std::optional<Fits>> fits_member(const Node& member, const Node& schema, const Node& keyword, uint32_t depth) const;

  // What is known of an object's members.
  std::vector<std::string_view> required_names(const Flat& flat) const;
  Result<All> schemas_of_member(const Flat& flat, std::string_view name) const;
  bool lacks(const Flat& flat, std::string_view name) const;
  static bool forbids(const All& all);
  std::vector<const Node*> in_place(const Node& schema) const;
  bool asks_for_itself(const Node& schema) const;
  std::vector<const Node*> applied_by(const Flat& flat, const Node& schema) const;
  Result<bool> evaluates(const Node& schema, const Node& by, std::string_view name) const;

  // json_schema_strings.cc
  enum class StringForm : uint8_t { kUsual, kAnyEscapes, kQuoted };  // kQuoted: by ValueSpelling::quote
  struct Demand {                                                    // of a string: a pattern that is to be found, or not to be found
    const Regex* regex;
    bool negated = false;
    Regex::Ask ask() const { return negated ? Regex::Ask::kNone : Regex::Ask::kEvery; }
    Regex::Found wanted() const { return negated ? Regex::Found::kNone : Regex::Found::kEvery; }
    friend auto operator<=>(const Demand&, const Demand&) = default;
  };
  Result<const Regex*> regex_of(const Node& pattern) const;
  Result<Regex::Found> found_in(const Regex& regex, std::string_view text, const Node& at) const;
  Result<const Regex*> format_regex(const Node& format, bool some) const;
  Result<std::vector<Demand>> demands(const Flat& flat) const;
  Result<Part> string_value(const Flat& flat);
  const Regex& regexes_everything() const;
  Result<CharDfa> dfa_of(const std::vector<Demand>& demands, Counts lengths, const Node& at) const;
  Result<uint32_t> demands_rule(const std::vector<Demand>& demands, Counts lengths, const Node& at, StringForm form, bool long_text);
  // The node where it begins. `escapes`: any may stand anywhere.
  uint32_t automaton(const CharDfa& dfa, const std::vector<uint32_t>& outs, GrammarBuilder::Spelling spelling, bool escapes = false);
  Result<Part> names_by_pattern(const std::vector<std::string>& listed, const std::vector<const Node*>& patterns,
                                const std::vector<Demand>& names, Counts lengths, const std::vector<std::optional<All>>& values,
                                const Node& at);

  // json_schema_values.cc: texts that all values are made of; numbers
  Result<Part> number_value(const Flat& flat, uint8_t types);
  Result<NumberRules> number_rules(const Flat& flat, uint8_t types) const;
  Result<Decimal> decimal(const Node& node) const;
  Status add_factor(const Node& node, bool denied, NumberRules* rules) const;
  Status add_bound(const Node& schema, const Node& node, bool denied, NumberRules* rules) const;
  std::vector<const Node*> excluded(const Flat& flat) const;
  uint32_t character_rule(char quote = '"');  // any one character of a string, in any spelling
  uint32_t escape_rule();
  void add_escapes(std::vector<Part>* ways);
  uint32_t space_rule();

  // json_schema_spelling.cc: values as they are written in a place
  static constexpr std::string_view kOtherName = "<other>";  // of a member that no schema names
  const ValueSpelling& spelling() const { return *place_.spelling; }
  GrammarBuilder::Spelling string_spelling() const;
  GrammarBuilder::Spelling name_spelling() const;
  Part mark(std::string_view text);
  Part typed(uint8_t type, Part part);
  Part quoted(Part inside);
  Part space();
  Part comma();
  Part word(const std::string& usual, const std::string& other);
  struct NameMarks {
    std::string_view open, close;  // around a name that is known
  };
  std::vector<NameMarks> name_marks() const;
  std::optional<std::string> spelled_name(std::string_view name, const NameMarks& marks) const;  // none: it cannot stand there
  Part member_name(std::string_view name);                                                       // to the value
  Part named(std::string_view close);
  Part ended(Part member, std::string_view name);
  Part item(const All& all);
  Part item_of(Part value);
  Place member_place(std::string_view name) const;
  Place item_place() const;
  Place structure_place(uint8_t type) const;
  bool type_is_known() const;
  Result<Part> structure(uint8_t type, const std::function<Result<Part>()>& text);
  uint8_t types_read() const;
  const Regex* own_regex(const std::string& pattern) const;
  std::vector<Demand> written_demands(StringForm form, bool few_states = false) const;
  Status check_name(std::string_view name, const Node& at) const;
  std::vector<std::string> names_read() const;
  bool reads_back(const Node& value);
  std::vector<StringForm> string_forms(std::string_view text) const;
  Part string_in(Part inside, StringForm form);
  template <typename F>
  auto within(const Place& place, F f) {
    const Place here = std::exchange(place_, place);
    auto made = f();
    place_ = here;
    return made;
  }

  // json_schema_array.cc
  struct Sequence {
    std::vector<All> places;  // by index; the last is for all others
    Counts items;
    bool unique = false;
    std::optional<All> contains;  // one item from the index `contains_from` on must also fit these
    uint32_t contains_from = 0;
  };
  struct ItemLists {
    const Node *prefix, *items;  // as prefixItems and items have them since 2020-12
  };
  Result<ItemLists> item_lists(const Node& schema) const;
  Status add_items(const Flat& flat, const Node& schema, Sequence* out) const;
  Status add_contained(const Node& schema, Sequence* out) const;
  Status contain(const Node& keyword, All all, uint32_t from, Sequence* out) const;
  Result<Sequence> sequence(const Flat& flat) const;
  Status unevaluated_items(const Flat& flat, const Node& schema, Sequence* out) const;
  Result<Part> array_value(const Flat& flat);
  Result<std::vector<uint32_t>> constant_rules(const Flat& flat, const Sequence& s);
  Result<Part> unique_items(const Flat& flat, const Sequence& s);

  // json_schema_object.cc
  struct Member {
    std::string_view name;
    All all;
    bool required, never;
  };
  struct Members {
    std::vector<Member> listed;         // in the order in which they come
    std::vector<const Node*> patterns;  // of patternProperties
    std::vector<std::optional<All>>
        others;                 // the schemas of another member's value, by the set of patterns that match it; none: it may not come
    std::vector<Demand> names;  // what holds for other members' names
    Counts name_lengths, count;
  };
  Result<Members> members(const Flat& flat) const;
  Members written_names(Members found) const;
  Status check_members(const Flat& flat) const;
  Status find_others(const Flat& flat, Members* out) const;
  const Node* others_by(const Flat& flat, const Node& schema, const Members& m, size_t set) const;
  Result<Flat> name_rules(const Flat& flat) const;
  Result<bool> name_fits(const Flat& rules, std::string_view name) const;
  Result<Part> object_value(const Flat& flat);
  Result<Part> object_of(const Flat& flat, const Members& m);
  Result<Part> object_in_order(const Members& m, std::optional<uint32_t> other, bool may_be_empty, uint32_t listed);
  Result<std::optional<uint32_t>> other_member(const Flat& flat, const Members& m);
  Result<std::vector<uint32_t>> listed_members(const Members& m, std::vector<uint32_t> at, bool bounded);
  Part member(std::string_view name, const All& all);
  Part other_name(const Members& members);

  // json_schema_orders.cc
  Result<Part> object_in_any_order(const Members& m, std::optional<uint32_t> other);
  uint32_t names_tree(const NameMarks& marks, uint32_t object, const std::vector<const Member*>& members,
                      const std::vector<uint32_t>& values);

  JsonDocument document_;
  SchemaMembers others_;
  bool old_refs_ = false;  // a draft before 2019-09
  std::string_view id_keyword_ = "$id";
  GrammarBuilder& builder_;
  uint32_t first_node_;  // of the schema's
  bool arguments_ = false;
  const GrammarVocab* vocab_ = nullptr;  // arguments: whose control tokens marks are
  ValueReader* reader_ = nullptr;
  Place place_;  // of the rule in the making
  uint32_t rule_ = 0;
  std::map<RuleKey, uint32_t> rules_;
  using Narrowed = std::pair<uint32_t, const RuleKey*>;
  std::vector<Narrowed> narrowed_;  // rules of the types alone that keywords imply
  bool widening_ = false;           // their other types are in the making
  std::deque<std::pair<uint32_t, const RuleKey*>> pending_;
  std::map<char, uint32_t> characters_;  // by the quote that ends the string
  std::optional<uint32_t> escape_, space_;
  std::map<std::string, const Node*> names_;  // schemas by $id and $anchor
  std::map<std::string, uint32_t> dynamic_anchors_;
  uint32_t recursive_anchors_ = 0;
  mutable std::map<std::string, std::unique_ptr<const Regex>> regexes_;
  std::map<std::tuple<const ValueSpelling*, StringForm, std::vector<Demand>, uint32_t, uint32_t>, uint32_t> string_rules_;
  mutable uint64_t pattern_steps_ = kPatternStepsMax;  // left
  mutable uint64_t search_steps_ = kSchemaSearchStepsMax;
  mutable uint32_t pattern_states_ = kPatternStatesMax;
  mutable std::map<const Node*, bool> asks_for_itself_;
  mutable uint64_t looked_at_ = 0;  // schemas, members and constants that go with each other
  mutable Status left_out_;         // the first way of a choice that could not be followed
};

}  // namespace kvrt
