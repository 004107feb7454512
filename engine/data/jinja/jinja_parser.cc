#include "engine/data/jinja/jinja_parser.h"

#include <algorithm>
#include <initializer_list>

#include "base/text/text.h"
#include "engine/data/jinja/jinja_expressions.h"

namespace longhaul {
namespace {

// The statements; what stands in them is read by jinja_expressions.h.
class JinjaStatementParser {
 public:
  JinjaStatementParser(std::vector<JinjaToken> tokens, const std::string& name) : cursor_(std::move(tokens), name) {}

  Result<JinjaNodes> read() {
    LH_TRY(JinjaNodes nodes, read_body({}));
    return nodes;
  }

 private:
  using NodeKind = JinjaNode::Kind;
  using Token = JinjaToken::Kind;

  // Up to a block that begins with one of `ends`, whose name is the current token then.
  Result<JinjaNodes> read_body(std::initializer_list<std::string_view> ends) {
    const JinjaCursor::Level level(cursor_);
    if (level.is_too_deep())
      return cursor_.wrong(format("more than {} blocks within each other", JinjaCursor::levels_max));
    JinjaNodes nodes;
    while (cursor_.now().kind != Token::end) {
      if (cursor_.now().kind == Token::data) {
        nodes.push_back(cursor_.node(NodeKind::data));
        nodes.back()->text = cursor_.take_text();
      } else if (cursor_.now().kind == Token::print_begin) {
        nodes.push_back(cursor_.node(NodeKind::print));
        cursor_.advance();
        LH_TRY(JinjaNodePtr printed, read_jinja_tuple(cursor_));
        nodes.back()->parts.push_back(std::move(printed));
        if (cursor_.now().kind != Token::print_end)
          return cursor_.wrong(format("'}}}}' was expected, not {}", cursor_.written()));
        cursor_.advance();
      } else {
        cursor_.advance();  // the block's begin
        if (std::find(ends.begin(), ends.end(), cursor_.now().text) != ends.end() && cursor_.now().kind == Token::name)
          return nodes;
        LH_TRY(JinjaNodePtr statement, read_statement());
        nodes.push_back(std::move(statement));
      }
    }
    if (ends.size() > 0) return cursor_.wrong(format("'{}' is missing", *(ends.end() - 1)));
    return nodes;
  }

  Result<JinjaNodePtr> read_statement() {
    if (cursor_.now().kind != Token::name)
      return cursor_.wrong(format("a statement was expected, not {}", cursor_.written()));
    const std::string kind = cursor_.now().text;
    if (kind == "if") return read_if();
    if (kind == "for") return read_for();
    if (kind == "set") return read_set();
    if (kind == "macro") return read_macro();
    if (kind == "generation") return read_plain_block(NodeKind::generation, "endgeneration");
    if (kind == "filter") return read_filter_block();
    if (kind == "with") return read_with();
    if (kind == "break" || kind == "continue") {
      if (loops_ == 0) return cursor_.wrong(format("'{}' stands outside of a loop", kind));
      JinjaNodePtr made = cursor_.node(NodeKind::leave);
      made->text = kind;
      cursor_.advance();
      LH_CHECK(cursor_.expect_block_end());
      return made;
    }
    return cursor_.wrong(format("the statement '{}' is not done here", kind),
                         "if, for, set, macro, filter, with, break, continue, raw and generation are");
  }

  Result<JinjaNodePtr> read_if() {
    JinjaNodePtr made = cursor_.node(NodeKind::branches);
    while (true) {  // at "if" or "elif"
      cursor_.advance();
      LH_TRY(JinjaNodePtr condition, read_jinja_tuple(cursor_, false));
      made->parts.push_back(std::move(condition));
      LH_CHECK(cursor_.expect_block_end());
      LH_TRY(JinjaNodes body, read_body({"elif", "else", "endif"}));
      made->bodies.push_back(std::move(body));
      if (!cursor_.is_name("elif")) break;
    }
    if (cursor_.take_name("else")) {
      LH_CHECK(cursor_.expect_block_end());
      LH_TRY(JinjaNodes body, read_body({"endif"}));
      made->bodies.push_back(std::move(body));
    }
    cursor_.advance();
    LH_CHECK(cursor_.expect_block_end());
    return made;
  }

  Result<JinjaNodePtr> read_for() {
    JinjaNodePtr made = cursor_.node(NodeKind::loop);
    cursor_.advance();
    LH_CHECK(read_targets(*made, false));
    if (!cursor_.take_name("in")) return cursor_.wrong(format("'in' was expected, not {}", cursor_.written()));
    LH_TRY(JinjaNodePtr items, read_jinja_tuple(cursor_, false, true));
    made->parts.push_back(std::move(items));
    made->parts.push_back(nullptr);
    if (cursor_.take_name("if")) {
      LH_TRY(made->parts[1], read_jinja_expression(cursor_));
    }
    if (cursor_.is_name("recursive"))
      return cursor_.wrong("recursive loops are not done here", "a macro that calls itself is");
    LH_CHECK(cursor_.expect_block_end());
    const std::size_t begin = cursor_.position();
    ++loops_;
    LH_TRY(JinjaNodes body, read_body({"endfor", "else"}));
    --loops_;
    made->reads_loop = cursor_.has_name_since(begin, "loop");
    made->bodies.push_back(std::move(body));
    made->bodies.emplace_back();
    if (cursor_.take_name("else")) {
      LH_CHECK(cursor_.expect_block_end());
      LH_TRY(made->bodies[1], read_body({"endfor"}));
    }
    cursor_.advance();
    LH_CHECK(cursor_.expect_block_end());
    return made;
  }

  // One name, or several with commas between, also in parentheses.
  Status read_targets(JinjaNode& made, bool of_namespace) {
    const bool wrapped = cursor_.take_sign("(");
    do {
      if (!made.targets.empty() && (cursor_.is_name("in") || cursor_.is_sign("=") || cursor_.is_sign(")")))
        break;  // a comma at the end
      LH_TRY(std::string name, cursor_.expect_name("a name"));
      if (of_namespace && cursor_.take_sign(".")) {
        LH_TRY(const std::string member, cursor_.expect_name("a name"));
        name += "." + member;
      }
      for (const std::string_view reserved : {"true", "false", "none", "True", "False", "None", "loop"})
        if (name == reserved) return cursor_.wrong(format("'{}' cannot be set", name));
      made.targets.push_back(std::move(name));
    } while (cursor_.take_sign(","));
    if (wrapped) LH_CHECK(cursor_.expect_sign(")"));
    return {};
  }

  Result<JinjaNodePtr> read_set() {
    JinjaNodePtr made = cursor_.node(NodeKind::set);
    cursor_.advance();
    LH_CHECK(read_targets(*made, true));
    if (cursor_.take_sign("=")) {
      LH_TRY(JinjaNodePtr value, read_jinja_tuple(cursor_));
      made->parts.push_back(std::move(value));
      LH_CHECK(cursor_.expect_block_end());
      return made;
    }
    if (made->targets.size() != 1) return cursor_.wrong("a block is set to one name");
    made->kind = NodeKind::set_block;
    made->parts.push_back(nullptr);
    while (cursor_.is_sign("|")) {
      LH_TRY(made->parts[0], read_jinja_filter(cursor_, std::move(made->parts[0])));
    }
    LH_CHECK(cursor_.expect_block_end());
    const int loops = std::exchange(loops_, 0);
    LH_TRY(JinjaNodes body, read_body({"endset"}));
    loops_ = loops;
    made->bodies.push_back(std::move(body));
    cursor_.advance();
    LH_CHECK(cursor_.expect_block_end());
    return made;
  }

  Result<JinjaNodePtr> read_macro() {
    JinjaNodePtr made = cursor_.node(NodeKind::macro);
    cursor_.advance();
    LH_TRY(made->text, cursor_.expect_name("a macro's name"));
    LH_CHECK(cursor_.expect_sign("("));
    bool has_default = false;
    while (!cursor_.is_sign(")")) {
      if (!made->arguments.empty()) {
        LH_CHECK(cursor_.expect_sign(","));
        if (cursor_.is_sign(")")) break;
      }
      JinjaNamed parameter;
      LH_TRY(parameter.name, cursor_.expect_name("a parameter"));
      if (cursor_.take_sign("=")) {
        LH_TRY(parameter.value, read_jinja_expression(cursor_));
        has_default = true;
      } else if (has_default) {
        return cursor_.wrong("a parameter without a default follows one that has it");
      }
      made->arguments.push_back(std::move(parameter));
    }
    cursor_.advance();
    LH_CHECK(cursor_.expect_block_end());
    const int loops = std::exchange(loops_, 0);
    LH_TRY(JinjaNodes body, read_body({"endmacro"}));
    loops_ = loops;
    made->bodies.push_back(std::move(body));
    cursor_.advance();
    LH_CHECK(cursor_.expect_block_end());
    return made;
  }

  Result<JinjaNodePtr> read_plain_block(NodeKind kind, std::string_view end) {
    JinjaNodePtr made = cursor_.node(kind);
    cursor_.advance();
    LH_CHECK(cursor_.expect_block_end());
    const int loops = std::exchange(loops_, 0);
    LH_TRY(JinjaNodes body, read_body({end}));
    loops_ = loops;
    made->bodies.push_back(std::move(body));
    cursor_.advance();
    LH_CHECK(cursor_.expect_block_end());
    return made;
  }

  // {% filter upper %}...{% endfilter %}: what a block set to a name, filtered, and printed would give.
  Result<JinjaNodePtr> read_filter_block() {
    JinjaNodePtr made = cursor_.node(NodeKind::set_block);
    cursor_.advance();
    cursor_.insert_sign("|");
    made->parts.push_back(nullptr);
    while (cursor_.is_sign("|")) {
      LH_TRY(made->parts[0], read_jinja_filter(cursor_, std::move(made->parts[0])));
    }
    LH_CHECK(cursor_.expect_block_end());
    const int loops = std::exchange(loops_, 0);
    LH_TRY(JinjaNodes body, read_body({"endfilter"}));
    loops_ = loops;
    made->bodies.push_back(std::move(body));
    cursor_.advance();
    LH_CHECK(cursor_.expect_block_end());
    return made;
  }

  Result<JinjaNodePtr> read_with() {
    JinjaNodePtr made = cursor_.node(NodeKind::with);
    cursor_.advance();
    while (cursor_.now().kind != Token::block_end) {
      if (!made->targets.empty()) LH_CHECK(cursor_.expect_sign(","));
      LH_TRY(std::string name, cursor_.expect_name("a name"));
      LH_CHECK(cursor_.expect_sign("="));
      LH_TRY(JinjaNodePtr value, read_jinja_expression(cursor_));
      made->targets.push_back(std::move(name));
      made->parts.push_back(std::move(value));
    }
    LH_CHECK(cursor_.expect_block_end());
    LH_TRY(JinjaNodes body, read_body({"endwith"}));
    made->bodies.push_back(std::move(body));
    cursor_.advance();
    LH_CHECK(cursor_.expect_block_end());
    return made;
  }

  JinjaCursor cursor_;
  int loops_ = 0;  // around the current token
};

}  // namespace

Result<JinjaNodes> parse_jinja(std::string_view source, const std::string& name, const JinjaSetup& setup) {
  LH_TRY(std::vector<JinjaToken> tokens, jinja_tokens(source, name, setup));
  return JinjaStatementParser(std::move(tokens), name).read();
}

}  // namespace longhaul
