#include "storage/store/open_names.h"

#include "runtime/base/bytes.h"

namespace kvrt {

class OpenNames::Mark final : public StoredSessions::OpenName {
 public:
  Mark(OpenNames* names, uint64_t byte) : names_(names), byte_(byte) {
    Lock lock(names_->mutex_);
    names_->renew();
    if (++names_->open_[byte_] == 1) names_->lock_->mark(byte_);
  }
  ~Mark() override {
    Lock lock(names_->mutex_);
    names_->renew();
    const auto sessions = names_->open_.find(byte_);
    if (--sessions->second > 0) return;
    names_->open_.erase(sessions);
    names_->lock_->unmark(byte_);
  }
  Mark(const Mark&) = delete;
  Mark& operator=(const Mark&) = delete;

 private:
  OpenNames* const names_;
  const uint64_t byte_;
};

// Two names of one byte, one pair in 2^62, would be taken for one another. Every user of the machine can read the bytes in /proc/locks, and
// without the salt guess the names.
uint64_t OpenNames::byte_of(std::string_view domain, std::string_view name) const {
  const Hash256 hash = Hasher(salt_).add_string(domain).add_string(name).finish();
  return load<uint64_t>(hash.bytes.data()) >> 2;
}

std::unique_ptr<StoredSessions::OpenName> OpenNames::open(std::string_view domain, std::string_view name) {
  if (lock_ == nullptr) return nullptr;
  return std::make_unique<Mark>(this, byte_of(domain, name));
}

int32_t OpenNames::other_process(std::string_view domain, std::string_view name) {
  if (lock_ == nullptr) return 0;
  Lock lock(mutex_);
  renew();
  return lock_->marked_by(byte_of(domain, name));
}

bool OpenNames::open_here(std::string_view domain, std::string_view name) {
  Lock lock(mutex_);
  return open_.contains(byte_of(domain, name));
}

// Marks anew what a handle of the file that was closed here took away.
void OpenNames::renew() {
  const uint64_t taken = lock_->marks_taken();
  if (taken == taken_) return;
  taken_ = taken;
  for (const auto& [byte, sessions] : open_) lock_->mark(byte);
}

}  // namespace kvrt
