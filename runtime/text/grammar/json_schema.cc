#include "runtime/text/grammar/json_schema.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>

#include "runtime/base/numbers.h"
#include "runtime/text/grammar/grammar.h"
#include "runtime/text/grammar/json_schema_compiler.h"

namespace kvrt {

namespace {

const ValueSpelling* json_spelling() {
  static const ValueSpelling kSpelling;
  return &kSpelling;
}

}  // namespace

Status SchemaCompiler::invalid(const Node& at, const char* format, ...) const {
  char what[256];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(what, sizeof what, format, arguments);
  va_end(arguments);
  return error(Code::kInvalid, Detail::kGrammarError, "schema: %.200s: %s", document_.pointer(at).c_str(), what);
}

Status SchemaCompiler::unsupported(const Node& at, const std::string& what) const {
  return error(Code::kUnsupported, Detail::kNone, "schema: %.200s: %.200s is not supported", document_.pointer(at).c_str(), what.c_str());
}

Status SchemaCompiler::limit(const Node& at, const std::string& what) const {
  return error(Code::kLimit, Detail::kGrammarLimit, "schema: %.200s: %.200s", document_.pointer(at).c_str(), what.c_str());
}

Status SchemaCompiler::look(const Node& at, uint64_t schemas) const {
  looked_at_ += schemas;
  return looked_at_ <= kSchemaChoicesMax ? Status::ok() : limit(at, "schemas, members or constants that go with too many others");
}

SchemaCompiler::SchemaCompiler(JsonDocument document, SchemaMembers members, GrammarBuilder* builder)
    : document_(std::move(document)), others_(members), builder_(*builder), first_node_(builder->nodes()), place_{json_spelling()} {
  const Node& root = document_.root();
  const Node* draft = root.kind == Kind::kObject ? document_.member(root, "$schema") : nullptr;
  if (draft && draft->kind == Kind::kString) {
    for (const char* old : {"draft-03", "draft-04", "draft-05", "draft-06", "draft-07"}) {
      if (document_.text(*draft).find(old) == std::string_view::npos) continue;
      old_refs_ = true;
      if (std::string_view(old) < "draft-06") id_keyword_ = "id";
    }
  }
  index_names();
}

uint32_t SchemaCompiler::rule_for(All all, const Place& place) {
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  auto [at, fresh] = rules_.try_emplace({place, std::move(all)}, 0);
  if (fresh) {
    const All& whole = at->first.second;
    at->second = builder_.add_rule(whole.empty() ? "any value" : document_.pointer(*whole.front().schema));
    looked_at_ += 8 * whole.size();  // they stay in memory
    if (builder_.status().is_ok()) pending_.emplace_back(at->second, &at->first);
  }
  return at->second;
}

Result<uint32_t> SchemaCompiler::compile() { return compile(All{{&document_.root()}}); }

Result<uint32_t> SchemaCompiler::compile_arguments(const ArgumentsSpelling& how) {
  arguments_ = true;
  vocab_ = how.vocab;
  reader_ = how.reader;
  if (how.spelling) place_.spelling = how.spelling;
  return compile(All{{&document_.root()}, {&document_.root(), What::kIsObject}});
}

Result<uint32_t> SchemaCompiler::compile(All whole) {
  const uint32_t root = rule_for(std::move(whole));
  character_rule();
  space_rule();
  KVRT_TRY(compile_pending());
  KVRT_TRY(widen());
  if (builder_.matching({&root, 1}, first_node_)[0]) return root;
  if (!left_out_.is_ok()) return std::move(left_out_);  // what was left out might have fit
  return invalid(document_.root(), "nothing fits it");
}

Status SchemaCompiler::compile_pending() {
  while (!pending_.empty()) {
    const auto [rule, key] = pending_.front();
    pending_.pop_front();
    KVRT_TRY(compile_rule(rule, *key));
  }
  return {};
}

Status SchemaCompiler::compile_rule(uint32_t rule, const RuleKey& key) {
  place_ = key.first;
  rule_ = rule;
  KVRT_TRY(look(document_.root(), key.second.size()));
  KVRT_ASSIGN(Flat flat, flatten(key.second));
  Part part = builder_.empty();
  KVRT_ASSIGN(const Part inside, value(std::move(flat), key));
  part = builder_.sequence(part, inside);
  KVRT_TRY(builder_.status());
  if (widening_) {
    builder_.add_way(rule, part);
  } else {
    builder_.define(rule, part);
  }
  return {};
}

// Where no value of the types that keywords imply fits, those of other types do, of which they say nothing. First where that is so whatever
// becomes of the others: an array is not meant to be anything else because its items are.
Status SchemaCompiler::widen() {
  constexpr int kRounds = 8;                                               // then all at once: each looks at all nodes
  for (int round = 0; left_out_.is_ok() && !narrowed_.empty(); ++round) {  // what was left out might have fit
    const auto rules_of = [](const std::vector<Narrowed>& all) {
      std::vector<uint32_t> rules;
      for (const Narrowed& one : all) rules.push_back(one.first);
      return rules;
    };
    const auto take = [](std::vector<Narrowed>* from, const std::vector<bool>& stay) {
      std::vector<Narrowed> taken, left;
      for (size_t i = 0; i < from->size(); ++i) (stay[i] ? left : taken).push_back((*from)[i]);
      from->swap(left);
      return taken;
    };
    std::vector<Narrowed> empty = take(&narrowed_, builder_.matching(rules_of(narrowed_), first_node_));
    const std::vector<uint32_t> rules = rules_of(empty);
    std::vector<Narrowed> first = take(&empty, builder_.matching(rules, first_node_, rules));
    if (first.empty() || round > kRounds) first.insert(first.end(), empty.begin(), empty.end()), empty.clear();
    if (first.empty()) break;
    narrowed_.insert(narrowed_.end(), empty.begin(), empty.end());
    widening_ = true;
    for (const auto& [rule, key] : first) KVRT_TRY(compile_rule(rule, *key));
    widening_ = false;
    KVRT_TRY(compile_pending());
  }
  return {};
}

// Items that were followed before stay as they are: the schemas that they lead to are among them.
Result<SchemaCompiler::Flat> SchemaCompiler::flatten(const All& all) const {
  Flat flat;
  for (const Item& item : all) {
    if (item.done & kFollowed) flat.items.push_back(item);
  }
  const size_t before = flat.items.size();
  for (const Item& item : all) {
    if (!(item.done & kFollowed)) KVRT_TRY(follow(item, before, 0, &flat));
  }
  return flat;
}

Status SchemaCompiler::follow(const Item& item, size_t before, uint32_t depth, Flat* flat) const {
  const Node& schema = *item.schema;
  KVRT_TRY(look(schema, flat->items.size() / 16));  // is it among them?
  if (depth >= kGrammarDepthMax) return limit(schema, "$ref and allOf nested deeper than " + std::to_string(kGrammarDepthMax));
  if (item.what == What::kSchema) return follow_schema(item, before, depth, flat);
  if (item.what == What::kNot) {
    if (schema.kind == Kind::kBoolean) {
      flat->nothing_fits = flat->nothing_fits || schema.truth;
      return Status::ok();
    }
    if (schema.kind != Kind::kObject) return invalid(schema, "a schema is an object, true or false");
  }
  Item known = item;
  known.done |= kFollowed;
  for (const Item& other : flat->items) {
    const bool same = other.schema == item.schema && other.part == item.part && other.name == item.name;
    if (same && other.what == item.what) return Status::ok();
    if (same && other.what == What::kSchema && item.what == What::kNot) flat->nothing_fits = true;
  }
  flat->items.push_back(known);
  if (item.what != What::kNot) return Status::ok();
  const size_t at = flat->items.size() - 1;
  KVRT_ASSIGN(const Ways ways, denials(schema, *flat));
  if (ways.empty()) flat->nothing_fits = true;
  if (ways.size() != 1) return Status::ok();
  flat->items[at].done |= kDenial;
  for (const Item& one : ways.front()) KVRT_TRY(follow(one, before, depth + 1, flat));
  return Status::ok();
}

Status SchemaCompiler::follow_schema(const Item& item, size_t before, uint32_t depth, Flat* flat) const {
  const Node& schema = *item.schema;
  if (schema.kind == Kind::kBoolean) {
    flat->nothing_fits = flat->nothing_fits || !schema.truth;
    return Status::ok();
  }
  if (schema.kind != Kind::kObject) return invalid(schema, "a schema is an object, true or false");
  if (std::find(flat->open.begin(), flat->open.end(), &schema) != flat->open.end()) {
    return invalid(schema, "a $ref that only leads back to itself");
  }
  for (size_t i = 0; i < flat->items.size(); ++i) {
    const Item& other = flat->items[i];
    if (other.schema != &schema || (other.what != What::kSchema && other.what != What::kNot)) continue;
    if (other.what == What::kNot) {
      flat->nothing_fits = true;
      return Status::ok();
    }
    // A branch that asks for the schema that it is a branch of would justify itself.
    if (i < before && asks_for_itself(schema))
      return unsupported(schema, "a branch's $ref to a schema that applies to the same value already");
    return Status::ok();  // the same schema by two ways says nothing new
  }
  flat->items.push_back({&schema, What::kSchema, kFollowed});
  flat->open.push_back(&schema);
  KVRT_TRY(follow_parts(schema, before, depth, flat));
  flat->open.pop_back();
  return Status::ok();
}

// What applies beside a schema: the target of its $ref, the parts of its allOf, the denial of its not.
Status SchemaCompiler::follow_parts(const Node& schema, size_t before, uint32_t depth, Flat* flat) const {
  for (const char* keyword : {"$ref", "$dynamicRef", "$recursiveRef"}) {
    const Node* ref = document_.member(schema, keyword);
    if (!ref) continue;
    KVRT_ASSIGN(const Node* to, target(*ref));
    KVRT_TRY(follow({to}, before, depth + 1, flat));
  }
  if (only_ref(schema)) return Status::ok();
  if (const Node* list = document_.member(schema, "allOf")) {
    KVRT_ASSIGN(const auto parts, schemas(*list));
    for (const Node* part : parts) KVRT_TRY(follow({part}, before, depth + 1, flat));
  }
  if (const Node* denied = document_.member(schema, "not")) return follow({denied, What::kNot}, before, depth + 1, flat);
  return Status::ok();
}

Result<std::vector<const JsonDocument::Node*>> SchemaCompiler::schemas(const Node& list) const {
  if (list.kind != Kind::kArray || list.size == 0) return invalid(list, "expected a list of schemas, not empty");
  std::vector<const Node*> out;
  for (const Node& schema : document_.children(list)) out.push_back(&schema);
  return out;
}

// The values that fit all items.
Result<SchemaCompiler::Part> SchemaCompiler::value(Flat flat, const RuleKey& key) {
  for (;;) {
    if (flat.nothing_fits || leaves_out(flat.items)) return builder_.never();
    KVRT_ASSIGN(const auto values, constants(flat));
    if (values) return constants_part(flat, *values);
    KVRT_ASSIGN(const auto choice, next_choice(&flat));
    if (!choice) break;
    if (choice->size() != 1) {
      std::vector<Part> parts;
      for (const All& way : *choice) {
        All all = flat.items;
        all.insert(all.end(), way.begin(), way.end());
        parts.push_back(builder_.call(rule_for(std::move(all))));
        KVRT_TRY(builder_.status());
      }
      return builder_.choice(parts);
    }
    All all = flat.items;
    all.insert(all.end(), choice->front().begin(), choice->front().end());
    KVRT_ASSIGN(flat, flatten(all));
  }
  KVRT_ASSIGN(const uint8_t types, types_of(flat, true));
  KVRT_ASSIGN(const uint8_t all, types_of(flat, false));
  if (widening_) return typed_value(flat, all & static_cast<uint8_t>(~types));
  if (types != all) narrowed_.emplace_back(rule_, &key);
  return typed_value(flat, types);
}

Result<SchemaCompiler::Part> SchemaCompiler::typed_value(const Flat& flat, uint8_t types) {
  std::vector<Part> parts;
  const auto out = excluded(flat);
  if (types & ~types_read()) leave_out(about(flat), "a type that a call's reader does not expect");
  types &= types_read();
  const ValueSpelling& s = spelling();
  auto excludes = [&](Kind kind, bool truth) {
    return std::any_of(out.begin(), out.end(), [&](const Node* v) { return v->kind == kind && v->truth == truth; });
  };
  if ((types & kNull) && !excludes(Kind::kNull, false)) parts.push_back(typed(kNull, word(s.null, s.other_null)));
  for (bool truth : {true, false}) {
    if ((types & kBoolean) && !excludes(Kind::kBoolean, truth))
      parts.push_back(typed(kBoolean, truth ? word(s.yes, s.other_yes) : word(s.no, s.other_no)));
  }
  if (types & kNumber) {
    KVRT_ASSIGN(const Part part, number_value(flat, types));
    parts.push_back(typed(kInteger, part));
  }
  if (types & kString) {
    KVRT_ASSIGN(const Part part, string_value(flat));
    parts.push_back(typed(kString, part));
  }
  if (types & kArray) {
    KVRT_ASSIGN(const Part part, structure(kArray, [&] { return array_value(flat); }));
    parts.push_back(typed(kArray, part));
  }
  if (types & kObject) {
    KVRT_ASSIGN(const Part part, structure(kObject, [&] { return object_value(flat); }));
    parts.push_back(typed(kObject, part));
  }
  return builder_.choice(parts);
}

Result<uint32_t> add_json_schema(std::string_view schema, SchemaMembers members, GrammarBuilder* builder) {
  KVRT_ASSIGN(JsonDocument document, JsonDocument::parse(schema, "schema"));
  return SchemaCompiler(std::move(document), members, builder).compile();
}

Result<uint32_t> add_arguments_schema(std::string_view schema, const ArgumentsSpelling& how, GrammarBuilder* builder) {
  KVRT_ASSIGN(JsonDocument document, JsonDocument::parse(schema, "schema"));
  return SchemaCompiler(std::move(document), SchemaMembers::kClosed, builder).compile_arguments(how);
}

Result<std::shared_ptr<const Grammar>> Grammar::from_json_schema(std::string_view schema, SchemaMembers members) {
  GrammarBuilder builder("schema");
  KVRT_TRY(add_json_schema(schema, members, &builder).take_status());
  KVRT_ASSIGN(auto automaton, builder.build());
  return std::make_shared<const Grammar>(std::move(automaton));
}

}  // namespace kvrt
