// A parsed template: statements and expressions as plain data. Chains (a + b - c, x.y[0]|trim) are flat lists, so the depth of
// the tree is the depth of the nesting, which the parser bounds. Immutable once parsed: any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace kvrt::jinja {

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;
using ExprList = std::vector<ExprPtr>;

enum class Op : uint8_t { kAdd, kSub, kMul, kDiv, kFloorDiv, kMod, kPow, kConcat, kEq, kNe, kLt, kLe, kGt, kGe, kIn, kNotIn, kAnd, kOr };

struct Args {
  ExprList list;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr star, double_star;  // *list and **dict
};

// One link of a postfix chain.
struct Link {
  enum Kind : uint8_t { kAttribute, kItem, kSlice, kCall, kFilter, kTest } kind = kAttribute;
  uint32_t at = 0;
  bool negated = false;  // test: is not
  std::string name;      // attribute, filter, test
  Args args;             // call, filter, test; item: one; slice: three, null where left out
};

struct Expr {
  enum Kind : uint8_t {
    kText,
    kInt,
    kFloat,
    kBool,
    kNone,
    kName,
    kList,
    kTuple,
    kDict,
    kBody,  // in a filter block: the text that the block gave
    kChain,
    kNot,
    kNegative,
    kPositive,
    kInlineIf,
    kBinary
  } kind = kNone;
  uint32_t at = 0;      // byte offset in the source
  std::string text;     // text, name
  int64_t integer = 0;  // int, bool
  double real = 0;
  // list, tuple: items; dict: key, value, ...; chain, not, signs: the operand first; inline if: then, condition, else or null;
  // binary: the operands, ops[i] between kids[i] and kids[i + 1]
  ExprList kids;
  std::vector<Link> links;  // chain
  std::vector<Op> ops;      // binary: all of one precedence
  size_t level = 0;         // binary: that precedence + 1 while the chain may grow, 0 once it is closed
};

struct Node;
using Body = std::vector<Node>;

struct Branch {
  ExprPtr condition;  // null: else
  Body body;
};

// The target of an assignment: a name, an attribute of a namespace, or several of them.
struct Target {
  std::string name, attribute;
  std::vector<Target> parts;
  bool tuple = false;
};

// The head of a macro or call block. The last defaults.size() parameters have one.
struct Signature {
  std::string name;
  std::vector<std::string> parameters;
  ExprList defaults;
  bool caller = false, varargs = false, kwargs = false;  // true for those that its body names
};

struct Node {
  enum Kind : uint8_t {
    kText,
    kOutput,
    kIf,
    kFor,
    kSet,
    kSetBlock,
    kFilterBlock,
    kScope,
    kWith,
    kMacro,
    kCallBlock,
    kBreak,
    kContinue
  } kind = kText;
  bool recursive = false;  // for
  uint32_t at = 0;
  std::string text;
  ExprPtr expr;                  // output, set: the value; for: the value to iterate; filter, set block: the filters; call block: the call
  ExprPtr filter;                // for ... if
  Target target;                 // for, set
  std::vector<Branch> branches;  // if; for: the body, then the else if there is one; the body of the others
  std::vector<Target> names;     // with
  ExprList values;               // with
  std::unique_ptr<Signature> signature;  // macro, call block
};

}  // namespace kvrt::jinja
