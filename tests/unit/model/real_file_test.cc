// The real model's file, cut at each edge of its sections and one byte to either side. Skipped where the file is not.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "runtime/model/gguf.h"

namespace kvrt {
namespace {

std::string model_path() {
  if (const char* path = std::getenv("KVRT_MODEL")) return path;
  const char* home = std::getenv("HOME");
  return std::string(home ? home : "") + "/.cache/kvrt/models/SmolLM2-135M-Instruct.Q4_1.gguf";
}

// The end of the metadata: just before the length of the first tensor's name.
size_t tensor_infos_at(const std::vector<uint8_t>& header, const std::string& first_tensor) {
  const auto at = std::search(header.begin(), header.end(), first_tensor.begin(), first_tensor.end());
  return static_cast<size_t>(at - header.begin()) - 8;
}

TEST(RealFile, CutAtEachSectionEdgeIsCorrupt) {
  const std::string path = model_path();
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no model at " << path << " (./dev model fetches it; KVRT_MODEL names another)";
  auto whole = GgufFile::open(path);
  ASSERT_TRUE(whole.is_ok()) << whole.status().message();
  const auto tensors = (*whole)->tensors();
  ASSERT_FALSE(tensors.empty());
  const uint64_t file_bytes = (*whole)->file_bytes();
  const uint8_t* base = tensors[0].view.data.data();  // tensors are in file order in this file: the first is where the data starts
  const uint64_t last_bytes = static_cast<uint64_t>(tensors.back().view.data.data() - base) + tensors.back().view.data.size();
  const uint64_t data_at = (file_bytes - last_bytes) / 32 * 32;  // the file may end in padding

  std::vector<uint8_t> header(data_at);
  std::ifstream(path, std::ios::binary).read(reinterpret_cast<char*>(header.data()), static_cast<std::streamsize>(header.size()));
  std::vector<uint64_t> edges = {24, tensor_infos_at(header, tensors[0].name), data_at};
  for (size_t i : {size_t{0}, tensors.size() / 2, tensors.size() - 1}) {
    const auto& data = tensors[i].view.data;
    edges.push_back(data_at + static_cast<uint64_t>(data.data() - base) + data.size());
  }

  const std::string cut_path = (std::filesystem::temp_directory_path() / ("kvrt_cut_" + std::to_string(::getpid()) + ".gguf")).string();
  for (uint64_t edge : edges) {
    for (uint64_t size : {edge - 1, edge, edge + 1}) {
      if (size >= data_at + last_bytes) continue;  // nothing is missing
      // A sparse file: the content of tensors does not matter here.
      std::ofstream(cut_path, std::ios::binary | std::ios::trunc)
          .write(reinterpret_cast<const char*>(header.data()), static_cast<std::streamsize>(std::min<uint64_t>(size, header.size())));
      ASSERT_EQ(::truncate(cut_path.c_str(), static_cast<off_t>(size)), 0);
      const Status status = GgufFile::open(cut_path).take_status();
      EXPECT_EQ(status.code(), Code::kCorrupt) << "cut at " << size << ": " << status.message();
      EXPECT_NE(status.message().find(cut_path), std::string::npos);
      if (size > header.size()) continue;
      const std::vector<uint8_t> exact(header.begin(), header.begin() + static_cast<ptrdiff_t>(size));  // for the sanitizer
      EXPECT_EQ(GgufFile::parse(exact, "cut").status().code(), Code::kCorrupt) << "cut at " << size;
    }
  }
  std::ofstream(cut_path, std::ios::binary | std::ios::trunc)
      .write(reinterpret_cast<const char*>(header.data()), static_cast<std::streamsize>(header.size()));
  ASSERT_EQ(::truncate(cut_path.c_str(), static_cast<off_t>(data_at + last_bytes)), 0);
  EXPECT_TRUE(GgufFile::open(cut_path).is_ok());  // so the cuts above failed for the bytes that they lacked
  std::filesystem::remove(cut_path);
}

}  // namespace
}  // namespace kvrt
