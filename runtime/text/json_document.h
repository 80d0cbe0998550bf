// A JSON text as a tree that keeps the order of members and the spelling of numbers; for schemas.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"

namespace kvrt {

// A decimal number, exactly.
struct Decimal {
  bool negative = false;
  std::string whole, fraction;  // digits; whole without leading zeros, fraction without trailing ones; of zero both are empty

  static std::optional<Decimal> parse(std::string_view json_number);  // none: an exponent beyond 300
  bool is_zero() const { return whole.empty() && fraction.empty(); }
  bool is_integer() const { return fraction.empty(); }
  friend bool operator==(const Decimal&, const Decimal&) = default;
};

class JsonDocument {
 public:
  enum class Kind : uint8_t { kNull, kBoolean, kNumber, kString, kArray, kObject };
  struct Node {
    Kind kind = Kind::kNull;
    bool truth = false;
    uint32_t parent = 0, first = 0, next = 0, size = 0;  // first and next: 0 is none
    uint32_t members_at = 0;                             // an object's or an array's, in members_
    uint32_t key_at = 0, key_size = 0, text_at = 0, text_size = 0;
  };
  // The children of a node.
  struct Children {
    struct Iterator {
      const JsonDocument* document;
      uint32_t at;
      const Node& operator*() const { return document->nodes_[at]; }
      Iterator& operator++() { return at = document->nodes_[at].next, *this; }
      friend bool operator==(const Iterator&, const Iterator&) = default;
    };
    const JsonDocument* document;
    uint32_t first;
    Iterator begin() const { return {document, first}; }
    Iterator end() const { return {document, 0}; }
  };

  // INVALID: not JSON, or a member twice in one object. LIMIT: more than kGrammarBytesMax, or deeper than kGrammarDepthMax.
  static Result<JsonDocument> parse(std::string_view text, const char* what);

  const Node& root() const { return nodes_[0]; }
  const Node& parent(const Node& node) const { return nodes_[node.parent]; }  // the root is its own
  Children children(const Node& node) const { return {this, node.first}; }
  std::string_view key(const Node& node) const { return view(node.key_at, node.key_size); }
  std::string_view text(const Node& node) const { return view(node.text_at, node.text_size); }  // a string's, or a number's spelling
  const Node* member(const Node& object, std::string_view key) const;                           // nullptr where there is none
  const Node* find(const Node& from, std::string_view pointer) const;                           // by JSON pointer, "" is `from`
  std::string pointer(const Node& node) const;                      // "#/properties/a"; its begin, if it is long
  bool equal(const Node& a, const Node& b, uint64_t* nodes) const;  // as JSON schema compares values; adds the nodes that it compared

 private:
  friend class JsonDocumentReader;
  std::string_view view(uint32_t at, uint32_t size) const { return std::string_view(pool_).substr(at, size); }

  void index_members();
  static bool before(std::string_view a, std::string_view b);

  std::vector<Node> nodes_;
  std::vector<uint32_t> members_;  // the members of all objects, by object and name, and of all arrays
  std::string pool_;
};

}  // namespace kvrt
