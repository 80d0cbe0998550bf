// Paths that no symbolic link bends, and what is found at them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "runtime/base/status.h"

namespace kvrt {

// The absolute path without links, dots and a slash at its end; its last parts need not exist. `path` where that cannot be found out.
std::string canonical_path(const std::string& path);

using FileId = std::pair<uint64_t, uint64_t>;  // device, inode

// A file as it is now: which one it is, and when it was written.
struct FileStamp {
  FileId id;
  int64_t bytes = 0, modified_s = 0, modified_ns = 0;
  bool operator==(const FileStamp&) const = default;
};

struct Seen {
  bool found = false, gone = false;  // neither: it could not be looked at
  FileStamp file;
};
Seen look_at(const std::string& path);  // follows no link at its end

struct PathPlace;

// A file's directory, held open: nobody can put another in its place.
class HeldDirectory {
 public:
  static Result<HeldDirectory> of(const std::string& path);  // UNSAFE when a part of the path, but for the last, is a symbolic link
  HeldDirectory(HeldDirectory&&) noexcept;
  ~HeldDirectory();

  const std::string& name() const;  // the file's
  FileId id() const;
  Seen look(const std::string& suffix) const;  // at the file whose name is name() with the suffix
  // A short path of the file, however long its own is. Only where has_short_path().
  std::string short_path() const;
  bool has_short_path() const;

 private:
  explicit HeldDirectory(std::unique_ptr<PathPlace> place);
  std::unique_ptr<PathPlace> place_;
};

}  // namespace kvrt
