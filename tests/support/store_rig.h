// Helpers of the store's tests: a temporary directory, made-up sessions whose payloads are a function of their tokens, and save / check.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/block_items.h"
#include "runtime/base/env.h"
#include "storage/store/store.h"

namespace kvrt::test {

inline testing::AssertionResult ok(const Status& s) {
  if (s.is_ok()) return testing::AssertionSuccess();
  return testing::AssertionFailure() << code_name(s.code()) << ": " << s.message();
}
#define ASSERT_OK(expr) ASSERT_TRUE(::kvrt::test::ok(expr))
#define EXPECT_OK(expr) EXPECT_TRUE(::kvrt::test::ok(expr))

class TempDir {
 public:
  explicit TempDir(const std::string& parent = "/tmp") {
    std::string pattern = parent + "/kvrt-test-XXXXXX";
    if (mkdtemp(pattern.data()) != nullptr) path_ = pattern;
  }
  ~TempDir() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline std::vector<uint8_t> read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return std::vector<uint8_t>(std::istreambuf_iterator<char>(in), {});
}
inline void write_file(const std::string& path, const std::vector<uint8_t>& bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}
inline std::vector<std::string> segment_files(const std::string& root) {
  std::vector<std::string> files;
  std::error_code ignored;
  for (auto& e : std::filesystem::recursive_directory_iterator(root + "/segs", ignored)) {
    if (e.is_regular_file()) files.push_back(e.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

// A chain of blocks over `tokens`, with payloads that look like f16: random low bytes, few different high bytes.
struct Chain {
  using Items = std::vector<std::vector<uint8_t>>;
  static constexpr uint32_t kBlock = 16;
  BlockKey root;
  std::vector<int32_t> tokens;
  const Items items;  // by block; of the blocks behind them: none
  std::vector<NodeIn> nodes;
  std::vector<std::vector<uint8_t>> payloads;

  Chain(std::vector<int32_t> ids, size_t bytes_per_token = 64, uint8_t root_byte = 1, Items with = {})
      : tokens(std::move(ids)), items(std::move(with)) {
    root.bytes.fill(root_byte);
    BlockKey parent = root;
    for (size_t at = 0; at < tokens.size(); at += kBlock) {
      std::span<const int32_t> part(tokens.data() + at, std::min<size_t>(kBlock, tokens.size() - at));
      const size_t block = at / kBlock;
      const auto own = block < items.size() ? std::span<const uint8_t>(items[block]) : std::span<const uint8_t>();
      BlockKey key = chain_key(parent, part, own);
      nodes.push_back({key, parent, part, own});
      uint64_t state;
      std::memcpy(&state, key.bytes.data(), 8);
      std::vector<uint8_t> payload(part.size() * bytes_per_token);
      for (size_t i = 0; i < payload.size(); i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        auto r = static_cast<uint8_t>(state >> 56);
        payload[i] = i % 2 == 0 ? r : static_cast<uint8_t>(0x38 + (r & 7));
      }
      payloads.push_back(std::move(payload));
      parent = key;
    }
  }
  Chain(const Chain&) = delete;
  Chain& operator=(const Chain&) = delete;
};

// The payload of a block's chunk of this group.
inline std::vector<uint8_t> group_payload(const Chain& chain, size_t block, uint32_t group) {
  std::vector<uint8_t> payload = chain.payloads[block];
  for (uint8_t& byte : payload) byte ^= static_cast<uint8_t>(group * 8);
  return payload;
}

inline std::vector<int32_t> token_run(size_t n, int32_t seed = 0) {
  std::vector<int32_t> ids(n);
  for (size_t i = 0; i < n; i++) ids[i] = static_cast<int32_t>(i * 7 + static_cast<size_t>(seed) * 100003);
  return ids;
}

inline SessionId session_id(uint8_t byte) {
  SessionId id;
  std::memset(id.bytes, byte, sizeof id.bytes);
  return id;
}

struct SaveOptions {
  uint8_t id = 1;
  const SessionId* whole_id = nullptr;  // instead of `id`
  uint64_t revision_seen = 0;
  bool overwrite = false;
  Durability durability = Durability::kNone;
  std::string domain;
  std::string manifest = "manifest";
  uint8_t pin = 0;
  uint64_t ttl_seconds = 0;
  std::vector<uint32_t> groups{0};
  std::vector<SessionGroup> needs;
  uint64_t chunks_written = 0;  // out
  SessionId saved_id;           // out
};

inline Status put_chunk(Store::Save* save, const Chain& chain, size_t block, uint32_t group) {
  const NodeIn& node = chain.nodes[block];
  return save->put({node.key, node.parent, node.tokens, 1, 2, group_payload(chain, block, group), ChunkCodec::kDefault, group, node.items});
}

inline Result<uint64_t> save_once(Store* store, const std::string& name, const Chain& chain, SaveOptions* o, bool reuse_chunks) {
  KVRT_ASSIGN(auto save, store->begin_save(reuse_chunks, {o->domain, name, o->pin, o->manifest.size()}));
  for (size_t i = 0; i < chain.nodes.size(); i++) {
    for (const uint32_t group : o->groups) KVRT_TRY(put_chunk(save.get(), chain, i, group));
  }
  o->chunks_written = save->chunks_written();
  SessionIn in;
  in.domain = o->domain;
  in.name = name;
  in.id = o->whole_id != nullptr ? *o->whole_id : session_id(o->id);
  in.revision_seen = o->revision_seen;
  in.overwrite = o->overwrite;
  in.root = chain.root;
  in.nodes = chain.nodes;
  in.token_count = chain.tokens.size();
  in.manifest = {reinterpret_cast<const uint8_t*>(o->manifest.data()), o->manifest.size()};
  in.durability = o->durability;
  in.pin = o->pin;
  in.ttl_seconds = o->ttl_seconds;
  in.groups = o->needs;
  KVRT_ASSIGN(Saved saved, save->commit(in));
  o->saved_id = saved.id;
  return saved.revision;
}
// Saves as the engine does: chunks that another thread removed meanwhile are written again.
inline Result<uint64_t> save_chain(Store* store, const std::string& name, const Chain& chain, SaveOptions* o) {
  auto revision = save_once(store, name, chain, o, true);
  return revision.status().detail() == Detail::kConcurrent ? save_once(store, name, chain, o, false) : std::move(revision);
}
inline Result<uint64_t> save_chain(Store* store, const std::string& name, const Chain& chain, SaveOptions o = {}) {
  return save_chain(store, name, chain, &o);
}

// Bytes of the node's frames, of all groups.
inline uint64_t chunk_bytes(Store* store, const BlockKey& key) {
  uint64_t bytes = 0;
  const auto sizes = store->chunk_sizes({{key}});
  for (const ChunkSize& chunk : sizes[0]) bytes += chunk.bytes;
  return bytes;
}

// The number of the chain's chunks of a group that read back; every one that does must have the right bytes.
inline size_t readable_chunks(Store* store, const Chain& chain, uint32_t group = 0) {
  size_t good = 0;
  for (size_t i = 0; i < chain.nodes.size(); i++) {
    std::vector<uint8_t> out(chain.payloads[i].size());
    std::string damage;
    if (store->read(chain.nodes[i], group, 1, out, &damage) != ChunkState::kOk) continue;
    EXPECT_EQ(out, group_payload(chain, i, group)) << "chunk " << i << " came back with other bytes";
    good++;
  }
  return good;
}

// A list of one item, of a tag that open_store knows if it is not above kItemTag.
inline constexpr uint8_t kItemTag = 3;
inline std::vector<uint8_t> one_item(uint16_t row, uint8_t tag = kItemTag, const std::string& bytes = "item") {
  std::vector<uint8_t> items;
  append_item({row, tag, {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}}, &items);
  return items;
}

inline Result<std::unique_ptr<Store>> open_store(const std::string& path, StoreOptions options = {.item_tag_max = kItemTag},
                                                 Env* env = posix_env()) {
  return Store::open(env, nullptr, path, options);
}

}  // namespace kvrt::test
