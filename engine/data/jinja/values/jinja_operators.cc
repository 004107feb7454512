#include "engine/data/jinja/values/jinja_operators.h"

#include <cmath>
#include <optional>

#include "base/text/text.h"
#include "engine/data/jinja/values/jinja_access.h"

namespace longhaul {
namespace {

using Kind = JinjaValue::Kind;

Error no_such(const std::string& sign, const JinjaValue& left, const JinjaValue& right) {
  const auto name = [](const JinjaValue& value) {
    return value.is(Kind::undefined) ? format("'{}', which is undefined", value.undefined_name())
                                     : format("a value of kind {}", value.kind_name());
  };
  return jinja_error(format("'{}' between {} and {}", sign, name(left), name(right)));
}

std::optional<std::int64_t> whole_power(std::int64_t base, std::int64_t exponent) {
  std::int64_t out = 1;
  for (; exponent > 0; --exponent) {
    if (__builtin_mul_overflow(out, base, &out)) return std::nullopt;
    if (out == 0 || (out == 1 && base == 1)) break;
    if (base == -1) return exponent % 2 == 1 ? -1 : 1;
  }
  return out;
}

// nullopt: beyond 64 bits.
std::optional<std::int64_t> whole(const std::string& sign, std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  if (sign == "+") return __builtin_add_overflow(a, b, &out) ? std::nullopt : std::optional(out);
  if (sign == "-") return __builtin_sub_overflow(a, b, &out) ? std::nullopt : std::optional(out);
  if (sign == "*") return __builtin_mul_overflow(a, b, &out) ? std::nullopt : std::optional(out);
  if (sign == "**") return whole_power(a, b);
  if (b == -1) return sign == "%" ? std::optional<std::int64_t>(0) : whole("-", 0, a);
  const std::int64_t rest = a % b, down = rest != 0 && (rest < 0) != (b < 0) ? 1 : 0;
  return sign == "%" ? rest + down * b : a / b - down;
}

Result<JinjaValue> of_numbers(const std::string& sign, const JinjaValue& left, const JinjaValue& right) {
  const double a = left.as_number(), b = right.as_number();
  if ((sign == "/" || sign == "//" || sign == "%") && b == 0) return jinja_error("division by zero");
  if (left.is_whole() && right.is_whole() && sign != "/" && !(sign == "**" && b < 0)) {
    const auto out = whole(sign, left.as_integer(), right.as_integer());
    if (!out) return jinja_error("a whole number leaves 64 bits");
    return JinjaValue::of(*out);
  }
  if (sign == "+") return JinjaValue::of(a + b);
  if (sign == "-") return JinjaValue::of(a - b);
  if (sign == "*") return JinjaValue::of(a * b);
  if (sign == "/") return JinjaValue::of(a / b);
  if (sign == "**" && (a > 0 || b == std::floor(b)) && a != 0) return JinjaValue::of(std::pow(a, b));
  return jinja_error(format("'{}' of fractions is not done here", sign));
}

Result<JinjaValue> repeated(const JinjaValue& what, const JinjaValue& times) {
  const auto count = static_cast<std::uint64_t>(std::max<std::int64_t>(0, times.as_integer()));
  if (what.weight() > 0 && count > jinja_text_bytes_max / what.weight())
    return check_text_size(~std::uint64_t{0}).error();
  if (what.is(Kind::text)) {
    std::string text;
    for (std::uint64_t i = 0; i < count; ++i) text += what.as_text();
    return JinjaValue::of(std::move(text));
  }
  JinjaList list;
  for (std::uint64_t i = 0; i < count; ++i) list.insert(list.end(), what.as_list().begin(), what.as_list().end());
  return JinjaValue::of(std::move(list), what.kind());
}

}  // namespace

Result<JinjaValue> jinja_binary(const std::string& sign, const JinjaValue& left, const JinjaValue& right) {
  if (sign == "~") {
    LH_TRY(const std::string a, jinja_str(left));
    LH_TRY(const std::string b, jinja_str(right));
    LH_CHECK(check_text_size(a.size() + b.size()));
    return JinjaValue::of(a + b);
  }
  if (left.is_number() && right.is_number()) return of_numbers(sign, left, right);
  if (sign == "+" && left.is(Kind::text) && right.is(Kind::text)) {
    if (left.is_safe() || right.is_safe()) return jinja_error("'+' with a text marked safe is not done here", "use ~");
    LH_CHECK(check_text_size(left.as_text().size() + right.as_text().size()));
    return JinjaValue::of(left.as_text() + right.as_text());
  }
  if (sign == "+" && left.is_sequence() && left.kind() == right.kind()) {
    JinjaList list = left.as_list();
    list.insert(list.end(), right.as_list().begin(), right.as_list().end());
    return JinjaValue::of(std::move(list), left.kind());
  }
  const auto repeats = [](const JinjaValue& value) {
    return value.is_sequence() || (value.is(Kind::text) && !value.is_safe());
  };
  if (sign == "*" && repeats(left) && right.is_whole()) return repeated(left, right);
  if (sign == "*" && left.is_whole() && repeats(right)) return repeated(right, left);
  return no_such(sign, left, right);
}

Result<JinjaValue> jinja_unary(const std::string& sign, const JinjaValue& of) {
  if (!of.is_number()) return no_such(sign, JinjaValue::of(std::int64_t{0}), of);
  if (of.is(Kind::number)) return JinjaValue::of(sign == "-" ? -of.as_number() : of.as_number());
  return of_numbers(sign, JinjaValue::of(std::int64_t{0}), of);
}

Result<bool> jinja_relation(const std::string& sign, const JinjaValue& left, const JinjaValue& right) {
  if (sign == "==") return jinja_equal(left, right);
  if (sign == "!=") return !jinja_equal(left, right);
  if (sign == "in" || sign == "not in") {
    LH_TRY(const bool contained, jinja_contains(right, left));
    return contained == (sign == "in");
  }
  if (left.is(Kind::undefined) || right.is(Kind::undefined)) return no_such(sign, left, right);
  LH_TRY(const int order, jinja_compare(left, right));
  if (sign == "<") return order < 0;
  if (sign == "<=") return order <= 0;
  return sign == ">" ? order > 0 : order >= 0;
}

}  // namespace longhaul
