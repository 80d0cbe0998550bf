// The thinnest wrapper of SQLite that the catalog needs: statements prepared once, Status instead of codes. Not thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/base/env.h"
#include "runtime/base/limits.h"
#include "runtime/base/paths.h"
#include "runtime/base/status.h"
#include "runtime/base/this_thread.h"

struct sqlite3;
struct sqlite3_stmt;

namespace kvrt {

inline constexpr uint64_t kCloseWaitMs = 100;  // a close waits so long for a writer

class Db;

// One execution of a prepared statement: bind in order, then step through the rows. The destructor resets it, or ends one that is for once.
class Query {
 public:
  Query(Db* db, sqlite3_stmt* statement, int prepare_code, bool once = false)
      : db_(db), statement_(statement), code_(prepare_code), once_(once) {}
  ~Query();
  Query(const Query&) = delete;
  Query& operator=(const Query&) = delete;

  Query& bind(int64_t value);
  Query& bind_u64(uint64_t value) { return bind(static_cast<int64_t>(value)); }
  Query& bind_text(std::string_view text);           // the bytes must outlive the query
  Query& bind_blob(std::span<const uint8_t> bytes);  // likewise
  Query& bind_null();

  Result<bool> next();  // true: a row
  Status run();         // to the end, rows ignored

  int64_t integer(int column) const;
  uint64_t u64(int column) const { return static_cast<uint64_t>(integer(column)); }
  bool is_null(int column) const;
  std::span<const uint8_t> blob(int column) const;  // a text's bytes too; valid until next()
  std::string text(int column) const;
  int columns() const;
  int type(int column) const;                       // SQLITE_INTEGER, …
  std::span<const uint8_t> utf8(int column) const;  // a text's bytes, whatever the database's encoding

 private:
  Db* db_;
  sqlite3_stmt* statement_;
  int code_;
  const bool once_;
  int next_parameter_ = 1;
};

class Db {
 public:
  Db();
  ~Db();
  Db(const Db&) = delete;
  Db& operator=(const Db&) = delete;

  // `flags` are those of sqlite3_open_v2, `options` of a file: URI ("?immutable=1"). LIMIT: the path is longer than SQLite takes, and /proc,
  // by which it could be opened, is not there.
  Status open(const std::string& path, int flags, const char* options = "");
  Status close();
  // Closes its connection, and takes that of `other`. What has this Db's address keeps it.
  void take(Db* other);
  // `sql` is a literal: the prepared statement is kept under its address.
  Query query(const char* sql);
  Query query_once(const std::string& sql);  // of a text that is made at run time: nothing of it is kept
  Status exec(const char* sql);              // one or several statements, rows ignored
  Result<int64_t> number(const char* sql);   // the first column of the first row, 0 if none
  int64_t changes() const;
  int64_t last_rowid() const;
  uint64_t wal_bytes() const { return wal_bytes_; }  // any thread may ask
  uint64_t log_file_bytes();                         // the log's file, with other processes' frames
  // Folds the log in. `truncate`: in full, and its file is empty afterwards, else BUSY. Waits 50 ms for readers elsewhere.
  Status checkpoint(bool truncate);
  void rollback() noexcept;  // rolls back the open transaction, if there is one
  bool in_transaction() const;
  // Held while this process writes or folds the log in. Null: no other process can be there.
  void set_write_lock(FileLock* lock) { write_lock_ = lock; }
  Status fail(int code);  // the Status of an SQLite code, with the connection's message
  // After a failed sync the kernel may call pages clean that never reached the disk: no later sync proves anything.
  bool sync_failed() const { return sync_failed_; }
  sqlite3* handle() { return db_; }
  // The log and its index that are at their paths now are those that this connection has open. SQLite removes them with the last connection
  // to the database alone: from now on somebody else did, if they are others or gone.
  void watch_log();
  // IO if an open file is not the one at its path any more: it was moved with its directory, deleted, or replaced. What the log has is
  // folded in where it is gone and no process has written another one.
  Status check_in_place();
  Status check_log();         // of the log and its index alone
  bool in_place();            // of the database alone
  bool log_in_place() const;  // a file of the log that is open here is still at its path
  // For a database that is opened as one that nobody writes: SQLite keeps what it has read. To be called before it is opened.
  void watch_content(const std::string& path);
  Status check_content() const;  // IO if somebody has written it since; of a file that is not at its path any more all can be read

 private:
  friend class WriteTurn;
  friend class Snapshot;
  friend class Impatient;
  static int on_wal(void* self, sqlite3* db, const char* name, int pages);
  struct Watched {
    const char* suffix = nullptr;  // of the database's path; null: not watched
    FileId id;
    bool moved = false, unwritten = false;  // as the last check found it: it is not there; nobody has written another one
  };
  Status check(Watched* file) const;
  Status hold_directory();
  int open_by_descriptor(const char* uri, int flags);
  Seen look(const char* suffix) const;  // at the file whose path is the database's with the suffix
  void save_log();

  sqlite3* db_ = nullptr;
  bool sync_failed_ = false;
  FileLock* write_lock_ = nullptr;
  int write_turns_ = 0;  // nested
  uint64_t wait_ms_ = kWriteWaitMs;
  std::string path_;
  struct Directory;
  std::shared_ptr<Directory> directory_;  // held open, and SQLite's paths begin with its descriptor; null: they begin with path_
  Watched log_, index_;
  std::optional<FileStamp> content_;
  bool log_saved_ = false;  // it is gone, and all that it had is in the database
  uint64_t page_bytes_ = 4096;
  std::atomic<uint64_t> wal_bytes_{0};
  std::unordered_map<const char*, sqlite3_stmt*> statements_;
};

// The turn to write, from take() to the destructor. take() waits up to kWriteWaitMs for other processes, or as Impatient says; then it is
// BUSY (kStoreLocked). May be nested.
// SQLite serializes writers too; but below 3.51.3 a checkpoint beside a writer can lose commits (the WAL-reset race).
class WriteTurn {
 public:
  explicit WriteTurn(Db* db) : db_(db) {}
  ~WriteTurn();
  WriteTurn(const WriteTurn&) = delete;
  WriteTurn& operator=(const WriteTurn&) = delete;
  Status take();

 private:
  NoFileSizeSignal no_signal_;
  Db* db_;
  bool taken_ = false;
};

// While it lives, a WriteTurn of this Db waits wait_ms at most. For work that a call does besides its own task, and that can be done
// another time: a call waits once.
class Impatient {
 public:
  explicit Impatient(Db* db, uint64_t wait_ms = 0) : db_(db), before_(db->wait_ms_) { db_->wait_ms_ = wait_ms; }
  ~Impatient() { db_->wait_ms_ = before_; }
  Impatient(const Impatient&) = delete;
  Impatient& operator=(const Impatient&) = delete;

 private:
  Db* db_;
  const uint64_t before_;
};

// BEGIN IMMEDIATE … COMMIT within a WriteTurn. The destructor rolls back, if it was not committed.
class Transaction {
 public:
  explicit Transaction(Db* db) : db_(db), turn_(db) {}
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  Status begin();
  Status commit();

 private:
  Db* db_;
  WriteTurn turn_;
  bool open_ = false;
};

// While it lives, all queries see one state of the database. Within a Transaction, which gives that already, it does nothing.
class Snapshot {
 public:
  explicit Snapshot(Db* db) : db_(db) {}
  ~Snapshot();
  Snapshot(const Snapshot&) = delete;
  Snapshot& operator=(const Snapshot&) = delete;
  Status begin();

 private:
  Db* db_;
  bool open_ = false;
};

}  // namespace kvrt
