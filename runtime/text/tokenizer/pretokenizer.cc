#define PCRE2_CODE_UNIT_WIDTH 8
#include "runtime/text/tokenizer/pretokenizer.h"

#include <pcre2.h>

#include <algorithm>
#include <array>
#include <string>

namespace kvrt {

namespace {

// Unicode's White_Space. PCRE2's own \s and \S are another set (U+180E), so no pattern here uses them.
#define SPACE "\\x{9}-\\x{D}\\x{20}\\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}\\x{3000}"
#define CONTRACTION "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define SPACE_ENDS "[" SPACE "]+(?![^" SPACE "])|[" SPACE "]+"
#define NEWLINES "[" SPACE "]*[\\r\\n]+"
#define LETTERS "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
#define PUNCTUATION " ?[^" SPACE "\\p{L}\\p{N}]+"
// Words that change from upper to lower case are cut: "HTTPServer" is "HTTP", "Server".
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED(tail) "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" tail "|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER "*" tail
#define NOT_HAN(set) "(?:(?!\\p{sc:Han})" set ")"
#define CASED_NOT_HAN(tail) \
  "[^\\r\\n\\p{L}\\p{N}]?" NOT_HAN(UPPER) "*" NOT_HAN(LOWER) "+" tail "|[^\\r\\n\\p{L}\\p{N}]?" NOT_HAN(UPPER) "+" NOT_HAN(LOWER) "*" tail

constexpr char kGpt2[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+|" PUNCTUATION "|" SPACE_ENDS;
constexpr char kDigit[] = "\\p{N}";
constexpr char kThreeDigits[] = "\\p{N}{1,3}";
constexpr char kLlama3[] = CONTRACTION "|" LETTERS "|\\p{N}{1,3}|" PUNCTUATION "[\\r\\n]*|" NEWLINES "|" SPACE_ENDS;
constexpr char kQwen2[] = CONTRACTION "|" LETTERS "|\\p{N}|" PUNCTUATION "[\\r\\n]*|" NEWLINES "|" SPACE_ENDS;
constexpr char kQwen35[] =
    CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^" SPACE "\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" NEWLINES "|" SPACE_ENDS;
constexpr char kMinicpm5[] = CONTRACTION "|" LETTERS "|\\p{N}+|" PUNCTUATION "[\\r\\n]*|" NEWLINES "|" SPACE_ENDS;
#define SPACES_END(count) "|[" SPACE "]{" count "}(?![^" SPACE "])"
constexpr char kJais2[] = CONTRACTION "|" LETTERS "|\\p{N}{1,3}|" PUNCTUATION "[\\r\\n]*|" NEWLINES SPACES_END("512") SPACES_END("256")
    SPACES_END("128") SPACES_END("64") SPACES_END("32") SPACES_END("16") SPACES_END("8") SPACES_END("4") SPACES_END("1,2") "|[" SPACE "]";
constexpr char kSeedCoder[] = CONTRACTION "|" LETTERS "|\\p{N}| ?[^" SPACE "\\p{L}\\p{N}\\r\\n]+|" NEWLINES "|" SPACE_ENDS;
constexpr char kBailing[] =
    "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| ?[^" SPACE "\\p{L}\\p{N}]++[\\r\\n]*|[" SPACE "]*[\\r\\n]|" SPACE_ENDS;
// Words with one space between them are one piece.
constexpr char kExaoneMoe[] =
    CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}(?:\\p{M}| ?\\p{L})*+|\\p{N}|" PUNCTUATION "[\\r\\n/]?|[" SPACE "]*[\\r\\n]|" SPACE_ENDS;
constexpr char kTekken[] = CASED("") "|\\p{N}|" PUNCTUATION "[\\r\\n/]*|" NEWLINES "|" SPACE_ENDS;
constexpr char kGpt4o[] = CASED(CONTRACTION "?") "|\\p{N}{1,3}|" PUNCTUATION "[\\r\\n/]*|" NEWLINES "|" SPACE_ENDS;
constexpr char kKimi[] = "\\p{sc:Han}+|" CASED_NOT_HAN(CONTRACTION "?") "|\\p{N}{1,3}|" PUNCTUATION "[\\r\\n]*|" NEWLINES "|" SPACE_ENDS;
constexpr char kBloom[] = " ?[^(" SPACE "|.,!?\\x{2026}\\x{3002}\\x{FF0C}\\x{3001}\\x{964}\\x{6D4}\\x{60C})]+";
constexpr char kPunctuationRun[] = "[\\p{P}$+<=>^`|~]+";
constexpr char kDefaultPunctuation[] = "[\\p{P}$+<=>^~|]+";  // as kPunctuationRun, but for the grave accent
constexpr char kPunctuationMark[] = "[\\p{P}$+<=>^`|~]";
constexpr char kThreeAscii[] = "[0-9][0-9][0-9]";
constexpr char kNewline[] = "[\\r\\n]";
constexpr char kCjk[] = "[\\x{4E00}-\\x{9FA5}\\x{800}-\\x{4E00}\\x{AC00}-\\x{D7FF}]+";
constexpr char kCjkKana[] = "[\\x{4E00}-\\x{9FA5}\\x{3040}-\\x{309F}\\x{30A0}-\\x{30FF}]+";
constexpr char kDeepseek3[] =
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|" NEWLINES
    "|" SPACE_ENDS;
// The letters with case that deepseek-llm's tokenizer lists.
constexpr char kDeepseekLetters[] =
    "[" SPACE
    "]?[A-Za-z\\x{B5}\\x{C0}-\\x{D6}\\x{D8}-\\x{F6}\\x{F8}-\\x{1BA}\\x{1BC}-\\x{1BF}\\x{1C4}-\\x{293}\\x{295}-\\x{2AF}\\x{370}-\\x{373}\\x{"
    "376}"
    "\\x{377}\\x{37B}-\\x{37D}\\x{37F}\\x{386}\\x{388}-\\x{38A}\\x{38C}\\x{38E}-\\x{3A1}\\x{3A3}-\\x{3F5}\\x{3F7}-\\x{481}\\x{48A}-\\x{52F}"
    "\\x{531}-\\x{556}\\x{10A0}-\\x{10C5}\\x{13A0}-\\x{13F5}\\x{13F8}-\\x{13FD}\\x{1C90}-\\x{1CBA}\\x{1CBD}-\\x{1CBF}\\x{1D00}-\\x{1D2B}"
    "\\x{1D6B}-\\x{1D77}\\x{1D79}-\\x{1D9A}\\x{1E00}-\\x{1F15}\\x{1F18}-\\x{1F1D}\\x{1F20}-\\x{1F45}\\x{1F48}-\\x{1F4D}\\x{1F50}-\\x{1F57}"
    "\\x{1F59}\\x{1F5B}\\x{1F5D}\\x{1F5F}-\\x{1F7D}\\x{1F80}-\\x{1FB4}\\x{1FB6}-\\x{1FBC}\\x{1FBE}\\x{1FC2}-\\x{1FC4}\\x{1FC6}-\\x{1FCC}"
    "\\x{1FD0}-\\x{1FD3}\\x{1FD6}-\\x{1FDB}\\x{1FE0}-\\x{1FEC}\\x{1FF2}-\\x{1FF4}\\x{1FF6}-\\x{1FFC}\\x{2102}\\x{2107}\\x{210A}-\\x{2113}"
    "\\x{2115}\\x{2119}-\\x{211D}\\x{2124}\\x{2126}\\x{2128}\\x{212A}-\\x{212D}\\x{212F}-\\x{2134}\\x{2139}\\x{213C}-\\x{213F}"
    "\\x{2145}-\\x{2149}\\x{214E}\\x{2183}\\x{2184}\\x{2C00}-\\x{2C7B}\\x{2C7E}-\\x{2CE4}\\x{2CEB}-\\x{2CEE}\\x{2CF2}\\x{2CF3}"
    "\\x{A640}-\\x{A66D}\\x{A680}-\\x{A69B}\\x{A722}-\\x{A76F}\\x{A771}-\\x{A787}\\x{A78B}-\\x{A78E}\\x{AB70}-\\x{ABBF}\\x{FB00}-\\x{FB06}"
    "\\x{FB13}-\\x{FB17}\\x{FF21}-\\x{FF3A}\\x{FF41}-\\x{FF5A}\\x{10400}-\\x{1044F}\\x{104B0}-\\x{104D3}\\x{104D8}-\\x{104FB}"
    "\\x{10C80}-\\x{10CB2}\\x{10CC0}-\\x{10CF2}\\x{118A0}-\\x{118DF}\\x{1E900}-\\x{1E943}]+";
constexpr char kDeepseekPunctuation[] = "[" SPACE "]?[!-/:-~\\x{FF01}-\\x{FF0F}\\x{FF1A}-\\x{FF5E}\\x{2018}-\\x{201F}\\x{3000}-\\x{3002}]+";
constexpr char kTrailingSpace[] = "(?<![" SPACE "])[" SPACE "]+\\z";  // pieces hold no newline by then
constexpr char kSpacedLetters[] = "[" SPACE "]?\\p{L}+";
constexpr char kSpacedPunctuation[] = "[" SPACE "]?\\p{P}+";
constexpr char kGroupsOfThree[] = "\\p{Nd}+";  // cut inside each match, in threes from its end: see split_groups
constexpr char kSentinel[] = "<sentinel:[0-9]+>";
constexpr char kImageToken[] = "IMGIMG[A-I]{1,4}Z";
constexpr char kIndent[] = "[\\t\\n]|    |  ";
// Falcon's digits are found after the text was spelled in the byte alphabet, where these bytes look like digits and fractions.
constexpr char kDigitBytes[] = "[0-9\\xB2\\xB3\\xB9\\xBC-\\xBE]+";

// The patterns are applied in turn, each inside the pieces of the one before; text that a pattern leaves between its matches is
// a piece too. So a lookahead never sees beyond its piece.
using Patterns = std::array<const char*, 6>;
constexpr Patterns kGpt2List = {kGpt2}, kDigitList = {kDigit, kGpt2}, kLlama3List = {kLlama3}, kQwen2List = {kQwen2}, kGpt4oList = {kGpt4o},
                   kBloomList = {kBloom}, kDeepseek3List = {kThreeDigits, kCjkKana, kDeepseek3}, kBailingList = {kBailing};

enum Flags : uint8_t { kIgnoreMerges = 1, kAddBos = 2, kNfc = 4 };
struct Row {
  std::string_view name;
  Patterns patterns;
  uint8_t flags = 0;
};
constexpr Row kRows[] = {
    {"default", {kDefaultPunctuation, kGpt2, "\\p{N}+", kThreeAscii}},
    {"gpt-2", kGpt2List},
    {"phi-2", kGpt2List},
    {"roberta-bpe", kGpt2List},
    {"jina-es", kGpt2List},
    {"jina-de", kGpt2List},
    {"jina-v1-en", kGpt2List},
    {"jina-v2-es", kGpt2List},
    {"jina-v2-de", kGpt2List},
    {"jina-v2-code", kGpt2List},
    {"gigachat", kGpt2List},
    {"a.x-4.0", kGpt2List},
    {"mellum", kGpt2List},
    {"modern-bert", kGpt2List, kNfc},
    {"exaone4", kGpt2List},
    {"mpt", kGpt2List, kNfc},
    {"olmo", kGpt2List, kNfc},
    {"jais", kGpt2List},
    {"trillion", kGpt2List},
    {"granite-docling", kGpt2List},
    {"starcoder", kDigitList},
    {"refact", kDigitList},
    {"command-r", kDigitList, kNfc},
    {"smollm", kDigitList},
    {"codeshell", kDigitList},
    {"exaone", kDigitList},
    {"minerva-7b", kDigitList},
    {"mellum2", kDigitList},
    {"llama3", kLlama3List, kIgnoreMerges | kAddBos},
    {"llama-v3", kLlama3List, kIgnoreMerges | kAddBos},
    {"llama-bpe", kLlama3List, kIgnoreMerges | kAddBos},
    {"falcon3", kLlama3List, kIgnoreMerges | kAddBos},
    {"falcon-h1", kLlama3List, kIgnoreMerges | kAddBos},
    {"pixtral", kLlama3List, kIgnoreMerges | kAddBos},
    {"midm-2.0", kLlama3List, kIgnoreMerges | kAddBos},
    {"lfm2", kLlama3List, kIgnoreMerges | kAddBos},
    {"jina-v5-nano", kLlama3List, kIgnoreMerges | kAddBos},
    {"minicpm5", {kThreeDigits, kMinicpm5}, kIgnoreMerges},
    {"jais-2", {kJais2}},
    {"dbrx", kLlama3List},
    {"smaug-bpe", kLlama3List},
    {"glm4", kLlama3List},
    {"chatglm-bpe", kLlama3List},
    {"qwen2", kQwen2List, kNfc},
    {"deepseek-r1-qwen", kQwen2List, kNfc},
    {"stablelm2", kQwen2List, kNfc},
    {"megrez", kQwen2List},
    {"hunyuan", kQwen2List, kNfc},
    {"solar-open", kQwen2List},
    {"grok-2", kQwen2List},
    {"kormo", kQwen2List},
    {"f2llmv2", kQwen2List, kNfc},
    {"qwen35", {kQwen35}, kNfc},
    {"seed-coder", {kSeedCoder}},
    {"exaone-moe", {kExaoneMoe}},
    {"bailingmoe", kBailingList},
    {"bailingmoe2", kBailingList},
    {"llada-moe", kBailingList},
    {"tekken", {kTekken}, kIgnoreMerges | kAddBos},
    {"gpt-4o", kGpt4oList},
    {"llama4", kGpt4oList},
    {"kanana2", kGpt4oList},
    {"talkie", kGpt4oList},
    {"minimax-m2", kGpt4oList},
    {"kimi-k2", {kKimi}},
    {"deepseek-llm", {kNewline, kDeepseekLetters, kDeepseekPunctuation, kTrailingSpace, kCjk, kDigit}},
    {"deepseek-coder", {kNewline, kSpacedLetters, kSpacedPunctuation, kCjk, kDigit}},
    {"deepseek-v3", kDeepseek3List},
    {"hunyuan-dense", kDeepseek3List},
    {"joyai-llm", kDeepseek3List},
    {"hy_v4", kDeepseek3List},
    {"falcon", {kPunctuationRun, kGpt2, kDigitBytes, kThreeAscii}},
    {"bloom", kBloomList},
    {"poro-chat", kBloomList},
    {"gpt3-finnish", kBloomList},
    {"viking", {kBloom, kDigit}},
    {"superbpe", {"\\p{N}+", kGroupsOfThree}},
    {"chameleon", {kSentinel, kImageToken, kIndent, kDigit, kPunctuationMark, kGpt2}, kAddBos},
};

// Far above the need of these patterns on any text (they backtrack at most over one run of white space or letters).
constexpr uint32_t kMatchLimit = 100'000'000;
constexpr uint32_t kMatchHeapKiB = 256 << 10;

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
    ignores_merges_ = row.flags & kIgnoreMerges;
    adds_bos_ = row.flags & kAddBos;
    composes_ = row.flags & kNfc;
    bool bytes = false;
    for (const char* pattern : row.patterns) {
      if (pattern == nullptr) break;
      if (pattern == kGroupsOfThree) groups_ = codes_.size();
      bytes |= pattern == kDigitBytes;  // its pieces may end within a code point
      int code = 0;
      PCRE2_SIZE at = 0;
      codes_.emplace_back(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern), PCRE2_ZERO_TERMINATED, bytes ? 0 : PCRE2_UTF | PCRE2_UCP,
                                        &code, &at, nullptr));
      if (codes_.back() == nullptr) {
        return error(code == PCRE2_ERROR_HEAP_FAILED ? Code::kNoMemory : Code::kInternal, Detail::kNone,
                     "pre-tokenizer %s: PCRE2 at %zu: %s", row.name.data(), at, pcre2_message(code).c_str());
      }
      jit_ &= pcre2_jit_compile(codes_.back().get(), PCRE2_JIT_COMPLETE) == 0;  // without it pcre2_match interprets: slower, same pieces
    }
    context_.reset(pcre2_match_context_create(nullptr));
    if (context_ == nullptr) return error(Code::kNoMemory, Detail::kNone, "pre-tokenizer: no memory for a match context");
    pcre2_set_match_limit(context_.get(), kMatchLimit);
    pcre2_set_heap_limit(context_.get(), kMatchHeapKiB);
    return Status::ok();
  }

  Status split(std::string_view text, Pieces* scratch, Pieces* pieces) const override {
    std::unique_ptr<pcre2_match_data, FreeMatch> match(pcre2_match_data_create(1, nullptr));
    if (match == nullptr) return error(Code::kNoMemory, Detail::kNone, "pre-tokenizer: no memory for a match");
    if (codes_.size() == 1) return split_piece(0, text, match.get(), pieces);
    // Two buffers in turn; the last step appends to `pieces`.
    Pieces current = {text};
    for (size_t i = 0; i < codes_.size(); ++i) {
      bool last = i + 1 == codes_.size();
      scratch->clear();
      Pieces* out = last ? pieces : scratch;
      for (std::string_view piece : current) KVRT_TRY(split_piece(i, piece, match.get(), out));
      current.swap(*scratch);
    }
    return Status::ok();
  }

 private:
  // A match at or after `at`. The rare text that needs more than JIT's stack is matched by the interpreter, on the heap.
  int find(const pcre2_code* code, std::string_view piece, size_t at, pcre2_match_data* match) const {
    auto subject = reinterpret_cast<PCRE2_SPTR>(piece.data());
    if (jit_) {
      int rc = pcre2_jit_match(code, subject, piece.size(), at, 0, match, context_.get());
      if (rc != PCRE2_ERROR_JIT_STACKLIMIT) return rc;
    }
    return pcre2_match(code, subject, piece.size(), at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, match, context_.get());
  }

  Status split_piece(size_t step, std::string_view piece, pcre2_match_data* match, Pieces* out) const {
    const bool groups = step == groups_;
    size_t begin = 0, at = 0;  // the piece that grows begins here; the search goes on here
    while (at < piece.size()) {
      int rc = find(codes_[step].get(), piece, at, match);
      if (rc == PCRE2_ERROR_NOMATCH) break;
      if (rc < 0)
        return error(rc == PCRE2_ERROR_NOMEMORY ? Code::kNoMemory : Code::kLimit, Detail::kNone, "pre-tokenizer: a piece of %zu bytes: %s",
                     piece.size(), pcre2_message(rc).c_str());
      const PCRE2_SIZE* span = pcre2_get_ovector_pointer(match);
      at = span[1];
      if (groups) {
        begin = split_groups(piece, begin, span[0], span[1], out);
        continue;
      }
      if (span[0] > begin) out->push_back(piece.substr(begin, span[0] - begin));
      out->push_back(piece.substr(span[0], span[1] - span[0]));  // never empty: no pattern matches the empty string
      begin = at;
    }
    if (begin < piece.size()) out->push_back(piece.substr(begin));
    return Status::ok();
  }

  // Cuts before every third of the digits from `first` to `last`, counted from the end; returns where the growing piece begins now.
  static size_t split_groups(std::string_view piece, size_t begin, size_t first, size_t last, Pieces* out) {
    auto continues = [&](size_t i) { return (static_cast<unsigned char>(piece[i]) & 0xC0) == 0x80; };
    size_t left = 0;  // digits that are still to come
    for (size_t i = first; i < last; ++i) left += !continues(i);
    for (size_t i = first; i < last; ++i) {
      if (continues(i)) continue;
      if (left-- % 3 != 0 || i == begin) continue;
      out->push_back(piece.substr(begin, i - begin));
      begin = i;
    }
    return begin;
  }

  std::vector<std::unique_ptr<pcre2_code, FreeCode>> codes_;
  std::unique_ptr<pcre2_match_context, FreeContext> context_;
  bool jit_ = true;
  size_t groups_ = SIZE_MAX;  // the step that is kGroupsOfThree
};

}  // namespace

Result<std::unique_ptr<Pretokenizer>> Pretokenizer::create(std::string_view name) {
  if (name.empty()) name = "default";
  for (const Row& row : kRows) {
    if (name != row.name) continue;
    auto list = std::make_unique<PatternList>();
    KVRT_TRY(list->compile(row));
    return std::unique_ptr<Pretokenizer>(std::move(list));
  }
  return error(Code::kUnsupported, Detail::kNone, "pre-tokenizer \"%.*s\" (tokenizer.ggml.pre) is not supported",
               static_cast<int>(std::min<size_t>(name.size(), 64)), name.data());
}

}  // namespace kvrt
