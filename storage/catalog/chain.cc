// Catalog: which nodes of a chain are there. A key alone says nothing: tokens and parents are compared from the root on.
#include "storage/catalog/catalog.h"
#include "storage/catalog/rows.h"

namespace kvrt {

Result<Catalog::Chain> Catalog::find_chain(std::span<const NodeIn> nodes) {
  Chain chain;
  int64_t parent = 0;
  for (const NodeIn& node : nodes) {
    Query q = db_.query("SELECT id, parent, tokens, segment IS NOT NULL, refs FROM nodes WHERE key = ?");
    KVRT_ASSIGN(bool row, q.bind_blob(node.key.bytes).next());
    if (!row) break;
    if (q.integer(1) != parent || !same_bytes(q.blob(2), token_bytes(node.tokens))) {
      chain.collides = true;
      break;
    }
    parent = q.integer(0);
    chain.ids.push_back(parent);
    chain.has_chunk.push_back(q.integer(3) != 0);
    chain.refs = q.integer(4);
  }
  return chain;
}

}  // namespace kvrt
