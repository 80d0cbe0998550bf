// Catalog: the store's SQLite database. Sessions, their token tree, and where each chunk lies. Its COMMIT is the only commit point.
// Tables and their rules: FORMAT.md. Not thread-safe: the store has one that writes and one that reads, each
// guarded by a mutex of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "runtime/base/env.h"
#include "runtime/base/hash.h"
#include "storage/catalog/sqlite_db.h"
#include "storage/segment/segment.h"
#include "storage/values.h"

namespace kvrt {

inline constexpr int32_t kCatalogApplicationId = 0x4B565254;  // "KVRT"
inline constexpr int32_t kCatalogSchema = 4;
inline constexpr int32_t kCatalogSchemaOldest = 2;  // that is migrated

// Where a chunk lies: one frame of one segment.
struct ChunkPlace {
  BlockKey key;
  uint64_t offset = 0, bytes = 0, raw_bytes = 0;
};

// The segment that a save wrote; its chunks go to the nodes that have none.
struct NewSegment {
  SegmentId id;
  uint64_t bytes = 0;
  bool synced = false;
  std::span<const ChunkPlace> chunks;
};

struct CommitResult {
  Saved saved;
  bool segment_used = false;  // false: no row names it, its file is garbage
};

struct SessionRow;

// The row of meta that says which store and which schema a catalog is of. parse: false where the checksum is wrong.
Status put_identity(Db* db, const Hash256& salt, const StoreId& id);
bool parse_identity(std::span<const uint8_t> value, const Hash256& salt, int32_t* schema, StoreId* id);

class Catalog {
 public:
  struct Location {
    SegmentId id;
    uint64_t offset = 0, bytes = 0, raw_bytes = 0;
  };
  struct SegmentRow {
    int64_t row = 0;
    SegmentId id;
    uint64_t bytes = 0, live = 0;
  };
  struct ChunkRow {  // for verify
    BlockKey key;
    std::optional<BlockKey> parent;  // none: a first block that no session needs any more
    std::vector<int32_t> tokens;
    int64_t segment = 0;
    uint64_t offset = 0, bytes = 0, raw_bytes = 0;
    std::string session;  // one that uses it
  };
  struct Totals {
    uint64_t sessions = 0, chunks = 0, segments = 0, chunk_bytes = 0, chunk_raw_bytes = 0, segment_bytes = 0;
  };
  struct Evicted {
    uint64_t sessions = 0, chunks = 0, bytes = 0;
  };
  // One slice of garbage collection, and where the next goes on.
  struct Collected {
    uint64_t sessions = 0, nodes = 0, chunks = 0;
    int64_t expiry = 0, row = 0;  // of the last expired session looked at: damaged ones are passed over
    bool finished = false;
  };
  // What the header of catalog.db says, read so that nothing is touched.
  // kOld: to be migrated. kTorn: no header, but a log that may have it: the power went while that was folded in.
  // kFlipped: ours by all that it holds, but for a bit of one of its two numbers or of each: mend_numbers helps.
  enum class Kind { kMissing, kOurs, kOld, kTorn, kTooNew, kTooOld, kForeign, kCorrupt, kFlipped };
  struct Probe {
    Kind kind = Kind::kMissing;
    bool whole = false;  // it is a database
    int32_t application_id = 0, schema = 0;
    bool log = false;       // there is a log: somebody has it open, or did not close it
    bool log_rows = false;  // with something in it
  };

  // Through SQLite, immutable: closing a descriptor of our own would free the locks that SQLite holds elsewhere in this process.
  static Result<Probe> probe(Env* env, const std::string& path);
  // Looks into a catalog that is none by the numbers in its header: kFlipped where its meta and tables say otherwise. Changes nothing.
  static Status recognize(const std::string& path, Probe* probe);
  // The numbers again, for who is alone in the store.
  static Status mend_numbers(const std::string& path);
  // A new database at `path` with the tables, and in the same transaction what `fill` puts into them. On the disk when it returns, without a log.
  static Status build(Env* env, const std::string& path, const std::function<Status(Db*)>& fill);
  // Builds an empty catalog under tmp/ and gives it its name in one rename: a catalog.db that exists is whole.
  static Status create(Env* env, const std::string& root);
  struct OpenMode {
    bool read_only = false;
    bool immutable = false;           // nobody writes it as long as it is open: needs no log, no shared memory, no lock
    bool check = false;               // the last writer did not close it
    int32_t oldest = kCatalogSchema;  // what it may have; others are INCOMPATIBLE
    FileLock* write_lock = nullptr;   // see Db
  };
  Status open(const std::string& path, const OpenMode& mode);
  Result<int64_t> schema() { return db_.number("PRAGMA user_version"); }
  Status check_schema(int32_t oldest = kCatalogSchema);  // INCOMPATIBLE if it has another: somebody may have migrated it since
  Result<int32_t> true_schema();                         // by what it holds; CORRUPT: by nothing that this kvrt knows
  Status migrate(const StoreId& id);                     // to kCatalogSchema, in one transaction, a part of the store `id`; see migrate.h
  const StoreId& id() const { return id_; }
  // With `fold` the last connection folds the log in and removes it. Else it stays, and the next one that is alone checks everything.
  Status close(bool fold);

  Status check_in_place() { return db_.check_in_place(); }
  Result<std::optional<Location>> find(const BlockKey& key);
  struct Chain {  // the leading nodes that are there
    std::vector<int64_t> ids;
    std::vector<bool> has_chunk;
    int64_t refs = 0;       // of the last
    bool collides = false;  // the next node's key is there, with other tokens or another parent
  };
  Result<Chain> find_chain(std::span<const NodeIn> nodes);
  // BUSY (kConcurrent) when one of `needed` has no chunk any more.
  Result<CommitResult> commit(const SessionIn& session, const NewSegment* segment, const BlockKeys& needed, int64_t now_ms);
  Status remove(std::string_view domain, std::string_view name, int64_t now_ms);
  Status rename(std::string_view domain, std::string_view from, std::string_view to, int64_t now_ms);
  Status pin(std::string_view domain, std::string_view name, uint8_t priority, int64_t now_ms);
  Status set_expiry(std::string_view domain, std::string_view name, int64_t expires_ms, int64_t now_ms);
  // Removes expired sessions and nodes without references, at least one and while more() says so; adds to the counts of `before`.
  Result<Collected> collect(int64_t now_ms, const Collected& before, const std::function<bool()>& more);
  Result<uint64_t> count_expired(int64_t now_ms);
  Result<bool> has_garbage(int64_t now_ms);
  // The session's KV is the last that will be evicted. Nothing, if another process writes now.
  void touch(std::string_view domain, std::string_view name);
  // Takes KV from sessions, those used longest ago first, until `bytes` of chunks are free or more() says no. Tokens stay.
  Result<Evicted> evict(const SavedBy& by, uint64_t bytes, const std::function<bool()>& more);
  // The first segment after row `after` of which less than half is live, none, or a row of 0.
  Result<SegmentRow> sparse_segment(int64_t after);
  // The first after row `after` with frames that no row names, or a row of 0.
  Result<SegmentRow> segment_with_dead(int64_t after);
  Result<std::vector<ChunkPlace>> chunks_of(const SegmentRow& segment);  // in the order of the file
  // The chunks lie in the new segment now, as far as they are still in the old one. The count moved; 0: the new one has no row.
  Result<uint64_t> move_chunks(const SegmentRow& from, const NewSegment& to);
  // The chunk, or every chunk of the segment, is not there any more; nodes and tokens stay. The count of chunks forgotten.
  // Segments by name: their rows may be others' by now.
  Result<uint64_t> forget_chunk(const BlockKey& key, const SegmentId& segment);
  Result<uint64_t> forget_segment(const SegmentId& segment);

  Result<SessionOut> load(std::string_view domain, std::string_view name, int64_t now_ms);
  Result<SessionStat> stat(std::string_view domain, std::string_view name, int64_t now_ms);
  Result<std::vector<SessionStat>> list(std::string_view domain, bool all_domains, int64_t now_ms);
  Result<Totals> totals(int64_t now_ms);
  Result<uint64_t> segment_bytes();

  Result<std::vector<SegmentRow>> segments();
  Result<std::vector<SegmentRow>> unsynced(std::span<const NodeIn> nodes);
  Status mark_synced(std::span<const SegmentRow> rows);
  // Segments without a row whose files may still be there: some of them.
  Result<std::vector<SegmentId>> trash();
  // Of these, what a transaction that waited for the disk found there: their files may go, a power cut does not bring their rows back.
  const std::vector<SegmentId>& settled_trash() const { return settled_trash_; }
  Status settle();  // a transaction of no other effect: what was committed before it, by whomever, is on the disk
  Status clear_trash(std::span<const SegmentId> gone);
  Result<bool> names_segment(const SegmentId& id);  // in a row or in the trash

  // The catalog against itself: SQLite's check, reference counts, keys against tokens. Then the chunks for the caller to read, and the
  // segments of that moment: their rows may soon be others'.
  Status check(const SessionCheck& check, std::vector<VerifyFault>* faults, std::vector<ChunkRow>* chunks,
               std::vector<SegmentRow>* segments);

  bool cached_model_id(const ModelFile& file, Hash256* out);
  Status cache_model_id(const ModelFile& file, const Hash256& id);
  // Rows of that cache whose checksum is wrong: one fault each; what forget removed.
  Status check_model_ids(std::vector<VerifyFault>* faults);
  Result<uint64_t> forget_wrong_model_ids();

  bool sync_failed() const { return db_.sync_failed(); }
  uint64_t disk_bytes();                // database and log
  Status set_durability(Durability d);  // of the following transactions
  // Folds the log in. `truncate`: all of it, and its file is empty then; BUSY while a reader elsewhere is in need of it.
  Status checkpoint(bool truncate = false);
  // The log folded in full, and then zeros for what SQLite leaves of other rows in the free parts of pages, from page `scrubbed` on, as
  // long as more() says so; to the end of the file it is finished. BUSY as checkpoint.
  struct Scrub {
    uint64_t scrubbed = 0;
    bool finished = false;
  };
  Status scrub(Scrub* scrub, const std::function<bool()>& more);
  uint64_t log_bytes() const { return db_.wal_bytes(); }
  uint64_t log_file_bytes() { return db_.log_file_bytes(); }                      // what others wrote, too
  Impatient impatient(uint64_t wait_ms = 0) { return Impatient(&db_, wait_ms); }  // meanwhile so long for others that write

 private:
  class Change;
  struct Head {
    int64_t node = 0;  // 0: none
    SessionId id;
    uint64_t gen = 0;
    int64_t created_ms = 0;
    uint8_t pinned = 0;
    bool expired = false;
  };
  // What a transaction adds to the totals.
  struct Delta {
    int64_t chunks = 0, chunk_bytes = 0, chunk_raw_bytes = 0, segments = 0, segment_bytes = 0;
    bool shares = false;  // a node is shared that was not, or the other way round, or the chunk of one changed: statistics are out of date
    bool used = false;    // the clock ticks
    int64_t seen_ms = 0;  // the wall clock; 0: as it was
  };
  // A chunk's row, in the columns' order: segment, bytes, raw_bytes.
  struct Placed {
    int64_t segment = 0;
    uint64_t bytes = 0, raw_bytes = 0;
  };
  struct NodeRow {
    int64_t id = 0, parent = 0, refs = 0;
    BlockKey key;
    std::vector<int32_t> tokens;
    bool has_chunk = false;
    uint64_t bytes = 0;
  };

  Status configure();
  Status read_meta();
  Result<std::optional<Head>> find_session(std::string_view domain, std::string_view name, int64_t now_ms);
  Result<SessionRow> read_session(std::string_view domain, std::string_view name);
  Result<SessionRow> live_session(std::string_view domain, std::string_view name, int64_t now_ms);
  Status write_session(const SessionRow& row);
  Status drop_session(std::string_view domain, std::string_view name, uint64_t gen);
  Result<uint64_t> buried_gen(std::string_view domain, std::string_view name);
  Result<uint64_t> next_gen(const SessionIn& session, const std::optional<Head>& current);
  Result<SessionId> own_id(const SessionIn& session, uint64_t gen, const std::optional<Head>& current);
  Status require_chunks(const BlockKeys& keys);
  struct Added {
    int64_t head = 0;   // the last node; 0: none
    int64_t below = 0;  // the deepest that was there; 0: none
    int64_t refs = 0;   // that it had
    int64_t first = 0;  // rows from here on are new
  };
  Result<Added> add_nodes(const SessionIn& session);
  Result<uint64_t> place_chunks(const NewSegment& segment, int64_t first_new);
  Status release(int64_t node, int64_t ignored = 0);
  Status note_fork(const Added& added);
  Result<bool> sweep_node(Collected* collected);
  Result<bool> remove_expired(int64_t now_ms, Collected* collected);
  Status drop_chunk(const Placed& chunk);
  Status clear_chunk(int64_t node);
  Status shrink_segment(int64_t segment, uint64_t bytes);
  Result<bool> trusts_clock(int64_t now_ms);
  Status note_time(int64_t now_ms);
  Result<int64_t> add_segment(const NewSegment& segment);
  Status set_live(int64_t segment, uint64_t live);
  Status evict_chain(int64_t head, const BlockKeys& needed, Evicted* evicted);
  Status write_statistics(const SessionRow& row);
  Result<NodeRow> read_node(int64_t id);
  Result<int64_t> chain_nodes_max();
  Result<std::vector<NodeRow>> read_chain(int64_t head, const BlockKey& root);
  Status fill_stat(int64_t head, SessionStat* stat);
  Hash256 tombstone(std::string_view domain, std::string_view name) const;
  Status check_nodes(std::vector<VerifyFault>* faults, std::vector<ChunkRow>* chunks, std::vector<SegmentRow>* segments);
  Result<bool> has_our_tables();
  Status check_constraints(std::vector<VerifyFault>* faults);
  Status check_sessions(const SessionCheck& check, std::vector<VerifyFault>* faults);
  Status check_totals(std::vector<VerifyFault>* faults);

  Db db_;
  bool read_only_ = false;
  bool syncs_ = false;  // transactions wait for the disk
  std::vector<SegmentId> settled_trash_;
  Delta delta_;  // of the running transaction
  StoreId id_;
  int32_t identity_schema_ = 0;  // that meta says; 0: it does not
  Hash256 salt_;                 // of this store: names of removed sessions are kept as keyed hashes only
};

// A transaction that changes the catalog: what it adds to the totals is written with it.
class Catalog::Change {
 public:
  explicit Change(Catalog* catalog) : catalog_(catalog), txn_(&catalog->db_) {}
  Status begin();
  Status commit();

 private:
  Catalog* catalog_;
  Transaction txn_;
};

}  // namespace kvrt
