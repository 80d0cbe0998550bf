// The head of a request, by RFC 9112. cpp-httplib, which is less strict, sees what is right alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

constexpr size_t kTargetBytesMax = 8000, kFieldBytesMax = 8000, kHeadBytesMax = 64 << 10;

struct Head {
  std::string text;      // anew, for cpp-httplib: one Host, and no more of what the members below say
  bool old = false;      // HTTP/1.0: no chunks, and its connection ends
  bool last = false;     // its connection ends
  bool chunked = false;  // the body's framing; neither: there is no body
  std::optional<uint64_t> length;
  bool waits = false;          // for 100 Continue, before it sends the body
  std::string type, encoding;  // of the body
};

// Reads a head, from its request line to the end of its last field. `model`: its name, which paths may end with. Throws ApiError.
Head read_head(std::string_view text, std::string_view model);
// A number of hex digits, as a chunk's line has it, perhaps with an extension. Throws ApiError.
uint64_t read_chunk_size(std::string_view line);
