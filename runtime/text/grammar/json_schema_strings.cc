// Strings of patterns, formats and excluded constants: one deterministic automaton for all that a value must be and must not be.
#include <algorithm>
#include <map>

#include "runtime/base/utf8.h"
#include "runtime/text/grammar/json_schema_compiler.h"
#include "runtime/text/grammar/json_schema_formats.h"

namespace kvrt {

// A pattern by its keyword: the value of `pattern`, or a name of `patternProperties`.
Result<const Regex*> SchemaCompiler::regex_of(const Node& pattern) const {
  const Node& list = document_.parent(pattern);
  const bool is_name = &list != &document_.root() && document_.key(list) == "patternProperties" && list.kind == Kind::kObject;
  if (!is_name && pattern.kind != Kind::kString) return invalid(pattern, "pattern is a string");
  const std::string_view text = is_name ? document_.key(pattern) : document_.text(pattern);
  auto& known = regexes_["pattern " + std::string(text)];
  if (!known) {
    KVRT_ASSIGN(Regex regex, Regex::parse(text, "schema: " + document_.pointer(pattern)));
    known = std::make_unique<const Regex>(std::move(regex));
  }
  return known.get();
}

// Of a text that is known.
Result<Regex::Found> SchemaCompiler::found_in(const Regex& regex, std::string_view text, const Node& at) const {
  const auto found = regex.find_in(text, &search_steps_);
  return search_steps_ > 0 ? Result<Regex::Found>(found) : limit(at, "patterns that take too long to be looked for in constants and names");
}

// nullptr: the name says nothing. `some`: what any checker takes.
Result<const Regex*> SchemaCompiler::format_regex(const Node& format, bool some) const {
  if (format.kind != Kind::kString) return invalid(format, "format is a string");
  const SchemaFormat* found = find_schema_format(document_.text(format));
  if (!found) return static_cast<const Regex*>(nullptr);
  const char* pattern = some ? found->some : found->every;
  if (!pattern) return unsupported(format, "format \"" + std::string(document_.text(format)) + "\"");
  auto& known = regexes_[std::string("format ") + (some ? "?" : "") + std::string(found->name)];
  if (!known) {
    KVRT_ASSIGN(Regex regex, Regex::parse(pattern, "schema: " + document_.pointer(format)));
    known = std::make_unique<const Regex>(std::move(regex));
  }
  return known.get();
}

Result<std::vector<SchemaCompiler::Demand>> SchemaCompiler::demands(const Flat& flat) const {
  std::vector<Demand> out;
  for (const Item& item : flat.items) {
    const bool denied = item.what == What::kDenied;
    if ((item.what != What::kSchema && !denied) || only_ref(*item.schema)) continue;
    const Node *pattern = document_.member(*item.schema, "pattern"), *format = document_.member(*item.schema, "format");
    if (pattern && (!denied || pattern == item.part)) {
      KVRT_ASSIGN(const Regex* regex, regex_of(*pattern));
      if (std::find(out.begin(), out.end(), Demand{regex, denied}) == out.end()) out.push_back({regex, denied});
      if (out.size() > 64) return unsupported(*pattern, "this number of patterns for one value");
    }
    if (format && (!denied || format == item.part)) {
      KVRT_ASSIGN(const Regex* regex, format_regex(*format, denied));
      if (regex) out.push_back({regex, denied});
      if (!regex && denied) out.push_back({&regexes_everything(), true});
    }
  }
  std::vector<std::string> texts;
  for (const Node* value : excluded(flat)) {
    if (value->kind == Kind::kString) texts.emplace_back(document_.text(*value));
  }
  if (!texts.empty()) {
    looked_at_ += 4 * texts.size();
    std::sort(texts.begin(), texts.end());
    std::string key = "texts";
    for (const std::string& text : texts) key += '\0' + text;
    auto& known = regexes_[key];
    if (!known) {
      KVRT_ASSIGN(Regex regex, Regex::of_texts(texts, "schema: " + document_.pointer(about(flat))));
      known = std::make_unique<const Regex>(std::move(regex));
    }
    out.push_back({known.get(), true});
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

const Regex& SchemaCompiler::regexes_everything() const {
  auto& known = regexes_["everything"];
  if (!known) {
    auto all = Regex::parse("", "");
    known = std::make_unique<const Regex>(std::move(all).value());
  }
  return *known;
}

// The strings of all demands. None: too many states; the limit was met.
Result<CharDfa> SchemaCompiler::dfa_of(const std::vector<Demand>& demands, Counts lengths, const Node& at) const {
  std::vector<const CharNfa*> nfas;
  std::vector<size_t> begin;
  for (const Demand& demand : demands) {
    begin.push_back(nfas.size());
    demand.regex->add_to(demand.ask(), &nfas);
  }
  auto too_large = [&] { return limit(at, "patterns whose automata have more than " + std::to_string(kPatternStatesMax) + " states"); };
  if (nfas.size() > 64) return unsupported(at, "this number of patterns for one value");
  auto label = [&](uint64_t accepted) {
    for (size_t i = 0; i < demands.size(); ++i) {
      const auto found = demands[i].regex->found(demands[i].ask(), accepted, begin[i]);
      if (found != demands[i].wanted()) return CharDfa::kNoLabel;
    }
    return 0;
  };
  uint64_t steps = std::min<uint64_t>(pattern_steps_, kPatternStepsMax / 10);
  pattern_steps_ -= steps;
  auto dfa = CharDfa::make(nfas, label, std::min(pattern_states_, kPatternStatesMax / 4), &steps);
  pattern_steps_ += steps;
  if (!dfa) return too_large();
  if (dfa->empty() || (lengths.min == 0 && lengths.max == GrammarBuilder::kNoMax)) return *std::move(dfa);
  const auto [shortest, longest] = dfa->lengths();
  if (longest <= lengths.max) lengths.max = GrammarBuilder::kNoMax;
  if (shortest >= lengths.min) lengths.min = 0;
  if (lengths.min == 0 && lengths.max == GrammarBuilder::kNoMax) return *std::move(dfa);
  // Each count has states of its own: a large maximum is lowered, or is shared among what repeats.
  if (lengths.max != GrammarBuilder::kNoMax && longest == CharNfa::kNoMax) {
    const uint32_t room = std::min(kSchemaCountedStates, pattern_states_ / 8) / dfa->states();
    if (room < lengths.max && lengths.min == 0) {
      if (auto shared = dfa->with_loops(lengths.max, kSchemaCountedMin)) return *std::move(shared);
    }
    lengths.max = std::min(lengths.max, std::max({room, kSchemaCountedMin, lengths.min, shortest}));
  }
  auto counted = dfa->with_lengths(lengths.min, lengths.max, pattern_states_);
  if (!counted) return too_large();
  return *std::move(counted);
}

// The nodes of an automaton; where a text may end, it goes on to the node of its label.
uint32_t SchemaCompiler::automaton(const CharDfa& dfa, const std::vector<uint32_t>& outs, GrammarBuilder::Spelling spelling, bool escapes) {
  std::vector<uint32_t> nodes;
  for (uint32_t s = 0; s < dfa.states(); ++s) nodes.push_back(builder_.join());
  const size_t width = dfa.classes.size();
  std::map<std::vector<bool>, CodePointSet> sets;
  std::map<uint32_t, std::vector<bool>> by_target;
  for (uint32_t s = 0; s < dfa.states() && builder_.status().is_ok(); ++s) {
    by_target.clear();
    for (size_t c = 0; c < width; ++c) {
      const uint32_t to = dfa.next[s * width + c];
      if (to == CharDfa::kDead) continue;
      auto& classes = by_target[to];
      classes.resize(width);
      classes[c] = true;
    }
    std::vector<uint32_t> ways;
    if (dfa.label[s] != CharDfa::kNoLabel) ways.push_back(outs[static_cast<size_t>(dfa.label[s])]);
    for (const auto& [to, classes] : by_target) {
      auto [set, fresh] = sets.try_emplace(classes);
      for (size_t c = 0; fresh && c < width; ++c) {
        if (classes[c]) set->second.add(dfa.classes[c]);
      }
      const Part read = builder_.characters(set->second, spelling);
      builder_.link(read.out, nodes[to]);
      ways.push_back(read.in);
    }
    if (escapes) {
      const Part escape = builder_.call(escape_rule());
      builder_.link(escape.out, nodes[0]);
      ways.push_back(escape.in);
    }
    builder_.link(nodes[s], ways);
  }
  return nodes[0];
}

Result<uint32_t> SchemaCompiler::demands_rule(const std::vector<Demand>& demands, Counts lengths, const Node& at, StringForm form,
                                              bool long_text) {
  auto [known, fresh] = string_rules_.try_emplace({place_.spelling, form, demands, lengths.min, lengths.max}, 0);
  if (!fresh) return known->second;
  auto made = dfa_of(demands, long_text ? Counts{} : lengths, at);
  if (long_text && made.is_ok()) {  // few states, which are counted as characters are
    auto counted = made->with_lengths(lengths.min, std::min(lengths.max, kSchemaStringMax), kGrammarStatesMax);
    if (!counted) return limit(at, "a string this long");
    made = *std::move(counted);
  }
  if (made.status().code() == Code::kLimit) {  // a pattern that may be found anywhere is large: only at the beginning; a format in brief
    std::vector<Demand> smaller = demands;
    for (Demand& demand : smaller) {
      const char* brief = brief_format(demand.regex->source());
      if (demand.negated || (!brief && demand.regex->is_anchored())) continue;
      auto& known_regex = regexes_["smaller " + demand.regex->source()];
      if (!known_regex) {
        KVRT_ASSIGN(Regex regex, brief ? Regex::parse(brief, "schema: " + document_.pointer(at)) : demand.regex->anchored());
        known_regex = std::make_unique<const Regex>(std::move(regex));
      }
      demand.regex = known_regex.get();
    }
    if (smaller != demands) {
      auto first = dfa_of(smaller, lengths, at);
      if (!first.is_ok() || !first->empty()) made = std::move(first);
    }
  }
  KVRT_ASSIGN(const CharDfa dfa, std::move(made));
  if (!long_text) pattern_states_ -= std::min(pattern_states_, dfa.states());
  const uint32_t rule = builder_.add_rule(document_.pointer(at));
  KVRT_TRY(builder_.status());
  known->second = rule;
  const uint32_t out = builder_.join(), in = automaton(dfa, {out}, string_spelling(), form == StringForm::kAnyEscapes);
  KVRT_TRY(builder_.status());
  builder_.define(rule, string_in(Part{out, in, out}, form));
  return rule;
}

Result<SchemaCompiler::Part> SchemaCompiler::string_value(const Flat& flat) {
  KVRT_ASSIGN(const Counts lengths, counts(flat, "minLength", "maxLength"));
  if (lengths.min > kSchemaStringMax) return limit(about(flat), "minLength above " + std::to_string(kSchemaStringMax));
  if (lengths.max < lengths.min) return builder_.never();
  KVRT_ASSIGN(const auto demanded, demands(flat));
  if (demanded.empty() && spelling().stop.empty()) {
    const uint32_t max = lengths.max == GrammarBuilder::kNoMax ? lengths.max : std::min(lengths.max, kSchemaStringMax);
    auto [known, fresh] = string_rules_.try_emplace({place_.spelling, StringForm::kUsual, demanded, lengths.min, max}, 0);
    if (fresh) {
      known->second = builder_.add_rule("a string");
      KVRT_TRY(builder_.status());
      Part one = builder_.call(character_rule());
      Part whole = quoted(builder_.repeat(one, lengths.min, max));
      if (!spelling().quote.empty()) {
        one = builder_.call(character_rule(spelling().quote[0]));
        const Part ways[] = {whole, string_in(builder_.repeat(one, lengths.min, max), StringForm::kQuoted)};
        whole = builder_.choice(ways);
      }
      builder_.define(known->second, whole);
    }
    return builder_.call(known->second);
  }
  const Node* at = &about(flat);
  for (const Item& item : flat.items) {
    for (const char* keyword : {"format", "pattern"}) {
      if (const Node* node = document_.member(*item.schema, keyword)) at = node;
    }
  }
  const bool free = demanded.empty() && lengths.min == 0 && lengths.max == GrammarBuilder::kNoMax;
  std::vector<Part> ways;
  for (StringForm form : {StringForm::kUsual, StringForm::kQuoted}) {
    if (form == StringForm::kQuoted && spelling().quote.empty()) continue;
    const bool counts_much = std::max(lengths.min, lengths.max == GrammarBuilder::kNoMax ? 0 : lengths.max) > kSchemaCountedMin;
    std::vector<Demand> all = written_demands(form, demanded.empty() && counts_much);
    const bool long_text = demanded.empty() && counts_much && all.size() == 1;
    all.insert(all.end(), demanded.begin(), demanded.end());
    if (form == StringForm::kUsual && free && spelling().text == ValueSpelling::Text::kJson) form = StringForm::kAnyEscapes;
    KVRT_ASSIGN(const uint32_t rule, demands_rule(all, lengths, *at, form, long_text));
    ways.push_back(builder_.call(rule));
  }
  return builder_.choice(ways);
}

// Names that are none of `listed`, each followed by the colon and the value of the patterns that match it: values[set] for the set of them,
// as bits. What engines read in different ways is no name. `names`: what else holds for a name.
Result<SchemaCompiler::Part> SchemaCompiler::names_by_pattern(const std::vector<std::string>& listed,
                                                              const std::vector<const Node*>& patterns, const std::vector<Demand>& names,
                                                              Counts lengths, const std::vector<std::optional<All>>& values,
                                                              const Node& at) {
  KVRT_ASSIGN(const Regex taken, Regex::of_texts(listed, "schema: " + document_.pointer(at)));
  std::vector<Demand> demanded{{&taken, true}};
  demanded.insert(demanded.end(), names.begin(), names.end());
  std::vector<const CharNfa*> nfas;
  std::vector<size_t> begin;
  for (const Demand& demand : demanded) {
    begin.push_back(nfas.size());
    demand.regex->add_to(demand.ask(), &nfas);
  }
  std::vector<const Regex*> regexes;
  for (const Node* pattern : patterns) {
    KVRT_ASSIGN(const Regex* regex, regex_of(*pattern));
    regexes.push_back(regex);
    begin.push_back(nfas.size());
    regex->add_to(Regex::Ask::kBoth, &nfas);
  }
  if (nfas.size() > 64) return unsupported(at, "this number of patterns for one name");
  auto label = [&](uint64_t accepted) {
    for (size_t i = 0; i < demanded.size(); ++i) {
      if (demanded[i].regex->found(demanded[i].ask(), accepted, begin[i]) != demanded[i].wanted()) return CharDfa::kNoLabel;
    }
    size_t set = 0;
    for (size_t i = 0; i < regexes.size(); ++i) {
      const auto found = regexes[i]->found(Regex::Ask::kBoth, accepted, begin[demanded.size() + i]);
      if (found == Regex::Found::kSome) return CharDfa::kNoLabel;
      if (found == Regex::Found::kEvery) set |= size_t{1} << i;
    }
    return values[set] ? static_cast<int>(set) : CharDfa::kNoLabel;
  };
  auto dfa = CharDfa::make(nfas, label, pattern_states_, &pattern_steps_);
  if (dfa && (lengths.min > 0 || lengths.max != GrammarBuilder::kNoMax)) {
    const uint32_t room = std::max(kSchemaCountedMin, kSchemaCountedStates / dfa->states());
    lengths.max = lengths.max == GrammarBuilder::kNoMax ? lengths.max : std::min(lengths.max, std::max(room, lengths.min));
    dfa = dfa->with_lengths(lengths.min, lengths.max, pattern_states_);
  }
  if (!dfa) return limit(at, "patterns whose automata have more than " + std::to_string(kPatternStatesMax) + " states");
  pattern_states_ -= std::min(pattern_states_, dfa->states());
  if (dfa->empty()) return builder_.never();
  const Part open = mark(spelling().name);
  const uint32_t out = builder_.join();
  std::vector<uint32_t> outs(values.size(), out);
  for (size_t set = 0; set < values.size(); ++set) {
    if (!values[set] || std::find(dfa->label.begin(), dfa->label.end(), static_cast<int>(set)) == dfa->label.end()) continue;
    Part end = builder_.sequence(named(spelling().named), builder_.call(rule_for(*values[set], member_place(kOtherName))));
    end = ended(end, kOtherName);
    builder_.link(end.out, out);
    outs[set] = end.in;
  }
  KVRT_TRY(builder_.status());
  builder_.link(open.out, automaton(*dfa, outs, name_spelling()));
  return Part{open.first, open.in, out};
}

}  // namespace kvrt
