// StoreImpl: the calls that read and change sessions by name.
#include "storage/store/names.h"
#include "storage/store/store_impl.h"

namespace kvrt {

Result<SessionOut> StoreImpl::load(std::string_view domain, std::string_view name, bool used) {
  KVRT_TRY(check_names(domain, name));
  const auto read = [&] {
    Lock lock(read_mutex_);
    return reader_.sessions.load(domain, name, env_->unix_ms());
  };
  auto session = read();
  if (session.is_ok() && used) touch(domain, name);
  return session;
}

// Notes a use of the session, for the order of eviction; not while somebody writes, for its reader waits for no disk.
void StoreImpl::touch(std::string_view domain, std::string_view name) {
  if (!mutex_.try_lock()) return;
  Lock lock(mutex_, std::adopt_lock);
  if (check_writable_locked().is_ok() && catalog_.db.set_durability(Durability::kProcess).is_ok()) catalog_.sessions.touch(domain, name);
}

Result<std::vector<SessionStat>> StoreImpl::list(std::string_view domain, bool all_domains) {
  Lock lock(list_mutex_);
  return lister_.sessions.list(domain, all_domains, env_->unix_ms());
}

Result<SessionStat> StoreImpl::stat(std::string_view domain, std::string_view name) {
  KVRT_TRY(check_names(domain, name));
  Lock lock(read_mutex_);
  return reader_.sessions.stat(domain, name, env_->unix_ms());
}

std::unique_ptr<Store::OpenName> StoreImpl::open_name(std::string_view domain, std::string_view name) {
  // One that waits for room is marked, too: its save may find some.
  return dir_.write_lock == nullptr ? nullptr : open_names_.open(domain, name);
}

int32_t StoreImpl::other_process(std::string_view domain, std::string_view name) { return open_names_.other_process(domain, name); }

Status StoreImpl::remove(std::string_view domain, std::string_view name) {
  KVRT_TRY(check_names(domain, name));
  Lock lock(mutex_);
  KVRT_TRY(change_locked(true, [&]() KVRT_REQUIRES(mutex_) { return catalog_.sessions.remove(domain, name, env_->unix_ms()); }));
  after_commit(Durability::kTokens);
  return {};
}

Status StoreImpl::rename(std::string_view domain, std::string_view from, std::string_view to) {
  KVRT_TRY(check_names(domain, from));
  KVRT_TRY(check_names(domain, to));
  Lock lock(mutex_);
  KVRT_TRY(change_locked(false, [&]() KVRT_REQUIRES(mutex_) { return catalog_.sessions.rename(domain, from, to, env_->unix_ms()); }));
  after_commit(Durability::kTokens);
  return {};
}

Status StoreImpl::pin(std::string_view domain, std::string_view name, uint8_t priority) {
  KVRT_TRY(check_names(domain, name));
  Lock lock(mutex_);
  KVRT_TRY(change_locked(false, [&]() KVRT_REQUIRES(mutex_) { return catalog_.sessions.pin(domain, name, priority, env_->unix_ms()); }));
  after_commit(Durability::kTokens);
  return {};
}

Status StoreImpl::set_ttl(std::string_view domain, std::string_view name, uint64_t seconds) {
  KVRT_TRY(check_names(domain, name));
  KVRT_TRY(check_ttl(seconds));
  Lock lock(mutex_);
  int64_t now = env_->unix_ms();
  int64_t expires = seconds != 0 ? now + static_cast<int64_t>(seconds) * 1000 : 0;
  KVRT_TRY(change_locked(false, [&]() KVRT_REQUIRES(mutex_) { return catalog_.sessions.set_expiry(domain, name, expires, now); }));
  after_commit(Durability::kTokens);
  return {};
}

}  // namespace kvrt
