#include "engine/data/jinja/jinja_expressions.h"

#include <charconv>

#include "engine/data/jinja/values/jinja_filters.h"
#include "engine/data/jinja/values/jinja_tests.h"

namespace longhaul {
namespace {

using NodeKind = JinjaNode::Kind;

// From the weakest operator down to what stands between operators.
Result<JinjaNodePtr> read_or(JinjaCursor& cursor);
Result<JinjaNodePtr> read_and(JinjaCursor& cursor);
Result<JinjaNodePtr> read_not(JinjaCursor& cursor);
Result<JinjaNodePtr> read_compare(JinjaCursor& cursor);
Result<JinjaNodePtr> read_sum(JinjaCursor& cursor);
Result<JinjaNodePtr> read_concatenation(JinjaCursor& cursor);
Result<JinjaNodePtr> read_product(JinjaCursor& cursor);
Result<JinjaNodePtr> read_power(JinjaCursor& cursor);
Result<JinjaNodePtr> read_unary(JinjaCursor& cursor, bool with_filters);
Result<JinjaNodePtr> read_primary(JinjaCursor& cursor);
Result<JinjaNodePtr> read_parentheses(JinjaCursor& cursor);
Result<JinjaNodePtr> read_members(JinjaCursor& cursor, NodeKind kind, std::string_view end);
Result<JinjaNodePtr> read_table(JinjaCursor& cursor);
Result<JinjaNodePtr> read_postfix(JinjaCursor& cursor, JinjaNodePtr of);
Result<JinjaNodePtr> read_subscript(JinjaCursor& cursor, JinjaNodePtr of);
Status read_arguments(JinjaCursor& cursor, JinjaNode& made);
Result<JinjaNodePtr> read_call(JinjaCursor& cursor, JinjaNodePtr of);
Result<JinjaNodePtr> read_test(JinjaCursor& cursor, JinjaNodePtr of);

}  // namespace

Result<JinjaNodePtr> read_jinja_tuple(JinjaCursor& cursor, bool with_choice, bool ends_at_names) {
  LH_TRY(JinjaNodePtr first, with_choice ? read_jinja_expression(cursor) : read_or(cursor));
  if (!cursor.is_sign(",")) return first;
  JinjaNodePtr made = cursor.node(NodeKind::tuple);
  made->parts.push_back(std::move(first));
  while (cursor.take_sign(",")) {
    if (cursor.now().kind == JinjaToken::Kind::block_end || cursor.now().kind == JinjaToken::Kind::print_end ||
        cursor.is_sign(")"))
      break;
    if (ends_at_names && (cursor.is_name("if") || cursor.is_name("recursive"))) break;
    LH_TRY(JinjaNodePtr more, with_choice ? read_jinja_expression(cursor) : read_or(cursor));
    made->parts.push_back(std::move(more));
  }
  return made;
}

Result<JinjaNodePtr> read_jinja_expression(JinjaCursor& cursor) {
  const JinjaCursor::Level level(cursor);
  if (level.is_too_deep())
    return cursor.wrong(format("more than {} expressions within each other", JinjaCursor::levels_max));
  LH_TRY(JinjaNodePtr left, read_or(cursor));
  while (cursor.is_name("if")) {
    JinjaNodePtr made = cursor.node(NodeKind::choice);
    cursor.advance();
    LH_TRY(JinjaNodePtr condition, read_or(cursor));
    JinjaNodePtr otherwise;
    if (cursor.take_name("else")) {
      LH_TRY(otherwise, read_jinja_expression(cursor));
    }
    made->parts.push_back(std::move(left));
    made->parts.push_back(std::move(condition));
    made->parts.push_back(std::move(otherwise));
    left = std::move(made);
  }
  return left;
}

namespace {

JinjaNodePtr joined(const char* what, JinjaNodePtr left, JinjaNodePtr right, int line) {
  auto made = std::make_unique<JinjaNode>(NodeKind::binary, line);
  made->text = what;
  made->parts.push_back(std::move(left));
  made->parts.push_back(std::move(right));
  return made;
}

Result<JinjaNodePtr> read_or(JinjaCursor& cursor) {
  LH_TRY(JinjaNodePtr left, read_and(cursor));
  while (cursor.is_name("or")) {
    const int line = cursor.now().line;
    cursor.advance();
    LH_TRY(JinjaNodePtr right, read_and(cursor));
    left = joined("or", std::move(left), std::move(right), line);
  }
  return left;
}
Result<JinjaNodePtr> read_and(JinjaCursor& cursor) {
  LH_TRY(JinjaNodePtr left, read_not(cursor));
  while (cursor.is_name("and")) {
    const int line = cursor.now().line;
    cursor.advance();
    LH_TRY(JinjaNodePtr right, read_not(cursor));
    left = joined("and", std::move(left), std::move(right), line);
  }
  return left;
}
Result<JinjaNodePtr> read_not(JinjaCursor& cursor) {
  if (!cursor.is_name("not")) return read_compare(cursor);
  const JinjaCursor::Level level(cursor);
  if (level.is_too_deep()) return cursor.wrong("too many 'not' in a row");
  JinjaNodePtr made = cursor.node(NodeKind::unary);
  made->text = "not";
  cursor.advance();
  LH_TRY(JinjaNodePtr of, read_not(cursor));
  made->parts.push_back(std::move(of));
  return made;
}
Result<JinjaNodePtr> read_compare(JinjaCursor& cursor) {
  JinjaNodePtr made = cursor.node(NodeKind::compare);
  LH_TRY(JinjaNodePtr first, read_sum(cursor));
  made->parts.push_back(std::move(first));
  while (true) {
    std::string sign;
    for (const std::string_view known : {"==", "!=", "<", "<=", ">", ">="})
      if (cursor.is_sign(known)) sign = known;
    if (cursor.is_name("in")) sign = "in";
    if (cursor.is_name("not") && cursor.next().is(JinjaToken::Kind::name, "in")) sign = "not in", cursor.advance();
    if (sign.empty()) break;
    cursor.advance();
    LH_TRY(JinjaNodePtr right, read_sum(cursor));
    made->operators.push_back(std::move(sign));
    made->parts.push_back(std::move(right));
  }
  if (made->operators.empty()) return std::move(made->parts[0]);
  return made;
}

// One level of left-associative operators.
template <class Below>
Result<JinjaNodePtr> read_operators(JinjaCursor& cursor, std::initializer_list<const char*> signs, const Below& below) {
  LH_TRY(JinjaNodePtr left, below());
  while (true) {
    const char* found = nullptr;
    for (const char* sign : signs)
      if (cursor.is_sign(sign)) found = sign;
    if (!found) return left;
    const int line = cursor.now().line;
    cursor.advance();
    LH_TRY(JinjaNodePtr right, below());
    left = joined(found, std::move(left), std::move(right), line);
  }
}
Result<JinjaNodePtr> read_sum(JinjaCursor& cursor) {
  return read_operators(cursor, {"+", "-"}, [&cursor] { return read_concatenation(cursor); });
}
Result<JinjaNodePtr> read_concatenation(JinjaCursor& cursor) {
  return read_operators(cursor, {"~"}, [&cursor] { return read_product(cursor); });
}
Result<JinjaNodePtr> read_product(JinjaCursor& cursor) {
  return read_operators(cursor, {"*", "/", "//", "%"}, [&cursor] { return read_power(cursor); });
}
Result<JinjaNodePtr> read_power(JinjaCursor& cursor) {
  return read_operators(cursor, {"**"}, [&cursor] { return read_unary(cursor, true); });
}

Result<JinjaNodePtr> read_unary(JinjaCursor& cursor, bool with_filters) {
  const JinjaCursor::Level level(cursor);
  if (level.is_too_deep())
    return cursor.wrong(format("more than {} expressions within each other", JinjaCursor::levels_max));
  JinjaNodePtr made;
  if (cursor.is_sign("-") || cursor.is_sign("+")) {
    made = cursor.node(NodeKind::unary);
    made->text = cursor.now().text;
    cursor.advance();
    LH_TRY(JinjaNodePtr of, read_unary(cursor, false));
    made->parts.push_back(std::move(of));
  } else {
    LH_TRY(made, read_primary(cursor));
  }
  LH_TRY(made, read_postfix(cursor, std::move(made)));
  while (with_filters) {
    if (cursor.is_sign("|")) {
      LH_TRY(made, read_jinja_filter(cursor, std::move(made)));
    } else if (cursor.is_name("is")) {
      LH_TRY(made, read_test(cursor, std::move(made)));
    } else if (cursor.is_sign("(")) {
      LH_TRY(made, read_call(cursor, std::move(made)));
    } else {
      break;
    }
  }
  return made;
}

Result<JinjaNodePtr> read_primary(JinjaCursor& cursor) {
  JinjaNodePtr made = cursor.node(NodeKind::constant);
  const JinjaToken token = cursor.now();
  switch (token.kind) {
    case JinjaToken::Kind::name: {
      cursor.advance();
      if (token.text == "true" || token.text == "True") return made->value = JinjaValue::of(true), std::move(made);
      if (token.text == "false" || token.text == "False") return made->value = JinjaValue::of(false), std::move(made);
      if (token.text == "none" || token.text == "None") return made;
      for (const std::string_view closed : {"varargs", "kwargs", "self"})
        if (token.text == closed) return cursor.wrong(format("'{}' is not done here", token.text));
      made->kind = NodeKind::name, made->text = token.text;
      return made;
    }
    case JinjaToken::Kind::text: {
      std::string text;
      while (cursor.now().kind == JinjaToken::Kind::text) text += cursor.take_text();
      made->value = JinjaValue::of(std::move(text));
      return made;
    }
    case JinjaToken::Kind::integer: {
      std::int64_t whole = 0;
      const auto read = std::from_chars(token.text.data(), token.text.data() + token.text.size(), whole);
      if (read.ec != std::errc() || (token.text.size() > 1 && token.text[0] == '0'))
        return cursor.wrong(format("the number {} is not read", token.text));
      cursor.advance();
      made->value = JinjaValue::of(whole);
      return made;
    }
    case JinjaToken::Kind::number: {
      double number = 0;
      std::from_chars(token.text.data(), token.text.data() + token.text.size(), number);
      cursor.advance();
      made->value = JinjaValue::of(number);
      return made;
    }
    default: break;
  }
  if (cursor.take_sign("(")) return read_parentheses(cursor);
  if (cursor.take_sign("[")) return read_members(cursor, NodeKind::list, "]");
  if (cursor.take_sign("{")) return read_table(cursor);
  return cursor.wrong(format("an expression was expected, not {}", cursor.written()));
}

Result<JinjaNodePtr> read_parentheses(JinjaCursor& cursor) {
  if (cursor.is_sign(")")) {
    JinjaNodePtr made = cursor.node(NodeKind::tuple);
    cursor.advance();
    return made;
  }
  LH_TRY(JinjaNodePtr made, read_jinja_tuple(cursor));
  LH_CHECK(cursor.expect_sign(")"));
  return made;
}
Result<JinjaNodePtr> read_members(JinjaCursor& cursor, NodeKind kind, std::string_view end) {
  JinjaNodePtr made = cursor.node(kind);
  while (!cursor.is_sign(end)) {
    if (!made->parts.empty()) {
      LH_CHECK(cursor.expect_sign(","));
      if (cursor.is_sign(end)) break;
    }
    LH_TRY(JinjaNodePtr member, read_jinja_expression(cursor));
    made->parts.push_back(std::move(member));
  }
  cursor.advance();
  return made;
}
Result<JinjaNodePtr> read_table(JinjaCursor& cursor) {
  JinjaNodePtr made = cursor.node(NodeKind::table);
  while (!cursor.is_sign("}")) {
    if (!made->parts.empty()) {
      LH_CHECK(cursor.expect_sign(","));
      if (cursor.is_sign("}")) break;
    }
    LH_TRY(JinjaNodePtr key, read_jinja_expression(cursor));
    LH_CHECK(cursor.expect_sign(":"));
    LH_TRY(JinjaNodePtr value, read_jinja_expression(cursor));
    made->parts.push_back(std::move(key));
    made->parts.push_back(std::move(value));
  }
  cursor.advance();
  return made;
}

Result<JinjaNodePtr> read_postfix(JinjaCursor& cursor, JinjaNodePtr of) {
  while (true) {
    if (cursor.is_sign(".")) {
      JinjaNodePtr made = cursor.node(NodeKind::attribute);
      cursor.advance();
      if (cursor.now().kind == JinjaToken::Kind::integer) {
        made->kind = NodeKind::item;
        made->parts.push_back(std::move(of));
        LH_TRY(JinjaNodePtr index, read_primary(cursor));
        made->parts.push_back(std::move(index));
      } else {
        LH_TRY(made->text, cursor.expect_name("an attribute"));
        made->parts.push_back(std::move(of));
      }
      of = std::move(made);
    } else if (cursor.is_sign("[")) {
      LH_TRY(of, read_subscript(cursor, std::move(of)));
    } else if (cursor.is_sign("(")) {
      LH_TRY(of, read_call(cursor, std::move(of)));
    } else {
      return of;
    }
  }
}

Result<JinjaNodePtr> read_subscript(JinjaCursor& cursor, JinjaNodePtr of) {
  JinjaNodePtr made = cursor.node(NodeKind::item);
  cursor.advance();
  made->parts.push_back(std::move(of));
  JinjaNodePtr first;
  if (!cursor.is_sign(":")) {
    LH_TRY(first, read_jinja_expression(cursor));
    if (cursor.take_sign("]")) {
      made->parts.push_back(std::move(first));
      return made;
    }
  }
  made->kind = NodeKind::slice;
  made->parts.push_back(std::move(first));
  for (int i = 0; i < 2; ++i) {
    JinjaNodePtr part;
    if (cursor.take_sign(":") && !cursor.is_sign(":") && !cursor.is_sign("]")) {
      LH_TRY(part, read_jinja_expression(cursor));
    }
    made->parts.push_back(std::move(part));
  }
  LH_CHECK(cursor.expect_sign("]"));
  return made;
}

Status read_arguments(JinjaCursor& cursor, JinjaNode& made) {
  LH_CHECK(cursor.expect_sign("("));
  bool named = false;
  while (!cursor.is_sign(")")) {
    if (!made.arguments.empty()) {
      LH_CHECK(cursor.expect_sign(","));
      if (cursor.is_sign(")")) break;
    }
    if (cursor.is_sign("*") || cursor.is_sign("**"))
      return cursor.wrong("arguments out of a list or table are not done here");
    JinjaNamed argument;
    if (cursor.now().kind == JinjaToken::Kind::name && cursor.next().is(JinjaToken::Kind::sign, "=")) {
      argument.name = cursor.now().text;
      cursor.advance();
      cursor.advance();
      named = true;
    } else if (named) {
      return cursor.wrong("an argument without a name follows one with a name");
    }
    LH_TRY(argument.value, read_jinja_expression(cursor));
    made.arguments.push_back(std::move(argument));
  }
  cursor.advance();
  return {};
}

Result<JinjaNodePtr> read_call(JinjaCursor& cursor, JinjaNodePtr of) {
  JinjaNodePtr made = cursor.node(NodeKind::call);
  made->parts.push_back(std::move(of));
  LH_CHECK(read_arguments(cursor, *made));
  return made;
}

Result<JinjaNodePtr> read_test(JinjaCursor& cursor, JinjaNodePtr of) {
  const int line = cursor.now().line;
  cursor.advance();
  const bool negated = cursor.take_name("not");
  JinjaNodePtr made = cursor.node(NodeKind::test);
  LH_TRY(made->text, cursor.expect_name("a test"));
  if (!is_jinja_test(made->text))
    return cursor.wrong(format("the test '{}' is not done here", made->text), "these are: " + jinja_test_names());
  made->parts.push_back(std::move(of));
  const bool operand = cursor.now().kind == JinjaToken::Kind::text || cursor.now().kind == JinjaToken::Kind::integer ||
                       cursor.now().kind == JinjaToken::Kind::number || cursor.is_sign("[") || cursor.is_sign("{") ||
                       (cursor.now().kind == JinjaToken::Kind::name && !cursor.is_name("else") &&
                        !cursor.is_name("or") && !cursor.is_name("and"));
  if (cursor.is_sign("(")) {
    LH_CHECK(read_arguments(cursor, *made));
  } else if (operand && jinja_test_takes_operand(made->text)) {
    JinjaNamed argument;
    LH_TRY(argument.value, read_primary(cursor));
    LH_TRY(argument.value, read_postfix(cursor, std::move(argument.value)));
    made->arguments.push_back(std::move(argument));
  } else if (operand && cursor.now().kind != JinjaToken::Kind::name) {
    return cursor.wrong(format("the test '{}' takes nothing, but {} follows", made->text, cursor.written()));
  }
  if (!negated) return made;
  auto inverse = std::make_unique<JinjaNode>(NodeKind::unary, line);
  inverse->text = "not";
  inverse->parts.push_back(std::move(made));
  return inverse;
}

}  // namespace

Result<JinjaNodePtr> read_jinja_filter(JinjaCursor& cursor, JinjaNodePtr of) {
  JinjaNodePtr made = cursor.node(NodeKind::filter);
  cursor.advance();
  LH_TRY(made->text, cursor.expect_name("a filter"));
  if (!is_jinja_filter(made->text))
    return cursor.wrong(format("the filter '{}' is not done here", made->text), "these are: " + jinja_filter_names());
  made->parts.push_back(std::move(of));
  if (cursor.is_sign("(")) LH_CHECK(read_arguments(cursor, *made));
  return made;
}

}  // namespace longhaul
