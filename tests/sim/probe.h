// Probe: reads a host's blocks, tables and index from within, and names what is wrong. Call it while no other thread is inside.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/engine/engine.h"

namespace kvrt {

struct Probe {
  explicit Probe(Engine* h) : engine(h) {}

  // "" or the fault. deep: keys are hashed again and every slot of KV is compared with the KV of the tokens.
  std::string check(bool deep);
  // The same for the step that is about to run: the blocks it writes are private, the KV it reads is there, and none of another domain's.
  std::string check_step(const Step& step);
  // Of a session that had proposals in the last step: the blocks for those that were not kept went back.
  std::string check_given_back(const Session& session) const;
  // Overwrites the memory that nobody may read: free blocks, and the slots of private blocks past their tokens.
  void poison();

  const StepParts& parts() const { return engine->parts_->step; }
  const KvCache& cache() const { return engine->parts_->cache; }
  const StepPlan& plan() const { return engine->parts_->driver.plan_; }
  const KvGroups& kv_groups() const { return engine->memory_->groups(); }
  // Gives up a cached block from anywhere in its chain, which leaves a hole. False: there is none.
  bool evict(uint64_t random);
  uint32_t holes() const;  // sessions of the plan that have KV after the rows that they compute now
  uint32_t blocks_left() const { return cache().pool_.free_count() + cache().pool_.cached_count(); }
  const Session* oldest_runnable() const;
  // It could run and is not in this plan, because another one computes its block.
  bool waits_for_other(const Session& session) const;
  std::string describe() const;  // one line: the pool, and every session's tokens, KV and place in the plan

  // What the toy mixes the KV of each sequence of the plan with, if `salted`: something of its domain, so that equal tokens of two domains
  // have KV that differs.
  std::vector<uint64_t> salts() const;
  bool salted = false;

  Engine* engine;

 private:
  uint64_t salt(const Session& s) const;
  struct Holder {
    const Session* session;
    uint32_t group, index;
  };
  using Holders = std::vector<std::vector<Holder>>;  // by block
  Holders holders() const;
  void note_roots(const Holders& held);
  std::string check_pool(const Holders& held) const;
  std::string check_index(bool deep) const;
  std::string check_session(const Session& s, bool deep) const;
  std::string check_shared(const Holders& held) const;
  std::string check_kv(const Session& s) const;
  std::string check_domains(const Step& step);
  std::string check_rows(const Step& step) const;

  // By unit: whose KV was in it, and a hash of its bytes then.
  struct Left {
    BlockKey root;
    size_t bytes = 0;
  };
  std::map<BlockId, Left> left_;
  size_t hash_of(BlockId unit) const;
};

}  // namespace kvrt
