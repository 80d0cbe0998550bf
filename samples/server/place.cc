#include "place.h"

#include <sys/stat.h>

#include <utility>

namespace {

constexpr auto kPause = std::chrono::seconds(1);  // between two tries to open what does not open

}  // namespace

StorePlace::StorePlace(kvrt::Runtime runtime, std::string path, const kvrt_store_options& options, Log log)
    : runtime_(std::move(runtime)), path_(std::move(path)), options_(options), log_(std::move(log)) {
  if (!named()) return;
  open(0);
  if (found_.store.info().or_throw().read_only == 1) log_("the store " + path_ + " cannot be written: conversations are not saved");
}

// All zeros: there is no store.
StorePlace::Identity StorePlace::identity() const {
  struct stat file {};
  if (stat((path_ + "/catalog.db").c_str(), &file) != 0) return {};
  return {file.st_dev, file.st_ino};
}

void StorePlace::open(uint32_t must_exist) {
  options_.must_exist = must_exist;
  const Identity before = identity();
  kvrt::Store store = kvrt::Store::open(runtime_, path_, options_).or_throw();
  const Identity after = identity();
  std::lock_guard lock(mu_);
  if (must_exist && before != after) return;  // it changed again meanwhile
  found_ = {std::move(store), ++opened_};
  identity_ = after;
}

// The identity is read under the lock: one that was read before would not be that of a store which another request has opened since.
StorePlace::Found StorePlace::current() {
  std::lock_guard lock(mu_);
  if (found_.store && identity() == identity_) return found_;
  if (std::exchange(found_, {}).store) log_("the store " + path_ + " was removed or replaced: conversations are in memory alone");
  return {};
}

StorePlace::Found StorePlace::look() {
  if (!named()) return {};
  if (const Found found = current(); found.store) return found;
  const std::unique_lock opening(opening_, std::try_to_lock);
  if (!opening) return {};
  if (const Found found = current(); found.store) return found;  // another request was faster
  if (identity() == Identity{} || Clock::now() < again_) return {};
  again_ = Clock::now() + kPause;
  try {
    open(1);
  } catch (const kvrt::Error& e) {
    log_("the store that is at " + path_ + " now is not opened: " + std::string(e.what()));
  }
  std::lock_guard lock(mu_);
  if (found_.store) log_("the store that is at " + path_ + " now is open: conversations in memory are saved there");
  return found_;
}
