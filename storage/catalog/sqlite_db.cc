#include "storage/catalog/sqlite_db.h"

#include <sqlite3.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>

#include "runtime/base/books_only.h"
#include "runtime/base/check.h"
#include "runtime/base/limits.h"

namespace kvrt {

namespace {
constexpr const char kRollback[] = "ROLLBACK";
constexpr int kReaderWaitMs = 50;
}  // namespace

Query::~Query() {
  if (statement_ == nullptr) return;
  if (once_) {
    sqlite3_finalize(statement_);
    return;
  }
  sqlite3_reset(statement_);
  sqlite3_clear_bindings(statement_);
}

// A failed bind shows up as the result of the next step.
Query& Query::bind(int64_t value) {
  if (code_ == SQLITE_OK) code_ = sqlite3_bind_int64(statement_, next_parameter_++, value);
  return *this;
}

Query& Query::bind_text(std::string_view text) {
  const char* p = text.data() == nullptr ? "" : text.data();  // a null pointer would bind NULL
  if (code_ == SQLITE_OK) code_ = sqlite3_bind_text64(statement_, next_parameter_++, p, text.size(), SQLITE_STATIC, SQLITE_UTF8);
  return *this;
}

Query& Query::bind_blob(std::span<const uint8_t> bytes) {
  const void* p = bytes.data() == nullptr ? static_cast<const void*>("") : bytes.data();
  if (code_ == SQLITE_OK) code_ = sqlite3_bind_blob64(statement_, next_parameter_++, p, bytes.size(), SQLITE_STATIC);
  return *this;
}

Query& Query::bind_null() {
  if (code_ == SQLITE_OK) code_ = sqlite3_bind_null(statement_, next_parameter_++);
  return *this;
}

Result<bool> Query::next() {
  if (code_ == SQLITE_OK) {
    KVRT_CHECK_NO_BOOKS();
    int code = sqlite3_step(statement_);
    if (code == SQLITE_ROW) return true;
    if (code == SQLITE_DONE) return false;
    code_ = code;
  }
  return db_->fail(code_);
}

Status Query::run() {
  for (;;) {
    KVRT_ASSIGN(bool row, next());
    if (!row) return {};
  }
}

int64_t Query::integer(int column) const { return sqlite3_column_int64(statement_, column); }
bool Query::is_null(int column) const { return sqlite3_column_type(statement_, column) == SQLITE_NULL; }

std::span<const uint8_t> Query::blob(int column) const {
  auto p = static_cast<const uint8_t*>(sqlite3_column_blob(statement_, column));
  int n = sqlite3_column_bytes(statement_, column);
  if (p == nullptr || n <= 0) return {};
  return {p, static_cast<size_t>(n)};
}

int Query::columns() const { return sqlite3_column_count(statement_); }
int Query::type(int column) const { return sqlite3_column_type(statement_, column); }

std::span<const uint8_t> Query::utf8(int column) const {
  auto p = sqlite3_column_text(statement_, column);
  int n = sqlite3_column_bytes(statement_, column);
  if (p == nullptr || n <= 0) return {};
  return {p, static_cast<size_t>(n)};
}

std::string Query::text(int column) const {
  auto bytes = blob(column);
  return std::string(bytes.begin(), bytes.end());
}

Query Db::query(const char* sql) {
  sqlite3_stmt*& statement = statements_[sql];  // its place first: a statement that gets lost holds the database open
  const int code = statement != nullptr ? SQLITE_OK : sqlite3_prepare_v3(db_, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
  return Query(this, statement, code);
}

Query Db::query_once(const std::string& sql) {
  sqlite3_stmt* statement = nullptr;
  const int code = sqlite3_prepare_v3(db_, sql.c_str(), -1, 0, &statement, nullptr);
  return Query(this, statement, code, true);
}

Status Db::exec(const char* sql) {
  KVRT_CHECK_NO_BOOKS();
  int code = sqlite3_exec(db_, sql, nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? Status() : fail(code);
}

Result<int64_t> Db::number(const char* sql) {
  Query q = query(sql);
  KVRT_ASSIGN(bool row, q.next());
  return row ? q.integer(0) : int64_t{0};
}

int64_t Db::changes() const { return sqlite3_changes64(db_); }
int64_t Db::last_rowid() const { return sqlite3_last_insert_rowid(db_); }

int Db::on_wal(void* self, sqlite3*, const char*, int pages) {
  auto db = static_cast<Db*>(self);
  db->wal_bytes_ = 32 + static_cast<uint64_t>(pages) * (db->page_bytes_ + 24);
  return SQLITE_OK;
}

Status Db::checkpoint(bool truncate) {
  sqlite3_busy_timeout(db_, kReaderWaitMs);  // a reader may be stopped, and no process can write meanwhile
  int code = sqlite3_wal_checkpoint_v2(db_, nullptr, truncate ? SQLITE_CHECKPOINT_TRUNCATE : SQLITE_CHECKPOINT_PASSIVE, nullptr, nullptr);
  sqlite3_busy_timeout(db_, static_cast<int>(kWriteWaitMs));
  if (code != SQLITE_OK) return fail(code);
  wal_bytes_ = 0;
  return {};
}

namespace {

// What a class of SQLite's codes means to a caller.
struct Meaning {
  int primary;
  Code code;
  Detail detail;
};
constexpr Meaning kMeanings[] = {
    {SQLITE_FULL, Code::kNoSpace, Detail::kNone},
    {SQLITE_CORRUPT, Code::kCorrupt, Detail::kCatalogCorrupt},
    {SQLITE_NOTADB, Code::kCorrupt, Detail::kCatalogCorrupt},
    // Only damaged content breaks the catalog's own rules (CHECK, UNIQUE, foreign keys, prepared columns).
    {SQLITE_ERROR, Code::kCorrupt, Detail::kCatalogCorrupt},
    {SQLITE_SCHEMA, Code::kCorrupt, Detail::kCatalogCorrupt},
    {SQLITE_CONSTRAINT, Code::kCorrupt, Detail::kCatalogCorrupt},
    {SQLITE_MISMATCH, Code::kCorrupt, Detail::kCatalogCorrupt},
    {SQLITE_READONLY, Code::kIo, Detail::kReadOnly},
    {SQLITE_PERM, Code::kIo, Detail::kPermission},
    {SQLITE_AUTH, Code::kIo, Detail::kPermission},
    {SQLITE_NOMEM, Code::kNoMemory, Detail::kNone},
    {SQLITE_BUSY, Code::kBusy, Detail::kStoreLocked},
    {SQLITE_LOCKED, Code::kBusy, Detail::kStoreLocked},
    {SQLITE_TOOBIG, Code::kLimit, Detail::kNone},
    {SQLITE_MISUSE, Code::kInternal, Detail::kNone},
};

bool is_of_files(int code) { return (code & 0xff) == SQLITE_IOERR || (code & 0xff) == SQLITE_CANTOPEN; }

// The errno of the call that failed; 0: it was none of files. `last`: errno as SQLite left it, which forgets that of a write within a COMMIT.
int errno_of(int code, int last, sqlite3* db) {
  if ((code & 0xff) == SQLITE_FULL) return ENOSPC;
  if (!is_of_files(code)) return 0;  // what SQLite has is an earlier call's
  if (code == SQLITE_IOERR_WRITE && (last == EFBIG || last == EDQUOT)) return last;
  return db != nullptr ? sqlite3_system_errno(db) : 0;
}

Meaning meaning_of(int code, int os) {
  const int primary = code & 0xff;
  if (is_of_files(code)) {
    const bool full = os == ENOSPC || os == EDQUOT || os == EFBIG || code == SQLITE_IOERR_SHMSIZE;  // which comes without its errno
    const Detail detail = os == EACCES || os == EPERM ? Detail::kPermission : os == EROFS ? Detail::kReadOnly : Detail::kNone;
    return {primary, full ? Code::kNoSpace : Code::kIo, detail};
  }
  const auto* known = std::ranges::find(kMeanings, primary, &Meaning::primary);
  return known != std::end(kMeanings) ? *known : Meaning{primary, Code::kIo, Detail::kNone};
}

}  // namespace

Status Db::fail(int code) {
  const int last = errno;
  const char* text = db_ != nullptr && sqlite3_extended_errcode(db_) == code ? sqlite3_errmsg(db_) : sqlite3_errstr(code);
  std::string message = path_ + ": " + text + " (SQLite " + std::to_string(code) + ")";
  const int os = errno_of(code, last, db_);
  if (os == EMFILE || os == ENFILE) return errno_error(os, "%s", message.c_str());
  if (os != 0) message = errno_error(os, "%s", message.c_str()).message();
  if (os == EACCES) message += "; expected: its owner can read and write it (chmod 600)";
  if (code == SQLITE_IOERR_FSYNC || code == SQLITE_IOERR_DIR_FSYNC) sync_failed_ = true;
  const Meaning meaning = meaning_of(code, os);
  return Status::make(meaning.code, meaning.detail, code, std::move(message));
}

uint64_t Db::log_file_bytes() {
  sqlite3_file* file = nullptr;
  sqlite3_int64 bytes = 0;
  sqlite3_file_control(db_, "main", SQLITE_FCNTL_JOURNAL_POINTER, &file);
  if (file == nullptr || file->pMethods == nullptr || file->pMethods->xFileSize(file, &bytes) != SQLITE_OK) return 0;
  return static_cast<uint64_t>(bytes);
}

// Uses a statement that begin() prepared: there may be no memory now.
void Db::rollback() noexcept {
  auto found = statements_.find(kRollback);
  if (found == statements_.end() || found->second == nullptr || sqlite3_get_autocommit(db_) != 0)
    return;  // SQLite may have rolled back by itself
  sqlite3_step(found->second);
  sqlite3_reset(found->second);
}

bool Db::in_transaction() const { return sqlite3_get_autocommit(db_) == 0; }

Status WriteTurn::take() {
  using std::chrono::steady_clock;
  if (db_->write_lock_ != nullptr && db_->write_turns_ == 0) {
    const auto deadline = steady_clock::now() + std::chrono::milliseconds(db_->wait_ms_);
    auto pause = std::chrono::microseconds(50);
    for (;;) {
      Status taken = db_->write_lock_->acquire(LockMode::kExclusive);
      if (taken.is_ok()) break;
      if (taken.code() != Code::kBusy || steady_clock::now() >= deadline) return taken;
      std::this_thread::sleep_for(pause);
      pause = std::min(pause * 2, std::chrono::microseconds(2000));
    }
  }
  if (db_->write_turns_ == 0 && db_->log_.suffix != nullptr) {
    Status in_place = db_->check_in_place();  // else what is written now is nowhere, or beside another process's writes
    if (!in_place.is_ok()) {
      if (db_->write_lock_ != nullptr) db_->write_lock_->release();
      return in_place;
    }
  }
  db_->write_turns_++;
  taken_ = true;
  return {};
}

WriteTurn::~WriteTurn() {
  if (taken_ && --db_->write_turns_ == 0 && db_->write_lock_ != nullptr) db_->write_lock_->release();
}

Transaction::~Transaction() {
  if (open_) db_->rollback();
}

Status Transaction::begin() {
  KVRT_TRY(turn_.take());
  { Query prepared = db_->query(kRollback); }
  db_->rollback();  // a transaction that an earlier rollback failed to end
  KVRT_TRY(db_->query("BEGIN IMMEDIATE").run());
  open_ = true;
  return {};
}

Status Transaction::commit() {
  KVRT_TRY(db_->query("COMMIT").run());
  open_ = false;
  return {};
}

Status Snapshot::begin() {
  if (db_->in_transaction()) return {};
  Status log = db_->check_log();
  if (!log.is_ok() && db_->in_place()) return log;  // of a directory that was moved as a whole all can be read
  { Query prepared = db_->query(kRollback); }
  KVRT_TRY(db_->query("BEGIN").run());
  open_ = true;
  return {};
}

Snapshot::~Snapshot() {
  if (open_) db_->rollback();
}

}  // namespace kvrt
