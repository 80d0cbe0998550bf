#include "bindings/cli/pastes.h"

#include <fmt/core.h>

#include <algorithm>

#include "bindings/cli/common.h"

namespace cli {

std::string Pastes::add(std::string text) {
  const auto ends = std::count(text.begin(), text.end(), '\n');
  const std::string size = ends > 0 ? counted(static_cast<uint64_t>(ends + (text.back() != '\n')), "line") : human_bytes(text.size());
  all_.push_back({fmt::format("[paste {}: {}]", all_.size() + 1, size), std::move(text)});
  return all_.back().shown;
}

std::optional<std::pair<size_t, size_t>> Pastes::touched(std::wstring_view line, size_t begin, size_t end) const {
  for (const Paste& paste : all_) {
    const std::wstring shown(paste.shown.begin(), paste.shown.end());  // ASCII
    for (size_t at = line.find(shown); at < end; at = line.find(shown, at + 1)) {
      if (at + shown.size() > begin) return std::pair(at, at + shown.size());
    }
  }
  return std::nullopt;
}

bool Pastes::put_back(std::string& line, bool& any) const {
  std::string out, typed;
  for (size_t at = 0; at < line.size();) {
    const auto paste =
        std::find_if(all_.begin(), all_.end(), [&](const Paste& p) { return line.compare(at, p.shown.size(), p.shown) == 0; });
    if (paste == all_.end()) {
      out += line[at];
      typed += line[at++];
      continue;
    }
    any = true;
    out += paste->text;
    typed += '\n';
    at += paste->shown.size();
  }
  line = std::move(out);
  return std::none_of(all_.begin(), all_.end(), [&](const Paste& p) {  // one half outlives a change
    const size_t half = p.shown.size() / 2;
    return typed.find(p.shown.substr(0, half)) != std::string::npos || typed.find(p.shown.substr(half)) != std::string::npos;
  });
}

}  // namespace cli
