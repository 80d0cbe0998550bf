// How the values of a schema are written where that is no plain JSON: as the arguments of a call, in the model's own way.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kvrt {

class GrammarVocab;

// Marks may be control tokens. The fields as they come are JSON's.
struct ValueSpelling {
  std::string null = "null", yes = "true", no = "false";
  std::string other_null, other_yes, other_no;  // or these, where the reader knows the type
  std::string object = "{", object_end = "}", array = "[", array_end = "]", comma = ",";
  std::string item, item_end;  // around each item
  bool space = true;           // white space may stand within brackets and after a comma

  // A member: `name`, its name, `named`, the value, `member_end`; where `name_again` is given, then the name again, and that.
  std::string name = "\"", named = "\":", member_end, name_again;
  std::string other_name, other_named;  // or these around a name that is known
  bool bare_names = false;              // they have no escapes
  bool entities = false;                // but for & and "
  std::string name_pattern;             // what a name must be to be written at all; "": any will do

  enum class Text : uint8_t { kJson, kPython, kRaw };  // kPython: \' is an escape, \/ is none; kRaw: nothing is
  std::string string = "\"", string_end = "\"";
  std::string quote, quote_end;  // the other way to write one
  Text text = Text::kJson;
  std::string stop;  // what no string and no name may hold: the reader would end the value there

  // A value begins with its type's name and `typed`, unless that is "".
  std::string string_type, number_type, boolean_type, null_type, array_type, object_type, typed;
  bool untyped_reader = false;  // the reader tells types by ValueReader and the text alone: what reads as JSON is no string

  const ValueSpelling *members = nullptr, *items = nullptr;  // of the values within; null: the same
  const ValueSpelling* structures = nullptr;                 // of the objects and arrays that stand here; null: the same
  const ValueSpelling* other_structures = nullptr;           // or these, where the reader knows the type
  bool nested = false;                                       // `structures` is only for those that the reader would not tell apart
};

// JSON schema's types.
struct ValueTypes {
  enum Type : uint8_t { kNull = 1, kBoolean = 2, kObject = 4, kArray = 8, kString = 16, kFraction = 32, kInteger = 64, kAnyType = 127 };
};

// What the reader of a call knows of a value's type. Places are numbers; 0: the whole arguments.
class ValueReader {
 public:
  virtual ~ValueReader() = default;
  virtual uint8_t types(uint32_t place) = 0;  // 0: it knows nothing
  virtual uint32_t member(uint32_t place, std::string_view name) = 0;
  virtual uint32_t items(uint32_t place) = 0;
};

struct ArgumentsSpelling {
  const ValueSpelling* spelling = nullptr;  // null: JSON
  ValueReader* reader = nullptr;
  const GrammarVocab* vocab = nullptr;
};

}  // namespace kvrt
