// kvrt store graph: which sessions share which blocks of KV, as one SVG file, or a page of HTML with it, that needs nothing else: no script, no font, no other file.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "bindings/cli/commands.h"

namespace cli {

namespace {

// A block of tokens of a session. Its key names all tokens up to its end: equal keys are one chunk on disk.
struct Block {
  std::string key;
  uint64_t begin, end, bytes;  // of tokens; of KV on disk, 0: missing
};

struct Chain {
  std::string name, domain;
  uint64_t tokens;
  std::vector<Block> blocks;
};

// Points of the picture. A session has a row; tokens run to the right.
constexpr double kLeft = 250, kWide = 860, kRight = 190, kTop = 92, kRow = 30, kBar = 18, kFoot = 24;
constexpr double kGapFrom = 5;          // blocks of this width and more are drawn apart
constexpr size_t kNameCharacters = 28;  // of a name beside its row; the whole name is its tooltip

constexpr const char* kStyle =
    "text{font:13px system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif;fill:#1f2328}"
    ".n{font-family:ui-monospace,Menlo,Consolas,'DejaVu Sans "
    "Mono',monospace;font-weight:bold;white-space:pre}.h{font-weight:bold;font-size:15px}"
    ".d{fill:#59636e;font-size:12px}.c{fill:#ffffff;font-size:11px;font-weight:bold}.page{fill:#ffffff}.way{stroke:#59636e;fill:none}"
    ".all{fill:#0b6bcb}.own{fill:#b35900}.gone{fill:none;stroke:#59636e;stroke-dasharray:3 2}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.d{fill:#9198a1}.c{fill:#0d1117}.page{fill:#0d1117}.way,.gone{stroke:#9198a1}"
    ".all{fill:#58a6ff}.own{fill:#e3903c}}";

// Foreign text as the content of an element: nothing in it is markup, controls, or turns the direction of text.
std::string xml(std::string_view text) {
  std::string out;
  for (const char c : printable(text)) {
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else {
      out += c;
    }
  }
  return out;
}

std::string shortened(std::string_view name) {
  std::string text = printable(name);
  size_t characters = 0, at = 0;
  for (; at < text.size(); ++at) {
    if ((static_cast<unsigned char>(text[at]) & 0xc0) != 0x80 && characters++ == kNameCharacters) break;
  }
  return at == text.size() ? text : text.substr(0, at) + "…";
}

// Sessions that begin alike come one after another.
void sort(std::vector<Chain>& chains) {
  const auto before = [](const Chain& a, const Chain& b) {
    const auto keys = std::lexicographical_compare_three_way(a.blocks.begin(), a.blocks.end(), b.blocks.begin(), b.blocks.end(),
                                                             [](const Block& x, const Block& y) { return x.key <=> y.key; });
    return keys != 0 ? keys < 0 : a.name < b.name;
  };
  std::sort(chains.begin(), chains.end(), before);
}

size_t common(const Chain& a, const Chain& b) {
  size_t n = 0;
  while (n < std::min(a.blocks.size(), b.blocks.size()) && a.blocks[n].key == b.blocks[n].key) ++n;
  return n;
}

class Picture {
 public:
  Picture(const std::string& directory, std::vector<Chain> chains) : chains_(std::move(chains)) {
    sort(chains_);
    uint64_t longest = 1;
    for (const Chain& chain : chains_) {
      longest = std::max(longest, chain.tokens);
      for (const Block& block : chain.blocks) {
        ++named_;
        named_bytes_ += block.bytes;
        if (++users_[block.key] == 1) bytes_ += block.bytes;
      }
    }
    scale_ = kWide / static_cast<double>(longest);
    sum_ = fmt::format("{}, {} of KV; {} on disk, each once: {} in place of {}", counted(chains_.size(), "session"),
                       counted(named_, "block"), users_.size(), human_bytes(bytes_), human_bytes(named_bytes_));
    draw(directory);
  }
  const std::string& svg() const { return out_; }
  const std::string& sum() const { return sum_; }

 private:
  template <typename... T>
  void add(fmt::format_string<T...> format, T&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<T>(args)...);
  }
  double x(uint64_t token) const { return kLeft + scale_ * static_cast<double>(token); }
  static double y(size_t row) { return kTop + kRow * static_cast<double>(row); }
  uint32_t users(const Block& block) const { return users_.at(block.key); }

  void draw(const std::string& directory) {
    const double width = kLeft + kWide + kRight, height = y(chains_.size()) + kFoot;
    const std::string title = "KV blocks of " + xml(directory);
    add("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:g} {1:g}\" width=\"{0:g}\" height=\"{1:g}\" role=\"img\" "
        "aria-labelledby=\"t d\">\n<title id=\"t\">{2}</title>\n<desc id=\"d\">{3}.</desc>\n<style>{4}</style>\n"
        "<rect width=\"{0:g}\" height=\"{1:g}\" class=\"page\"/>\n",
        width, height, title, sum_, kStyle);
    add("<text x=\"20\" y=\"28\" class=\"h\">{}</text>\n<text x=\"20\" y=\"48\" class=\"d\">{}</text>\n", title, sum_);
    const std::pair<const char*, const char*> legend[] = {
        {"all", "in several sessions"}, {"own", "in one session"}, {"gone", "not on disk: a resume computes it again"}};
    double at = 20;
    for (const auto& [style, what] : legend) {
      add("<rect x=\"{:g}\" y=\"60\" width=\"12\" height=\"12\" rx=\"3\" class=\"{}\"/><text x=\"{:g}\" y=\"70\" class=\"d\">{}</text>\n",
          at, style, at + 18, what);
      at += 165;
    }
    std::vector<size_t> drawn;  // the row that has each block of the row's chain
    for (size_t row = 0; row < chains_.size(); ++row) {
      const size_t shared = row == 0 ? 0 : common(chains_[row - 1], chains_[row]);
      drawn.resize(shared);
      draw_row(row, shared, shared ? drawn.back() : row);
      drawn.resize(chains_[row].blocks.size(), row);
    }
    out_ += "</svg>\n";
  }

  // A session's row: the blocks from `first` on, and the way to the row above that has the ones before.
  void draw_row(size_t row, size_t first, size_t above) {
    const Chain& chain = chains_[row];
    const double middle = y(row) + kBar / 2;
    add("<g><title>{}</title><text x=\"20\" y=\"{:g}\" class=\"n\">{}</text></g>\n",
        xml(chain.name) + (chain.domain.empty() ? "" : " of domain " + xml(chain.domain)), middle + 4, xml(shortened(chain.name)));
    if (above != row) {
      const double from = x(chain.blocks[first - 1].end) - 2;
      add("<path d=\"M{:.1f} {:g}V{:g}h6\" class=\"way\"/>\n", from, y(above) + kBar, middle);
    }
    uint64_t own = 0, end = chain.blocks.empty() ? 0 : chain.blocks.back().end;
    for (size_t i = first; i < chain.blocks.size();) {
      size_t next = i + 1;
      const auto kind = [&](size_t at) { return std::pair(users(chain.blocks[at]), chain.blocks[at].bytes == 0); };
      while (next < chain.blocks.size() && kind(next) == kind(i)) ++next;
      draw_run(chain, i, next, y(row));
      i = next;
    }
    for (const Block& block : chain.blocks) own += users(block) == 1 ? block.bytes : 0;
    add("<text x=\"{:.1f}\" y=\"{:g}\" class=\"d\">{}, own KV {}</text>\n", std::max(x(end), kLeft) + 12, middle + 4,
        counted(chain.tokens, "token"), human_bytes(own));
  }

  // Blocks [first, end) of a chain, which as many sessions have.
  void draw_run(const Chain& chain, size_t first, size_t end, double top) {
    const Block &from = chain.blocks[first], &last = chain.blocks[end - 1];
    uint64_t bytes = 0;
    for (size_t i = first; i < end; ++i) bytes += chain.blocks[i].bytes;
    const uint32_t sessions = users(from);
    add("<g><title>tokens {} to {}: {} in {}, {}</title>", from.begin, last.end, counted(end - first, "block"),
        counted(sessions, "session"), bytes == 0 ? "not on disk" : human_bytes(bytes) + " on disk");
    const char* style = from.bytes == 0 ? "gone" : sessions > 1 ? "all" : "own";
    const bool apart = x(from.end) - x(from.begin) >= kGapFrom;
    for (size_t i = first; i < end;) {
      const size_t next = apart ? i + 1 : end;
      const double left = x(chain.blocks[i].begin), right = x(chain.blocks[next - 1].end);
      add("<rect x=\"{:.1f}\" y=\"{:g}\" width=\"{:.1f}\" height=\"{:g}\" rx=\"3\" class=\"{}\"/>", left, top,
          std::max(right - left - 1.5, 0.5), kBar, style);
      i = next;
    }
    const double wide = x(last.end) - x(from.begin);
    if (sessions > 1 && from.bytes != 0 && wide >= 30)
      add("<text x=\"{:.1f}\" y=\"{:g}\" class=\"c\">×{}</text>", x(from.begin) + 6, top + 13, sessions);
    out_ += "</g>\n";
  }

  std::vector<Chain> chains_;
  std::unordered_map<std::string, uint32_t> users_;  // sessions that have a block
  uint64_t named_ = 0, named_bytes_ = 0, bytes_ = 0;
  double scale_ = 1;
  std::string sum_, out_;
};

kvrt_status read_chain(const Store& store, Chain& chain) {
  std::string text(kJsonBytes, '\0');
  if (kvrt_status s = checked(store.show(chain.name, text, chain.domain), "cannot read " + in_quotes(chain.name))) return s;
  const auto json = nlohmann::json::parse(text);
  for (const auto& block : json["chunks"]) {
    chain.blocks.push_back({block["key"], block["begin"], block["end"], block["bytes"]});
  }
  return KVRT_OK;
}

// The picture as a page of its own, if the file's name asks for one.
std::string as_named(const std::string& path, const std::string& svg) {
  if (!path.ends_with(".html") && !path.ends_with(".htm")) return svg;
  const size_t begin = svg.find("<title"), end = svg.find("</title>");
  const std::string title = svg.substr(svg.find('>', begin) + 1, end - svg.find('>', begin) - 1);
  return "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width\">\n"
         "<meta name=\"color-scheme\" content=\"light dark\">\n<title>" +
         title + "</title>\n<style>body{margin:0}svg{display:block;max-width:100%;height:auto}</style>\n</head>\n<body>\n" + svg +
         "</body>\n</html>\n";
}

kvrt_status write_file(const std::string& path, const std::string& text) {
  if (path == "-") {
    put("{}", text);
    return KVRT_OK;
  }
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (file) return KVRT_OK;
  return complain(KVRT_IO, "cannot write " + in_quotes(path) + ": " + std::strerror(errno));
}

}  // namespace

int cmd_store_graph(const StoreFlags& flags) {
  Interrupt interrupt;
  if (flags.output == "-" && ::isatty(STDOUT_FILENO))
    return complain(KVRT_INVALID, "a picture is not text for a terminal; give -o FILE.svg or FILE.html");
  const std::string ending = std::filesystem::path(flags.output).extension();
  if (!ending.empty() && ending != ".svg" && ending != ".html" && ending != ".htm")
    return complain(KVRT_INVALID, "the picture is SVG or HTML: expected -o FILE.svg or FILE.html, found " + in_quotes(flags.output));
  Runtime runtime;
  Store store;
  if (kvrt_status s = open_runtime({}, runtime)) return s;
  if (kvrt_status s = open_store(runtime, flags.directory, true, true, store)) return s;
  std::vector<Chain> chains;
  const std::string_view domain = flags.all_domains ? std::string_view() : flags.domain;
  const auto take_entry = [&](const Event& event) {
    if (event.type == KVRT_EVENT_ENTRY) chains.push_back({event.entry->name, event.entry->domain, event.entry->tokens, {}});
    return stop_if(Interrupt::came());
  };
  if (kvrt_status s = checked(store.list(domain, take_entry), "cannot list " + in_quotes(flags.directory))) return finish(s);
  Progress bar("reading");
  kvrt_status worst = KVRT_OK;
  for (size_t i = 0; i < chains.size(); ++i) {
    if (Interrupt::came()) return finish(complain(KVRT_CANCELLED, "stopped; nothing was written"));
    if (kvrt_status s = read_chain(store, chains[i])) {
      worst = s;
      chains[i].name.clear();
    }
    bar.update(i + 1, chains.size());
  }
  bar.clear();
  std::erase_if(chains, [](const Chain& chain) { return chain.name.empty(); });  // those that cannot be read
  const Picture picture(flags.directory, std::move(chains));
  if (kvrt_status s = write_file(flags.output, as_named(flags.output, picture.svg()))) return finish(s);
  if (flags.output != "-") say("{}: {}\n", flags.output, picture.sum());
  return finish(worst);
}

}  // namespace cli
