#include "engine/data/jinja/jinja_parser.h"

#include <algorithm>
#include <initializer_list>

#include "base/text/text.h"
#include "engine/data/jinja/jinja_expressions.h"

namespace longhaul {
namespace {

class Parser : private JinjaExpressionParser {
 public:
  Parser(std::vector<JinjaToken> tokens, const std::string& name) : JinjaExpressionParser(std::move(tokens), name) {}

  Result<JinjaNodes> read() {
    LH_TRY(JinjaNodes nodes, read_body({}));
    return nodes;
  }

 private:
  // Up to a block that begins with one of `ends`, whose name is the current token then.
  Result<JinjaNodes> read_body(std::initializer_list<std::string_view> ends) {
    const Deeper deeper(depth_);
    if (depth_ > nesting_max) return wrong(format("more than {} blocks within each other", nesting_max));
    JinjaNodes nodes;
    while (now().kind != Token::end) {
      if (now().kind == Token::data) {
        nodes.push_back(node(Kind::data));
        nodes.back()->text = tokens_[at_++].text;
      } else if (now().kind == Token::print_begin) {
        nodes.push_back(node(Kind::print));
        ++at_;
        LH_TRY(JinjaNodePtr printed, read_tuple());
        nodes.back()->parts.push_back(std::move(printed));
        if (now().kind != Token::print_end) return wrong(format("'}}}}' was expected, not {}", written()));
        ++at_;
      } else {
        ++at_;  // the block's begin
        if (std::find(ends.begin(), ends.end(), now().text) != ends.end() && now().kind == Token::name) return nodes;
        LH_TRY(JinjaNodePtr statement, read_statement());
        nodes.push_back(std::move(statement));
      }
    }
    if (ends.size() > 0) return wrong(format("'{}' is missing", *(ends.end() - 1)));
    return nodes;
  }

  Result<JinjaNodePtr> read_statement() {
    if (now().kind != Token::name) return wrong(format("a statement was expected, not {}", written()));
    const std::string kind = now().text;
    if (kind == "if") return read_if();
    if (kind == "for") return read_for();
    if (kind == "set") return read_set();
    if (kind == "macro") return read_macro();
    if (kind == "generation") return read_plain_block(Kind::generation, "endgeneration");
    if (kind == "filter") return read_filter_block();
    if (kind == "with") return read_with();
    if (kind == "break" || kind == "continue") {
      if (loops_ == 0) return wrong(format("'{}' stands outside of a loop", kind));
      JinjaNodePtr made = node(Kind::leave);
      made->text = kind;
      ++at_;
      LH_CHECK(expect_block_end());
      return made;
    }
    return wrong(format("the statement '{}' is not done here", kind),
                 "if, for, set, macro, filter, with, break, continue, raw and generation are");
  }

  Result<JinjaNodePtr> read_if() {
    JinjaNodePtr made = node(Kind::branches);
    while (true) {  // at "if" or "elif"
      ++at_;
      LH_TRY(JinjaNodePtr condition, read_tuple(false));
      made->parts.push_back(std::move(condition));
      LH_CHECK(expect_block_end());
      LH_TRY(JinjaNodes body, read_body({"elif", "else", "endif"}));
      made->bodies.push_back(std::move(body));
      if (!is_name("elif")) break;
    }
    if (take_name("else")) {
      LH_CHECK(expect_block_end());
      LH_TRY(JinjaNodes body, read_body({"endif"}));
      made->bodies.push_back(std::move(body));
    }
    ++at_;
    LH_CHECK(expect_block_end());
    return made;
  }

  Result<JinjaNodePtr> read_for() {
    JinjaNodePtr made = node(Kind::loop);
    ++at_;
    LH_CHECK(read_targets(*made, false));
    if (!take_name("in")) return wrong(format("'in' was expected, not {}", written()));
    LH_TRY(JinjaNodePtr items, read_tuple(false, true));
    made->parts.push_back(std::move(items));
    made->parts.push_back(nullptr);
    if (take_name("if")) {
      LH_TRY(made->parts[1], read_expression());
    }
    if (is_name("recursive")) return wrong("recursive loops are not done here", "a macro that calls itself is");
    LH_CHECK(expect_block_end());
    const std::size_t begin = at_;
    ++loops_;
    LH_TRY(JinjaNodes body, read_body({"endfor", "else"}));
    --loops_;
    for (std::size_t at = begin; at < at_; ++at) made->reads_loop |= tokens_[at].is(Token::name, "loop");
    made->bodies.push_back(std::move(body));
    made->bodies.emplace_back();
    if (take_name("else")) {
      LH_CHECK(expect_block_end());
      LH_TRY(made->bodies[1], read_body({"endfor"}));
    }
    ++at_;
    LH_CHECK(expect_block_end());
    return made;
  }

  // One name, or several with commas between, also in parentheses.
  Status read_targets(JinjaNode& made, bool of_namespace) {
    const bool wrapped = take_sign("(");
    do {
      if (!made.targets.empty() && (is_name("in") || is_sign("=") || is_sign(")"))) break;  // a comma at the end
      LH_TRY(std::string name, expect_name("a name"));
      if (of_namespace && take_sign(".")) {
        LH_TRY(const std::string member, expect_name("a name"));
        name += "." + member;
      }
      for (const std::string_view reserved : {"true", "false", "none", "True", "False", "None", "loop"})
        if (name == reserved) return wrong(format("'{}' cannot be set", name));
      made.targets.push_back(std::move(name));
    } while (take_sign(","));
    if (wrapped) LH_CHECK(expect_sign(")"));
    return {};
  }

  Result<JinjaNodePtr> read_set() {
    JinjaNodePtr made = node(Kind::set);
    ++at_;
    LH_CHECK(read_targets(*made, true));
    if (take_sign("=")) {
      LH_TRY(JinjaNodePtr value, read_tuple());
      made->parts.push_back(std::move(value));
      LH_CHECK(expect_block_end());
      return made;
    }
    if (made->targets.size() != 1) return wrong("a block is set to one name");
    made->kind = Kind::set_block;
    made->parts.push_back(nullptr);
    while (is_sign("|")) {
      LH_TRY(made->parts[0], read_filter(std::move(made->parts[0])));
    }
    LH_CHECK(expect_block_end());
    const int loops = std::exchange(loops_, 0);
    LH_TRY(JinjaNodes body, read_body({"endset"}));
    loops_ = loops;
    made->bodies.push_back(std::move(body));
    ++at_;
    LH_CHECK(expect_block_end());
    return made;
  }

  Result<JinjaNodePtr> read_macro() {
    JinjaNodePtr made = node(Kind::macro);
    ++at_;
    LH_TRY(made->text, expect_name("a macro's name"));
    LH_CHECK(expect_sign("("));
    bool has_default = false;
    while (!is_sign(")")) {
      if (!made->arguments.empty()) {
        LH_CHECK(expect_sign(","));
        if (is_sign(")")) break;
      }
      JinjaNamed parameter;
      LH_TRY(parameter.name, expect_name("a parameter"));
      if (take_sign("=")) {
        LH_TRY(parameter.value, read_expression());
        has_default = true;
      } else if (has_default) {
        return wrong("a parameter without a default follows one that has it");
      }
      made->arguments.push_back(std::move(parameter));
    }
    ++at_;
    LH_CHECK(expect_block_end());
    const int loops = std::exchange(loops_, 0);
    LH_TRY(JinjaNodes body, read_body({"endmacro"}));
    loops_ = loops;
    made->bodies.push_back(std::move(body));
    ++at_;
    LH_CHECK(expect_block_end());
    return made;
  }

  Result<JinjaNodePtr> read_plain_block(Kind kind, std::string_view end) {
    JinjaNodePtr made = node(kind);
    ++at_;
    LH_CHECK(expect_block_end());
    const int loops = std::exchange(loops_, 0);
    LH_TRY(JinjaNodes body, read_body({end}));
    loops_ = loops;
    made->bodies.push_back(std::move(body));
    ++at_;
    LH_CHECK(expect_block_end());
    return made;
  }

  // {% filter upper %}...{% endfilter %}: what a block set to a name, filtered, and printed would give.
  Result<JinjaNodePtr> read_filter_block() {
    JinjaNodePtr made = node(Kind::set_block);
    ++at_;
    tokens_.insert(tokens_.begin() + static_cast<std::ptrdiff_t>(at_), JinjaToken{Token::sign, "|", now().line});
    made->parts.push_back(nullptr);
    while (is_sign("|")) {
      LH_TRY(made->parts[0], read_filter(std::move(made->parts[0])));
    }
    LH_CHECK(expect_block_end());
    const int loops = std::exchange(loops_, 0);
    LH_TRY(JinjaNodes body, read_body({"endfilter"}));
    loops_ = loops;
    made->bodies.push_back(std::move(body));
    ++at_;
    LH_CHECK(expect_block_end());
    return made;
  }

  Result<JinjaNodePtr> read_with() {
    JinjaNodePtr made = node(Kind::with);
    ++at_;
    while (now().kind != Token::block_end) {
      if (!made->targets.empty()) LH_CHECK(expect_sign(","));
      LH_TRY(std::string name, expect_name("a name"));
      LH_CHECK(expect_sign("="));
      LH_TRY(JinjaNodePtr value, read_expression());
      made->targets.push_back(std::move(name));
      made->parts.push_back(std::move(value));
    }
    LH_CHECK(expect_block_end());
    LH_TRY(JinjaNodes body, read_body({"endwith"}));
    made->bodies.push_back(std::move(body));
    ++at_;
    LH_CHECK(expect_block_end());
    return made;
  }

  int loops_ = 0;
};

}  // namespace

Result<JinjaNodes> parse_jinja(std::string_view source, const std::string& name) {
  LH_TRY(std::vector<JinjaToken> tokens, jinja_tokens(source, name));
  return Parser(std::move(tokens), name).read();
}

}  // namespace longhaul
