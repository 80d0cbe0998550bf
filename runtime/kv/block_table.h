// BlockTable: a group's blocks of one sequence in order, and how many tokens of each have their KV. A place without a block is a hole. Each
// place says why it lacks what it lacks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/kv/place.h"

namespace kvrt {

// Not thread-safe: guarded by its owner's lock. Holds one reference per block; its owner takes and drops them.
class BlockTable {
 public:
  explicit BlockTable(uint32_t block_tokens) : block_tokens_(block_tokens) {}

  uint32_t size() const { return static_cast<uint32_t>(places_.size()); }
  Place place(uint32_t i) const { return i < size() ? places_[i] : Place(); }
  BlockId block(uint32_t i) const { return place(i).block(); }               // kNoBlock: a hole
  uint32_t filled(uint32_t i) const { return i < size() ? filled_[i] : 0; }  // tokens of block i that have their KV
  std::span<const uint32_t> filled() const { return filled_; }               // by block
  uint32_t blocks_held() const { return held_; }
  uint32_t first() const { return first_; }  // no place before this one has a block

  void grow(uint32_t blocks);  // to at least so many, with holes
  // Grows; needs no memory for a place that is there. What the place says of the KV that it lacks stays, unless it lacks none.
  void set(uint32_t i, BlockId block, uint32_t filled);
  void set_filled(uint32_t i, uint32_t filled);  // where that is more, it was computed: what follows never was
  void lacks(uint32_t i, Hole why);              // grows. The place says so of the KV that it lacks, unless what it says is stronger
  void say(uint32_t i, Hole why) { places_[i] = Place(places_[i].block(), why); }  // likewise, whatever it says
  void lose(uint32_t i, Hole why);                                                 // the block goes. If it had KV, the place says why
  void lose_from(uint32_t from, Hole why);                                         // likewise all from this place on
  void shrink(uint32_t blocks);  // forgets the places past these; the caller has dropped their references

 private:
  uint32_t block_tokens_;
  uint32_t first_ = 0, held_ = 0;
  std::vector<Place> places_;
  std::vector<uint32_t> filled_;
};

}  // namespace kvrt
