// Automaton: a compiled grammar. Each rule is a finite automaton over bytes. An edge may also call another rule, or read a whole token:
// a control token has no bytes that an answer shows. GrammarBuilder makes it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/limits.h"
#include "runtime/base/status.h"
#include "runtime/text/grammar/members.h"
#include "runtime/text/unicode/code_points.h"

namespace kvrt {

// The text that most answers are made of: no quote, backslash or control character. Vocabularies know their tokens of such text, so that
// a place where any of it may come needs no walk over them (Automaton::plain_run).
const CodePointSet& plain_text();
inline constexpr uint8_t kPlainRunMax = 32;  // longer runs count as endless; no plain token is longer

// A set of tokens, by their ids. With `others` it is all tokens except these and those that end an answer.
struct TokenSet {
  std::vector<int32_t> ids;  // sorted
  bool others = false;
  auto operator<=>(const TokenSet&) const = default;
};

struct Automaton {
  enum Kind : uint8_t { kBytes, kCall, kSkip, kToken, kGate };  // kGate: a skip that only an open gate allows
  struct Edge {
    uint32_t to;
    uint32_t rule;  // kCall; kToken: which of token_sets; kGate and kBytes: which of gates
    Kind kind;
    uint8_t lo, hi;  // kBytes
  };
  enum Flag : uint8_t {
    kFinal = 1,
    kEndOnly = 2,
    kReads = 4,
    kPlainStart = 8
  };  // a rule may end here; it must, for there is no edge; an edge reads; a character class that has all of plain_text begins here

  std::vector<Edge> edges;
  std::vector<uint32_t> first_edge;  // node n has [first_edge[n], first_edge[n + 1])
  std::vector<uint8_t> flags;
  std::vector<uint8_t> plain_run;  // how many plain characters may come here, whichever they are
  std::vector<uint32_t> start;     // the start of each rule; the root is rule 0
  std::vector<TokenSet> token_sets;
  std::vector<uint8_t> keeps_members;  // by rule: whether the frame of its call keeps which members have come
  std::vector<MemberRules> objects;
  std::vector<MemberGate> gates;  // the first is always open
  uint8_t byte_class[256] = {};   // bytes of one class are those that no edge tells apart
  uint32_t byte_classes = 1;

  size_t nodes() const { return flags.size(); }
  size_t bytes() const {
    return edges.size() * sizeof(Edge) + nodes() * (sizeof(uint32_t) + 2) + start.size() * (sizeof(uint32_t) + 1) +
           objects.size() * sizeof(MemberRules) + gates.size() * sizeof(MemberGate);
  }
};

class GrammarBuilder {
 public:
  // A piece of a rule under construction. The pieces of a rule are built in the order in which they stand in memory.
  struct Part {
    uint32_t first;    // its nodes are [first, end of all nodes) when it is made
    uint32_t in, out;  // `out` is a node whose next is open
  };
  enum class Spelling { kRaw, kJson };  // kJson: as a JSON string spells the character, shortest escapes only

  explicit GrammarBuilder(std::string what) : what_(std::move(what)) {}  // "grammar" or "schema", for messages

  uint32_t add_rule(std::string name);
  // An object whose members come in any order, of which at most MemberRules::kNamedMax have a name.
  struct Members : MemberRules {
    std::vector<uint32_t> rules;    // the rule of each member's value, by the member's bit
    std::optional<uint32_t> other;  // the rule of another member's value
    // Says whether the object can come to its end; matches(rule) says whether some text matches the rule.
    template <class F>
    bool may_end(F matches) const {
      uint32_t count = other && matches(*other) ? 1 : 0;
      for (size_t i = 0; i < rules.size(); ++i) {
        if (matches(rules[i])) {
          ++count;
        } else if (required >> i & 1) {
          return false;
        }
      }
      return count >= min;
    }
  };
  void keep_members(uint32_t rule, Members members);  // each call of the rule keeps which members have come
  bool keeps_members(uint32_t rule) const { return rules_[rule].object != kOpen; }
  size_t rules() const { return rules_.size(); }
  void define(uint32_t rule, Part part);
  void add_way(uint32_t rule, Part part);  // the rule matches this part, too
  bool defined(uint32_t rule) const { return rules_[rule].in != kOpen; }

  Part empty() { return single({kSkipTo, 0, 0, kOpen, 0}); }
  Part bytes(uint8_t lo, uint8_t hi, uint32_t gate = 0);  // gate 0 is always open
  Part literal(std::string_view bytes);
  static std::string json_text(std::string_view utf8);  // the characters as a JSON string spells them, without quotes
  Part json_literal(std::string_view utf8) { return literal(json_text(utf8)); }
  Part characters(const CodePointSet& set, Spelling spelling);
  Part call(uint32_t rule);
  // Reads one token of the set, whatever its bytes. GrammarVocab::find gives ids. A token that ends an answer may be in the set: it ends the
  // answer there.
  Part token(const TokenSet& set);
  // A way within a rule that keeps members. It is open while the members that have come allow it.
  uint32_t add_gate(uint32_t rule, MemberGate::Way way, uint64_t named, bool another = false);
  Part gate(uint32_t gate) { return single({kGate, 0, 0, kOpen, gate}); }
  Part never();  // no text matches it
  Part sequence(Part a, Part b);
  Part choice(std::span<const Part> parts);
  Part optional(Part a) { return repeat(a, 0, 1); }
  static constexpr uint32_t kNoMax = UINT32_MAX;
  Part repeat(Part a, uint32_t min, uint32_t max);  // `a` must be the last that was made
  // These are for automata that are not nested parts: a join is a node that is linked later, to one way on or to several.
  uint32_t join() { return empty().in; }
  void link(uint32_t node, uint32_t to);
  void link(uint32_t node, std::span<const uint32_t> to);

  // Says for each rule whether some text matches it. It takes that for granted of rules in `assumed`, of those whose nodes stand before
  // `first`, and of those that are not defined.
  std::vector<bool> matching(std::span<const uint32_t> rules, uint32_t first, std::span<const uint32_t> assumed = {}) const;
  uint32_t nodes() const { return static_cast<uint32_t>(nodes_.size()); }

  Status status() const;  // LIMIT once a limit was met; parts built from then on are thrown away
  Result<std::unique_ptr<const Automaton>> build();

 private:
  friend class GrammarLinker;
  friend class RuleDeterminizer;
  static constexpr uint32_t kOpen = UINT32_MAX;
  enum Op : uint8_t { kRead, kCallRule, kReadToken, kFork, kSkipTo, kGate, kEnd, kFail };
  struct Node {
    Op op;
    uint8_t lo, hi;
    uint32_t next;
    uint32_t other;  // kFork: the second way; kCallRule: the rule; kReadToken: the set; kRead and kGate: the gate
  };
  struct Rule {
    std::string name;
    uint32_t in = kOpen;
    bool plain = false;       // it is a character class that has all of plain_text
    uint32_t object = kOpen;  // which of objects_
  };

  uint32_t add(Node node);
  uint32_t fork();
  Part single(Node node);
  uint32_t class_rule(const CodePointSet& set, Spelling spelling);
  void define_classes();

  std::string what_;
  std::vector<Node> nodes_;
  std::vector<Rule> rules_;
  std::map<std::pair<Spelling, std::vector<CodePointSet::Range>>, uint32_t> classes_;
  std::map<TokenSet, uint32_t> token_sets_;
  std::vector<Members> objects_;
  std::vector<MemberGate> gates_{{}};
  std::string limit_;  // the limit that was met
};

}  // namespace kvrt
