#include "engine/data/jinja/values/jinja_tests.h"

#include <algorithm>

#include "base/text/text.h"
#include "engine/data/jinja/values/jinja_access.h"
#include "engine/data/jinja/values/jinja_text.h"

namespace longhaul {
namespace {

using Kind = JinjaValue::Kind;
using Answer = Result<bool>;

struct Test {
  const char* name;
  int operands;
  Answer (*holds)(const JinjaValue& value, const JinjaValue* operand);
};

Answer whole_of(const JinjaValue& value, std::int64_t divisor, std::int64_t rest) {
  if (!value.is_whole() || divisor == 0)
    return jinja_error(format("odd, even and divisibleby of a value of kind {} are not done", value.kind_name()));
  const std::int64_t left = value.as_integer() % divisor;
  return (left < 0 ? left + std::abs(divisor) : left) == rest;
}
template <class Holds>
Answer ordered(const JinjaValue& value, const JinjaValue* operand, const Holds& holds) {
  LH_TRY(const int order, jinja_compare(value, *operand));
  return holds(order);
}
Answer is_cased(const JinjaValue& value, TextCase wanted) {
  LH_TRY(const std::string text, jinja_str(value));
  LH_TRY(const std::string cased, in_case(text, wanted));
  LH_TRY(const std::string other, in_case(text, wanted == TextCase::lower ? TextCase::upper : TextCase::lower));
  return text == cased && text != other;
}

const std::vector<Test>& all_tests() {
  using V = const JinjaValue&;
  using O = const JinjaValue*;
  static const std::vector<Test> tests = {
      {"defined", 0, [](V v, O) -> Answer { return !v.is(Kind::undefined); }},
      {"undefined", 0, [](V v, O) -> Answer { return v.is(Kind::undefined); }},
      {"none", 0, [](V v, O) -> Answer { return v.is(Kind::none); }},
      {"boolean", 0, [](V v, O) -> Answer { return v.is(Kind::boolean); }},
      {"true", 0, [](V v, O) -> Answer { return v.is(Kind::boolean) && v.as_bool(); }},
      {"false", 0, [](V v, O) -> Answer { return v.is(Kind::boolean) && !v.as_bool(); }},
      {"integer", 0, [](V v, O) -> Answer { return v.is(Kind::integer); }},
      {"float", 0, [](V v, O) -> Answer { return v.is(Kind::number); }},
      {"number", 0, [](V v, O) -> Answer { return v.is_number(); }},
      {"string", 0, [](V v, O) -> Answer { return v.is(Kind::text); }},
      {"mapping", 0, [](V v, O) -> Answer { return v.is(Kind::table); }},
      {"sequence", 0,
       [](V v, O) -> Answer {
         return v.is_sequence() || v.is(Kind::text) || v.is(Kind::table) || v.is(Kind::undefined);
       }},
      {"iterable", 0,
       [](V v, O) -> Answer {
         return v.is_sequence() || v.is(Kind::text) || v.is(Kind::table) || v.is(Kind::undefined) || v.is(Kind::stream);
       }},
      {"callable", 0, [](V v, O) -> Answer { return v.is(Kind::function); }},
      {"odd", 0, [](V v, O) { return whole_of(v, 2, 1); }},
      {"even", 0, [](V v, O) { return whole_of(v, 2, 0); }},
      {"lower", 0, [](V v, O) { return is_cased(v, TextCase::lower); }},
      {"upper", 0, [](V v, O) { return is_cased(v, TextCase::upper); }},
      {"divisibleby", 1,
       [](V v, O o) -> Answer {
         LH_TRY(const std::int64_t by, whole_argument("divisibleby", o, 0));
         return whole_of(v, by, 0);
       }},
      {"sameas", 1,
       [](V v, O o) -> Answer {
         if (v.kind() == o->kind() && (v.is_number() || v.is(Kind::text)) && !v.is(Kind::boolean))
           return jinja_error("sameas of numbers and texts hangs on how they are kept");
         return v.same_as(*o);
       }},
      {"in", 1, [](V v, O o) { return jinja_contains(*o, v); }},
      {"eq", 1, [](V v, O o) -> Answer { return jinja_equal(v, *o); }},
      {"ne", 1, [](V v, O o) -> Answer { return !jinja_equal(v, *o); }},
      {"lt", 1, [](V v, O o) { return ordered(v, o, [](int order) { return order < 0; }); }},
      {"le", 1, [](V v, O o) { return ordered(v, o, [](int order) { return order <= 0; }); }},
      {"gt", 1, [](V v, O o) { return ordered(v, o, [](int order) { return order > 0; }); }},
      {"ge", 1, [](V v, O o) { return ordered(v, o, [](int order) { return order >= 0; }); }},
      {"equalto", 1, [](V v, O o) -> Answer { return jinja_equal(v, *o); }},
      {"lessthan", 1, [](V v, O o) { return ordered(v, o, [](int order) { return order < 0; }); }},
      {"greaterthan", 1, [](V v, O o) { return ordered(v, o, [](int order) { return order > 0; }); }},
  };
  return tests;
}

const Test* find_test(const std::string& name) {
  for (const Test& test : all_tests())
    if (name == test.name) return &test;
  return nullptr;
}

}  // namespace

bool is_jinja_test(const std::string& name) {
  return find_test(name) != nullptr;
}
std::string jinja_test_names() {
  std::vector<std::string> names;
  for (const Test& test : all_tests()) names.emplace_back(test.name);
  return join(names, ", ");
}
bool jinja_test_takes_operand(const std::string& name) {
  const Test* test = find_test(name);
  return test && test->operands > 0;
}

Result<bool> apply_jinja_test(const std::string& name, const JinjaValue& value, const JinjaArguments& arguments) {
  const Test* test = find_test(name);
  if (!test) return jinja_error(format("the test '{}' is not done here", name), "these are: " + jinja_test_names());
  if (static_cast<int>(arguments.positional.size()) != test->operands || !arguments.named.empty())
    return jinja_error(format("the test '{}' takes {} arguments, none by name", name, test->operands));
  return test->holds(value, test->operands > 0 ? &arguments.positional[0] : nullptr);
}

}  // namespace longhaul
