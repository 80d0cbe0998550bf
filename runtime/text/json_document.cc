#include "runtime/text/json_document.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "runtime/base/json.h"
#include "runtime/base/limits.h"
#include "runtime/base/numbers.h"

namespace kvrt {

std::optional<Decimal> Decimal::parse(std::string_view s) {
  Decimal d;
  if (!s.empty() && s.front() == '-') d.negative = true, s.remove_prefix(1);
  int64_t exponent = 0;
  const size_t e = s.find_first_of("eE");
  if (e != std::string_view::npos) {
    const bool down = s[e + 1] == '-';
    for (char c : s.substr(e + 1)) {
      if (c >= '0' && c <= '9') exponent = std::min<int64_t>(exponent * 10 + (c - '0'), 1'000'000);
    }
    if (down) exponent = -exponent;
    s = s.substr(0, e);
  }
  const size_t dot = std::min(s.find('.'), s.size());
  std::string digits(s.substr(0, dot));
  digits += s.substr(std::min(dot + 1, s.size()));
  int64_t point = static_cast<int64_t>(dot) + exponent;  // digits before it
  const size_t zeros = std::min(digits.find_first_not_of('0'), digits.size());
  digits.erase(0, zeros);
  point -= static_cast<int64_t>(zeros);
  digits.erase(digits.find_last_not_of('0') + 1);
  if (digits.empty()) return Decimal{};
  if (point < -300 || point > 300) return std::nullopt;
  if (point < 0) digits.insert(0, static_cast<size_t>(-point), '0'), point = 0;
  if (static_cast<size_t>(point) > digits.size()) digits.resize(static_cast<size_t>(point), '0');
  d.whole = digits.substr(0, static_cast<size_t>(point));
  d.fraction = digits.substr(static_cast<size_t>(point));
  return d;
}

// A step is false where it refuses the text; take_status then says why.
class JsonDocumentReader {
 public:
  using Kind = JsonDocument::Kind;
  using Node = JsonDocument::Node;
  using Part = JsonReader::Part;
  JsonDocumentReader(std::string_view text, const char* what) : reader_(text), what_(what) {}

  bool read() {
    for (;;) {
      const Part part = reader_.next();
      if (part == Part::kEnd) return true;
      if (!add(part)) return false;
    }
  }
  Status take_status() { return std::move(status_); }
  JsonDocument take() {
    document_.nodes_.shrink_to_fit();
    document_.index_members();
    return std::move(document_);
  }

 private:
  bool add(Part part) {
    switch (part) {
      case Part::kNull:
        return put({}, "");
      case Part::kTrue:
      case Part::kFalse:
        return put({Kind::kBoolean, part == Part::kTrue}, "");
      case Part::kNumber:
        return number();
      case Part::kString:
        return put({Kind::kString}, reader_.text());
      case Part::kKey:
        return key();
      case Part::kArray:
        return open(Kind::kArray);
      case Part::kObject:
        return open(Kind::kObject);
      case Part::kArrayEnd:
      case Part::kObjectEnd:
        return close();
      case Part::kEnd:
      case Part::kWrong:
        break;
    }
    return refuse(error(Code::kInvalid, Detail::kGrammarError, "%s: not valid JSON at byte %zu", what_, reader_.at()));
  }
  bool number() {
    double real = 0;
    if (read_real(reader_.text(), &real) && std::isfinite(real)) {
      return put({Kind::kNumber}, reader_.text() == "-0" ? "0" : reader_.text());
    }
    return refuse(error(Code::kInvalid, Detail::kGrammarError, "%s: a number past the range of a double at byte %zu", what_, reader_.at()));
  }
  bool key() {
    key_ = reader_.text();
    if (keys_.back().insert(key_).second) return true;
    document_.index_members();  // pointer() looks there
    return refuse(error(Code::kInvalid, Detail::kGrammarError, "%s: %s has the member \"%.100s\" twice", what_,
                        document_.pointer(document_.nodes_[open_.back()]).c_str(), key_.c_str()));
  }
  bool refuse(Status status) {
    if (status_.is_ok()) status_ = std::move(status);
    return false;
  }
  bool put(Node node, std::string_view text) {
    const auto at = static_cast<uint32_t>(document_.nodes_.size());
    auto keep = [this](std::string_view s, uint32_t* where, uint32_t* size) {
      *where = static_cast<uint32_t>(document_.pool_.size());
      *size = static_cast<uint32_t>(s.size());
      document_.pool_ += s;
    };
    keep(text, &node.text_at, &node.text_size);
    if (!open_.empty()) {
      Node& parent = document_.nodes_[open_.back()];
      node.parent = open_.back();
      if (parent.kind == Kind::kObject) keep(key_, &node.key_at, &node.key_size);
      if (parent.size++ == 0) {
        parent.first = at;
      } else {
        document_.nodes_[last_.back()].next = at;
      }
      last_.back() = at;
    }
    document_.nodes_.push_back(node);
    return true;
  }
  bool open(Kind kind) {
    if (open_.size() >= kGrammarDepthMax) {
      return refuse(error(Code::kLimit, Detail::kGrammarLimit, "%s: nested deeper than %u", what_, kGrammarDepthMax));
    }
    put({kind}, "");
    open_.push_back(static_cast<uint32_t>(document_.nodes_.size() - 1));
    last_.push_back(0);
    keys_.emplace_back();
    return true;
  }
  bool close() {
    open_.pop_back();
    last_.pop_back();
    keys_.pop_back();
    return true;
  }

  JsonReader reader_;
  const char* what_;
  JsonDocument document_;
  std::vector<uint32_t> open_, last_;  // the containers that are open, and the last child of each
  std::vector<std::set<std::string>> keys_;
  std::string key_;
  Status status_;
};

Result<JsonDocument> JsonDocument::parse(std::string_view text, const char* what) {
  if (text.size() > kGrammarBytesMax) {
    return error(Code::kLimit, Detail::kGrammarLimit, "%s: %zu bytes, the limit is %zu", what, text.size(), kGrammarBytesMax);
  }
  JsonDocumentReader reader(text, what);
  if (!reader.read()) return reader.take_status();
  return reader.take();
}

void JsonDocument::index_members() {
  for (uint32_t n = 1; n < nodes_.size(); ++n) {
    members_.push_back(n);
  }
  std::sort(members_.begin(), members_.end(), [this](uint32_t a, uint32_t b) {
    if (nodes_[a].parent != nodes_[b].parent) return nodes_[a].parent < nodes_[b].parent;
    return nodes_[nodes_[a].parent].kind == Kind::kObject ? before(key(nodes_[a]), key(nodes_[b])) : a < b;
  });
  for (size_t i = members_.size(); i-- > 0;) nodes_[nodes_[members_[i]].parent].members_at = static_cast<uint32_t>(i);
}

// Most names differ in their lengths.
bool JsonDocument::before(std::string_view a, std::string_view b) { return a.size() != b.size() ? a.size() < b.size() : a < b; }

const JsonDocument::Node* JsonDocument::member(const Node& object, std::string_view name) const {
  if (object.kind != Kind::kObject) return nullptr;
  const auto first = members_.begin() + object.members_at, last = first + object.size;
  const auto at =
      std::lower_bound(first, last, name, [this](uint32_t n, std::string_view wanted) { return before(key(nodes_[n]), wanted); });
  return at == last || key(nodes_[*at]) != name ? nullptr : &nodes_[*at];
}

const JsonDocument::Node* JsonDocument::find(const Node& from, std::string_view pointer) const {
  const Node* at = &from;
  while (!pointer.empty() && at) {
    if (pointer.front() != '/') return nullptr;
    pointer.remove_prefix(1);
    const std::string_view part = pointer.substr(0, pointer.find('/'));
    pointer.remove_prefix(part.size());
    std::string name;
    for (size_t i = 0; i < part.size(); ++i) {
      const bool escape = part[i] == '~' && i + 1 < part.size();
      name += escape ? (part[++i] == '1' ? '/' : '~') : part[i];
    }
    if (at->kind == Kind::kArray) {
      const bool digits = name.size() < 9 && name.find_first_not_of("0123456789") == std::string::npos;
      const size_t index = digits ? static_cast<size_t>(read_digits(name)) : at->size;
      at = index < at->size && std::to_string(index) == name ? &nodes_[members_[at->members_at + index]] : nullptr;
    } else {
      at = member(*at, name);
    }
  }
  return at;
}

std::string JsonDocument::pointer(const Node& node) const {
  constexpr size_t kBytesMax = 200;
  std::vector<const Node*> path;
  for (const Node* at = &node; at != &root(); at = &parent(*at)) path.push_back(at);
  std::string out = "#";
  for (; !path.empty() && out.size() < kBytesMax; path.pop_back()) {
    const Node &at = *path.back(), &of = parent(at);
    out += '/';
    if (of.kind == Kind::kObject) {
      for (char c : key(at).substr(0, kBytesMax)) out += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
    } else {
      const auto first = members_.begin() + of.members_at;
      out += std::to_string(std::lower_bound(first, first + of.size, static_cast<uint32_t>(&at - nodes_.data())) - first);
    }
  }
  return out.substr(0, kBytesMax);
}

bool JsonDocument::equal(const Node& a, const Node& b, uint64_t* nodes) const {
  ++*nodes;
  if (a.kind != b.kind || a.size != b.size) return false;
  if (a.kind == Kind::kNumber) {
    const auto plain = [](std::string_view s) { return s.find_first_of(".eE-") == s.npos; };
    if (plain(text(a)) && plain(text(b))) return text(a) == text(b);
    const auto x = Decimal::parse(text(a)), y = Decimal::parse(text(b));
    return x && y ? *x == *y : text(a) == text(b);
  }
  if (a.kind == Kind::kArray) {
    const Children other = children(b);
    auto at = other.begin();
    for (const Node& child : children(a)) {
      if (!equal(child, *at, nodes)) return false;
      ++at;
    }
    return true;
  }
  if (a.kind == Kind::kObject) {
    for (const Node& child : children(a)) {
      const Node* other = member(b, key(child));
      if (!other || !equal(child, *other, nodes)) return false;
    }
    return true;
  }
  return a.truth == b.truth && text(a) == text(b);
}

}  // namespace kvrt
