// Which sessions share which blocks of tokens: what the page draws. A block's key names all tokens up to its end, so equal keys are equal
// beginnings, of one model. Saved sessions and open ones have comparable keys.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "conversations.h"
#include "kvrt.hpp"

class Graph {
 public:
  // `conversations` outlives it.
  Graph(kvrt::Model model, Conversations& conversations) : model_(std::move(model)), conversations_(conversations) {}

  // The newest `limit` sessions of a domain, as JSON. Reads the store for a moment at most: what it did not get to comes with the next call.
  // `pool`: with the counts of the model's blocks, which are those of all domains.
  std::string json(const std::string& domain, size_t limit, bool pool);

 private:
  using Clock = std::chrono::steady_clock;
  using Chain = std::vector<uint64_t>;  // of each block a hash of all tokens up to its end; the last block may be a part
  struct Saved {                        // as the store's list has it
    uint64_t revision = 0, tokens = 0, on_disk = 0;
    int64_t saved_ms = 0;
    bool read = false;   // what follows is known
    uint64_t model = 0;  // a hash of its identity
    Chain chain;
  };
  struct Open {
    uint64_t used = 0, tokens = 0, computed = 0, revision = 0;
    bool generates = false, in_memory = false;
    Chain chain;
  };
  struct Domain {
    std::mutex mu;  // over a call of json; generations do not take it
    std::map<std::string, Saved> saved;
    std::map<std::string, Open> open;
    Clock::time_point list_again{};
    kvrt::Store store;  // which `saved` is of
  };
  struct Row {
    const std::string* name;
    const Saved* saved;
    const Open* open;
  };

  std::shared_ptr<Domain> domain_of(const std::string& name);
  void look_at_open(const std::string& name, Domain* domain);
  void list_saved(const std::string& name, Domain* domain);
  size_t read_saved(const std::string& name, Domain* domain, const std::vector<Row>& rows);
  void read_one(const kvrt::Store& store, const std::string& name, const std::string& domain, Saved* saved, const Open* open);
  Chain chain_of(const std::vector<int32_t>& tokens) const;

  const kvrt::Model model_;
  Conversations& conversations_;
  std::mutex mu_;
  std::map<std::string, std::shared_ptr<Domain>> domains_;
  std::atomic<uint64_t> own_model_{0};  // as Saved::model; 0: no open session was found in the store yet
};
