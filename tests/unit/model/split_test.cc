// Models split over several files: the same model as whole, and what is wrong with a part is named.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "runtime/model/model.h"
#include "tests/support/gguf_writer.h"

namespace kvrt {
namespace {

using test::GgufModel;
using test::GgufWriter;
namespace fs = std::filesystem;

constexpr const char* kMoved[] = {"output_norm.weight", "blk.0.ffn_norm.weight"};  // to the second file, and to the third

class Split : public testing::Test {
 protected:
  void SetUp() override {
    std::string path = (fs::temp_directory_path() / "kvrt-split-XXXXXX").string();
    ASSERT_NE(mkdtemp(path.data()), nullptr);
    dir_ = path;
    const std::vector<uint8_t> bytes = GgufModel().write();
    write(whole(), bytes);
    const auto parsed = std::move(GgufFile::parse(bytes, "whole")).value();
    GgufWriter first;
    std::vector<GgufTensor> moved;
    for (const char* name : kMoved) moved.push_back(*parsed->find(name));
    GgufModel model;
    model.skip_tensor = kMoved[0], model.skip_tensor_too = kMoved[1];
    write(part(0), model.write(&first, [](GgufWriter& w) {
      count(&w, 0);
      w.add_scalar("split.tensors.count", 5, int32_t{11});
    }));
    for (uint16_t i = 0; i < 2; ++i) write(part(i + 1), with(i + 1, {moved[i]}));
  }
  void TearDown() override { fs::remove_all(dir_); }

  static void count(GgufWriter* w, uint16_t no, uint16_t files = 3) {
    w->add_scalar("split.no", 2, no);
    w->add_scalar("split.count", 2, files);
  }
  static std::vector<uint8_t> with(uint16_t no, const std::vector<GgufTensor>& tensors, uint16_t files = 3,
                                   const std::function<void(GgufWriter*)>& more = {}) {
    GgufWriter w;
    count(&w, no, files);
    if (more) more(&w);
    for (const GgufTensor& t : tensors)
      w.add_tensor(t.name, static_cast<uint32_t>(t.view.type), {t.view.ne[0]}, {t.view.data.begin(), t.view.data.end()});
    return w.finish();
  }
  static void write(const std::string& path, const std::vector<uint8_t>& bytes) {
    std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
  std::string whole() const { return dir_ + "/whole.gguf"; }
  std::string part(int i) const { return dir_ + "/m-0000" + std::to_string(i + 1) + "-of-00003.gguf"; }
  void expect_refused(const std::string& path, Code code, const std::string& words) const {
    const Status status = GgufFile::open(path).take_status();
    EXPECT_EQ(status.code(), code) << status.message();
    EXPECT_NE(status.message().find(words), std::string::npos) << words << " not in: " << status.message();
  }

  std::string dir_;
};

TEST_F(Split, IsTheModelThatTheWholeFileIs) {
  auto one = GgufFile::open(whole()), parts = GgufFile::open(part(0));
  ASSERT_TRUE(one.is_ok() && parts.is_ok()) << parts.status().message();
  EXPECT_EQ((*parts)->tensors().size(), (*one)->tensors().size());
  EXPECT_EQ((*parts)->parts().size(), 3u);
  uint64_t bytes = 0;
  for (int i = 0; i < 3; ++i) bytes += fs::file_size(part(i));
  EXPECT_EQ((*parts)->file_bytes(), bytes);
  const Hash256 id = std::move(model_id(**one, nullptr, nullptr)).value();
  EXPECT_EQ(std::move(model_id(**parts, nullptr, nullptr)).value(), id);
  const auto backend = std::move(open_cpu({1, "scalar"}, nullptr)).value();
  uint64_t seen = 0;
  auto model = load_model(**parts, backend.get(), [&](uint64_t done, uint64_t total) { return seen = done, done <= total; });
  ASSERT_TRUE(model.is_ok()) << model.status().message();
  for (const char* name : kMoved) {
    ASSERT_NE((*parts)->find(name), nullptr);
    EXPECT_TRUE(std::ranges::equal((*parts)->find(name)->view.data, (*one)->find(name)->view.data));
  }
}

// The name of the bytes changes with each file's.
TEST_F(Split, FileIdIsOfAllFiles) {
  const auto id = [&] { return file_id(*std::move(GgufFile::open(part(0))).value()); };
  const Hash256 before = id();
  EXPECT_FALSE(before.is_zero());
  EXPECT_EQ(before, id());
  for (int i = 0; i < 3; ++i) {
    const Hash256 was = id();
    fs::last_write_time(part(i), fs::last_write_time(part(i)) + std::chrono::seconds(2));
    EXPECT_NE(id(), was) << "file " << i;
  }
}

TEST_F(Split, WhatIsWrongIsNamed) {
  expect_refused(part(1), Code::kInvalid, "expected the first, whose name ends with -00001-of-00003.gguf");
  fs::copy(part(0), dir_ + "/other.gguf");
  expect_refused(dir_ + "/other.gguf", Code::kInvalid, "one of 3 files of a split model");
  const auto second = std::move(GgufFile::open(whole())).value();
  const GgufTensor norm = *second->find(kMoved[0]), twice = *second->find("blk.0.attn_norm.weight");
  fs::remove(part(1));
  expect_refused(part(0), Code::kNotFound, "m-00002-of-00003.gguf: cannot open file 2 of 3");
  write(part(1), {'G', 'G', 'U', 'F'});
  expect_refused(part(0), Code::kCorrupt, "m-00002-of-00003.gguf");
  write(part(1), with(2, {norm}));
  expect_refused(part(0), Code::kCorrupt, "expected split.no 1 and split.count 3, found 2 and 3");
  write(part(1), with(1, {norm}, 4));
  expect_refused(part(0), Code::kCorrupt, "found 1 and 4");
  write(part(1), with(1, {norm, twice}));
  expect_refused(part(0), Code::kCorrupt, "tensor blk.0.attn_norm.weight is in an earlier file, too");
  write(part(1), with(1, {}));
  expect_refused(part(0), Code::kCorrupt, "split.tensors.count is 11, its files have 10 tensors");
  write(part(1), with(1, {norm}));
  EXPECT_TRUE(GgufFile::open(part(0)).is_ok());
}

// Files of two models that were cut alike: with as many tensors, by the same names.
TEST_F(Split, AFileOfAnotherModel) {
  const auto second = std::move(GgufFile::open(whole())).value();
  const GgufTensor norm = *second->find(kMoved[0]);
  const auto says = [&](const std::function<void(GgufWriter*)>& more) { write(part(1), with(1, {norm}, 3, more)); };
  says([](GgufWriter* w) { w->add_scalar("split.tensors.count", 5, int32_t{12}); });
  expect_refused(part(0), Code::kCorrupt, "m-00002-of-00003.gguf: metadata key split.tensors.count: expected the value of the first file");
  says([](GgufWriter* w) { w->add_string("general.architecture", "qwen2"); });
  expect_refused(part(0), Code::kCorrupt,
                 "metadata key general.architecture: expected the value of the first file, found another: it is a file of another model");
  says([](GgufWriter* w) { w->add_scalar("general.architecture", 5, int32_t{1}); });
  expect_refused(part(0), Code::kCorrupt, "general.architecture");
  says([](GgufWriter* w) {
    w->add_scalar("split.tensors.count", 2, uint16_t{11});  // the type is the writer's
    w->add_string("general.architecture", "llama");
    w->add_string("general.file", "the second");
  });
  EXPECT_TRUE(GgufFile::open(part(0)).is_ok());
}

// A descriptor or bytes have no neighbours.
TEST_F(Split, OnlyAPathFindsTheOthers) {
  const int fd = ::open(part(0).c_str(), O_RDONLY | O_CLOEXEC);
  ModelSource source("a descriptor");
  source.fd = fd;
  const Status status = GgufFile::open(source).take_status();
  ::close(fd);
  EXPECT_EQ(status.code(), Code::kUnsupported) << status.message();
  EXPECT_EQ(GgufFile::parse(with(0, {}), "bytes").take_status().code(), Code::kUnsupported);
  EXPECT_EQ(GgufFile::parse(with(0, {}, 2000), "bytes").take_status().code(), Code::kLimit);
}

}  // namespace
}  // namespace kvrt
