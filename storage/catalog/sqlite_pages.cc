#include "storage/catalog/sqlite_pages.h"

#include <algorithm>

#include "storage/catalog/sqlite_bytes.h"
#include "storage/catalog/sqlite_log.h"

namespace kvrt {

namespace {

constexpr int kTreeDepthMax = 20;  // SQLite's own limit: a deeper tree has a loop
constexpr uint8_t kIndexInterior = 0x02, kTableInterior = 0x05, kIndexLeaf = 0x0a, kTableLeaf = 0x0d;

// Reads a varint of up to 9 bytes; the high bit of each of the first 8 says that more follow. Its length; 0: it is cut short.
size_t read_varint(std::span<const uint8_t> in, size_t at, uint64_t* out) {
  uint64_t value = 0;
  for (size_t i = 0; i < 9 && at + i < in.size(); i++) {
    const uint8_t byte = in[at + i];
    if (i == 8) {
      *out = value << 8 | byte;
      return 9;
    }
    value = value << 7 | (byte & 0x7f);
    if ((byte & 0x80) == 0) {
      *out = value;
      return i + 1;
    }
  }
  return 0;
}

// The length of a value of this serial type. False: there is no such type.
bool value_bytes(uint64_t type, uint64_t* bytes) {
  constexpr uint8_t kBytes[] = {0, 1, 2, 3, 4, 6, 8, 8, 0, 0};
  if (type == 10 || type == 11) return false;
  *bytes = type < 10 ? kBytes[type] : (type - 12) / 2;
  return true;
}

RawValue make_value(uint64_t type, std::span<const uint8_t> bytes) {
  RawValue v;
  if (type == 0) return v;
  if (type >= 12) {
    v.kind = type % 2 == 0 ? RawValue::Kind::kBlob : RawValue::Kind::kText;
    v.bytes = bytes;
    return v;
  }
  v.kind = type == 7 ? RawValue::Kind::kReal : RawValue::Kind::kInteger;
  if (type == 9) v.integer = 1;
  if (type >= 1 && type <= 6) {
    uint64_t bits = (bytes[0] & 0x80) != 0 ? ~uint64_t{0} : 0;
    for (uint8_t byte : bytes) bits = bits << 8 | byte;
    v.integer = static_cast<int64_t>(bits);
  }
  return v;
}

}  // namespace

Result<std::unique_ptr<SqlitePages>> SqlitePages::open(std::unique_ptr<File> database, std::unique_ptr<File> log) {
  std::unique_ptr<SqlitePages> pages(new SqlitePages);
  pages->database_ = std::move(database);
  pages->log_ = std::move(log);
  if (pages->database_) {
    KVRT_ASSIGN(pages->database_bytes_, pages->database_->size());
  }
  pages->pages_ = (pages->database_bytes_ + kPageBytes - 1) / kPageBytes;
  if (pages->log_) KVRT_TRY(pages->read_log());
  return pages;
}

Status SqlitePages::read_log() {
  KVRT_ASSIGN(const LogScan scan, scan_log(*log_, database_.get(), true));
  if (scan.pages.empty()) return {};
  const uint64_t most = pages_ + scan.pages.size();  // a new page has a frame
  uint64_t last = pages_;                            // the last page that file or log has
  for (const LoggedPage& logged : scan.pages) {
    if (logged.page > most) continue;
    logged_[logged.page] = logged.offset;
    last = std::max<uint64_t>(last, logged.page);
  }
  pages_ = std::min<uint64_t>(scan.database_pages, last);
  return {};
}

// Past the end of a file there are zeros.
Status SqlitePages::read_page(uint64_t page, std::vector<uint8_t>* out) const {
  out->assign(kPageBytes, 0);
  auto logged = logged_.find(static_cast<uint32_t>(page));
  if (logged != logged_.end()) return log_->pread(logged->second, *out);
  const uint64_t at = (page - 1) * kPageBytes;
  if (at >= database_bytes_) return {};
  return database_->pread(at, std::span(*out).first(static_cast<size_t>(std::min<uint64_t>(kPageBytes, database_bytes_ - at))));
}

bool SqlitePages::parse_cell(std::span<const uint8_t> page, uint8_t type, size_t at, Cell* cell) const {
  if (type == kIndexInterior) at += 4;  // the child
  size_t n = read_varint(page, at, &cell->payload_bytes);
  if (n == 0) return false;
  at += n;
  cell->in_table = type == kTableLeaf;
  if (cell->in_table) {
    uint64_t rowid = 0;
    n = read_varint(page, at, &rowid);
    if (n == 0) return false;
    at += n;
    cell->rowid = static_cast<int64_t>(rowid);
  }
  const uint64_t local_max = cell->in_table ? kPageBytes - 35 : (kPageBytes - 12) * 64 / 255 - 23;
  uint64_t local = cell->payload_bytes;
  if (local > local_max) {
    if (local > pages_ * kPageBytes) return false;
    const uint64_t local_min = (kPageBytes - 12) * 32 / 255 - 23;
    local = local_min + (cell->payload_bytes - local_min) % (kPageBytes - 4);
    if (local > local_max) local = local_min;
  }
  const bool whole = local == cell->payload_bytes;
  if (at + local + (whole ? 0 : 4) > page.size()) return false;
  cell->local = page.subspan(at, static_cast<size_t>(local));
  cell->overflow = whole ? 0 : be32(&page[at + static_cast<size_t>(local)]);
  return whole || cell->overflow != 0;
}

// Gathers the whole payload into payload_.
bool SqlitePages::gather(const Cell& cell) {
  payload_.assign(cell.local.begin(), cell.local.end());
  uint32_t next = cell.overflow;
  while (payload_.size() < cell.payload_bytes) {
    if (next == 0 || next > pages_ || overflow_pages_left_ == 0) return false;
    overflow_pages_left_--;
    if (!read_page(next, &overflow_page_).is_ok()) return false;
    next = be32(overflow_page_.data());
    const size_t part = static_cast<size_t>(std::min<uint64_t>(cell.payload_bytes - payload_.size(), kPageBytes - 4));
    payload_.insert(payload_.end(), overflow_page_.begin() + 4, overflow_page_.begin() + 4 + static_cast<ptrdiff_t>(part));
  }
  return true;
}

// The header first: only a record whose lengths add up is worth reading whole.
bool SqlitePages::parse_record(bool in_table, const std::function<bool(size_t, bool)>& wanted, const Cell& cell) {
  uint64_t header_bytes = 0;
  size_t at = read_varint(cell.local, 0, &header_bytes);
  if (at == 0 || header_bytes > cell.local.size()) return false;
  const auto header = cell.local.first(static_cast<size_t>(header_bytes));
  std::vector<uint64_t> types;
  uint64_t end = header_bytes;
  while (at < header.size()) {
    uint64_t type = 0, bytes = 0;
    const size_t n = read_varint(header, at, &type);
    if (n == 0 || !value_bytes(type, &bytes) || bytes > cell.payload_bytes - end) return false;
    at += n;
    end += bytes;
    types.push_back(type);
  }
  if (end != cell.payload_bytes || !wanted(types.size(), in_table) || !gather(cell)) return false;
  values_.clear();
  uint64_t offset = header_bytes;
  for (uint64_t type : types) {
    uint64_t bytes = 0;
    value_bytes(type, &bytes);
    values_.push_back(
        make_value(type, std::span<const uint8_t>(payload_).subspan(static_cast<size_t>(offset), static_cast<size_t>(bytes))));
    offset += bytes;
  }
  return true;
}

Status SqlitePages::each_row(const std::function<bool(size_t columns, bool in_table)>& wanted,
                             const std::function<void(const RawRow&)>& row) {
  overflow_pages_left_ = 4 * pages_;
  std::vector<uint8_t> page;
  for (uint64_t number = 1; number <= pages_; number++) {
    KVRT_TRY(read_page(number, &page));
    const size_t head = number == 1 ? 100 : 0;  // the database's own header
    const uint8_t type = page[head];
    if (type != kTableLeaf && type != kIndexLeaf && type != kIndexInterior) continue;
    const size_t cells = be16(&page[head + 3]), pointers = head + (type == kIndexInterior ? 12 : 8);
    for (size_t i = 0; i < cells && pointers + 2 * i + 2 <= page.size(); i++) {
      Cell cell;
      if (!parse_cell(page, type, be16(&page[pointers + 2 * i]), &cell)) continue;
      if (!parse_record(cell.in_table, wanted, cell)) continue;
      row({cell.in_table, cell.rowid, values_, logged_.count(static_cast<uint32_t>(number)) != 0});
    }
  }
  return {};
}

bool SqlitePages::is_row(std::span<const uint8_t> page, size_t at, size_t columns) {
  Cell cell;
  const auto has_columns = [&](size_t n, bool) { return n == columns; };
  return parse_cell(page, kTableLeaf, at, &cell) && parse_record(true, has_columns, cell);
}

bool SqlitePages::walk(uint64_t number, size_t columns, int depth, uint64_t* pages_left) {
  std::vector<uint8_t> page;
  if (number == 0 || number > pages_ || depth > kTreeDepthMax || *pages_left == 0 || !read_page(number, &page).is_ok()) return false;
  --*pages_left;
  const size_t head = number == 1 ? 100 : 0;
  const uint8_t type = page[head];
  if (type != kTableLeaf && type != kTableInterior) return false;
  const size_t cells = be16(&page[head + 3]), pointers = head + (type == kTableInterior ? 12 : 8);
  if (pointers + 2 * cells > page.size()) return false;
  const auto child = [&](size_t at) { return at + 4 <= page.size() && walk(be32(&page[at]), columns, depth + 1, pages_left); };
  for (size_t i = 0; i < cells; i++) {
    const size_t at = be16(&page[pointers + 2 * i]);
    if (!(type == kTableInterior ? child(at) : is_row(page, at, columns))) return false;
  }
  return type == kTableLeaf || child(head + 8);
}

bool SqlitePages::is_whole(std::string_view table, size_t columns) {
  int64_t root = 0;  // sqlite_schema: type, name, tbl_name, rootpage, sql
  const auto is = [](const RawValue& v, std::string_view text) {
    return v.kind == RawValue::Kind::kText && std::equal(v.bytes.begin(), v.bytes.end(), text.begin(), text.end());
  };
  Status read = each_row([](size_t n, bool in_table) { return n == 5 && in_table; },
                         [&](const RawRow& row) {
                           if (is(row.values[0], "table") && is(row.values[1], table)) root = row.values[3].integer;
                         });
  uint64_t pages_left = pages_;
  overflow_pages_left_ = 2 * pages_;
  return read.is_ok() && root > 0 && walk(static_cast<uint64_t>(root), columns, 1, &pages_left);
}

}  // namespace kvrt
