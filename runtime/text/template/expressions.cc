#include "runtime/text/template/expressions.h"

#include <algorithm>

#include "runtime/base/limits.h"

namespace kvrt::jinja {

namespace {
// Binary precedence, loosest first; "not" stands between kAndLevel and the comparisons.
struct Spelling {
  size_t level;
  const char* text;
  Op op;
};
constexpr size_t kAndLevel = 1, kCompareLevel = 2, kLevels = 7;
constexpr Spelling kOperators[] = {
    {0, "or", Op::kOr}, {1, "and", Op::kAnd}, {2, "==", Op::kEq},       {2, "!=", Op::kNe}, {2, "<", Op::kLt},  {2, "<=", Op::kLe},
    {2, ">", Op::kGt},  {2, ">=", Op::kGe},   {2, "in", Op::kIn},       {3, "+", Op::kAdd}, {3, "-", Op::kSub}, {4, "~", Op::kConcat},
    {5, "*", Op::kMul}, {5, "/", Op::kDiv},   {5, "//", Op::kFloorDiv}, {5, "%", Op::kMod}, {6, "**", Op::kPow}};
}  // namespace

void ExpressionParser::fail(const std::string& message) {
  if (!failed()) status_ = error_at(source_, current().at, Code::kInvalid, Detail::kTemplateError, message);
}
void ExpressionParser::unsupported(const std::string& construct) {
  if (!failed()) status_ = error_at(source_, current().at, Code::kUnsupported, Detail::kNone, construct + " is not supported");
}
void ExpressionParser::enter() {
  if (++depth_ > kTemplateDepthMax && !failed()) {
    status_ =
        error_at(source_, current().at, Code::kLimit, Detail::kTemplateLimit, "nested deeper than " + std::to_string(kTemplateDepthMax));
  }
}
bool ExpressionParser::accept_name(std::string_view name) { return is_name(name) ? next(), true : false; }
bool ExpressionParser::accept(std::string_view op) { return is_operator(op) ? next(), true : false; }
void ExpressionParser::expect_name(std::string_view name) {
  if (!accept_name(name)) fail("expected \"" + std::string(name) + "\"");
}
void ExpressionParser::expect(std::string_view op) {
  if (!accept(op)) fail("expected '" + std::string(op) + "'");
}
void ExpressionParser::expect_kind(Token::Kind kind, const char* what) {
  if (current().kind != kind) return fail(std::string("expected ") + what);
  next();
}

ExprPtr ExpressionParser::make(Expr::Kind kind) const {
  auto expr = std::make_unique<Expr>();
  expr->kind = kind;
  expr->at = current().at;
  return expr;
}

ExprPtr ExpressionParser::parse_expression(bool inline_if) {
  Nesting nesting(this);
  if (failed()) return make(Expr::kNone);
  ExprPtr expr = parse_binary(0);
  while (inline_if && !failed() && is_name("if")) {
    ExprPtr choice = make(Expr::kInlineIf);
    next();
    choice->kids.push_back(std::move(expr));
    choice->kids.push_back(parse_binary(0));
    choice->kids.push_back(accept_name("else") ? parse_expression(true) : nullptr);
    bool last = choice->kids.back() == nullptr;
    expr = std::move(choice);
    if (last && is_name("if")) unsupported("chained inline if without else");
  }
  return expr;
}

ExprPtr ExpressionParser::parse_tuple(bool inline_if, bool empty) {
  auto at_end = [this] {
    return current().kind == Token::kPrintEnd || current().kind == Token::kBlockEnd || is_operator(")") || is_name("recursive");
  };
  ExprPtr tuple = make(Expr::kTuple);
  if (at_end()) {
    if (!empty) fail("expected an expression");
    return tuple;
  }
  ExprPtr first = parse_expression(inline_if);
  if (!is_operator(",")) return first;
  tuple->kids.push_back(std::move(first));
  while (!failed() && accept(",") && !at_end()) tuple->kids.push_back(parse_expression(inline_if));
  return tuple;
}

bool ExpressionParser::accept_operator(size_t level, Op* op) {
  const Token& token = current();
  if (token.kind != Token::kOperator && token.kind != Token::kName) return false;
  if (level == kCompareLevel && is_name("not") && tokens_[at_ + 1].kind == Token::kName && tokens_[at_ + 1].text == "in") {
    *op = Op::kNotIn;
    next();
    next();
    return true;
  }
  for (const Spelling& s : kOperators) {
    if (s.level != level || token.text != s.text) continue;
    *op = s.op;
    next();
    return true;
  }
  return false;
}

// An operand and the operators that bind it: the tightest first, down to those of `level`. One frame for all levels, as deep nesting needs.
ExprPtr ExpressionParser::parse_binary(size_t level) {
  const bool negated = level <= kAndLevel && is_name("not");
  ExprPtr expr = negated ? parse_not() : parse_unary(true);
  Op op;
  for (size_t at = negated ? kAndLevel + 1 : kLevels; at-- > level;) {
    while (!failed() && accept_operator(at, &op)) {
      if (expr->level != at + 1) {
        ExprPtr chain = make(Expr::kBinary);
        chain->at = expr->at;
        chain->level = at + 1;
        chain->kids.push_back(std::move(expr));
        expr = std::move(chain);
      }
      expr->ops.push_back(op);
      expr->kids.push_back(at == kAndLevel ? parse_not() : at + 1 < kLevels ? parse_binary(at + 1) : parse_unary(true));
    }
  }
  return expr;
}

ExprPtr ExpressionParser::parse_not() {
  if (!is_name("not")) return parse_binary(kCompareLevel);
  Nesting nesting(this);
  ExprPtr expr = make(Expr::kNot);
  next();
  if (!failed()) expr->kids.push_back(parse_not());
  return expr;
}

ExprPtr ExpressionParser::parse_unary(bool filters) {
  ExprPtr expr;
  if (is_operator("-") || is_operator("+")) {
    Nesting nesting(this);
    if (failed()) return make(Expr::kNone);
    expr = make(is_operator("-") ? Expr::kNegative : Expr::kPositive);
    next();
    expr->kids.push_back(parse_unary(false));
  } else {
    expr = parse_primary();
  }
  parse_postfix(&expr);
  if (filters) parse_filters(&expr);
  return expr;
}

ExprPtr ExpressionParser::parse_name() {
  std::string_view name = current().text;
  ExprPtr expr;
  if (specials_ != nullptr) {
    specials_->caller |= name == "caller";
    specials_->varargs |= name == "varargs";
    specials_->kwargs |= name == "kwargs";
  }
  if (name == "true" || name == "True" || name == "false" || name == "False") {
    expr = make(Expr::kBool);
    expr->integer = name[0] == 't' || name[0] == 'T';
  } else if (name == "none" || name == "None") {
    expr = make(Expr::kNone);
  } else {
    expr = make(Expr::kName);
    expr->text = name;
  }
  next();
  return expr;
}

ExprPtr ExpressionParser::parse_primary() {
  const Token& token = current();
  ExprPtr expr;
  switch (token.kind) {
    case Token::kName:
      return parse_name();
    case Token::kString:
      expr = make(Expr::kText);
      for (; current().kind == Token::kString; next()) expr->text += current().text;
      return expr;
    case Token::kInt:
    case Token::kFloat:
      expr = make(token.kind == Token::kInt ? Expr::kInt : Expr::kFloat);
      expr->integer = token.integer;
      expr->real = token.real;
      next();
      return expr;
    default:
      break;
  }
  if (is_operator("[")) return parse_list();
  if (is_operator("{")) return parse_dict();
  if (accept("(")) {
    expr = parse_tuple(true, true);
    expect(")");
    expr->level = 0;  // closed: a chain must not go on into it
    return expr;
  }
  fail("expected an expression");
  return make(Expr::kNone);
}

ExprPtr ExpressionParser::parse_list() {
  ExprPtr expr = make(Expr::kList);
  expect("[");
  while (!failed() && !is_operator("]")) {
    expr->kids.push_back(parse_expression(true));
    if (!is_operator("]")) expect(",");
  }
  expect("]");
  return expr;
}

ExprPtr ExpressionParser::parse_dict() {
  ExprPtr expr = make(Expr::kDict);
  expect("{");
  while (!failed() && !is_operator("}")) {
    expr->kids.push_back(parse_expression(true));
    expect(":");
    expr->kids.push_back(parse_expression(true));
    if (!is_operator("}")) expect(",");
  }
  expect("}");
  return expr;
}

Link& ExpressionParser::add_link(ExprPtr* expr, Link::Kind kind) {
  if ((*expr)->kind != Expr::kChain) {
    ExprPtr chain = make(Expr::kChain);
    chain->at = (*expr)->at;
    chain->kids.push_back(std::move(*expr));
    *expr = std::move(chain);
  }
  Link& link = (*expr)->links.emplace_back();
  link.kind = kind;
  link.at = current().at;
  return link;
}

void ExpressionParser::parse_postfix(ExprPtr* expr) {
  while (!failed()) {
    if (accept(".")) {
      Link& link = add_link(expr, Link::kAttribute);
      link.name = current().text;
      if (current().kind == Token::kInt) {  // x.0 is x[0]
        link.kind = Link::kItem;
        link.args.list.push_back(make(Expr::kInt));
        link.args.list[0]->integer = current().integer;
        next();
        continue;
      }
      expect_kind(Token::kName, "the name of an attribute");
    } else if (is_operator("[")) {
      parse_subscript(&add_link(expr, Link::kItem));
    } else if (is_operator("(")) {
      parse_args(&add_link(expr, Link::kCall).args);
    } else {
      return;
    }
  }
}

void ExpressionParser::parse_subscript(Link* link) {
  expect("[");
  ExprList& parts = link->args.list;
  if (!is_operator(":")) parts.push_back(parse_expression(true));
  if (is_operator(":")) {
    link->kind = Link::kSlice;
    if (parts.empty()) parts.push_back(nullptr);
    while (!failed() && accept(":")) {
      bool left_out = is_operator(":") || is_operator("]");
      parts.push_back(left_out ? nullptr : parse_expression(true));
    }
    if (parts.size() > 3) return fail("a slice has at most three parts");
    parts.resize(3);
  }
  if (is_operator(",")) return unsupported("subscript by a tuple");
  expect("]");
}

void ExpressionParser::parse_args(Args* args) {
  expect("(");
  while (!failed() && !is_operator(")")) {
    if (is_operator("*") || is_operator("**")) {
      ExprPtr& rest = is_operator("*") ? args->star : args->double_star;
      if (rest != nullptr || args->double_star != nullptr) return fail("a second * or ** in the arguments");
      next();
      rest = parse_expression(true);
      if (!is_operator(")")) expect(",");
      continue;
    }
    bool named = current().kind == Token::kName && tokens_[at_ + 1].kind == Token::kOperator && tokens_[at_ + 1].text == "=";
    if (named) {
      std::string name = current().text;
      next();
      next();
      args->named.emplace_back(std::move(name), parse_expression(true));
    } else {
      if (!args->named.empty() || args->star != nullptr || args->double_star != nullptr)
        return fail("a positional argument after a named one");
      args->list.push_back(parse_expression(true));
    }
    if (!is_operator(")")) expect(",");
  }
  expect(")");
}

void ExpressionParser::parse_filters(ExprPtr* expr) {
  while (!failed()) {
    if (accept("|")) {
      parse_first_filter(expr);
    } else if (accept_name("is")) {
      parse_test(&add_link(expr, Link::kTest));
    } else if (is_operator("(")) {
      parse_args(&add_link(expr, Link::kCall).args);
    } else {
      return;
    }
  }
}

void ExpressionParser::parse_first_filter(ExprPtr* expr) {
  Link& link = add_link(expr, Link::kFilter);
  link.name = current().text;
  expect_kind(Token::kName, "the name of a filter");
  while (accept(".")) {
    link.name += "." + current().text;
    expect_kind(Token::kName, "the name of a filter");
  }
  if (is_operator("(")) parse_args(&link.args);
}

void ExpressionParser::parse_test(Link* link) {
  link->negated = accept_name("not");
  link->at = current().at;
  link->name = current().text;
  expect_kind(Token::kName, "the name of a test");
  while (accept(".")) {
    link->name += "." + current().text;
    expect_kind(Token::kName, "the name of a test");
  }
  if (is_operator("(")) return parse_args(&link->args);
  const Token& token = current();
  bool value =
      token.kind == Token::kString || token.kind == Token::kInt || token.kind == Token::kFloat || is_operator("[") || is_operator("{");
  bool name = token.kind == Token::kName && token.text != "else" && token.text != "or" && token.text != "and";
  if (is_name("is")) return fail("tests cannot be chained");
  if (!value && !name) return;
  ExprPtr argument = parse_primary();
  parse_postfix(&argument);
  link->args.list.push_back(std::move(argument));
}

}  // namespace kvrt::jinja
