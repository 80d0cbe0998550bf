// The insides of json_schema.cc. A rule of the grammar is a conjunction: schemas that all apply to one value.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/text/grammar/automaton.h"
#include "runtime/text/grammar/number_range.h"
#include "runtime/text/json_document.h"

namespace kvrt {

class SchemaCompiler {
 public:
  explicit SchemaCompiler(JsonDocument document) : document_(std::move(document)) {}
  Result<std::unique_ptr<const Automaton>> compile();

 private:
  using Node = JsonDocument::Node;
  using Kind = JsonDocument::Kind;
  using Part = GrammarBuilder::Part;
  // A schema that applies, and its keywords that are dealt with: schemas that its $ref and allOf lead to apply beside it; so does a branch.
  enum Done { kFollowed = 1, kAnyOfChosen = 2, kOneOfChosen = 4 };
  struct Item {
    const Node* schema;
    int done = 0;
    friend auto operator<=>(const Item&, const Item&) = default;
  };
  using All = std::vector<Item>;  // the schemas that apply to one value
  // `All` with $ref and allOf followed: objects only.
  struct Flat {
    All items;
    bool nothing_fits = false;  // one of them is false
  };
  enum Type : uint8_t { kNull = 1, kBoolean = 2, kObject = 4, kArray = 8, kString = 16, kFraction = 32, kInteger = 64, kAnyType = 127 };
  static constexpr uint8_t kNumber = kFraction | kInteger;

  [[gnu::format(printf, 3, 4)]] Status invalid(const Node& at, const char* format, ...) const;
  Status unsupported(const Node& at, const std::string& what) const;

  // json_schema.cc, json_schema_constants.cc: from schemas to types
  uint32_t rule_for(All all);
  Result<Part> value(const Flat& flat);
  Result<Part> branches(const Flat& flat, size_t index, const char* keyword, int bit);
  Result<Flat> flatten(const All& all) const;
  Status follow(const Node& schema, size_t before, std::vector<const Node*>* path, Flat* flat) const;
  Result<const Node*> target(const Node& ref) const;
  Status check_keywords(const Node& schema) const;
  static uint8_t types_about(std::string_view keyword);  // the types that a keyword says something about
  Result<uint8_t> types_of(const Flat& flat, bool implied) const;
  Result<uint8_t> types_named(const Node& type) const;
  Result<std::optional<std::vector<const Node*>>> constants(const Flat& flat) const;
  Result<Part> constants_part(const Flat& flat, const std::vector<const Node*>& values, uint8_t types);
  uint8_t type_of(const Node& value) const;
  Part json_text(const Node& value);
  Result<bool> disjoint(const All& a, const All& b, uint32_t depth) const;
  Result<std::vector<const Node*>> schemas(const Node& list) const;
  Result<std::optional<uint32_t>> count(const Flat& flat, const char* keyword, bool largest) const;

  std::vector<std::string> required_names(const Flat& flat) const;
  All schemas_of_member(const Flat& flat, std::string_view name) const;
  bool forbids(const Flat& flat, std::string_view name) const;

  // json_schema_values.cc: strings, numbers, arrays
  Result<Part> string_value(const Flat& flat);
  Result<Part> number_value(const Flat& flat, uint8_t types);
  Result<Part> array_value(const Flat& flat);
  Part other_items(uint32_t leading, uint32_t min, uint32_t max, const All& all);
  Part quoted(Part inside);
  Part colon();
  Part comma();
  uint32_t character_rule();  // any one character of a string, in any spelling
  uint32_t space_rule();

  // json_schema_object.cc
  struct Member {
    std::string name;
    All all;
    bool required;
  };
  struct Members {
    std::vector<Member> listed;  // in the order in which they come
    bool others = false;
    All other;  // the schemas of each other member's value
  };
  Result<Members> members(const Flat& flat) const;
  Status check_members(const Flat& flat) const;
  Status check_member_counts(const Flat& flat, const Members& members) const;
  Result<Part> object_value(const Flat& flat);
  Part member(Part name, const All& all);
  Part other_name(const Members& members);

  JsonDocument document_;
  GrammarBuilder builder_{"schema"};
  std::map<All, uint32_t> rules_;
  std::deque<std::pair<uint32_t, All>> pending_;
  std::optional<uint32_t> character_, space_;
};

}  // namespace kvrt
