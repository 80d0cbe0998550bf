// Any bytes as a session's manifest: a Status, or a manifest that is the same after being written again.

#include "runtime/engine/snapshot/manifest.h"
#include "tests/fuzz/require.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr uint64_t kNodeTokens = 1000;
  constexpr uint32_t kVocab = 50000;
  auto manifest = kvrt::decode_manifest({data, size}, kNodeTokens, kVocab);
  if (!manifest.is_ok()) {
    require(!manifest.status().message().empty(), "a failure says why");
    return 0;
  }
  for (const int32_t token : manifest->pending)
    require(token >= 0 && static_cast<uint32_t>(token) < kVocab, "tokens are of the vocabulary");
  const std::vector<uint8_t> bytes = kvrt::encode_manifest(*manifest);
  auto again = kvrt::decode_manifest(bytes, kNodeTokens, kVocab);
  require(again.is_ok() && kvrt::encode_manifest(*again) == bytes, "a manifest survives a rewrite");
  return 0;
}
