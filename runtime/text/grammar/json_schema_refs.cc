#include <algorithm>

#include "runtime/base/numbers.h"
#include "runtime/text/grammar/json_schema_compiler.h"

namespace kvrt {

namespace {

// A reference resolved against a base, as far as schemas need it: no dot segments beyond a leading "./".
std::string resolve(const std::string& base, std::string_view reference) {
  const size_t colon = reference.find(':');
  if (colon != std::string_view::npos && reference.find_first_of("/?#") > colon) return std::string(reference);
  if (reference.empty()) return base;
  const size_t scheme = base.find("://");
  if (reference[0] == '/') {
    const size_t path = scheme == std::string::npos ? 0 : std::min(base.find('/', scheme + 3), base.size());
    return base.substr(0, path) + std::string(reference);
  }
  if (reference.starts_with("./")) reference.remove_prefix(2);
  const size_t slash = base.rfind('/');
  const bool in_path = slash != std::string::npos && (scheme == std::string::npos || slash > scheme + 2);
  return (in_path ? base.substr(0, slash + 1) : scheme == std::string::npos ? "" : base + "/") + std::string(reference);
}

}  // namespace

bool SchemaCompiler::only_ref(const Node& schema) const { return old_refs_ && document_.member(schema, "$ref"); }

// The URI that references within `node` are resolved against.
std::string SchemaCompiler::base_of(const Node& node) const {
  std::vector<std::string_view> ids;
  for (const Node* at = &node;; at = &document_.parent(*at)) {
    if (at->kind == Kind::kObject && !only_ref(*at)) {
      const Node* id = document_.member(*at, id_keyword_);
      if (id && id->kind == Kind::kString && !document_.text(*id).starts_with("#")) ids.push_back(document_.text(*id));
    }
    if (at == &document_.root()) break;
  }
  std::string base;
  for (size_t i = ids.size(); i-- > 0;) {
    base = resolve(base, ids[i].substr(0, ids[i].find('#')));
    looked_at_ += base.size() / 64;
  }
  return base;
}

// Where a name stands twice, neither is meant: a $id within an enum or a const is none. Names that are too long together are not kept: look()
// refuses the schema.
void SchemaCompiler::index_names() {
  std::vector<const Node*> open{&document_.root()};
  auto add = [&](const std::string& name, const Node* schema) {
    looked_at_ += name.size();
    auto [at, fresh] = names_.try_emplace(name, schema);
    if (!fresh && at->second != schema) at->second = nullptr;
  };
  while (!open.empty() && looked_at_ <= kSchemaChoicesMax) {
    const Node* at = open.back();
    open.pop_back();
    for (const Node& child : document_.children(*at)) {
      const std::string_view key = at->kind == Kind::kObject ? document_.key(child) : std::string_view();
      if (key != "enum" && key != "const" && key != "default" && key != "examples") open.push_back(&child);
      if (key == "$recursiveAnchor") ++recursive_anchors_;
      if (child.kind != Kind::kString) continue;
      if (key == "$dynamicAnchor") ++dynamic_anchors_[std::string(document_.text(child))];
      const std::string_view text = document_.text(child);
      if (key == "$anchor" || key == "$dynamicAnchor") add(base_of(*at) + "#" + std::string(text), at);
      if (key == id_keyword_ && !only_ref(*at)) {
        if (text.starts_with("#")) {
          add(base_of(*at) + std::string(text), at);
        } else {
          add(base_of(*at), at);
        }
      }
    }
  }
}

Result<const JsonDocument::Node*> SchemaCompiler::target(const Node& ref) const {
  if (ref.kind != Kind::kString) return invalid(ref, "$ref is a string");
  const std::string_view text = document_.text(ref);
  looked_at_ += text.size() / 64;
  // Where only one schema has the anchor, a dynamic reference leads to it from everywhere.
  const bool dynamic = document_.key(ref) == "$dynamicRef", recursive = document_.key(ref) == "$recursiveRef";
  if (recursive && recursive_anchors_ > 0) return unsupported(ref, "$recursiveRef with $recursiveAnchor");
  if (dynamic) {
    const auto anchors = dynamic_anchors_.find(std::string(text.substr(std::min(text.find('#') + 1, text.size()))));
    if (anchors != dynamic_anchors_.end() && anchors->second > 1) return unsupported(ref, "$dynamicRef to one of several anchors");
  }
  const size_t hash = std::min(text.find('#'), text.size());
  const std::string base = base_of(document_.parent(ref));
  const std::string uri = hash == 0 ? base : resolve(base, text.substr(0, hash));
  const Node* from = &document_.root();
  const auto named = names_.find(uri);
  if (named != names_.end()) {
    from = named->second;
  } else if (!uri.empty()) {
    from = hash == 0 && base_of(*from) == uri ? from : nullptr;
  }
  if (!from) return unsupported(ref, "a $ref to another document");
  const std::string_view fragment = text.substr(std::min(hash + 1, text.size()));
  if (!fragment.empty() && fragment[0] != '/') {
    const auto anchor = names_.find(uri + "#" + std::string(fragment));
    if (anchor == names_.end() || !anchor->second) return unsupported(ref, "a $ref to an $anchor that the document does not have");
    return anchor->second;
  }
  std::string pointer;
  for (size_t i = 0; i < fragment.size(); ++i) {
    const std::string_view hex = fragment.substr(i + 1, 2);
    if (fragment[i] == '%' && hex.size() == 2 && hex.find_first_not_of("0123456789abcdefABCDEF") == std::string_view::npos) {
      pointer += static_cast<char>(read_digits(hex, 16));
      i += 2;
    } else {
      pointer += fragment[i];
    }
  }
  const Node* found = document_.find(*from, pointer);
  if (!found) return invalid(ref, "there is no %.150s", std::string(text).c_str());
  return found;
}

}  // namespace kvrt
