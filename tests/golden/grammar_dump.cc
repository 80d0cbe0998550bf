// Answers that a grammar lets a sampler make, and whether it takes given ones; for tests/golden/schema_valid.py and gbnf_equivalence.py.
// usage: grammar_dump MODEL.gguf|bytes < requests > replies
//   request: u32 kind (0 GBNF, 1 JSON schema, 2 the same, open), generations, texts, tokens_max; u64 seed; then strings: the source, the texts
//   reply:   u32 status class, string message; then (OK only) a string per generation and one byte per text: 1, it is an answer
//   Where the matcher reports LIMIT, the string is the byte 0xFF alone, the byte is 2.
// A string is u32 size and the bytes. Fails where a matcher contradicts itself: accept and mask, replay and first run, an empty mask.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "tests/support/grammar_rig.h"

using namespace kvrt;

namespace {

constexpr char kLimit[] = "\xFF";

struct Request {
  uint32_t kind, generations, texts, tokens_max;
  uint64_t seed;
};

bool read_string(std::string* out) {
  uint32_t size = 0;
  if (fread(&size, sizeof size, 1, stdin) != 1) return false;
  out->resize(size);
  return fread(out->data(), 1, size, stdin) == size;
}

void write_string(const std::string& s) {
  const auto size = static_cast<uint32_t>(s.size());
  fwrite(&size, sizeof size, 1, stdout);
  fwrite(s.data(), 1, s.size(), stdout);
}

bool allowed(std::span<const uint64_t> mask, int32_t token) { return (mask[static_cast<size_t>(token) / 64] >> (token % 64)) & 1; }

Status broken(const char* what) { return error(Code::kInternal, Detail::kNone, "%s", what); }

class Dump {
 public:
  Dump(const Tokenizer& tokenizer, std::shared_ptr<const Grammar> grammar, std::shared_ptr<const GrammarVocab> vocab)
      : tokenizer_(tokenizer), grammar_(std::move(grammar)), vocab_(std::move(vocab)), byte_tokens_(rig::byte_tokens(tokenizer)) {}

  // A sampler's answer; the shortest way to an end from tokens_max tokens on.
  Result<std::string> generate(uint64_t seed, uint32_t tokens_max) {
    GrammarMatcher matcher(grammar_, vocab_), replay(grammar_, vocab_);
    rig::MaskSampler sampler(tokenizer_, seed);
    std::string text;
    std::optional<std::string> way;
    for (uint32_t n = 0;; ++n) {
      if (n >= tokens_max && !text_alone()) return std::string(kLimit);
      if (n >= tokens_max && !way) way = rig::way_out(*grammar_, text, byte_tokens_, 20'000);
      if (n >= tokens_max && !way) return std::string(kLimit);
      if (way && way->empty()) return matcher.may_end() ? Result<std::string>(text) : broken("an end where there is none");
      int32_t token = sampler.draw(matcher.mask());
      if (way) {
        token = byte_tokens_[static_cast<uint8_t>(way->front())];
        way->erase(0, 1);
        if (!allowed(matcher.mask(), token)) return broken("the way to an end is not in the mask");
      }
      if (token < 0) return broken("no token may come");
      const bool may_end = matcher.may_end();
      if (!matcher.accept(token)) return broken("a token of the mask is not accepted");
      if (tokenizer_.is_end(token)) return may_end ? Result<std::string>(text) : broken("an end where there is none");
      if (!replay.accept(token) || replay.may_end() != matcher.may_end()) return broken("a replay differs");
      if (n % 16 == 0 && !std::ranges::equal(replay.mask(), matcher.mask())) return broken("a replay's mask differs");
      text += tokenizer_.piece(token, true);
      if (!matcher.status().is_ok()) return std::string(kLimit);
    }
  }

  // Tries the text by its tokens, and by one token for each byte: both ways must agree, and the masks with them. Where the grammar names
  // tokens the text's spellings of special ones are these.
  Result<char> accepts(const std::string& text) {
    std::vector<int32_t> ids, bytes;
    KVRT_TRY(tokenizer_.encode(text, !text_alone(), &ids));
    for (char c : text) {
      const int32_t id = byte_tokens_[static_cast<uint8_t>(c)];
      if (id < 0) break;
      bytes.push_back(id);
    }
    KVRT_ASSIGN(const char whole, run(ids));
    if (bytes.size() == text.size() && text_alone()) {
      KVRT_ASSIGN(const char single, run(bytes));
      if (single != whole && single != 2 && whole != 2) return broken("two spellings of one text differ");
    }
    return whole;
  }

 private:
  bool text_alone() const { return grammar_->automaton().token_sets.empty(); }

  Result<char> run(const std::vector<int32_t>& ids) {
    GrammarMatcher matcher(grammar_, vocab_);
    for (int32_t id : ids) {
      const bool may = allowed(matcher.mask(), id);
      const bool took = matcher.accept(id);
      if (!matcher.status().is_ok()) return char{2};
      if (took != may) return broken("mask and accept differ");
      if (!may) return char{0};
    }
    return char{matcher.may_end()};
  }

  const Tokenizer& tokenizer_;
  std::shared_ptr<const Grammar> grammar_;
  std::shared_ptr<const GrammarVocab> vocab_;
  std::vector<int32_t> byte_tokens_;
};

Status answer(const Request& r, const Tokenizer& tokenizer, const std::shared_ptr<const GrammarVocab>& vocab) {
  std::string source;
  std::vector<std::string> texts(r.texts);
  bool whole = read_string(&source);
  for (std::string& text : texts) whole = whole && read_string(&text);
  if (!whole) return broken("input ends within a request");
  const auto grammar = r.kind == 0 ? Grammar::from_gbnf(source, vocab.get())
                                   : Grammar::from_json_schema(source, r.kind == 2 ? SchemaMembers::kOpen : SchemaMembers::kClosed);
  const auto code = static_cast<uint32_t>(grammar.status().code());
  fwrite(&code, sizeof code, 1, stdout);
  write_string(grammar.status().message());
  if (!grammar.is_ok()) return {};
  Dump dump(tokenizer, grammar.value(), vocab);
  for (uint32_t i = 0; i < r.generations; ++i) {
    auto text = dump.generate(r.seed + i, r.tokens_max);
    if (!text.is_ok()) return text.take_status().annotate(source);
    write_string(*text);
  }
  for (const std::string& text : texts) {
    auto accepted = dump.accepts(text);
    if (!accepted.is_ok()) return accepted.take_status().annotate(source + " on " + text);
    fputc(*accepted, stdout);
  }
  return {};
}

Status run(const char* path) {
  KVRT_ASSIGN(const auto tokenizer, rig::open_tokenizer(path));
  const auto vocab = GrammarVocab::make(*tokenizer);
  Request request;
  while (fread(&request, sizeof request, 1, stdin) == 1) {
    KVRT_TRY(answer(request, *tokenizer, vocab));
    fflush(stdout);
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return fprintf(stderr, "usage: %s MODEL.gguf|bytes\n", argv[0]), 2;
  const Status status = run(argv[1]);
  if (!status.is_ok()) fprintf(stderr, "%s: %s\n", code_name(status.code()), status.message().c_str());
  return status.is_ok() ? 0 : 1;
}
