// CatalogDb: zeroes what removed rows leave in the file. With secure_delete SQLite zeroes a row where it lies. But the free part of a page
// that SQLite filled anew keeps old bytes: copies of rows that moved to other pages, and were removed there.
// Format: sqlite.org/fileformat2.html.
#include <sqlite3.h>

#include <algorithm>
#include <array>
#include <optional>

#include "storage/catalog/catalog_db.h"
#include "storage/catalog/sqlite_bytes.h"

namespace kvrt {

namespace {

constexpr uint32_t kPage = 4096, kPagesOfMap = kPage / 5 + 1;  // a pointer map and the pages it describes
constexpr uint64_t kLockPage = (1u << 30) / kPage + 1;
constexpr uint8_t kRootPage = 1, kTreePage = 5;  // in a pointer map

constexpr uint64_t kLongLog = 64u << 10;

using Page = std::array<uint8_t, kPage>;

// The gap of a tree's page, between the pointers to its cells and the first cell; none if a cell begins before that.
std::optional<FileRange> gap_of(const Page& page, uint32_t head) {
  const uint8_t type = page[head];
  const bool leaf = type == 10 || type == 13;
  if (!leaf && type != 2 && type != 5) return std::nullopt;
  const uint32_t cells = be16(&page[head + 3]), top = be16(&page[head + 5]), pointers = head + (leaf ? 8 : 12);
  const uint32_t pointers_end = pointers + 2 * cells;
  if (pointers_end > top || top > kPage) return std::nullopt;
  for (uint32_t at = pointers; at < pointers_end; at += 2) {
    if (be16(&page[at]) < top || be16(&page[at]) >= kPage) return std::nullopt;
  }
  return FileRange{pointers_end, top - pointers_end};
}

// The free parts of a tree's page; none if anything about the page is wrong.
std::vector<FileRange> free_parts(const Page& page, uint64_t number) {
  const uint32_t head = number == 1 ? 100 : 0;
  const auto gap = gap_of(page, head);
  if (!gap) return {};
  std::vector<FileRange> parts{*gap};
  for (uint32_t at = be16(&page[head + 1]), least = static_cast<uint32_t>(gap->offset + gap->bytes); at != 0; at = be16(&page[at])) {
    if (at < least || at + 4 > kPage) return {};
    const uint32_t bytes = be16(&page[at + 2]);
    if (bytes < 4 || at + bytes > kPage) return {};
    parts.push_back({at + 4, bytes - 4});
    least = at + bytes;
  }
  return parts;
}

class Scrubber {
 public:
  explicit Scrubber(Db* db) : db_(db) { sqlite3_file_control(db->handle(), "main", SQLITE_FCNTL_FILE_POINTER, &file_); }

  Result<uint64_t> pages() {
    sqlite3_int64 bytes = 0;
    KVRT_TRY(check(file_->pMethods->xFileSize(file_, &bytes)));
    return static_cast<uint64_t>(bytes) / kPage;
  }

  Status scrub(uint64_t number) {
    KVRT_ASSIGN(const bool tree, is_tree(number));
    if (!tree) return {};
    const uint64_t begin = (number - 1) * kPage;
    KVRT_TRY(read(number, &page_));
    for (const FileRange& part : free_parts(page_, number)) {
      const auto from = page_.begin() + static_cast<ptrdiff_t>(part.offset), to = from + static_cast<ptrdiff_t>(part.bytes);
      if (std::all_of(from, to, [](uint8_t byte) { return byte == 0; })) continue;
      static constexpr Page kZeros{};
      changed_ = true;
      KVRT_TRY(
          check(file_->pMethods->xWrite(file_, kZeros.data(), static_cast<int>(part.bytes), static_cast<int64_t>(begin + part.offset))));
    }
    return {};
  }

  bool changed() const { return changed_; }
  Status sync() { return check(file_->pMethods->xSync(file_, SQLITE_SYNC_NORMAL)); }

 private:
  Status check(int code) { return code == SQLITE_OK ? Status() : db_->fail(code); }
  Status read(uint64_t number, Page* page) {
    return check(file_->pMethods->xRead(file_, page->data(), static_cast<int>(kPage), static_cast<int64_t>((number - 1) * kPage)));
  }

  Result<bool> is_tree(uint64_t number) {
    if (number == 1) return true;
    uint64_t map = (number - 2) / kPagesOfMap * kPagesOfMap + 2;
    if (map == kLockPage) map++;
    if (number == kLockPage || number <= map) return false;
    if (map != map_number_) KVRT_TRY(read(map, &map_));
    map_number_ = map;
    const uint8_t type = map_[5 * (number - map - 1)];
    return type == kRootPage || type == kTreePage;
  }

  Db* db_;
  sqlite3_file* file_ = nullptr;
  Page page_, map_;
  uint64_t map_number_ = 0;
  bool changed_ = false;
};

}  // namespace

// With the turn to write and an empty log, the file alone has the catalog, and nobody changes it. A reader of a page meanwhile sees the
// same rows: only bytes that no cell has are written.
Status CatalogDb::scrub(Scrub* scrub, const std::function<bool()>& more) {
  WriteTurn turn(&db_);
  KVRT_TRY(turn.take());
  const bool enough = db_.log_file_bytes() > kLongLog;
  KVRT_TRY(checkpoint(true));
  if (enough) return {};  // folding was work enough for one slice
  KVRT_ASSIGN(const int64_t maps, db_.number("PRAGMA auto_vacuum"));
  KVRT_ASSIGN(const int64_t page_bytes, db_.number("PRAGMA page_size"));
  Scrubber scrubber(&db_);
  KVRT_ASSIGN(const uint64_t pages, scrubber.pages());
  scrub->finished = maps == 0 || page_bytes != kPage;
  while (!scrub->finished) {
    scrub->finished = scrub->scrubbed >= pages;
    if (!scrub->finished) KVRT_TRY(scrubber.scrub(++scrub->scrubbed));
    if (!more()) break;
  }
  if (!scrubber.changed()) return {};
  KVRT_TRY(scrubber.sync());
  sqlite3_db_release_memory(db_.handle());  // its cache has the pages as they were
  return settle();                          // a commit, so that other connections drop theirs
}

}  // namespace kvrt
