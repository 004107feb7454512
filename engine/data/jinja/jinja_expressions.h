// The expressions of a template, by the grammar of Jinja 3.1: what both expressions and statements are read with, and
// the levels of operators from `if` down to a name.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>

#include "base/text/text.h"
#include "engine/data/jinja/jinja_ast.h"
#include "engine/data/jinja/jinja_lexer.h"

namespace longhaul {

class JinjaExpressionParser {
 protected:
  using Kind = JinjaNode::Kind;
  using Token = JinjaToken::Kind;
  static constexpr int nesting_max = 200;

  JinjaExpressionParser(std::vector<JinjaToken> tokens, const std::string& name)
      : tokens_(std::move(tokens)), name_(name) {}

  struct Deeper {
    explicit Deeper(int& depth) : depth_(depth) { ++depth_; }
    ~Deeper() { --depth_; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;
    int& depth_;
  };

  const JinjaToken& now() const { return tokens_[at_]; }
  const JinjaToken& next() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  bool is_name(std::string_view text) const { return now().is(Token::name, text); }
  bool is_sign(std::string_view text) const { return now().is(Token::sign, text); }
  bool take_name(std::string_view text) { return is_name(text) ? (++at_, true) : false; }
  bool take_sign(std::string_view text) { return is_sign(text) ? (++at_, true) : false; }
  Error wrong(std::string what, std::string hint = {}) const {
    return jinja_error_at(name_, now().line, std::move(what), std::move(hint));
  }
  std::string written() const { return now().kind == Token::end ? "the end of the template" : "'" + now().text + "'"; }
  Status expect_sign(std::string_view text) {
    if (take_sign(text)) return {};
    return wrong(format("'{}' was expected, not {}", text, written()));
  }
  Status expect_block_end() {
    if (now().kind == Token::block_end) return ++at_, Status();
    return wrong(format("the end of the block was expected, not {}", written()));
  }
  Result<std::string> expect_name(const char* what) {
    if (now().kind != Token::name) return wrong(format("{} was expected, not {}", what, written()));
    return tokens_[at_++].text;
  }
  JinjaNodePtr node(Kind kind) const { return std::make_unique<JinjaNode>(kind, now().line); }

  // An expression, or several with commas between, which are a tuple.
  Result<JinjaNodePtr> read_tuple(bool with_choice = true, bool ends_at_names = false);
  Result<JinjaNodePtr> read_expression();
  Result<JinjaNodePtr> read_filter(JinjaNodePtr of);

  std::vector<JinjaToken> tokens_;
  std::size_t at_ = 0;
  int depth_ = 0;
  const std::string& name_;

 private:
  JinjaNodePtr joined(const char* what, JinjaNodePtr left, JinjaNodePtr right, int line) const;
  // One level of left-associative operators.
  template <class Below>
  Result<JinjaNodePtr> read_operators(std::initializer_list<const char*> signs, const Below& below);
  Result<JinjaNodePtr> read_or();
  Result<JinjaNodePtr> read_and();
  Result<JinjaNodePtr> read_not();
  Result<JinjaNodePtr> read_compare();
  Result<JinjaNodePtr> read_sum();
  Result<JinjaNodePtr> read_concatenation();
  Result<JinjaNodePtr> read_product();
  Result<JinjaNodePtr> read_power();
  Result<JinjaNodePtr> read_unary(bool with_filters);
  Result<JinjaNodePtr> read_primary();
  Result<JinjaNodePtr> read_parentheses();
  Result<JinjaNodePtr> read_members(Kind kind, std::string_view end);
  Result<JinjaNodePtr> read_table();
  Result<JinjaNodePtr> read_postfix(JinjaNodePtr of);
  Result<JinjaNodePtr> read_subscript(JinjaNodePtr of);
  Status read_arguments(JinjaNode& made);
  Result<JinjaNodePtr> read_call(JinjaNodePtr of);
  Result<JinjaNodePtr> read_test(JinjaNodePtr of);
};

}  // namespace longhaul
