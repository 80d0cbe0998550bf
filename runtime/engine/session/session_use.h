// SessionUse: the users of a session: the step's leader, saves, a resume, close. Each comes and goes here, and two that exclude each
// other are asserted against. The handle's own call is not among them: it changes the session under Engine's lock only.
//
//   step   from a plan, or a look-up of the prefix, to its end.       Never while a save waits for the step's end.
//   save   one at a time; others wait. Runs beside steps, but may keep them away until the session is between two.
//   tail   a save copies its last block out. Who writes to that block gets a copy if the pool has a block for it; else steps leave the session
//          out until the save has its own.
//   pin    a save reads the blocks, or a resume fills them: no other session takes them.
//   close  for good. Never in a step.
#pragma once

#include <cstdint>
#include <utility>

#include "runtime/base/check.h"

namespace kvrt {

// Guarded by Engine's lock.
class SessionUse {
 public:
  bool in_step() const { return in_step_; }
  bool may_step() const { return !kept_from_steps_; }
  void enter_step() {
    KVRT_CHECK(!in_step_ && may_step() && !closing_);
    in_step_ = stepped_ = true;
  }
  void leave_step() {
    KVRT_CHECK(in_step_);
    in_step_ = false;
  }
  bool take_stepped() { return std::exchange(stepped_, false); }  // it was in a step since the last call

  bool in_save() const { return in_save_; }
  bool save_waits() const { return saves_waiting_ > 0; }
  void wait_for_save() { ++saves_waiting_; }
  void begin_save() {
    KVRT_CHECK(!in_save_ && saves_waiting_ > 0);
    --saves_waiting_;
    in_save_ = true;
    pin();
  }
  void end_save() {
    KVRT_CHECK(in_save_ && !kept_from_steps_ && !tail_read_);
    in_save_ = false;
    unpin();
  }
  // On while a save waits for the session to be between two steps.
  void keep_from_steps(bool on) {
    KVRT_CHECK(in_save_);
    kept_from_steps_ = on;
  }

  bool tail_read() const { return tail_read_; }
  void read_tail(bool on) {
    KVRT_CHECK(in_save_);
    tail_read_ = on;
  }

  bool pinned() const { return pins_ > 0; }
  void pin() { ++pins_; }
  void unpin() {
    KVRT_CHECK(pins_ > 0);
    --pins_;
  }

  bool closing() const { return closing_; }
  void close() {
    KVRT_CHECK(!in_step_ && !closing_);
    closing_ = true;
  }

 private:
  bool in_step_ = false, stepped_ = false, in_save_ = false, kept_from_steps_ = false, tail_read_ = false, closing_ = false;
  uint32_t saves_waiting_ = 0, pins_ = 0;
};

}  // namespace kvrt
