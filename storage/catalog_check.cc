// Catalog against itself: SQLite's own check, then counts, keys and checksums computed again from the rows.
#include <map>
#include <unordered_map>

#include "storage/catalog.h"
#include "storage/catalog_rows.h"

namespace kvrt {

namespace {

struct Node {
  BlockKey key;
  int64_t parent = 0, refs = 0, counted = 0;
  std::string session;
};

void add_fault(std::vector<VerifyFault>* faults, std::string what, std::string session = "") {
  faults->push_back({"catalog", std::move(what), std::move(session)});
}

}  // namespace

Status Catalog::check(std::vector<VerifyFault>* faults, std::vector<ChunkRow>* chunks) {
  {
    Query q = db_.query("PRAGMA integrity_check(20)");
    for (;;) {
      auto row = q.next();
      if (!row.is_ok()) {
        add_fault(faults, row.status().message());
        break;
      }
      if (!*row) break;
      if (q.text(0) != "ok") add_fault(faults, q.text(0));
    }
  }
  if (!faults->empty()) return {};  // rows of a damaged database prove nothing
  KVRT_TRY(check_sessions(faults));
  return check_nodes(faults, chunks);
}

Status Catalog::check_sessions(std::vector<VerifyFault>* faults) {
  std::vector<std::pair<std::string, std::string>> names;
  {
    Query q = db_.query("SELECT domain, name FROM sessions ORDER BY domain, name");
    for (;;) {
      KVRT_ASSIGN(bool row, q.next());
      if (!row) break;
      names.emplace_back(q.text(0), q.text(1));
    }
  }
  for (auto& [domain, name] : names) {
    auto loaded = load(domain, name);
    if (!loaded.is_ok()) add_fault(faults, loaded.status().message(), name);
  }
  return {};
}

Status Catalog::check_nodes(std::vector<VerifyFault>* faults, std::vector<ChunkRow>* chunks) {
  std::unordered_map<int64_t, Node> nodes;
  std::map<int64_t, uint64_t> live;
  std::vector<int64_t> chunk_nodes;
  {
    Query q = db_.query("SELECT id, key, parent, refs, tokens, segment, offset, bytes, raw_bytes FROM nodes ORDER BY segment, offset");
    for (;;) {
      KVRT_ASSIGN(bool row, q.next());
      if (!row) break;
      Node& node = nodes[q.integer(0)];
      if (!copy_exact(q.blob(1), node.key.bytes)) return broken_row("node key");
      node.parent = q.integer(2);
      node.refs = q.integer(3);
      if (q.is_null(5)) continue;
      ChunkRow chunk;
      chunk.key = node.key;
      auto tokens = q.blob(4);
      chunk.tokens.resize(tokens.size() / 4);
      std::memcpy(chunk.tokens.data(), tokens.data(), chunk.tokens.size() * 4);
      chunk.segment = q.integer(5);
      chunk.offset = q.u64(6);
      chunk.bytes = q.u64(7);
      chunk.raw_bytes = q.u64(8);
      live[chunk.segment]++;
      chunk_nodes.push_back(q.integer(0));
      chunks->push_back(std::move(chunk));
    }
  }
  std::unordered_map<int64_t, BlockKey> roots;  // first nodes: the kv_root of a session above them
  {
    Query q = db_.query("SELECT head, name, root FROM sessions WHERE head IS NOT NULL");
    for (;;) {
      KVRT_ASSIGN(bool row, q.next());
      if (!row) break;
      std::string name = q.text(1);
      BlockKey root;
      if (!copy_exact(q.blob(2), root.bytes)) return broken_row("session root");
      size_t steps = 0;
      for (int64_t id = q.integer(0); id != 0 && steps++ <= nodes.size();) {
        auto found = nodes.find(id);
        if (found == nodes.end()) {
          add_fault(faults, "a node of its chain is missing", name);
          break;
        }
        Node& node = found->second;
        if (id == q.integer(0)) node.counted++;
        if (node.session.empty()) node.session = name;
        if (node.parent == 0) roots[id] = root;
        id = node.parent;
      }
    }
  }
  for (auto& [id, node] : nodes) {
    if (node.parent != 0) {
      auto parent = nodes.find(node.parent);
      if (parent != nodes.end()) parent->second.counted++;
    }
  }
  for (auto& [id, node] : nodes) {
    if (node.session.empty()) add_fault(faults, "node " + node.key.hex().substr(0, 16) + " is used by no session");
    if (node.refs != node.counted) {
      add_fault(faults,
                "node " + node.key.hex().substr(0, 16) + " has " + std::to_string(node.refs) + " references, its users are " +
                    std::to_string(node.counted),
                node.session);
    }
  }
  for (size_t i = 0; i < chunks->size(); i++) {
    const Node& node = nodes[chunk_nodes[i]];
    (*chunks)[i].session = node.session;
    (*chunks)[i].parent = node.parent != 0 ? nodes[node.parent].key : roots[chunk_nodes[i]];
  }
  KVRT_ASSIGN(auto rows, segments());
  for (const SegmentRow& row : rows) {
    if (row.live != live[row.row]) {
      add_fault(faults, "segment " + row.id.hex() + " counts " + std::to_string(row.live) + " chunks, the rows name " +
                            std::to_string(live[row.row]));
    }
  }
  return {};
}

}  // namespace kvrt
