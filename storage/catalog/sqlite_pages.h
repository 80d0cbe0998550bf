// Reads rows from the pages of an SQLite database that SQLite itself may refuse: every leaf page that is there gives its rows, whatever
// became of the pages above it, of the schema or of the header. The caller finds out whose row it is, and whether it is right.
// Format: sqlite.org/fileformat2.html.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/base/env.h"
#include "runtime/base/status.h"

namespace kvrt {

struct RawValue {
  enum class Kind : uint8_t { kNull, kInteger, kReal, kText, kBlob };
  Kind kind = Kind::kNull;
  int64_t integer = 0;
  std::span<const uint8_t> bytes;  // a text's or a blob's
};

struct RawRow {
  bool in_table = false;  // in a table with rowids; else in an index, or in a table without rowids
  int64_t rowid = 0;
  std::span<const RawValue> values;
  bool logged = false;  // its page is the log's, which may be another database's
};

// The newest state of each page: from the log where scan_log proves one, else from the database. Not thread-safe.
class SqlitePages {
 public:
  // `log` may be null. Pages have 4096 bytes, as the catalog's.
  static Result<std::unique_ptr<SqlitePages>> open(std::unique_ptr<File> database, std::unique_ptr<File> log);

  // Calls `row` with each row whose count of columns is wanted; the row is valid until `row` returns. Passes over broken pages and cells.
  Status each_row(const std::function<bool(size_t columns, bool in_table)>& wanted, const std::function<void(const RawRow&)>& row);
  // True if every page of the table, and every row of `columns` columns, can be reached from the schema: then each_row gave all of them.
  bool is_whole(std::string_view table, size_t columns);

 private:
  static constexpr uint32_t kPageBytes = 4096;
  struct Cell {
    bool in_table = false;
    int64_t rowid = 0;
    uint64_t payload_bytes = 0;
    std::span<const uint8_t> local;
    uint32_t overflow = 0;  // the first overflow page; 0: all is local
  };

  Status read_log();
  bool is_row(std::span<const uint8_t> page, size_t at, size_t columns);
  bool walk(uint64_t page, size_t columns, int depth, uint64_t* pages_left);
  Status read_page(uint64_t page, std::vector<uint8_t>* out) const;
  bool parse_cell(std::span<const uint8_t> page, uint8_t type, size_t at, Cell* cell) const;
  bool gather(const Cell& cell);
  bool parse_record(bool in_table, const std::function<bool(size_t, bool)>& wanted, const Cell& cell);

  std::unique_ptr<File> database_, log_;
  uint64_t database_bytes_ = 0, pages_ = 0;
  std::unordered_map<uint32_t, uint64_t> logged_;  // page -> offset in the log
  uint64_t overflow_pages_left_ = 0;               // a page belongs to one row: more reads than pages are a loop, or an attack
  std::vector<uint8_t> payload_, overflow_page_;
  std::vector<RawValue> values_;
};

}  // namespace kvrt
