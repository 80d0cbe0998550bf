// The arithmetics that this version's KV may come from: all that Backend::numerics() may answer, here or on another machine.
#pragma once

#include <string>
#include <vector>

namespace kvrt {

inline std::vector<std::string> known_numerics() {
  std::vector<std::string> out = {"cpu-3"};
  for (const char* capability : {"75", "80", "86", "87", "89", "90", "100", "103", "110", "120", "121"}) {
    const std::string of = std::string("-sm") + capability;
    for (const std::string cuda : {"cuda-1", "cuda-2"}) out.insert(out.end(), {cuda + of, cuda + of + "-f8"});
    out.push_back("cuda-1s" + of);
  }
  return out;
}

}  // namespace kvrt
