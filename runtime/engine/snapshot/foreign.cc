#include "runtime/engine/snapshot/foreign.h"

#include <algorithm>

#include "runtime/compute/numerics.h"
#include "runtime/engine/session/kv_root.h"

namespace kvrt {

void adopt_foreign(const LoadedModel& model, const ModelKv& kv, const SessionOut& saved, Session* session) {
  Session& s = *session;
  if (saved.root == s.kv.root) return;
  s.stored.cold = find_cold(model, kv, saved.model_id, s.domain, saved.root);
  if (s.stored.cold) {  // all its KV lies under that root, what is rounded and what comes after
    s.kv.root = saved.root;
    s.stored.inexact = true;
    return;
  }
  std::vector<BlockKey> roots;
  for (const std::string& numerics : known_numerics()) roots.push_back(kv_root(saved.model_id, kv, numerics, s.domain));
  bool known = std::find(roots.begin(), roots.end(), saved.root) != roots.end();
  for (const BlockKey& a : roots) {
    for (const BlockKey& b : roots) {
      if (mixed_root(a, b) != saved.root) continue;
      known = true;
      if (b == s.kv.root) {  // begun elsewhere, continued here: all its KV lies under its own root
        s.kv.root = saved.root;
        s.stored.inexact = true;
        return;
      }
    }
  }
  if (!known) return;  // another format's, or a later kvrt's: it is computed again
  s.stored.foreign_root = saved.root;
  s.stored.foreign_tokens = saved.tokens.size();
  s.kv.root = mixed_root(saved.root, s.kv.root);
  s.stored.inexact = true;
}

}  // namespace kvrt
