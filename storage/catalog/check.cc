// Catalog::check: SQLite's own check, then counts, keys and checksums computed again from the rows.
#include <unordered_map>

#include "storage/catalog/catalog.h"
#include "storage/catalog/rows.h"

namespace kvrt {

namespace {

void add_fault(std::vector<VerifyFault>* faults, const std::string& what, std::string session = "") {
  faults->push_back({"catalog", without_catalog(what), std::move(session)});
}

// The whole token tree in memory, with its reference counts computed again: mark from the sessions, sweep what is unmarked.
class TreeCheck {
 public:
  TreeCheck(Db* db, std::vector<VerifyFault>* faults) : db_(db), faults_(faults) {}

  Status read_nodes() {
    Query q = db_->query("SELECT id, key, parent, refs FROM nodes");
    for (;;) {
      KVRT_ASSIGN(bool row, q.next());
      if (!row) return {};
      Node& node = nodes_[q.integer(0)];
      if (!copy_exact(q.blob(1), node.key.bytes)) return broken_row("node key");
      node.parent = q.integer(2);
      node.refs = q.integer(3);
    }
  }

  Status read_chunks(std::vector<ChunkRow>* chunks) {
    KVRT_ASSIGN(const bool with_items, nodes_have_items(db_));
    Query q = db_->query(with_items ? "SELECT c.node, n.tokens, c.grp, c.segment, c.offset, c.bytes, c.raw_bytes, n.items"
                                      " FROM chunks c JOIN nodes n ON n.id = c.node ORDER BY c.segment, c.offset"
                                    : "SELECT c.node, n.tokens, c.grp, c.segment, c.offset, c.bytes, c.raw_bytes, NULL"
                                      " FROM chunks c JOIN nodes n ON n.id = c.node ORDER BY c.segment, c.offset");
    for (;;) {
      KVRT_ASSIGN(bool row, q.next());
      if (!row) return {};
      ChunkRow chunk;
      auto tokens = q.blob(1);
      chunk.tokens.resize(tokens.size() / 4);
      std::memcpy(chunk.tokens.data(), tokens.data(), chunk.tokens.size() * 4);
      chunk.items.assign(q.blob(7).begin(), q.blob(7).end());
      chunk.place = {{nodes_[q.integer(0)].key, static_cast<uint32_t>(q.integer(2))}, q.u64(4), q.u64(5), q.u64(6)};
      chunk.segment = q.integer(3);
      live_[chunk.segment] += chunk.place.bytes;
      chunk_nodes_.push_back(q.integer(0));
      chunks->push_back(std::move(chunk));
    }
  }

  Status mark_from_sessions() {
    Query q = db_->query("SELECT head, name, root FROM sessions WHERE head IS NOT NULL");
    for (;;) {
      KVRT_ASSIGN(bool row, q.next());
      if (!row) break;
      BlockKey root;
      if (!copy_exact(q.blob(2), root.bytes)) return broken_row("session root");
      mark_chain(q.integer(0), q.text(1), root);
    }
    for (auto& [id, node] : nodes_) {
      auto parent = nodes_.find(node.parent);
      if (parent != nodes_.end()) parent->second.counted++;
    }
    for (auto& [id, node] : nodes_) {
      if (node.refs == 0) mark_waiting(id);
    }
    return {};
  }

  void compare(std::span<const SegmentRow> segments) {
    for (auto& [id, node] : nodes_) {
      std::string name = "node " + node.key.hex().substr(0, 16);
      if (node.session.empty() && !node.waiting) add_fault(faults_, name + " is used by no session");
      if (node.refs == node.counted) continue;
      add_fault(faults_, name + " has " + std::to_string(node.refs) + " references, its users are " + std::to_string(node.counted),
                node.session);
    }
    for (const auto& row : segments) {
      if (row.live == live_[row.row]) continue;
      add_fault(faults_, "segment " + row.id.hex() + " counts " + std::to_string(row.live) + " live bytes, the rows name " +
                             std::to_string(live_[row.row]));
    }
  }

  // Fills in a session that uses each chunk, and the parent's key that its frame must have.
  void complete(std::vector<ChunkRow>* chunks) {
    for (size_t i = 0; i < chunks->size(); i++) {
      const Node& node = nodes_[chunk_nodes_[i]];
      (*chunks)[i].session = node.session;
      auto root = roots_.find(chunk_nodes_[i]);
      if (node.parent != 0) {
        (*chunks)[i].parent = nodes_[node.parent].key;
      } else if (root != roots_.end()) {
        (*chunks)[i].parent = root->second;
      }
    }
  }

 private:
  struct Node {
    BlockKey key;
    int64_t parent = 0, refs = 0, counted = 0;
    std::string session;
    bool waiting = false;  // it, or a node below it, has no references, and waits for gc
  };

  void mark_waiting(int64_t leaf) {
    for (auto found = nodes_.find(leaf); found != nodes_.end(); found = nodes_.find(found->second.parent)) {
      if (found->second.waiting) return;
      found->second.waiting = true;
    }
  }

  void mark_chain(int64_t head, const std::string& name, const BlockKey& root) {
    size_t steps = 0;
    for (int64_t id = head; id != 0 && steps++ <= nodes_.size();) {
      auto found = nodes_.find(id);
      if (found == nodes_.end()) return add_fault(faults_, "a node of its chain is missing", name);
      Node& node = found->second;
      if (id == head) node.counted++;
      if (!node.session.empty()) return;  // marked, and so are all above
      node.session = name;
      if (node.parent == 0) roots_[id] = root;
      id = node.parent;
    }
  }

  Db* db_;
  std::vector<VerifyFault>* faults_;
  std::unordered_map<int64_t, Node> nodes_;
  std::unordered_map<int64_t, BlockKey> roots_;  // by first node: the root of a session that uses it
  std::unordered_map<int64_t, uint64_t> live_;   // live bytes by segment
  std::vector<int64_t> chunk_nodes_;             // the nodes of the chunks, in their order
};

}  // namespace

Status Catalog::check(const SessionCheck& check, std::vector<VerifyFault>* faults, std::vector<ChunkRow>* found,
                      std::vector<SegmentRow>* rows) {
  Snapshot snapshot(sql_);
  KVRT_TRY(snapshot.begin());
  {
    Query q = sql_->query("PRAGMA integrity_check(20)");
    for (;;) {
      auto row = q.next();
      if (row.status().code() == Code::kNoMemory) return row.take_status();  // no fault of the catalog
      if (!row.is_ok()) {
        add_fault(faults, row.status().message());
        break;
      }
      if (!*row) break;
      if (q.text(0) != "ok") add_fault(faults, q.text(0));
    }
  }
  KVRT_ASSIGN(const std::string strange, find_strange_table(sql_));
  if (!strange.empty()) add_fault(faults, "its tables are not those of a store: " + strange);
  if (!faults->empty()) return {};  // rows of a damaged database prove nothing
  KVRT_TRY(check_constraints(faults));
  KVRT_TRY(check_references(faults));
  if (!faults->empty()) return {};
  KVRT_TRY(check_sessions(check, faults));
  KVRT_TRY(check_totals(faults));
  return check_nodes(faults, found, rows);
}

// SQLite does not read the CHECKs of a database that it opens read only, so its own check skips them then. The tables are known to be ours.
Status Catalog::check_constraints(std::vector<VerifyFault>* faults) {
  std::vector<std::string> counts;
  {
    Query q = sql_->query("SELECT name, sql FROM sqlite_master WHERE type = 'table'");
    for (;;) {
      KVRT_ASSIGN(bool row, q.next());
      if (!row) break;
      const std::string name = q.text(0), sql = q.text(1);
      constexpr std::string_view kCheck = "CHECK(";
      for (size_t at = sql.find(kCheck); at != std::string::npos; at = sql.find(kCheck, at)) {
        const size_t begin = at += kCheck.size();
        for (int open = 1; open > 0 && at < sql.size(); ++at) open += sql[at] == '(' ? 1 : sql[at] == ')' ? -1 : 0;
        counts.push_back("SELECT count(*), '" + name + "' FROM " + name + " WHERE NOT (" + sql.substr(begin, at - 1 - begin) + ")");
      }
    }
  }
  for (const std::string& count : counts) {
    Query q = sql_->query_once(count);
    KVRT_ASSIGN(bool row, q.next());
    if (row && q.integer(0) > 0) add_fault(faults, "CHECK constraint failed in " + q.text(1));
  }
  return {};
}

// Nor does its own check look whether the node and the segment that a chunk's row names are there.
Status Catalog::check_references(std::vector<VerifyFault>* faults) {
  Query q = sql_->query("PRAGMA foreign_key_check(chunks)");
  KVRT_ASSIGN(bool row, q.next());
  if (row) add_fault(faults, "a row of chunks names a row of " + q.text(2) + " that is not there");
  return {};
}

// Compares the row of totals with the counts of the rows.
Status Catalog::check_totals(std::vector<VerifyFault>* faults) {
  Query q = sql_->query(
      "SELECT totals.chunks = (SELECT count(*) FROM chunks)"
      " AND chunk_bytes = (SELECT coalesce(sum(bytes), 0) FROM chunks)"
      " AND chunk_raw_bytes = (SELECT coalesce(sum(raw_bytes), 0) FROM chunks)"
      " AND segments = (SELECT count(*) FROM segments)"
      " AND segment_bytes = (SELECT coalesce(sum(bytes), 0) FROM segments) FROM totals");
  KVRT_ASSIGN(bool row, q.next());
  if (!row || q.integer(0) == 0) add_fault(faults, "the totals of chunks and segments are not those of the rows");
  return {};
}

Status Catalog::check_sessions(const SessionCheck& check, std::vector<VerifyFault>* faults) {
  std::vector<std::pair<std::string, std::string>> names;
  {
    Query q = sql_->query("SELECT domain, name FROM sessions ORDER BY domain, name");
    for (;;) {
      KVRT_ASSIGN(bool row, q.next());
      if (!row) break;
      names.emplace_back(q.text(0), q.text(1));
    }
  }
  KVRT_ASSIGN(const int64_t shares, sql_->number("SELECT shares FROM totals"));
  for (auto& [domain, name] : names) {
    auto loaded = sessions.load(domain, name, 0);  // at time 0 no session has expired
    if (loaded.status().code() == Code::kNoMemory) return loaded.take_status();
    if (!loaded.is_ok()) {
      add_fault(faults, loaded.status().message(), name);
      continue;
    }
    const Status meant = check ? check(*loaded) : Status();
    if (!meant.is_ok()) add_fault(faults, meant.message(), name);
    KVRT_ASSIGN(const SessionRow row, sessions.read(domain, name));
    SessionStat stat;
    KVRT_TRY(nodes.fill_stat(row.head, row.needs, &stat));
    const bool same = stat.chunks == row.chunks && stat.chunks_missing == row.chunks_missing && stat.bytes == row.chunk_bytes &&
                      stat.bytes_shared == row.chunk_bytes_shared;
    if (row.counted == shares && !same) add_fault(faults, "the counts of its chunks are not those of its nodes", name);
  }
  return {};
}

Status Catalog::check_nodes(std::vector<VerifyFault>* faults, std::vector<ChunkRow>* found, std::vector<SegmentRow>* rows) {
  TreeCheck tree(sql_, faults);
  KVRT_TRY(tree.read_nodes());
  KVRT_TRY(tree.read_chunks(found));
  KVRT_TRY(tree.mark_from_sessions());
  KVRT_ASSIGN(*rows, segments.all());
  tree.compare(*rows);
  tree.complete(found);
  return {};
}

}  // namespace kvrt
