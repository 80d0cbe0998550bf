// Some mutexes are held only to keep books: their holder uses no file, no store, and has a device move no bytes. Builds with assertions
// (KVRT_ASSERTS) check that.
#pragma once

#include "runtime/base/check.h"
#include "runtime/base/mutex.h"

namespace kvrt {

// Watches such a mutex.
class BooksOnly final : public HoldWatch {
 public:
  void begin() override { ++held_; }
  void end() override { --held_; }
  static bool held() { return held_ > 0; }  // by this thread

  // The watch for a mutex of this kind; null in builds without assertions.
  static HoldWatch* watch() {
#ifdef KVRT_ASSERTS
    static BooksOnly watch;
    return &watch;
#else
    return nullptr;
#endif
  }

 private:
  static inline thread_local int held_ = 0;
};

// Stands where a file, a store or a device is used.
#define KVRT_CHECK_NO_BOOKS() KVRT_CHECK(!::kvrt::BooksOnly::held())

}  // namespace kvrt
