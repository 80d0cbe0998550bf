#include "runtime/text/template/parser.h"

#include <algorithm>

#include "runtime/text/template/expressions.h"

namespace kvrt::jinja {

namespace {

constexpr std::string_view kUnsupportedTags[] = {"include", "import", "from", "extends", "block", "do", "autoescape", "trans", "debug"};

class Parser : private ExpressionParser {
 public:
  Parser(std::string_view source, std::vector<Token> tokens) : ExpressionParser(source, std::move(tokens)) {}

  Result<Body> run() {
    Body body;
    parse_body({}, &body);
    if (failed()) return take_status();
    return body;
  }

 private:
  // Up to a block tag whose name is in `ends`; the name is the current token then. Without ends up to the end of the source.
  void parse_body(std::initializer_list<std::string_view> ends, Body* body) {
    Nesting nesting(this);
    while (!failed()) {
      const Token& token = current();
      if (token.kind == Token::kEnd) {
        if (ends.size() != 0) fail("unexpected end of the template, expected " + std::string(*(ends.end() - 1)));
        return;
      }
      if (token.kind == Token::kText) {
        Node node;
        node.at = token.at;
        node.text = token.text;
        next();
        body->push_back(std::move(node));
      } else if (token.kind == Token::kPrintBegin) {
        next();
        Node node;
        node.kind = Node::kOutput;
        node.at = current().at;
        node.expr = parse_tuple(true, false);
        expect_kind(Token::kPrintEnd, "}}");
        body->push_back(std::move(node));
      } else {
        next();
        if (current().kind == Token::kName && std::find(ends.begin(), ends.end(), current().text) != ends.end()) return;
        parse_statement(body);
      }
    }
  }

  void end_tag() { expect_kind(Token::kBlockEnd, "%}"); }

  void parse_statement(Body* body) {
    if (current().kind != Token::kName) return fail("expected the name of a statement");
    std::string name = current().text;
    if (std::find(std::begin(kUnsupportedTags), std::end(kUnsupportedTags), name) != std::end(kUnsupportedTags))
      return unsupported("statement \"" + name + "\"");
    Node node;
    node.kind = Node::kScope;
    node.at = current().at;
    if (name == "break" || name == "continue") {
      if (loops_ == 0) return fail(name + " outside of a loop");
      node.kind = name == "break" ? Node::kBreak : Node::kContinue;
      next();
      end_tag();
    } else if (name == "generation") {  // marks what the assistant wrote, for training; renders its body
      next();
      end_tag();
      parse_detached(&node, "endgeneration");
    } else if (auto parse = statement(name)) {
      next();
      (this->*parse)(&node);
    } else {
      return fail("unknown or misplaced statement \"" + name + "\"");
    }
    body->push_back(std::move(node));
  }

  using Statement = void (Parser::*)(Node*);
  static Statement statement(std::string_view name) {
    static constexpr std::pair<std::string_view, Statement> kStatements[] = {
        {"if", &Parser::parse_if},     {"for", &Parser::parse_for},   {"set", &Parser::parse_set},      {"macro", &Parser::parse_macro},
        {"call", &Parser::parse_call}, {"with", &Parser::parse_with}, {"filter", &Parser::parse_filter}};
    for (const auto& [known, parse] : kStatements) {
      if (known == name) return parse;
    }
    return nullptr;
  }

  void parse_block(Node* node, std::string_view end) {
    node->branches.emplace_back();
    parse_body({end}, &node->branches.back().body);
    next();
    end_tag();
  }

  void parse_if(Node* node) {
    node->kind = Node::kIf;
    for (bool otherwise = false; !failed();) {
      node->branches.emplace_back();
      if (!otherwise) node->branches.back().condition = parse_tuple(false, false);
      end_tag();
      if (otherwise) {
        parse_body({"endif"}, &node->branches.back().body);
      } else {
        parse_body({"elif", "else", "endif"}, &node->branches.back().body);
      }
      bool end = current().text == "endif";
      otherwise = current().text == "else";
      next();
      if (end) break;
    }
    end_tag();
  }

  void parse_for(Node* node) {
    node->kind = Node::kFor;
    parse_target(&node->target, false);
    expect_name("in");
    node->expr = parse_tuple(false, false);
    if (accept_name("if")) node->filter = parse_expression(true);
    node->recursive = accept_name("recursive");
    end_tag();
    ++loops_;
    node->branches.emplace_back();
    parse_body({"else", "endfor"}, &node->branches.back().body);
    --loops_;
    if (accept_name("else")) {
      end_tag();
      node->branches.emplace_back();
      parse_body({"endfor"}, &node->branches.back().body);
    }
    next();
    end_tag();
  }

  void parse_set(Node* node) {
    parse_target(&node->target, true);
    if (accept("=")) {
      node->kind = Node::kSet;
      node->expr = parse_tuple(true, false);
      return end_tag();
    }
    node->kind = Node::kSetBlock;
    if (is_operator("|")) parse_body_filters(node);
    end_tag();
    parse_block(node, "endset");
  }

  // The filters that the text of a block goes through.
  void parse_body_filters(Node* node) {
    node->expr = make(Expr::kBody);
    parse_filters(&node->expr);
  }

  void parse_filter(Node* node) {
    node->kind = Node::kFilterBlock;
    node->expr = make(Expr::kBody);
    if (current().kind != Token::kName) return fail("expected the name of a filter");
    parse_first_filter(&node->expr);
    parse_filters(&node->expr);
    end_tag();
    parse_block(node, "endfilter");
  }

  void parse_with(Node* node) {
    node->kind = Node::kWith;
    while (!failed() && current().kind != Token::kBlockEnd) {
      if (!node->names.empty()) expect(",");
      node->names.emplace_back();
      parse_target(&node->names.back(), false);
      expect("=");
      node->values.push_back(parse_expression(true));
    }
    end_tag();
    parse_block(node, "endwith");
  }

  void parse_macro(Node* node) {
    node->kind = Node::kMacro;
    std::string name = current().text;
    expect_assignable();
    parse_callable(node, true, "endmacro");
    node->signature->name = std::move(name);
  }

  void parse_call(Node* node) {
    node->kind = Node::kCallBlock;
    parse_callable(node, false, "endcall");
    node->signature->name = "caller";
  }

  // (parameters) and the body; of a call block the call is between them, and the parameters may be left out.
  void parse_callable(Node* node, bool macro, std::string_view end) {
    node->signature = std::make_unique<Signature>();
    if (macro || is_operator("(")) parse_signature(node->signature.get());
    if (!macro) {
      node->expr = parse_expression(true);
      bool call = node->expr->kind == Expr::kChain && !node->expr->links.empty() && node->expr->links.back().kind == Link::kCall;
      if (!call) return fail("expected a call");
    }
    end_tag();
    Signature* outer = specials_;
    specials_ = node->signature.get();
    parse_detached(node, end);
    specials_ = outer;
  }

  // A body that is a function in Jinja2: it cannot break a loop outside.
  void parse_detached(Node* node, std::string_view end) {
    int loops = loops_;
    loops_ = 0;
    parse_block(node, end);
    loops_ = loops;
  }

  void parse_signature(Signature* signature) {
    expect("(");
    while (!failed() && !is_operator(")")) {
      if (!signature->parameters.empty()) expect(",");
      signature->parameters.push_back(current().text);
      expect_assignable();
      if (accept("=")) {
        signature->defaults.push_back(parse_expression(true));
      } else if (!signature->defaults.empty()) {
        return fail("a parameter without a default after one with");
      }
    }
    expect(")");
  }

  void expect_assignable() {
    static constexpr std::string_view kConstants[] = {"true", "false", "none", "True", "False", "None"};
    if (current().kind == Token::kName && std::find(std::begin(kConstants), std::end(kConstants), current().text) != std::end(kConstants))
      return fail("cannot assign to \"" + current().text + "\"");
    expect_kind(Token::kName, "a name to assign to");
  }

  void parse_target(Target* target, bool attribute) {
    Target first;
    parse_one_target(&first, attribute);
    if (!is_operator(",")) return void(*target = std::move(first));
    target->tuple = true;
    target->parts.push_back(std::move(first));
    while (!failed() && accept(",") && !is_name("in") && !is_operator(")")) {
      target->parts.emplace_back();
      parse_one_target(&target->parts.back(), attribute);
    }
  }

  void parse_one_target(Target* target, bool attribute) {
    Nesting nesting(this);
    if (failed()) return;
    if (accept("(")) {
      parse_target(target, attribute);
      return expect(")");
    }
    target->name = current().text;
    if (target->name == "loop" && !attribute) return fail("cannot assign to \"loop\"");
    expect_assignable();
    if (attribute && accept(".")) {
      target->attribute = current().text;
      expect_kind(Token::kName, "the name of an attribute");
    }
  }

  int loops_ = 0;
};

}  // namespace

Result<Body> parse(std::string_view source) {
  KVRT_ASSIGN(auto tokens, lex(source));
  return Parser(source, std::move(tokens)).run();
}

}  // namespace kvrt::jinja
