// ExpressionParser: the expression half of the template parser, by precedence. The first error sticks; the caller throws away
// all that is parsed after it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/text/template/ast.h"
#include "runtime/text/template/lexer.h"

namespace kvrt::jinja {

class ExpressionParser {
 public:
  ExpressionParser(std::string_view source, std::vector<Token> tokens) : source_(source), tokens_(std::move(tokens)) {}

 protected:
  // Counts nesting while it lives.
  class Nesting {
   public:
    explicit Nesting(ExpressionParser* parser) : parser_(parser) { parser_->enter(); }
    ~Nesting() { --parser_->depth_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;

   private:
    ExpressionParser* parser_;
  };

  ExprPtr parse_expression(bool inline_if);
  // One expression, or a tuple where commas follow. `empty`: () is a tuple.
  ExprPtr parse_tuple(bool inline_if, bool empty);

  const Token& current() const { return tokens_[at_]; }
  void next() { at_ += at_ + 1 < tokens_.size(); }
  bool is_name(std::string_view name) const { return current().kind == Token::kName && current().text == name; }
  bool is_operator(std::string_view op) const { return current().kind == Token::kOperator && current().text == op; }
  bool accept_name(std::string_view name);
  bool accept(std::string_view op);
  void expect_name(std::string_view name);
  void expect(std::string_view op);
  void expect_kind(Token::Kind kind, const char* what);

  bool failed() const { return !status_.is_ok(); }
  void fail(const std::string& message);
  void unsupported(const std::string& construct);
  Status take_status() { return std::move(status_); }
  ExprPtr make(Expr::Kind kind) const;
  void parse_filters(ExprPtr* expr);       // | filter, is test, (call)
  void parse_first_filter(ExprPtr* expr);  // filter

  Signature* specials_ = nullptr;  // the macro whose body is parsed: told of `caller`, `varargs` and `kwargs`

 private:
  struct Level;
  void enter();
  ExprPtr parse_binary(size_t level);
  bool accept_operator(size_t level, Op* op);
  ExprPtr parse_not();
  ExprPtr parse_unary(bool filters);
  ExprPtr parse_primary();
  ExprPtr parse_name();
  ExprPtr parse_list();
  ExprPtr parse_dict();
  void parse_postfix(ExprPtr* expr);
  void parse_subscript(Link* link);
  void parse_args(Args* args);
  void parse_test(Link* link);
  Link& add_link(ExprPtr* expr, Link::Kind kind);

  std::string_view source_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
  uint32_t depth_ = 0;
  Status status_;
};

}  // namespace kvrt::jinja
