#include "engine/data/jinja/jinja_expressions.h"

#include <charconv>

#include "engine/data/jinja/jinja_filters.h"
#include "engine/data/jinja/jinja_tests.h"

namespace longhaul {

Result<JinjaNodePtr> JinjaExpressionParser::read_tuple(bool with_choice, bool ends_at_names) {
  LH_TRY(JinjaNodePtr first, with_choice ? read_expression() : read_or());
  if (!is_sign(",")) return first;
  JinjaNodePtr made = node(Kind::tuple);
  made->parts.push_back(std::move(first));
  while (take_sign(",")) {
    if (now().kind == Token::block_end || now().kind == Token::print_end || is_sign(")")) break;
    if (ends_at_names && (is_name("if") || is_name("recursive"))) break;
    LH_TRY(JinjaNodePtr more, with_choice ? read_expression() : read_or());
    made->parts.push_back(std::move(more));
  }
  return made;
}

Result<JinjaNodePtr> JinjaExpressionParser::read_expression() {
  const Deeper deeper(depth_);
  if (depth_ > nesting_max) return wrong(format("more than {} expressions within each other", nesting_max));
  LH_TRY(JinjaNodePtr left, read_or());
  while (is_name("if")) {
    JinjaNodePtr made = node(Kind::choice);
    ++at_;
    LH_TRY(JinjaNodePtr condition, read_or());
    JinjaNodePtr otherwise;
    if (take_name("else")) {
      LH_TRY(otherwise, read_expression());
    }
    made->parts.push_back(std::move(left));
    made->parts.push_back(std::move(condition));
    made->parts.push_back(std::move(otherwise));
    left = std::move(made);
  }
  return left;
}

JinjaNodePtr JinjaExpressionParser::joined(const char* what, JinjaNodePtr left, JinjaNodePtr right, int line) const {
  auto made = std::make_unique<JinjaNode>(Kind::binary, line);
  made->text = what;
  made->parts.push_back(std::move(left));
  made->parts.push_back(std::move(right));
  return made;
}

Result<JinjaNodePtr> JinjaExpressionParser::read_or() {
  LH_TRY(JinjaNodePtr left, read_and());
  while (is_name("or")) {
    const int line = now().line;
    ++at_;
    LH_TRY(JinjaNodePtr right, read_and());
    left = joined("or", std::move(left), std::move(right), line);
  }
  return left;
}
Result<JinjaNodePtr> JinjaExpressionParser::read_and() {
  LH_TRY(JinjaNodePtr left, read_not());
  while (is_name("and")) {
    const int line = now().line;
    ++at_;
    LH_TRY(JinjaNodePtr right, read_not());
    left = joined("and", std::move(left), std::move(right), line);
  }
  return left;
}
Result<JinjaNodePtr> JinjaExpressionParser::read_not() {
  if (!is_name("not")) return read_compare();
  const Deeper deeper(depth_);
  if (depth_ > nesting_max) return wrong("too many 'not' in a row");
  JinjaNodePtr made = node(Kind::unary);
  made->text = "not";
  ++at_;
  LH_TRY(JinjaNodePtr of, read_not());
  made->parts.push_back(std::move(of));
  return made;
}
Result<JinjaNodePtr> JinjaExpressionParser::read_compare() {
  JinjaNodePtr made = node(Kind::compare);
  LH_TRY(JinjaNodePtr first, read_sum());
  made->parts.push_back(std::move(first));
  while (true) {
    std::string sign;
    for (const std::string_view known : {"==", "!=", "<", "<=", ">", ">="})
      if (is_sign(known)) sign = known;
    if (is_name("in")) sign = "in";
    if (is_name("not") && next().is(Token::name, "in")) sign = "not in", ++at_;
    if (sign.empty()) break;
    ++at_;
    LH_TRY(JinjaNodePtr right, read_sum());
    made->operators.push_back(std::move(sign));
    made->parts.push_back(std::move(right));
  }
  if (made->operators.empty()) return std::move(made->parts[0]);
  return made;
}

// One level of left-associative operators.
template <class Below>
Result<JinjaNodePtr> JinjaExpressionParser::read_operators(std::initializer_list<const char*> signs,
                                                           const Below& below) {
  LH_TRY(JinjaNodePtr left, below());
  while (true) {
    const char* found = nullptr;
    for (const char* sign : signs)
      if (is_sign(sign)) found = sign;
    if (!found) return left;
    const int line = now().line;
    ++at_;
    LH_TRY(JinjaNodePtr right, below());
    left = joined(found, std::move(left), std::move(right), line);
  }
}
Result<JinjaNodePtr> JinjaExpressionParser::read_sum() {
  return read_operators({"+", "-"}, [this] { return read_concatenation(); });
}
Result<JinjaNodePtr> JinjaExpressionParser::read_concatenation() {
  return read_operators({"~"}, [this] { return read_product(); });
}
Result<JinjaNodePtr> JinjaExpressionParser::read_product() {
  return read_operators({"*", "/", "//", "%"}, [this] { return read_power(); });
}
Result<JinjaNodePtr> JinjaExpressionParser::read_power() {
  return read_operators({"**"}, [this] { return read_unary(true); });
}

Result<JinjaNodePtr> JinjaExpressionParser::read_unary(bool with_filters) {
  const Deeper deeper(depth_);
  if (depth_ > nesting_max) return wrong(format("more than {} expressions within each other", nesting_max));
  JinjaNodePtr made;
  if (is_sign("-") || is_sign("+")) {
    made = node(Kind::unary);
    made->text = now().text;
    ++at_;
    LH_TRY(JinjaNodePtr of, read_unary(false));
    made->parts.push_back(std::move(of));
  } else {
    LH_TRY(made, read_primary());
  }
  LH_TRY(made, read_postfix(std::move(made)));
  while (with_filters) {
    if (is_sign("|")) {
      LH_TRY(made, read_filter(std::move(made)));
    } else if (is_name("is")) {
      LH_TRY(made, read_test(std::move(made)));
    } else if (is_sign("(")) {
      LH_TRY(made, read_call(std::move(made)));
    } else {
      break;
    }
  }
  return made;
}

Result<JinjaNodePtr> JinjaExpressionParser::read_primary() {
  JinjaNodePtr made = node(Kind::constant);
  const JinjaToken token = now();
  switch (token.kind) {
    case Token::name: {
      ++at_;
      if (token.text == "true" || token.text == "True") return made->value = JinjaValue::of(true), std::move(made);
      if (token.text == "false" || token.text == "False") return made->value = JinjaValue::of(false), std::move(made);
      if (token.text == "none" || token.text == "None") return made;
      for (const std::string_view closed : {"varargs", "kwargs", "self"})
        if (token.text == closed) return wrong(format("'{}' is not done here", token.text));
      made->kind = Kind::name, made->text = token.text;
      return made;
    }
    case Token::text: {
      std::string text;
      while (now().kind == Token::text) text += tokens_[at_++].text;
      made->value = JinjaValue::of(std::move(text));
      return made;
    }
    case Token::integer: {
      std::int64_t whole = 0;
      const auto read = std::from_chars(token.text.data(), token.text.data() + token.text.size(), whole);
      if (read.ec != std::errc() || (token.text.size() > 1 && token.text[0] == '0'))
        return wrong(format("the number {} is not read", token.text));
      ++at_;
      made->value = JinjaValue::of(whole);
      return made;
    }
    case Token::number: {
      double number = 0;
      std::from_chars(token.text.data(), token.text.data() + token.text.size(), number);
      ++at_;
      made->value = JinjaValue::of(number);
      return made;
    }
    default: break;
  }
  if (take_sign("(")) return read_parentheses();
  if (take_sign("[")) return read_members(Kind::list, "]");
  if (take_sign("{")) return read_table();
  return wrong(format("an expression was expected, not {}", written()));
}

Result<JinjaNodePtr> JinjaExpressionParser::read_parentheses() {
  if (is_sign(")")) {
    JinjaNodePtr made = node(Kind::tuple);
    ++at_;
    return made;
  }
  LH_TRY(JinjaNodePtr made, read_tuple());
  LH_CHECK(expect_sign(")"));
  return made;
}
Result<JinjaNodePtr> JinjaExpressionParser::read_members(Kind kind, std::string_view end) {
  JinjaNodePtr made = node(kind);
  while (!is_sign(end)) {
    if (!made->parts.empty()) {
      LH_CHECK(expect_sign(","));
      if (is_sign(end)) break;
    }
    LH_TRY(JinjaNodePtr member, read_expression());
    made->parts.push_back(std::move(member));
  }
  ++at_;
  return made;
}
Result<JinjaNodePtr> JinjaExpressionParser::read_table() {
  JinjaNodePtr made = node(Kind::table);
  while (!is_sign("}")) {
    if (!made->parts.empty()) {
      LH_CHECK(expect_sign(","));
      if (is_sign("}")) break;
    }
    LH_TRY(JinjaNodePtr key, read_expression());
    LH_CHECK(expect_sign(":"));
    LH_TRY(JinjaNodePtr value, read_expression());
    made->parts.push_back(std::move(key));
    made->parts.push_back(std::move(value));
  }
  ++at_;
  return made;
}

Result<JinjaNodePtr> JinjaExpressionParser::read_postfix(JinjaNodePtr of) {
  while (true) {
    if (is_sign(".")) {
      JinjaNodePtr made = node(Kind::attribute);
      ++at_;
      if (now().kind == Token::integer) {
        made->kind = Kind::item;
        made->parts.push_back(std::move(of));
        LH_TRY(JinjaNodePtr index, read_primary());
        made->parts.push_back(std::move(index));
      } else {
        LH_TRY(made->text, expect_name("an attribute"));
        made->parts.push_back(std::move(of));
      }
      of = std::move(made);
    } else if (is_sign("[")) {
      LH_TRY(of, read_subscript(std::move(of)));
    } else if (is_sign("(")) {
      LH_TRY(of, read_call(std::move(of)));
    } else {
      return of;
    }
  }
}

Result<JinjaNodePtr> JinjaExpressionParser::read_subscript(JinjaNodePtr of) {
  JinjaNodePtr made = node(Kind::item);
  ++at_;
  made->parts.push_back(std::move(of));
  JinjaNodePtr first;
  if (!is_sign(":")) {
    LH_TRY(first, read_expression());
    if (take_sign("]")) {
      made->parts.push_back(std::move(first));
      return made;
    }
  }
  made->kind = Kind::slice;
  made->parts.push_back(std::move(first));
  for (int i = 0; i < 2; ++i) {
    JinjaNodePtr part;
    if (take_sign(":") && !is_sign(":") && !is_sign("]")) {
      LH_TRY(part, read_expression());
    }
    made->parts.push_back(std::move(part));
  }
  LH_CHECK(expect_sign("]"));
  return made;
}

Status JinjaExpressionParser::read_arguments(JinjaNode& made) {
  LH_CHECK(expect_sign("("));
  bool named = false;
  while (!is_sign(")")) {
    if (!made.arguments.empty()) {
      LH_CHECK(expect_sign(","));
      if (is_sign(")")) break;
    }
    if (is_sign("*") || is_sign("**")) return wrong("arguments out of a list or table are not done here");
    JinjaNamed argument;
    if (now().kind == Token::name && next().is(Token::sign, "=")) {
      argument.name = now().text;
      at_ += 2;
      named = true;
    } else if (named) {
      return wrong("an argument without a name follows one with a name");
    }
    LH_TRY(argument.value, read_expression());
    made.arguments.push_back(std::move(argument));
  }
  ++at_;
  return {};
}

Result<JinjaNodePtr> JinjaExpressionParser::read_call(JinjaNodePtr of) {
  JinjaNodePtr made = node(Kind::call);
  made->parts.push_back(std::move(of));
  LH_CHECK(read_arguments(*made));
  return made;
}

Result<JinjaNodePtr> JinjaExpressionParser::read_filter(JinjaNodePtr of) {
  JinjaNodePtr made = node(Kind::filter);
  ++at_;
  LH_TRY(made->text, expect_name("a filter"));
  if (!is_jinja_filter(made->text))
    return wrong(format("the filter '{}' is not done here", made->text), "these are: " + jinja_filter_names());
  made->parts.push_back(std::move(of));
  if (is_sign("(")) LH_CHECK(read_arguments(*made));
  return made;
}

Result<JinjaNodePtr> JinjaExpressionParser::read_test(JinjaNodePtr of) {
  const int line = now().line;
  ++at_;
  const bool negated = take_name("not");
  JinjaNodePtr made = node(Kind::test);
  LH_TRY(made->text, expect_name("a test"));
  if (!is_jinja_test(made->text))
    return wrong(format("the test '{}' is not done here", made->text), "these are: " + jinja_test_names());
  made->parts.push_back(std::move(of));
  const bool operand = now().kind == Token::text || now().kind == Token::integer || now().kind == Token::number ||
                       is_sign("[") || is_sign("{") ||
                       (now().kind == Token::name && !is_name("else") && !is_name("or") && !is_name("and"));
  if (is_sign("(")) {
    LH_CHECK(read_arguments(*made));
  } else if (operand && jinja_test_takes_operand(made->text)) {
    JinjaNamed argument;
    LH_TRY(argument.value, read_primary());
    LH_TRY(argument.value, read_postfix(std::move(argument.value)));
    made->arguments.push_back(std::move(argument));
  } else if (operand && now().kind != Token::name) {
    return wrong(format("the test '{}' takes nothing, but {} follows", made->text, written()));
  }
  if (!negated) return made;
  auto inverse = std::make_unique<JinjaNode>(Kind::unary, line);
  inverse->text = "not";
  inverse->parts.push_back(std::move(made));
  return inverse;
}

}  // namespace longhaul
