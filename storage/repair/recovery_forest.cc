#include "storage/repair/recovery_forest.h"

#include <algorithm>
#include <set>

#include "runtime/base/limits.h"

namespace kvrt {

Forest::Forest(const Salvage& salvage, const FoundSegments& found) {
  add_frames(found);
  add_rows(salvage);
  add_chunks(salvage, found);
  find_roots();
}

void Forest::add_frames(const FoundSegments& found) {
  for (size_t i = 0; i < found.frames.size(); i++) {
    const FoundFrame& frame = found.frames[i];
    const auto sound = [&](size_t number) { return found.segments[found.frames[number].segment].sound; };
    ForestNode& node = nodes_[frame.place.chunk.node];
    node.key = frame.place.chunk.node;  // of which parent, tokens and items follow: they are the same in all of its frames
    node.parent = frame.parent;
    node.tokens = frame.tokens;
    node.items = frame.items;
    auto known = std::find_if(node.frames.begin(), node.frames.end(),
                              [&](size_t number) { return found.frames[number].place.chunk == frame.place.chunk; });
    if (known == node.frames.end()) {
      node.frames.push_back(i);
      node.found |= uint32_t{1} << frame.place.chunk.group;
    } else if (!sound(*known) && sound(i)) {
      *known = i;
    }
  }
}

void Forest::add_row(const SalvagedNode& row, const BlockKey& parent) {
  ForestNode& node = nodes_[row.key];
  if (node.tokens.empty()) {
    node.key = row.key;
    node.parent = parent;
    node.tokens = row.tokens;
    node.items = row.items;
  }
  node.in_catalog = true;
  (row.logged ? node.needed_in_log : node.needed) |= row.refs > 0;
  node.stored |= row.stored;
}

// A row names its parent by row number. It is proved by a frame of its key, by the key of that parent's row, or else by any key that fits.
void Forest::add_rows(const Salvage& salvage) {
  std::vector<const SalvagedNode*> orphans;
  for (auto& [id, row] : salvage.nodes) {
    const ForestNode* frame = find(row.key);
    auto parent = salvage.nodes.find(row.parent);
    if (frame != nullptr && frame->tokens == row.tokens && frame->items == row.items) {
      add_row(row, frame->parent);
    } else if (row.parent != 0 && parent != salvage.nodes.end() && chain_key(parent->second.key, row.tokens, row.items) == row.key) {
      add_row(row, parent->second.key);
    } else {
      orphans.push_back(&row);
    }
  }
  guess_parents(salvage, orphans);
}

// A row whose frame was found needs nothing: the frame tells the rest. Another tells that its node had a chunk.
void Forest::add_chunks(const Salvage& salvage, const FoundSegments& found) {
  std::set<std::pair<std::array<uint8_t, 16>, uint64_t>> places;
  for (const FoundFrame& frame : found.frames) places.insert({found.segments[frame.segment].id.bytes, frame.place.offset});
  for (const SalvagedChunk& row : salvage.chunks) {
    const auto segment = salvage.segments.find(row.segment);
    if (segment != salvage.segments.end() && places.count({segment->second.bytes, row.offset}) != 0) continue;
    const auto id = salvage.nodes.find(row.node);
    const auto node = id != salvage.nodes.end() ? nodes_.find(id->second.key) : nodes_.end();
    if (node != nodes_.end()) {
      node->second.stored |= uint32_t{1} << row.group;
    } else {
      rows_lost_++;
    }
  }
  for (const BadFrame& bad : found.bad) {  // its row may be gone already
    const auto node = nodes_.find(bad.chunk.node);
    if (node != nodes_.end()) node->second.stored |= uint32_t{1} << bad.chunk.group;
  }
}

void Forest::guess_parents(const Salvage& salvage, const std::vector<const SalvagedNode*>& rows) {
  std::unordered_set<BlockKey, Hash256Hasher> keys;
  for (const SalvagedSession& session : salvage.sessions) keys.insert(session.row.root);
  std::vector<BlockKey> candidates(keys.begin(), keys.end());  // roots first: most rows whose parent is not known are first nodes
  for (auto& [key, node] : nodes_) {
    if (keys.insert(key).second) candidates.push_back(key);
  }
  uint64_t guesses = 0;
  for (const SalvagedNode* row : rows) {
    for (const BlockKey& parent : candidates) {
      if (++guesses > kRepairGuessesMax) return;
      if (chain_key(parent, row->tokens, row->items) != row->key) continue;
      add_row(*row, parent);
      break;
    }
  }
}

void Forest::find_roots() {
  std::vector<ForestNode*> path;
  for (auto& [key, first] : nodes_) {
    path.clear();
    ForestNode* node = &first;
    for (; node != nullptr && node->depth == 0; node = find(node->parent)) path.push_back(node);
    BlockKey root = node != nullptr ? node->root : path.empty() ? BlockKey() : path.back()->parent;
    uint64_t depth = node != nullptr ? node->depth : 0;
    for (; !path.empty(); path.pop_back()) {
      depth += path.back()->tokens.size();
      path.back()->root = root;
      path.back()->depth = depth;
      by_root_[root].push_back(path.back());
    }
  }
  for (auto& [root, nodes] : by_root_) {
    std::sort(nodes.begin(), nodes.end(), [](auto* a, auto* b) { return a->depth != b->depth ? a->depth < b->depth : a->key < b->key; });
  }
}

}  // namespace kvrt
