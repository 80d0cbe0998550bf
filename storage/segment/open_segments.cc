#include "storage/segment/open_segments.h"

#include <algorithm>

#include "runtime/base/limits.h"

namespace kvrt {

OpenSegments::~OpenSegments() {
  for (const Handle& segment : segments_) (void)discard(segment.get());
}

// Removes the file, unless a row names it or may do so.
bool OpenSegments::discard(Segment* segment) noexcept {
  if (segment->committed.end != 0 || segment->unknown) segment->writer->keep();
  const bool gone = segment->writer->discard();
  if (!gone) litter_ = true;
  return gone;
}

Result<OpenSegments::Handle> OpenSegments::enter() {
  for (const Handle& segment : segments_) {
    if (segment->retired) continue;
    if (!segment->published) return segment;
    auto there = env_->exists(segment->writer->id().path(root_));
    if (!there.is_ok() || *there) return segment;
    segment->retired = true;  // somebody removed its file: more frames would be nowhere
  }
  auto segment = std::make_shared<Segment>();
  KVRT_ASSIGN(segment->writer, SegmentWriter::create(env_, root_, store_));
  segments_.push_back(segment);
  return segment;
}

Result<uint64_t> OpenSegments::Part::append(const BlockKey& key, std::span<const uint8_t> frame) {
  Lock lock(all_->mutex_);
  if (segment_ == nullptr) {
    KVRT_ASSIGN(segment_, all_->enter());
  }
  Segment& s = *segment_;
  Frames& own = s.parts[this];
  KVRT_TRY(s.failed.clone());
  KVRT_TRY(s.torn.clone());
  const uint64_t at = s.writer->bytes();
  Status written = s.writer->append(key, frame);
  if (!written.is_ok()) {
    if (written.code() != Code::kNoSpace) s.retired = true;
    const Status cut = s.writer->cut(at);  // the frame may be torn
    if (!cut.is_ok()) {
      s.retired = true;
      s.torn = cut.clone();
    }
    return written;
  }
  own = {at + frame.size(), own.count + 1};
  return at;
}

Status OpenSegments::Part::publish(bool sync) {
  Segment& s = *segment_;
  uint64_t written;
  bool named;
  {
    Lock lock(all_->mutex_);
    KVRT_TRY(s.failed.clone());
    if (!s.published) {
      Status moved = s.writer->publish(false);
      if (!moved.is_ok()) s.retired = true;
      KVRT_TRY(std::move(moved));
      s.published = true;
    }
    written = s.writer->bytes();
    named = s.named_on_disk;
  }
  if (!sync) return {};
  Status synced = s.writer->sync();  // without the lock: others go on writing
  if (synced.is_ok() && !named) synced = s.writer->sync_name();
  Lock lock(all_->mutex_);
  if (!synced.is_ok()) {  // the kernel may call its pages clean now: a second sync would say OK, and prove nothing
    s.retired = true;
    s.failed = synced.clone();
    return synced;
  }
  s.synced = std::max(s.synced, written);
  s.named_on_disk = true;
  return {};
}

Result<OpenSegments::Part::Extent> OpenSegments::Part::extent() const {
  Lock lock(all_->mutex_);
  Segment& s = *segment_;
  KVRT_TRY(s.failed.clone());
  const uint64_t end = s.parts[this].end;
  return Extent{s.writer->id(), end, std::min(s.synced, end), s.committed.end != 0};
}

void OpenSegments::Part::committed(Outcome outcome) noexcept {
  Lock lock(all_->mutex_);
  Segment& s = *segment_;
  const Frames own = s.parts[this];
  if (outcome == Outcome::kUnknown) s.unknown = true;
  if (outcome == Outcome::kNamed) s.committed = {std::max(s.committed.end, own.end), s.committed.count + own.count};
  all_->leave(&s, this);
  segment_.reset();
}

void OpenSegments::Part::give_up() noexcept {
  if (segment_ == nullptr) return;
  Lock lock(all_->mutex_);
  all_->leave(segment_.get(), this);
  segment_.reset();
}

// What lies behind the last frame that is named or may be is cut off. A file without such a frame is removed.
void OpenSegments::leave(Segment* s, const void* part) noexcept try {
  s->parts.erase(part);
  if (s->unknown || s->taken) return;
  uint64_t end = s->committed.end;
  for (const auto& [other, frames] : s->parts) end = std::max(end, frames.end);
  if (end == 0 && s->parts.empty()) {
    (void)discard(s);
    std::erase_if(segments_, [&](const Handle& h) { return h.get() == s; });
  } else if (end != 0 && end < s->writer->bytes() && !s->writer->cut(end).is_ok()) {
    s->retired = true;
  }
} catch (...) {  // no memory for a failure's message
  s->retired = true;
}

uint64_t OpenSegments::uncounted_bytes() {
  Lock lock(mutex_);
  uint64_t bytes = 0;
  for (const Handle& s : segments_) {
    uint64_t frames = s->committed.count;
    for (const auto& [part, own] : s->parts) frames += own.count;
    bytes += s->writer->bytes() + frames * kSegmentEntryBytes + kSegmentTrailerBytes - s->committed.end;
  }
  return bytes;
}

void OpenSegments::retire(uint64_t from_bytes) {
  Lock lock(mutex_);
  for (const Handle& s : segments_) {
    s->retired = s->retired || s->writer->bytes() >= from_bytes || s->writer->entries().size() >= kSegmentChunksMax / 2;
  }
}

void OpenSegments::retire(const SegmentId& id) {
  Lock lock(mutex_);
  for (const Handle& s : segments_) s->retired = s->retired || s->writer->id() == id;
}

void OpenSegments::fail(const SegmentId& id, const Status& why) {
  Lock lock(mutex_);
  for (const Handle& s : segments_) {
    if (s->writer->id() != id) continue;
    s->retired = true;
    s->failed = why.clone();
  }
}

std::vector<SegmentId> OpenSegments::list() {
  Lock lock(mutex_);
  std::vector<SegmentId> all;
  for (const Handle& s : segments_) all.push_back(s->writer->id());
  return all;
}

std::vector<OpenSegments::Taken> OpenSegments::take_idle() {
  std::vector<Taken> idle;
  Lock lock(mutex_);
  idle.reserve(segments_.size());  // nothing fails once one is taken
  for (const Handle& s : segments_) {
    if (!s->retired || s->taken || s->unknown || !s->parts.empty()) continue;
    s->taken = true;
    idle.emplace_back(this, s);
  }
  return idle;
}

std::optional<OpenSegments::Taken> OpenSegments::take(const SegmentId& id) {
  Lock lock(mutex_);
  for (const Handle& s : segments_) {
    if (s->writer->id() != id || s->taken || s->unknown || !s->parts.empty()) continue;
    s->retired = s->taken = true;
    return Taken(this, s);
  }
  return std::nullopt;
}

OpenSegments::Taken::~Taken() {
  if (segment_ == nullptr) return;
  Lock lock(all_->mutex_);
  segment_->taken = false;
}

Result<uint64_t> OpenSegments::Taken::seal(uint64_t frames_end, std::span<const SegmentEntry> index) {
  return segment_->writer->seal_at(frames_end, index);
}

void OpenSegments::Taken::drop() {
  Lock lock(all_->mutex_);
  std::erase(all_->segments_, segment_);
  (void)all_->discard(segment_.get());
  segment_.reset();
}

}  // namespace kvrt
