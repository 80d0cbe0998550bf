// Structured output: a grammar (GBNF or JSON schema) says which tokens may come next. Over bytes: a token may end within a code point.
//   Grammar (one per source) + GrammarVocab (one per model) -> GrammarMasks (one per both) -> GrammarMatcher (one per generation).
// Replaying the tokens of a generation into a new matcher gives the same state: that is how it survives a suspend.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "runtime/base/status.h"

namespace kvrt {

class Tokenizer;
class GrammarVocab;
struct Automaton;  // automaton.h

// kContinue: the one of the last answer.
enum class GrammarKind : uint32_t { kNone, kGbnf, kJsonSchema, kContinue, kJsonSchemaOpen };

// May an object of a schema that names `properties` and does not say additionalProperties have others?
enum class SchemaMembers : uint8_t { kClosed, kOpen };

// The set of answers that are allowed. Immutable: any thread.
class Grammar {
 public:
  // GBNF: rules, the root is "root"; literals with \n \t \r \" \\ \xNN \uNNNN \UNNNNNNNN, classes, '.', groups, |, ? * + {m} {m,} {m,n}, #; tokens
  // by their ids and texts, <[1000]> <think>, and all others, !<think>: these need `vocab`, and make a grammar of that vocabulary alone.
  // INVALID with line and column (kGrammarError; also left recursion, a token that is not there, and a root that no text matches), LIMIT
  // (kGrammarLimit).
  static Result<std::shared_ptr<const Grammar>> from_gbnf(std::string_view source, const GrammarVocab* vocab = nullptr);
  // JSON schema, by the rules in json_schema.h. A keyword outside of them is UNSUPPORTED by name with the JSON pointer; not a schema, or one
  // that nothing satisfies: INVALID (kGrammarError); LIMIT (kGrammarLimit).
  static Result<std::shared_ptr<const Grammar>> from_json_schema(std::string_view schema, SchemaMembers members = SchemaMembers::kClosed);

  explicit Grammar(std::unique_ptr<const Automaton> automaton);
  ~Grammar();
  const Automaton& automaton() const { return *automaton_; }

 private:
  std::unique_ptr<const Automaton> automaton_;
};

// A tokenizer's tokens as tries over their bytes. Immutable: any thread.
class GrammarVocab {
 public:
  static std::shared_ptr<const GrammarVocab> make(const Tokenizer& tokenizer);
  uint32_t tokens() const;
  // The token that is spelled so: a control token before one of text; -1: none.
  int32_t find(std::string_view text) const;

  struct Impl;
  explicit GrammarVocab(std::unique_ptr<const Impl> impl);
  ~GrammarVocab();
  const Impl& impl() const { return *impl_; }

 private:
  std::unique_ptr<const Impl> impl_;
};

// What is known of a grammar over a vocabulary: the states that answers met, and their masks, each made when it is first asked for. The
// matchers of all sessions share it. Thread-safe.
class GrammarMasks {
 public:
  static std::shared_ptr<GrammarMasks> make(std::shared_ptr<const Grammar> grammar, std::shared_ptr<const GrammarVocab> vocab);
  size_t bytes() const;  // of the grammar, too

  struct Impl;
  explicit GrammarMasks(std::unique_ptr<Impl> impl);
  ~GrammarMasks();
  Impl& impl() const { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

// The state of one generation in its grammar. Not thread-safe.
class GrammarMatcher {
 public:
  explicit GrammarMatcher(std::shared_ptr<GrammarMasks> masks);
  GrammarMatcher(std::shared_ptr<const Grammar> grammar, std::shared_ptr<const GrammarVocab> vocab);  // with masks of its own
  GrammarMatcher(const GrammarMatcher& other);  // goes on from the state of `other`
  ~GrammarMatcher();

  // Bit id % 64 of word id / 64 is set: the token may come now. End tokens (Tokenizer::is_end) may where the grammar may end, other control
  // tokens only where the grammar names them. Valid until the next call. No bit at all: the vocabulary cannot spell the text that must come here.
  std::span<const uint64_t> mask();
  // The token came. False: it is not allowed, and the state is as before. An end token leaves the state as it is, unless the grammar names it.
  bool accept(int32_t token);
  bool may_end() const;   // the text so far is an answer
  bool complete() const;  // and nothing can be added to it
  // LIMIT (kGrammarLimit) once the grammar was too ambiguous or too deep to follow every reading of the text: a token that is allowed
  // still fits the grammar, but some that would fit are not allowed. Sticky.
  Status status() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvrt
