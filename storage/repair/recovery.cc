#include "storage/repair/recovery.h"

#include <algorithm>
#include <set>

#include "runtime/base/block_items.h"
#include "runtime/base/limits.h"
#include "storage/repair/recovery_forest.h"
#include "storage/store/names.h"

namespace kvrt {

namespace {

constexpr uint64_t kRevisionMax = uint64_t{1} << 53;  // in a row that is not proved a larger one is damage

std::string shown(const SessionRow& row) {
  if (!check_names(row.domain, row.name).is_ok()) return "a session whose name is damaged";
  return "session " + row.name + (row.domain.empty() ? "" : " of domain " + row.domain);
}

class Planner {
 public:
  Planner(Env* env, const StoreId& store, Salvage* salvage, const FoundSegments& found)
      : env_(env), store_(store), salvage_(salvage), found_(found), forest_(*salvage, found) {}

  Recovery plan() {
    take_salt();
    for (const SalvagedSession& s : salvage_->sessions) needs_.insert(s.needs);
    prove_sessions();
    lose_named();
    for (Proved& p : proved_) keep(&p);
    number_used();
    if (out_.lost > 0 || !salvage_->all_sessions) recover_chains();
    count();
    return std::move(out_);
  }

 private:
  struct Proved {
    SessionRow row;
    ForestNode* head = nullptr;  // null: it has no nodes
  };
  struct Owner {
    std::string domain;
    Hash256 model_id;
    uint64_t block_tokens = 0;
    bool unclear = false;  // two sessions of one root differ in domain or model
  };

  // Without the salt the tombstones match no name.
  void take_salt() {
    if (salvage_->salt) {
      out_.salt = *salvage_->salt;
      out_.tombstones = std::move(salvage_->tombstones);
      for (auto& [id, node] : salvage_->nodes) out_.tombstones.erase(node.key);  // entries of the nodes' index
    } else {
      env_->random(out_.salt.bytes);
    }
  }

  // A row of 0.1 names no store. One in the log of a later catalog is another store's.
  bool is_right(const SessionRow& row, const SalvagedSession& s) const {
    if (s.old) return (!s.logged || salvage_->identity.empty()) && row.old_checksum() == s.checksum;
    return row.checksum(store_) == s.checksum;
  }

  // Finds the head's key, which the row lacks: the one that makes the row's checksum right. False: none does.
  bool find_head(const SalvagedSession& s, Proved* proved) {
    proved->row = s.row;
    if (fits_head(s, proved) || mend(s, proved)) return true;
    if (s.row.head == 0) return false;
    // The head's row is lost: one of the nodes under the root may be it. The manifest holds only a few tokens, so the deepest come first.
    const auto& under = forest_.under(s.row.root);
    auto end = std::upper_bound(under.begin(), under.end(), s.row.tokens, [](uint64_t tokens, auto* node) { return tokens < node->depth; });
    while (end != under.begin() && guesses_ < kRepairGuessesMax) {
      proved->head = *--end;
      guesses_ += 1 + s.row.manifest.size() / 256;
      if (fits(s, proved, proved->head->key)) return true;
    }
    return false;
  }

  bool fits(const SalvagedSession& s, Proved* proved, const BlockKey& head) const {
    proved->row.head_key = head;
    return is_right(proved->row, s);
  }

  // True if the row is right with the head that it names.
  bool fits_head(const SalvagedSession& s, Proved* proved) {
    if (s.row.head == 0) return fits(s, proved, s.row.root);
    auto row = salvage_->nodes.find(s.row.head);
    if (row == salvage_->nodes.end() || !fits(s, proved, row->second.key)) return false;
    proved->head = forest_.find(row->second.key);
    return true;
  }

  // Tries the columns that are not the conversation's with one bit put right, or with values that are likely: what the row needs, its pin,
  // its expiry. The checksum tells the right one.
  bool mend(const SalvagedSession& s, Proved* proved) {
    const uint64_t cost = 1 + s.row.manifest.size() / 256, tries = 2 + 8 + 64 + needs_.size() + 8 * s.needs.size();
    if (s.old || mends_ + cost * tries > kRepairGuessesMax) return false;
    mends_ += cost * tries;
    if (!mend_needs(s, proved) && !mend_numbers(s, proved)) return false;
    out_.lines.push_back(shown(s.row) + ": what it needs, its pin or its expiry had changed bits; they are put right");
    return true;
  }

  bool mend_needs(const SalvagedSession& s, Proved* proved) {
    const auto attempt = [&](const std::vector<uint8_t>& bytes) {
      auto needs = decode_needs(bytes);
      if (!needs) return false;
      proved->row.needs = std::move(*needs);
      return fits_head(s, proved);
    };
    if (std::any_of(needs_.begin(), needs_.end(), attempt)) return true;
    std::vector<uint8_t> bytes = s.needs;
    for (size_t bit = 0; bit < 8 * bytes.size(); bit++) {
      bytes[bit / 8] ^= static_cast<uint8_t>(1u << bit % 8);
      if (attempt(bytes)) return true;
      bytes[bit / 8] ^= static_cast<uint8_t>(1u << bit % 8);
    }
    proved->row.needs = s.row.needs;
    return false;
  }

  bool mend_numbers(const SalvagedSession& s, Proved* proved) {
    SessionRow& row = proved->row;
    for (int bit = -1; bit < 8; bit++) {
      row.pinned = bit < 0 ? 0 : static_cast<uint8_t>(s.row.pinned ^ 1u << bit);
      if (fits_head(s, proved)) return true;
    }
    row.pinned = s.row.pinned;
    for (int bit = -1; bit < 63; bit++) {
      row.expires_ms = bit < 0 ? 0 : s.row.expires_ms ^ int64_t { 1 } << bit;
      if (fits_head(s, proved)) return true;
    }
    row.expires_ms = s.row.expires_ms;
    return false;
  }

  void prove_sessions() {
    std::map<std::pair<std::string, std::string>, Proved> best;
    std::vector<std::pair<const SalvagedSession*, const char*>> lost;
    bool log_has_sessions = false;
    for (const SalvagedSession& s : salvage_->sessions) {
      Proved p;
      const bool right = find_head(s, &p);
      log_has_sessions |= s.logged;
      log_is_ours_ |= s.logged && right;
      const bool whole = right && (s.row.head == 0 || (p.head != nullptr && p.head->root == s.row.root && p.head->depth <= s.row.tokens));
      if (!whole) {
        lost.emplace_back(&s, right ? "a part of its tokens is nowhere" : "its row has changed bits, or its last tokens are nowhere");
        continue;
      }
      Proved& known = best[{s.row.domain, s.row.name}];
      if (known.row.revision < s.row.revision) known = std::move(p);
    }
    std::set<std::pair<std::string, std::string>> named;
    for (auto [s, why] : lost) {
      if (best.count({s->row.domain, s->row.name}) != 0 || !named.insert({s->row.domain, s->row.name}).second) continue;
      lose(s->row, why);
    }
    for (auto& [name, p] : best) proved_.push_back(std::move(p));
    out_.foreign_log = log_has_sessions && !log_is_ours_;
  }

  // Counts the sessions that the index names, and that have no row. No revision is known of them.
  void lose_named() {
    std::set<int64_t> rows;
    std::set<std::pair<std::string, std::string>> names;
    for (const SalvagedSession& s : salvage_->sessions) {
      rows.insert(s.rowid);
      names.insert({s.row.domain, s.row.name});
    }
    for (const NamedSession& n : salvage_->named) {
      if ((n.logged && !log_is_ours_) || rows.count(n.rowid) != 0 || !names.insert({n.domain, n.name}).second) continue;
      SessionRow row;
      row.domain = n.domain;
      row.name = n.name;
      lose(row, "its row cannot be read");
    }
  }

  // Counts the session as lost. A tombstone keeps its revision, so that none comes twice.
  void lose(const SessionRow& row, const std::string& why) {
    out_.lost++;
    const std::string revision = row.revision != 0 ? ", revision " + std::to_string(row.revision) : "";
    out_.lines.push_back(shown(row) + revision + ": lost: " + why);
    if (row.revision == 0 || row.revision > kRevisionMax) return;
    uint64_t& buried = out_.tombstones[grave(row.domain, row.name)];
    buried = std::max(buried, row.revision);
  }

  Hash256 grave(const std::string& domain, const std::string& name) const {
    return Hasher(out_.salt).add_string(domain).add_string(name).finish();
  }

  // The node's number. A node without one gets it here, and so do all above it.
  size_t number(ForestNode* node) {
    std::vector<ForestNode*> path;
    size_t last = 0;
    for (; node != nullptr; node = forest_.find(node->parent)) {
      auto known = numbers_.find(node->key);
      if (known != numbers_.end()) {
        last = known->second;
        break;
      }
      path.push_back(node);
    }
    for (; !path.empty(); path.pop_back()) {
      if (last != 0) out_.nodes[last - 1].refs++;
      out_.nodes.push_back({path.back()->key, path.back()->tokens, path.back()->items, last, 0, path.back()->frames});
      last = numbers_[path.back()->key] = out_.nodes.size();
    }
    return last;
  }

  void keep(Proved* p) {
    uint64_t lost = 0, chunks = 0;
    for (ForestNode* node = p->head; node != nullptr; node = forest_.find(node->parent)) {
      lost += node->lost_chunks();
      chunks += node->lost_chunks() + node->frames.size();
    }
    if (lost > 0) {
      out_.with_holes++;
      out_.lines.push_back(shown(p->row) + ": its tokens are all there; " + std::to_string(lost) + " of " + std::to_string(chunks) +
                           " chunks are lost, and will be computed again");
    }
    out_.kept++;
    Owner& owner = owners_.try_emplace(p->row.root, Owner{p->row.domain, p->row.model_id, p->row.block_tokens}).first->second;
    owner.unclear = owner.unclear || owner.domain != p->row.domain || owner.model_id != p->row.model_id;
    if (p->row.saved_ms <= 0) p->row.saved_ms = std::max<int64_t>(p->row.created_ms, 1);  // it could not be read
    if (p->row.created_ms <= 0) p->row.created_ms = p->row.saved_ms;
    add_session(std::move(p->row), p->head);
  }

  void add_session(SessionRow row, ForestNode* head) {
    row.head = static_cast<int64_t>(number(head));
    if (head != nullptr) out_.nodes[static_cast<size_t>(row.head) - 1].refs++;
    row.head_key = head != nullptr ? head->key : row.root;
    out_.sessions.push_back(std::move(row));
  }

  // No checksum covers `used`: only its order is kept. Frames of KV that was evicted may be there still, so none stays 0.
  void number_used() {
    std::vector<SessionRow*> used;
    for (SessionRow& row : out_.sessions) used.push_back(&row);
    std::stable_sort(used.begin(), used.end(), [](auto* a, auto* b) { return a->used < b->used; });
    for (size_t i = 0; i < used.size(); i++) used[i]->used = static_cast<int64_t>(i) + 1;
    clock_ = static_cast<int64_t>(used.size());
  }

  // True if the node belonged to a session that is lost: by its row's references, or, without a row, if rows of nodes may be lost. A node's
  // row does not tell the store, so one in the log counts only if a session's row there does.
  bool was_needed(const ForestNode& node) const {
    const bool needed = node.needed || (node.needed_in_log && log_is_ours_);
    return numbers_.count(node.key) == 0 && (node.in_catalog ? needed : !salvage_->all_nodes);
  }

  static bool begins(const ForestNode& node, const ForestNode& with) {
    const size_t n = with.tokens.size();
    return n < node.tokens.size() && std::equal(with.tokens.begin(), with.tokens.end(), node.tokens.begin()) &&
           rows_alike(node.items, with.items) >= n;
  }

  // Makes sessions of chains that lost sessions needed. A save replaced a tail that has no row and whose tokens and items another
  // node begins with.
  void recover_chains() {
    std::unordered_map<BlockKey, std::vector<const ForestNode*>, Hash256Hasher> children;
    std::vector<ForestNode*> lost;
    for (auto& [key, node] : forest_.nodes()) {
      const bool needed = was_needed(node);
      if (needed) lost.push_back(&node);
      if (needed || numbers_.count(key) != 0) children[node.parent].push_back(&node);
    }
    std::sort(lost.begin(), lost.end(), [](auto* a, auto* b) { return a->key < b->key; });
    std::map<BlockKey, uint64_t> unowned;
    for (ForestNode* node : lost) {
      const auto& beside = children[node->parent];
      const bool replaced =
          !node->in_catalog && std::any_of(beside.begin(), beside.end(), [&](auto* other) { return begins(*other, *node); });
      const bool continued = replaced || children.count(node->key) != 0;
      auto owner = owners_.find(node->root);
      if (owner == owners_.end() || owner->second.unclear) {
        unowned[node->root] += std::max<size_t>(1, node->frames.size());
        out_.chunks_orphaned += node->frames.size();
        out_.chunks_lost += node->lost_chunks();
        for (size_t frame : node->frames) unowned_segments_.insert(found_.frames[frame].segment);
      } else if (!continued) {
        offer(node, owner->second);
      }
    }
    for (auto& [root, chunks] : unowned) {
      out_.lines.push_back(std::to_string(chunks) + " chunks under root " + root.hex().substr(0, 16) +
                           ": of lost sessions, and no session is left that tells their model and domain");
    }
  }

  void offer(ForestNode* head, const Owner& owner) {
    SessionRow row;
    row.domain = owner.domain;
    row.name = "recovered-" + head->key.hex().substr(0, 12);
    while (std::any_of(out_.sessions.begin(), out_.sessions.end(), [&](auto& s) { return s.domain == row.domain && s.name == row.name; })) {
      row.name += "-";
    }
    env_->random(row.id.bytes);
    auto buried = out_.tombstones.find(grave(row.domain, row.name));
    row.revision = 1 + (buried != out_.tombstones.end() ? buried->second : 0);
    row.root = head->root;
    row.tokens = head->depth;
    row.block_tokens = owner.block_tokens;
    row.model_id = owner.model_id;
    row.created_ms = row.saved_ms = env_->unix_ms();
    row.used = ++clock_;
    out_.recovered++;
    out_.lines.push_back(shown(row) + ": " + std::to_string(row.tokens) + " tokens of a session whose name is lost");
    add_session(std::move(row), head);
  }

  void count() {
    std::unordered_set<size_t> used;
    out_.chunks_lost += forest_.rows_lost();
    for (const RecoveredNode& node : out_.nodes) {
      out_.chunks_lost += forest_.find(node.key)->lost_chunks();
      out_.chunks += node.frames.size();
      for (size_t frame : node.frames) {
        out_.chunk_bytes += found_.frames[frame].place.bytes;
        used.insert(found_.frames[frame].segment);
      }
    }
    for (size_t segment : unowned_segments_) {
      if (used.count(segment) == 0) out_.unowned.push_back(segment);
    }
  }

  Env* env_;
  const StoreId store_;
  Salvage* salvage_;
  const FoundSegments& found_;
  Forest forest_;
  Recovery out_;
  std::vector<Proved> proved_;
  std::unordered_map<BlockKey, Owner, Hash256Hasher> owners_;
  std::unordered_map<BlockKey, size_t, Hash256Hasher> numbers_;
  std::set<size_t> unowned_segments_;
  std::set<std::vector<uint8_t>> needs_{{}};  // of all sessions, and none
  bool log_is_ours_ = false;
  uint64_t guesses_ = 0, mends_ = 0;
  int64_t clock_ = 0;
};

}  // namespace

Recovery recover(Env* env, const StoreId& store, Salvage salvage, const FoundSegments& found) {
  return Planner(env, store, &salvage, found).plan();
}

}  // namespace kvrt
