#define PCRE2_CODE_UNIT_WIDTH 8
#include "runtime/text/pretokenizer.h"

#include <pcre2.h>

#include <array>
#include <string>

namespace kvrt {

namespace {

// Unicode's White_Space. PCRE2's own \s and \S are another set (U+180E), so no pattern here uses them.
#define KVRT_SPACE "\\x{9}-\\x{D}\\x{20}\\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}\\x{3000}"
#define KVRT_WORDS "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^" KVRT_SPACE "\\p{L}\\p{N}]+|[" KVRT_SPACE "]+(?![^" KVRT_SPACE "])"

constexpr char kGpt2[] = KVRT_WORDS "|[" KVRT_SPACE "]+";
constexpr char kOneDigit[] = "\\p{N}";

// The patterns are applied in turn, each inside the pieces of the one before; what a pattern leaves between its matches is a
// piece too. So a lookahead never sees beyond its piece.
struct Row {
  const char* name;
  std::array<const char*, 2> patterns;
};
constexpr Row kRows[] = {
    {"gpt-2", {kGpt2}},
    {"smollm", {kOneDigit, kGpt2}},
};

// Far above what these patterns need on any text (they backtrack at most over one run of white space).
constexpr uint32_t kMatchLimit = 100'000'000;
constexpr uint32_t kDepthLimit = 10'000;

struct FreeCode {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct FreeContext {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};
struct FreeMatch {
  void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
};

std::string pcre2_message(int code) {
  char text[128] = "";
  pcre2_get_error_message(code, reinterpret_cast<PCRE2_UCHAR*>(text), sizeof text);
  return text;
}

class PatternList final : public Pretokenizer {
 public:
  Status compile(const Row& row) {
    for (const char* pattern : row.patterns) {
      if (pattern == nullptr) break;
      int code = 0;
      PCRE2_SIZE at = 0;
      codes_.emplace_back(
          pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern), PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP, &code, &at, nullptr));
      if (codes_.back() == nullptr) {
        return error(Code::kInternal, Detail::kNone, "pre-tokenizer %s: PCRE2 at %zu: %s", row.name, at, pcre2_message(code).c_str());
      }
      (void)pcre2_jit_compile(codes_.back().get(), PCRE2_JIT_COMPLETE);  // without it pcre2_match interprets: slower, same pieces
    }
    context_.reset(pcre2_match_context_create(nullptr));
    if (context_ == nullptr) return error(Code::kNoMemory, Detail::kNone, "pre-tokenizer: no memory for a match context");
    pcre2_set_match_limit(context_.get(), kMatchLimit);
    pcre2_set_depth_limit(context_.get(), kDepthLimit);
    return Status::ok();
  }

  Status split(std::string_view text, std::vector<std::string_view>* pieces) const override {
    std::unique_ptr<pcre2_match_data, FreeMatch> match(pcre2_match_data_create(1, nullptr));
    if (match == nullptr) return error(Code::kNoMemory, Detail::kNone, "pre-tokenizer: no memory for a match");
    std::vector<std::string_view> current = {text}, next;
    for (size_t i = 0; i < codes_.size(); ++i) {
      bool last = i + 1 == codes_.size();
      next.clear();
      std::vector<std::string_view>* out = last ? pieces : &next;
      for (std::string_view piece : current) KVRT_TRY(split_piece(codes_[i].get(), piece, match.get(), out));
      current.swap(next);
    }
    return Status::ok();
  }

 private:
  Status split_piece(const pcre2_code* code, std::string_view piece, pcre2_match_data* match, std::vector<std::string_view>* out) const {
    size_t at = 0;
    while (at < piece.size()) {
      int rc = pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(piece.data()), piece.size(), at, PCRE2_NO_UTF_CHECK, match, context_.get());
      if (rc == PCRE2_ERROR_NOMATCH) break;
      if (rc < 0)
        return error(Code::kLimit, Detail::kNone, "pre-tokenizer: a piece of %zu bytes: %s", piece.size(), pcre2_message(rc).c_str());
      const PCRE2_SIZE* span = pcre2_get_ovector_pointer(match);
      if (span[0] > at) out->push_back(piece.substr(at, span[0] - at));
      out->push_back(piece.substr(span[0], span[1] - span[0]));  // never empty: no pattern matches the empty string
      at = span[1];
    }
    if (at < piece.size()) out->push_back(piece.substr(at));
    return Status::ok();
  }

  std::vector<std::unique_ptr<pcre2_code, FreeCode>> codes_;
  std::unique_ptr<pcre2_match_context, FreeContext> context_;
};

}  // namespace

Result<std::unique_ptr<Pretokenizer>> Pretokenizer::create(std::string_view name) {
  for (const Row& row : kRows) {
    if (name != row.name) continue;
    auto list = std::make_unique<PatternList>();
    KVRT_TRY(list->compile(row));
    return std::unique_ptr<Pretokenizer>(std::move(list));
  }
  return error(Code::kUnsupported, Detail::kNone, "pre-tokenizer \"%.*s\" (tokenizer.ggml.pre) is not supported",
               static_cast<int>(name.size()), name.data());
}

}  // namespace kvrt
