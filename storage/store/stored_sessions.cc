// StoreImpl: the calls of StoredSessions, but for a save.
#include "storage/store/names.h"
#include "storage/store/store_impl.h"

namespace kvrt {

Result<SessionOut> StoreImpl::load(std::string_view domain, std::string_view name, bool used) {
  KVRT_TRY(check_names(domain, name));
  const auto read = [&] {
    Lock lock(reader_.mutex);
    return reader_.catalog.sessions.load(domain, name, store_.env->unix_ms());
  };
  auto session = read();
  if (session.is_ok() && used) touch(domain, name);
  return session;
}

// Notes a use of the session, for the order of eviction; not while somebody writes, for its reader waits for no disk.
void StoreImpl::touch(std::string_view domain, std::string_view name) {
  if (!writer_.mutex.try_lock()) return;
  Lock lock(writer_.mutex, std::adopt_lock);
  if (!writer_.check_writable().is_ok() || !writer_.catalog.db.set_durability(Durability::kProcess).is_ok()) return;
  writer_.catalog.sessions.touch(domain, name);
}

Result<std::vector<SessionStat>> StoreImpl::list(std::string_view domain, bool all_domains) {
  Lock lock(lister_.mutex);
  return lister_.catalog.sessions.list(domain, all_domains, store_.env->unix_ms());
}

Result<SessionStat> StoreImpl::stat(std::string_view domain, std::string_view name) {
  KVRT_TRY(check_names(domain, name));
  Lock lock(reader_.mutex);
  return reader_.catalog.sessions.stat(domain, name, store_.env->unix_ms());
}

std::unique_ptr<Store::OpenName> StoreImpl::open_name(std::string_view domain, std::string_view name) {
  // One that waits for room is marked, too: its save may find some.
  return store_.dir.write_lock == nullptr ? nullptr : open_names_.open(domain, name);
}

// One transaction, which is on the disk on return, and its housekeeping.
Status StoreImpl::change_session(bool frees, const std::function<Status(SessionTable*, int64_t now_ms)>& change) {
  Lock lock(writer_.mutex);
  KVRT_TRY(writer_.change(frees, [&]() KVRT_REQUIRES(writer_.mutex) { return change(&writer_.catalog.sessions, store_.env->unix_ms()); }));
  writer_.after_commit(Durability::kTokens);
  return {};
}

Status StoreImpl::remove(std::string_view domain, std::string_view name) {
  KVRT_TRY(check_names(domain, name));
  return change_session(true, [&](SessionTable* sessions, int64_t now_ms) { return sessions->remove(domain, name, now_ms); });
}

Status StoreImpl::rename(std::string_view domain, std::string_view from, std::string_view to) {
  KVRT_TRY(check_names(domain, from));
  KVRT_TRY(check_names(domain, to));
  return change_session(false, [&](SessionTable* sessions, int64_t now_ms) { return sessions->rename(domain, from, to, now_ms); });
}

Status StoreImpl::pin(std::string_view domain, std::string_view name, uint8_t priority) {
  KVRT_TRY(check_names(domain, name));
  return change_session(false, [&](SessionTable* sessions, int64_t now_ms) { return sessions->pin(domain, name, priority, now_ms); });
}

Status StoreImpl::set_ttl(std::string_view domain, std::string_view name, uint64_t seconds) {
  KVRT_TRY(check_names(domain, name));
  KVRT_TRY(check_ttl(seconds));
  return change_session(false, [&](SessionTable* sessions, int64_t now_ms) {
    const int64_t expires = seconds != 0 ? now_ms + static_cast<int64_t>(seconds) * 1000 : 0;
    return sessions->set_expiry(domain, name, expires, now_ms);
  });
}

}  // namespace kvrt
