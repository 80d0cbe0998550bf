#include "runtime/text/template_parser.h"

#include <algorithm>

#include "runtime/text/template_expressions.h"

namespace kvrt::jinja {

namespace {

constexpr std::string_view kKnownTags[] = {"macro",   "call",  "filter", "include", "import",     "from",
                                           "extends", "block", "raw",    "do",      "autoescape", "trans"};

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
    if (std::find(std::begin(kKnownTags), std::end(kKnownTags), name) != std::end(kKnownTags))
      return unsupported("statement \"" + name + "\"");
    Node node;
    node.kind = Node::kScope;
    node.at = current().at;
    if (name == "if") {
      parse_if(&node);
    } else if (name == "for") {
      parse_for(&node);
    } else if (name == "set") {
      parse_set(&node);
    } else if (name == "generation") {  // marks what the assistant wrote, for training; renders its body
      next();
      end_tag();
      parse_block(&node, "endgeneration");
    } else if ((name == "break" || name == "continue") && loops_ > 0) {
      node.kind = name == "break" ? Node::kBreak : Node::kContinue;
      next();
      end_tag();
    } else if (name == "with") {
      return unsupported("statement \"with\"");
    } else {
      return fail("unknown or misplaced statement \"" + name + "\"");
    }
    body->push_back(std::move(node));
  }

  void parse_block(Node* node, std::string_view end) {
    node->branches.emplace_back();
    parse_body({end}, &node->branches.back().body);
    next();
    end_tag();
  }

  void parse_if(Node* node) {
    node->kind = Node::kIf;
    while (!failed()) {
      bool otherwise = current().text == "else";
      next();
      node->branches.emplace_back();
      if (!otherwise) node->branches.back().condition = parse_tuple(false, false);
      end_tag();
      if (otherwise) {
        parse_body({"endif"}, &node->branches.back().body);
      } else {
        parse_body({"elif", "else", "endif"}, &node->branches.back().body);
      }
      if (current().text == "endif") break;
    }
    next();
    end_tag();
  }

  void parse_for(Node* node) {
    node->kind = Node::kFor;
    next();
    parse_target(&node->target, false);
    expect_name("in");
    node->expr = parse_tuple(false, false);
    if (accept_name("if")) node->filter = parse_expression(true);
    if (is_name("recursive")) return unsupported("recursive loop");
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
    next();
    parse_target(&node->target, true);
    if (accept("=")) {
      node->kind = Node::kSet;
      node->expr = parse_tuple(true, false);
      return end_tag();
    }
    if (is_operator("|")) return unsupported("set block with a filter");
    node->kind = Node::kSetBlock;
    end_tag();
    parse_block(node, "endset");
  }

  void parse_target(Target* target, bool attribute) {
    bool paren = accept("(");
    do {
      if (!target->names.empty() && (is_name("in") || is_operator("=") || is_operator(")"))) break;  // a trailing comma
      if (current().kind != Token::kName) return fail("expected a name to assign to");
      std::string name = current().text;
      if (name == "true" || name == "false" || name == "none" || name == "True" || name == "False" || name == "None" || name == "loop") {
        return fail("cannot assign to \"" + name + "\"");
      }
      target->names.push_back(std::move(name));
      next();
      if (is_operator("(")) return unsupported("nested assignment target");
      if (attribute && accept(".")) {
        if (target->names.size() > 1 || current().kind != Token::kName) return fail("expected one namespace attribute");
        target->attribute = current().text;
        next();
        if (is_operator(",")) return unsupported("namespace attribute in a tuple");
      }
      if (is_operator(",")) target->tuple = true;
    } while (!failed() && accept(","));
    if (paren) expect(")");
  }

  int loops_ = 0;
};

}  // namespace

Result<Body> parse(std::string_view source) {
  KVRT_ASSIGN(auto tokens, lex(source));
  return Parser(source, std::move(tokens)).run();
}

}  // namespace kvrt::jinja
