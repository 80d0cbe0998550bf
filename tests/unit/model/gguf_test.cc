// The reader against files built field by field: a good one is read in full, and each bad one gets its status.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <new>

#include "runtime/base/limits.h"
#include "runtime/model/model.h"
#include "tests/support/gguf_writer.h"

namespace {
size_t largest_allocation = 0;  // since it was last set to 0
}

// Not inlined, or the compiler sees malloc's memory freed by delete and warns.
[[gnu::noinline]] void* operator new(size_t bytes) {
  largest_allocation = std::max(largest_allocation, bytes);
  if (void* p = std::malloc(bytes ? bytes : 1)) return p;
  std::abort();
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, size_t) noexcept { std::free(p); }

namespace kvrt {
namespace {

using test::GgufField;
using test::GgufModel;
using test::GgufWriter;

Status parse_status(std::span<const uint8_t> bytes) { return GgufFile::parse(bytes, "test.gguf").take_status(); }

Backend* backend() {
  static const std::unique_ptr<Backend> instance = [] {
    CpuOptions options;
    options.threads = 1;
    options.isa = "scalar";
    return std::move(open_cpu(options, nullptr)).value();
  }();
  return instance.get();
}

// All that a file means to the model layer; a status where it means nothing.
Status meaning(std::span<const uint8_t> bytes, std::string* out) {
  KVRT_ASSIGN(auto file, GgufFile::parse(bytes, "test.gguf"));
  KVRT_ASSIGN(auto model, load_model(*file, backend(), nullptr));
  KVRT_ASSIGN(Hash256 id, model_id(*file, nullptr, nullptr));
  *out = id.hex() + " " + std::string(file->get_string("tokenizer.ggml.pre").value_or("absent"));
  for (std::string_view token : file->get_strings("tokenizer.ggml.tokens").value_or(std::vector<std::string_view>{})) {
    *out += "|" + std::string(token);
  }
  return Status::ok();
}

std::vector<uint8_t> sample(GgufWriter* w) {
  return GgufModel().write(w, [](GgufWriter& more) {
    more.add_string("tokenizer.ggml.pre", "smollm");
    more.add_strings("tokenizer.ggml.tokens", {"a", "", "ccc"});
    more.add_u32("general.alignment", 32);
  });
}

void expect_status(const Status& status, Code code, std::initializer_list<const char*> words) {
  EXPECT_EQ(status.code(), code) << status.message();
  for (const char* word : words) EXPECT_NE(status.message().find(word), std::string::npos) << word << " not in: " << status.message();
}

TEST(Gguf, ReadsEveryKindOfValueInVersions2And3) {
  for (uint32_t version : {2u, 3u}) {
    GgufWriter w(version);
    w.add_u32("u32", 7);
    w.add_scalar("i8", 1, static_cast<int8_t>(-3));
    w.add_scalar("u64", 10, UINT64_MAX);
    w.add_scalar("f64", 12, 0.25);
    w.add_f32("f32", -1.5f);
    w.add_bool("bool", true);
    w.add_string("string", "text");
    w.add_strings("strings", {"x", "", "yz"});
    w.add_array<int16_t>("ints", 3, {-1, 2});
    w.add_array<float>("floats", 6, {0.5f, -2.0f});
    w.add_tensor("t", 0, {2, 3}, std::vector<uint8_t>(24, 9));
    const std::vector<uint8_t> bytes = w.finish();
    auto file = GgufFile::parse(bytes, "test.gguf");
    ASSERT_TRUE(file.is_ok()) << file.status().message();
    const GgufFile& f = **file;
    EXPECT_EQ(f.get_uint("u32"), 7u);
    EXPECT_EQ(f.get_uint("i8"), std::nullopt);  // negative
    EXPECT_EQ(f.get_uint("u64"), UINT64_MAX);
    EXPECT_EQ(f.get_float("f64"), 0.25);
    EXPECT_EQ(f.get_float("f32"), -1.5);
    EXPECT_EQ(f.get_float("u32"), std::nullopt);
    EXPECT_EQ(f.get_bool("bool"), true);
    EXPECT_EQ(f.get_string("string"), "text");
    EXPECT_EQ(f.get_strings("strings"), (std::vector<std::string_view>{"x", "", "yz"}));
    EXPECT_EQ(f.get_ints("ints"), (std::vector<int64_t>{-1, 2}));
    EXPECT_EQ(f.get_floats("floats"), (std::vector<float>{0.5f, -2.0f}));
    EXPECT_FALSE(f.has("absent"));
    expect_status(f.require_uint("string", 0, 9).take_status(), Code::kCorrupt, {"test.gguf", "string", "integer"});
    expect_status(f.require_uint("absent", 0, 9).take_status(), Code::kCorrupt, {"absent", "no such key"});
    expect_status(f.require_uint("u32", 0, 6).take_status(), Code::kLimit, {"u32", "7", "6"});
    expect_status(f.require_string("ints").take_status(), Code::kCorrupt, {"ints", "array of i16"});
    const GgufTensor* tensor = f.find("t");
    ASSERT_NE(tensor, nullptr);
    EXPECT_EQ(tensor->view.rows(), 3u);
    EXPECT_EQ(tensor->view.data.data(), bytes.data() + w.data_at);
    EXPECT_EQ(tensor->view.data.size(), 24u);
    EXPECT_EQ(f.find("u"), nullptr);
  }
}

TEST(Gguf, FilesThatAreNotGgufEachGetTheirStatus) {
  const auto dir = std::filesystem::temp_directory_path() / ("kvrt_gguf_test_" + std::to_string(::getpid()));
  std::filesystem::create_directories(dir);
  const std::string path = (dir / "x.gguf").string();
  expect_status(GgufFile::open(path).take_status(), Code::kNotFound, {"x.gguf"});
  expect_status(GgufFile::open(dir.string()).take_status(), Code::kInvalid, {"directory"});
  std::ofstream(path).close();
  expect_status(GgufFile::open(path).take_status(), Code::kCorrupt, {"empty"});
  std::ofstream(path) << "PK\3\4 something else";
  expect_status(GgufFile::open(path).take_status(), Code::kCorrupt, {"not a GGUF file", "50 4b 03 04"});
  GgufWriter w;
  const std::vector<uint8_t> good = sample(&w);
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(good.data()), static_cast<std::streamsize>(good.size()));
  auto file = GgufFile::open(path);
  ASSERT_TRUE(file.is_ok()) << file.status().message();
  EXPECT_EQ((*file)->file_bytes(), good.size());
  EXPECT_EQ((*file)->identity().size, good.size());
  EXPECT_NE((*file)->identity().inode, 0u);
  const GgufTensor* tensor = (*file)->find("token_embd.weight");
  ASSERT_NE(tensor, nullptr);
  const std::vector<uint8_t> before(tensor->view.data.begin(), tensor->view.data.end());
  (*file)->drop_pages(tensor->view.data);  // the bytes come back from the file
  EXPECT_TRUE(std::equal(before.begin(), before.end(), tensor->view.data.begin()));
  std::filesystem::remove_all(dir);
}

TEST(Gguf, OtherVersionsAndByteOrdersAreNamed) {
  GgufWriter w;
  std::vector<uint8_t> bytes = sample(&w);
  for (auto [version, word] : {std::pair{1u, "version 1"}, {4u, "version 4"}, {0u, "version 0"}, {0x03000000u, "big-endian"}}) {
    std::memcpy(bytes.data() + 4, &version, 4);
    expect_status(parse_status(bytes), Code::kUnsupported, {word});
  }
}

TEST(Gguf, ViolationsOfTheFormatAreNamed) {
  struct Case {
    Code code;
    const char* word;
    void (*write)(GgufWriter&);
  };
  const std::vector<Case> cases = {
      {Code::kCorrupt, "key a appears twice", [](GgufWriter& w) { w.add_u32("a", 1), w.add_u32("a", 1); }},
      {Code::kCorrupt, "tensor t appears twice",
       [](GgufWriter& w) { w.add_tensor("t", 24, {32}, std::vector<uint8_t>(32)), w.add_tensor("t", 24, {32}, std::vector<uint8_t>(32)); }},
      {Code::kCorrupt, "general.alignment: expected u32", [](GgufWriter& w) { w.add_string("general.alignment", "32"); }},
      {Code::kCorrupt, "power of two", [](GgufWriter& w) { w.add_u32("general.alignment", 48); }},
      {Code::kCorrupt, "power of two", [](GgufWriter& w) { w.add_u32("general.alignment", 0); }},
      {Code::kLimit, "general.alignment", [](GgufWriter& w) { w.add_u32("general.alignment", 1u << 31); }},
      {Code::kCorrupt, "unknown type 13", [](GgufWriter& w) { w.add_scalar("a", 13, uint64_t{0}); }},
      {Code::kCorrupt, "bool is 0 or 1", [](GgufWriter& w) { w.add_scalar("a", 7, uint8_t{2}); }},
      {Code::kUnsupported, "array of arrays", [](GgufWriter& w) { w.add_array<uint8_t>("a", 9, {0}); }},
      {Code::kCorrupt, "not printable", [](GgufWriter& w) { w.add_u32("", 1); }},
      {Code::kCorrupt, "not printable", [](GgufWriter& w) { w.add_u32(std::string("a\0b", 3), 1); }},
      {Code::kLimit, "a metadata key", [](GgufWriter& w) { w.add_u32(std::string(kGgufKeyBytesMax + 1, 'k'), 1); }},
      {Code::kUnsupported, "unknown tensor type 99", [](GgufWriter& w) { w.add_tensor("t", 99, {32}, std::vector<uint8_t>(32)); }},
      {Code::kCorrupt, "multiple of 32 elements, found 33", [](GgufWriter& w) { w.add_tensor("t", 8, {33}, std::vector<uint8_t>(68)); }},
      {Code::kCorrupt, "dimension 1 is 0",
       [](GgufWriter& w) {
         w.add_tensor("t", 0, {8, 0}, {});
       }},
      {Code::kCorrupt, "at most 4 dimensions, found 5",
       [](GgufWriter& w) {
         w.add_tensor("t", 0, {1, 1, 1, 1, 1}, std::vector<uint8_t>(4));
       }},
      {Code::kCorrupt, "larger than the file",
       [](GgufWriter& w) {
         w.add_tensor("t", 0, {1ull << 32, 1ull << 32}, std::vector<uint8_t>(4));
       }},
      {Code::kCorrupt, "larger than the file",
       [](GgufWriter& w) {
         w.add_tensor("t", 24, {1ull << 63, 2, 1, 1}, std::vector<uint8_t>(4));
       }},
      {Code::kCorrupt, "incomplete", [](GgufWriter& w) { w.add_tensor("t", 24, {64}, std::vector<uint8_t>(63)); }},
  };
  for (const Case& c : cases) {
    GgufWriter w;
    c.write(w);
    const Status status = parse_status(w.finish());
    expect_status(status, c.code, {"test.gguf", c.word});
    EXPECT_EQ(status.detail(), c.code == Code::kCorrupt ? Detail::kFormat : Detail::kNone);
  }
}

TEST(Gguf, TypesThatKvrtLacksStillHaveTheirExtentsChecked) {
  GgufWriter w;
  w.add_tensor("t", 14, {512}, std::vector<uint8_t>(420));  // Q6_K: 2 blocks of 210 bytes
  std::vector<uint8_t> bytes = w.finish();
  auto file = GgufFile::parse(bytes, "test.gguf");
  ASSERT_TRUE(file.is_ok()) << file.status().message();
  EXPECT_EQ((*file)->find("t")->view.data.size(), 420u);
  bytes.pop_back();
  expect_status(parse_status(bytes), Code::kCorrupt, {"incomplete", std::to_string(bytes.size() + 1).c_str()});
}

TEST(Gguf, AHugeCountInATinyFileFailsBeforeAnythingIsAllocated) {
  GgufWriter w;
  const std::vector<uint8_t> good = sample(&w);
  for (const GgufField& field : w.fields()) {
    if (field.bytes != 8 || field.kind != GgufField::kStructure) continue;
    for (uint64_t value :
         {uint64_t{65'536}, uint64_t{1} << 24, uint64_t{1} << 32, uint64_t{1} << 62, uint64_t{1} << 63, UINT64_MAX, UINT64_MAX - 31}) {
      std::vector<uint8_t> bytes = good;
      std::memcpy(bytes.data() + field.at, &value, 8);
      largest_allocation = 0;
      const Status status = parse_status(bytes);
      EXPECT_FALSE(status.is_ok()) << field.what << " = " << value;
      EXPECT_LE(largest_allocation, 4 * bytes.size()) << field.what << " = " << value;
    }
  }
}

TEST(Gguf, CutAtEveryByteIsCorrupt) {
  GgufWriter w;
  const std::vector<uint8_t> good = sample(&w);
  ASSERT_TRUE(parse_status(good).is_ok()) << parse_status(good).message();
  for (size_t size = 0; size < good.size(); ++size) {
    // Its own allocation, so that a sanitizer sees the first byte read past the end.
    const std::vector<uint8_t> bytes(good.begin(), good.begin() + static_cast<ptrdiff_t>(size));
    const Status status = parse_status(bytes);
    ASSERT_EQ(status.code(), Code::kCorrupt) << "cut at " << size << ": " << status.message();
    ASSERT_EQ(status.detail(), Detail::kFormat);
    if (size < 4) continue;
    EXPECT_NE(status.message().find("incomplete: "), std::string::npos) << "cut at " << size << ": " << status.message();
  }
}

// A cut in the data: the header gives the whole file's bytes exactly. A cut in the header: it gives a least number.
TEST(Gguf, APartOfAFileSaysSoWithBytes) {
  GgufWriter w;
  w.add_hole("t", 24, {97'000'000}, 97'000'000);
  std::vector<uint8_t> bytes = w.finish();
  ASSERT_EQ(w.data_at, 64u);
  bytes.resize(5'000'000);
  expect_status(parse_status(bytes), Code::kCorrupt,
                {"test.gguf: incomplete: 97,000,064 bytes expected, 5,000,000 found; download it again"});
  bytes.resize(20);
  expect_status(parse_status(bytes), Code::kCorrupt, {" bytes expected at least, 20 found; download it again"});
}

TEST(Gguf, AnUnknownArchitectureIsToldThoseThatWork) {
  GgufWriter w;
  w.add_string("general.architecture", "mamba");
  w.add_tensor("t", 0, {8}, std::vector<uint8_t>(32));
  const std::vector<uint8_t> bytes = w.finish();
  auto parsed = GgufFile::parse(bytes, "test.gguf");
  ASSERT_TRUE(parsed.is_ok()) << parsed.status().message();
  const Arch* arch = nullptr;
  expect_status(read_dims(**parsed, &arch).take_status(), Code::kUnsupported,
                {"architecture \"mamba\" is not supported; these are: llama, qwen2, qwen3, qwen3moe, gemma2, gemma3, phi3, olmo2, "
                 "granite, smollm3, ernie4_5, seed_oss, cohere2, gpt-oss, starcoder2, gpt2, stablelm, glm4, hunyuan-dense, minicpm"});
}

// Every byte of the header in ten damaged forms. Where the layout depends on it, the file is refused or means the same as before.
TEST(Gguf, EveryHeaderByteDamagedIsRefusedOrHarmless) {
  GgufWriter w;
  const std::vector<uint8_t> good = sample(&w);
  std::string original;
  const Status status = meaning(good, &original);
  ASSERT_TRUE(status.is_ok()) << status.message();
  size_t refused = 0, harmless = 0;
  for (const GgufField& field : w.fields()) {
    for (size_t i = field.at; i < field.at + field.bytes; ++i) {
      std::vector<uint8_t> values = {0, 0xff};
      for (int bit = 0; bit < 8; ++bit) values.push_back(static_cast<uint8_t>(good[i] ^ (1 << bit)));
      for (uint8_t value : values) {
        if (value == good[i]) continue;
        std::vector<uint8_t> bytes = good;
        bytes[i] = value;
        std::string found;
        const Status damaged = meaning(bytes, &found);
        if (!damaged.is_ok()) {
          ++refused;
          EXPECT_FALSE(damaged.message().empty());
          continue;
        }
        ++harmless;
        if (field.kind == GgufField::kStructure) {
          EXPECT_EQ(found, original) << field.what << " byte " << i - field.at << " = " << int{value};
        }
      }
    }
  }
  EXPECT_GT(refused, harmless);
}

}  // namespace
}  // namespace kvrt
