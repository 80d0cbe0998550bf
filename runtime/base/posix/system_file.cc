#include "runtime/base/system_file.h"

#include <fcntl.h>
#include <unistd.h>

#include "runtime/base/posix/fd.h"

namespace kvrt {

std::string system_file(const std::string& path) {
  constexpr size_t kBytesMax = 64u << 10, kPiece = 4096;
  std::string text;
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  while (fd.ok() && text.size() < kBytesMax) {
    const size_t had = text.size();
    text.resize(had + kPiece);
    const ssize_t n = retry_eintr([&] { return ::read(fd.get(), text.data() + had, kPiece); });
    text.resize(had + static_cast<size_t>(n > 0 ? n : 0));
    if (n <= 0) break;
  }
  return text;
}

}  // namespace kvrt
