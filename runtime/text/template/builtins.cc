#include "runtime/text/template/builtins.h"

#include <initializer_list>
#include <unordered_map>

namespace kvrt::jinja {

namespace {

using Table = std::unordered_map<std::string_view, const Builtin*>;

Table table_of(std::initializer_list<std::span<const Builtin>> parts) {
  Table table;
  for (auto part : parts) {
    for (const Builtin& builtin : part) table.emplace(builtin.name, &builtin);
  }
  return table;
}

constexpr size_t kNameMax = 32;  // no builtin has a longer one: a template's text is not hashed whole

const Builtin* find(const Table& table, std::string_view name) {
  if (name.size() > kNameMax) return nullptr;
  auto found = table.find(name);
  return found == table.end() ? nullptr : found->second;
}

}  // namespace

const Builtin* find_filter(std::string_view name) {
  static const Table kTable = table_of({text_filters(), sequence_filters(), sorting_filters(), selection_filters(), number_filters()});
  return find(kTable, name);
}

const Builtin* find_test(std::string_view name) {
  static const Table kTable = table_of({tests()});
  return find(kTable, name);
}

const Builtin* find_function(std::string_view name) {
  static const Table kTable = table_of({functions()});
  return find(kTable, name);
}

const Builtin* find_method(Value self, std::string_view name) {
  static const Table kString = table_of({string_methods(), string_search_methods(), string_property_methods()});
  static const Table kList = table_of({container_methods(Kind::kList)}), kTuple = table_of({container_methods(Kind::kTuple)}),
                     kDict = table_of({container_methods(Kind::kDict)}), kNumber = table_of({container_methods(Kind::kInt)}),
                     kLoop = table_of({container_methods(Kind::kLoop)});
  if (self.is(Kind::kString)) return find(kString, name);
  if (self.is(Kind::kDict)) return find(kDict, name);
  if (self.is(Kind::kList) && self.list->form == ListForm::kPlain) return find(kList, name);
  if (self.is_sequence()) return find(kTuple, name);
  if (self.is_number()) return find(kNumber, name);
  return self.is(Kind::kLoop) ? find(kLoop, name) : nullptr;
}

}  // namespace kvrt::jinja
