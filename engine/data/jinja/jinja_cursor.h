// A place among the tokens of a template: what stands there, whether it is what the grammar wants, and the error that
// names its line where it is not. The expressions (jinja_expressions.h) and the statements (jinja_parser.cc) are read
// through one cursor, which also counts how deep they stand within each other.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text/text.h"
#include "engine/data/jinja/jinja_ast.h"
#include "engine/data/jinja/jinja_lexer.h"

namespace longhaul {

class JinjaCursor {
 public:
  using Token = JinjaToken::Kind;

  // The tokens of one template, of which the last is Token::end: no grammar takes that one, so there is always one
  // more to look at. `name` stands in errors and must outlive the cursor.
  JinjaCursor(std::vector<JinjaToken> tokens, const std::string& name) : tokens_(std::move(tokens)), name_(name) {}

  // One level of expressions or blocks within each other, for as long as it lives. Where there are more than
  // `levels_max`, the reader refuses the template, as its own calls stand within each other too.
  class Level {
   public:
    explicit Level(JinjaCursor& cursor) : depth_(cursor.depth_) { ++depth_; }
    ~Level() { --depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;
    bool is_too_deep() const { return depth_ > levels_max; }

   private:
    int& depth_;
  };
  static constexpr int levels_max = 200;

  const JinjaToken& now() const { return tokens_[at_]; }
  const JinjaToken& next() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  bool is_name(std::string_view text) const { return now().is(Token::name, text); }
  bool is_sign(std::string_view text) const { return now().is(Token::sign, text); }

  void advance() { ++at_; }
  std::string take_text() { return tokens_[at_++].text; }
  bool take_name(std::string_view text) { return is_name(text) ? (++at_, true) : false; }
  bool take_sign(std::string_view text) { return is_sign(text) ? (++at_, true) : false; }
  // Puts a sign before the current token, which becomes the current one.
  void insert_sign(std::string text) {
    tokens_.insert(tokens_.begin() + static_cast<std::ptrdiff_t>(at_), {Token::sign, std::move(text), now().line});
  }

  std::size_t position() const { return at_; }
  bool has_name_since(std::size_t position, std::string_view text) const {
    return std::any_of(tokens_.begin() + static_cast<std::ptrdiff_t>(position),
                       tokens_.begin() + static_cast<std::ptrdiff_t>(at_),
                       [&](const JinjaToken& token) { return token.is(Token::name, text); });
  }

  Error wrong(std::string what, std::string hint = {}) const {
    return jinja_error_at(name_, now().line, std::move(what), std::move(hint));
  }
  // The current token as errors name it.
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
    return take_text();
  }
  // An empty node with the current line.
  JinjaNodePtr node(JinjaNode::Kind kind) const { return std::make_unique<JinjaNode>(kind, now().line); }

 private:
  std::vector<JinjaToken> tokens_;
  std::size_t at_ = 0;
  int depth_ = 0;
  const std::string& name_;
};

}  // namespace longhaul
