#include <algorithm>
#include <limits>

#include "base/text/text.h"
#include "engine/data/jinja/values/jinja_access.h"
#include "engine/data/jinja/values/jinja_text.h"

namespace longhaul {
namespace {

using Kind = JinjaValue::Kind;
using Outcome = Result<JinjaValue>;

struct Method {
  const char* name;
  std::vector<std::string> parameters;
  std::size_t required;
  Outcome (*call)(const JinjaValue& of, const std::vector<const JinjaValue*>& arguments);
};
using Given = std::vector<const JinjaValue*>;

JinjaValue list_of(const std::vector<std::string>& parts) {
  JinjaList list;
  for (const std::string& part : parts) list.push_back(JinjaValue::of(part));
  return JinjaValue::of(std::move(list));
}
template <bool left, bool right>
Outcome strip(const JinjaValue& of, const Given& given) {
  if (!is_given(given[0])) return JinjaValue::of(strip_text(of.as_text(), left, right));
  LH_TRY(const std::string which, plain_text("strip", *given[0]));
  return JinjaValue::of(strip_text(of.as_text(), left, right, which));
}

std::vector<std::string> split_at_spaces(const std::string& text, std::int64_t most) {
  std::vector<std::string> parts;
  std::string rest = strip_text(text, true, false), part;
  if (rest.empty()) return parts;
  std::vector<std::string> characters = characters_of(rest);
  for (std::size_t i = 0; i < characters.size(); ++i) {
    const bool space = strip_text(characters[i], true, false).empty();
    if (!space) {
      part += characters[i];
      continue;
    }
    if (part.empty()) continue;
    parts.push_back(std::exchange(part, {}));
    if (most >= 0 && static_cast<std::int64_t>(parts.size()) == most) {
      std::string tail;
      for (std::size_t k = i; k < characters.size(); ++k) tail += characters[k];
      tail = strip_text(tail, true, false);
      if (!tail.empty()) parts.push_back(std::move(tail));
      return parts;
    }
  }
  if (!part.empty()) parts.push_back(std::move(part));
  return parts;
}

Outcome split_text(const JinjaValue& of, const Given& given) {
  LH_TRY(const std::int64_t most, whole_argument("split", given[1], -1));
  if (!is_given(given[0])) {
    if (most == 0) return jinja_error("split at white space, at most 0 times, is not done here");
    return list_of(split_at_spaces(of.as_text(), most));
  }
  LH_TRY(const std::string separator, plain_text("split", *given[0]));
  if (separator.empty()) return jinja_error("split at an empty text");
  std::vector<std::string> parts;
  std::size_t from = 0;
  while (most < 0 || static_cast<std::int64_t>(parts.size()) < most) {
    const std::size_t at = of.as_text().find(separator, from);
    if (at == std::string::npos) break;
    parts.push_back(of.as_text().substr(from, at - from));
    from = at + separator.size();
  }
  parts.push_back(of.as_text().substr(from));
  return list_of(parts);
}

Outcome rsplit_text(const JinjaValue& of, const Given& given) {
  LH_TRY(const std::int64_t most, whole_argument("rsplit", given[1], -1));
  if (!is_given(given[0])) return jinja_error("rsplit at white space is not done here");
  LH_TRY(const std::string separator, plain_text("rsplit", *given[0]));
  if (separator.empty()) return jinja_error("rsplit at an empty text");
  std::vector<std::string> parts;
  std::string rest = of.as_text();
  while (most < 0 || static_cast<std::int64_t>(parts.size()) < most) {
    const std::size_t at = rest.rfind(separator);
    if (at == std::string::npos) break;
    parts.push_back(rest.substr(at + separator.size()));
    rest.resize(at);
  }
  parts.push_back(rest);
  std::reverse(parts.begin(), parts.end());
  return list_of(parts);
}

Outcome split_lines(const JinjaValue& of, const Given& given) {
  if (given[0] && given[0]->is_true()) return jinja_error("splitlines that keeps the ends is not done here");
  std::vector<std::string> lines;
  std::string line;
  const std::vector<std::string> characters = characters_of(of.as_text());
  for (std::size_t i = 0; i < characters.size(); ++i) {
    const std::string& c = characters[i];
    const bool ends = c == "\n" || c == "\r" || c == "\v" || c == "\f" || c == "\x1c" || c == "\x1d" || c == "\x1e" ||
                      c == "\xc2\x85" || c == "\xe2\x80\xa8" || c == "\xe2\x80\xa9";
    if (!ends) {
      line += c;
      continue;
    }
    if (c == "\r" && i + 1 < characters.size() && characters[i + 1] == "\n") ++i;
    lines.push_back(std::exchange(line, {}));
  }
  if (!line.empty()) lines.push_back(line);
  return list_of(lines);
}

template <bool at_end>
Outcome has_affix(const JinjaValue& of, const Given& given) {
  const JinjaList affixes = given[0]->is(Kind::tuple) ? given[0]->as_list() : JinjaList{*given[0]};
  for (const JinjaValue& one : affixes) {
    LH_TRY(const std::string affix, plain_text(at_end ? "endswith" : "startswith", one));
    if (at_end ? ends_with(of.as_text(), affix) : starts_with(of.as_text(), affix)) return JinjaValue::of(true);
  }
  return JinjaValue::of(false);
}

template <bool at_end>
Outcome without_affix(const JinjaValue& of, const Given& given) {
  LH_TRY(const std::string affix, plain_text(at_end ? "removesuffix" : "removeprefix", *given[0]));
  const std::string& text = of.as_text();
  if (!(at_end ? ends_with(text, affix) : starts_with(text, affix))) return of;
  return JinjaValue::of(at_end ? text.substr(0, text.size() - affix.size()) : text.substr(affix.size()));
}

Outcome replace(const JinjaValue& of, const Given& given) {
  LH_TRY(const std::string from, plain_text("replace", *given[0]));
  LH_TRY(const std::string to, plain_text("replace", *given[1]));
  LH_TRY(std::int64_t most, whole_argument("replace", given[2], -1));
  if (from.empty()) return jinja_error("replace of an empty text is not done here");
  const std::string& text = of.as_text();
  std::string out;
  std::size_t at = 0;
  for (; most != 0; --most) {
    const std::size_t found = text.find(from, at);
    if (found == std::string::npos) break;
    out += text.substr(at, found - at) + to;
    at = found + from.size();
    LH_CHECK(check_text_size(out.size()));
  }
  return JinjaValue::of(out + text.substr(at));
}

// In characters; -1: not there.
std::int64_t found_at(const std::string& text, std::size_t at) {
  return at == std::string::npos ? -1 : count_of_characters(std::string_view(text).substr(0, at));
}
template <bool from_end, bool must>
Outcome find(const JinjaValue& of, const Given& given) {
  LH_TRY(const std::string wanted, plain_text("find", *given[0]));
  const std::string& text = of.as_text();
  const std::int64_t at = found_at(text, from_end ? text.rfind(wanted) : text.find(wanted));
  if (must && at < 0) return jinja_error("index of a text that is not there");
  return JinjaValue::of(at);
}
Outcome count(const JinjaValue& of, const Given& given) {
  LH_TRY(const std::string wanted, plain_text("count", *given[0]));
  if (wanted.empty()) return jinja_error("count of an empty text is not done here");
  std::int64_t times = 0;
  for (std::size_t at = 0; (at = of.as_text().find(wanted, at)) != std::string::npos; at += wanted.size()) ++times;
  return JinjaValue::of(times);
}
Outcome join(const JinjaValue& of, const Given& given) {
  LH_TRY(const JinjaList items, jinja_items(*given[0]));
  std::string out;
  for (std::size_t i = 0; i < items.size(); ++i) {
    LH_TRY(const std::string one, plain_text("join", items[i]));
    out += (i > 0 ? of.as_text() : "") + one;
    LH_CHECK(check_text_size(out.size()));
  }
  return JinjaValue::of(std::move(out));
}
template <TextCase wanted>
Outcome cased_text(const JinjaValue& of, const Given&) {
  LH_TRY(std::string text, in_case(of.as_text(), wanted));
  return JinjaValue::of(std::move(text));
}
// All characters, and at least one, are of a class; of ASCII.
template <class Belongs>
Outcome all_are(const JinjaValue& of, const Belongs& belongs) {
  const std::string& text = of.as_text();
  if (std::any_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) >= 0x80; }))
    return jinja_error("isdigit, isalpha and isalnum of letters beyond ASCII are not done");
  return JinjaValue::of(!text.empty() && std::all_of(text.begin(), text.end(), belongs));
}
bool is_jinja_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_jinja_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

const std::vector<Method>& text_methods() {
  static const std::vector<Method> methods = {
      {"strip", {"chars"}, 0, strip<true, true>},
      {"lstrip", {"chars"}, 0, strip<true, false>},
      {"rstrip", {"chars"}, 0, strip<false, true>},
      {"split", {"sep", "maxsplit"}, 0, split_text},
      {"rsplit", {"sep", "maxsplit"}, 0, rsplit_text},
      {"splitlines", {"keepends"}, 0, split_lines},
      {"startswith", {"prefix"}, 1, has_affix<false>},
      {"endswith", {"suffix"}, 1, has_affix<true>},
      {"removeprefix", {"prefix"}, 1, without_affix<false>},
      {"removesuffix", {"suffix"}, 1, without_affix<true>},
      {"replace", {"old", "new", "count"}, 2, replace},
      {"find", {"sub"}, 1, find<false, false>},
      {"rfind", {"sub"}, 1, find<true, false>},
      {"index", {"sub"}, 1, find<false, true>},
      {"rindex", {"sub"}, 1, find<true, true>},
      {"count", {"sub"}, 1, count},
      {"join", {"iterable"}, 1, join},
      {"upper", {}, 0, cased_text<TextCase::upper>},
      {"lower", {}, 0, cased_text<TextCase::lower>},
      {"title", {}, 0, cased_text<TextCase::title>},
      {"capitalize", {}, 0, cased_text<TextCase::capital>},
      {"isdigit", {}, 0, [](const JinjaValue& of, const Given&) { return all_are(of, is_jinja_digit); }},
      {"isalpha", {}, 0, [](const JinjaValue& of, const Given&) { return all_are(of, is_jinja_letter); }},
      {"isalnum",
       {},
       0,
       [](const JinjaValue& of, const Given&) {
         return all_are(of, [](char c) { return is_jinja_digit(c) || is_jinja_letter(c); });
       }},
      {"isspace",
       {},
       0,
       [](const JinjaValue& of, const Given&) -> Outcome {
         return JinjaValue::of(!of.as_text().empty() && strip_text(of.as_text(), true, false).empty());
       }},
  };
  return methods;
}

const std::vector<Method>& table_methods() {
  static const std::vector<Method> methods = {
      {"get",
       {"key", "default"},
       1,
       [](const JinjaValue& of, const Given& given) -> Outcome {
         if (given[0]->is(Kind::text))
           if (const JinjaValue* found = of.as_table().find(given[0]->as_text())) return *found;
         return given[1] ? *given[1] : JinjaValue();
       }},
      {"items",
       {},
       0,
       [](const JinjaValue& of, const Given&) -> Outcome {
         JinjaList items;
         for (const auto& [key, value] : of.as_table().members)
           items.push_back(JinjaValue::of(JinjaList{JinjaValue::of(key), value}, Kind::tuple));
         return JinjaValue::stream(std::move(items), true);
       }},
      {"keys",
       {},
       0,
       [](const JinjaValue& of, const Given&) -> Outcome {
         LH_TRY(JinjaList keys, jinja_items(of));
         return JinjaValue::stream(std::move(keys), true);
       }},
      {"values",
       {},
       0,
       [](const JinjaValue& of, const Given&) -> Outcome {
         JinjaList values;
         for (const auto& member : of.as_table().members) values.push_back(member.second);
         return JinjaValue::stream(std::move(values), true);
       }},
      {"copy", {}, 0, [](const JinjaValue& of, const Given&) -> Outcome { return JinjaValue::of(of.as_table()); }},
  };
  return methods;
}

const std::vector<Method>& list_methods() {
  static const std::vector<Method> methods = {
      {"count",
       {"value"},
       1,
       [](const JinjaValue& of, const Given& given) -> Outcome {
         std::int64_t times = 0;
         for (const JinjaValue& one : of.as_list()) times += jinja_equal(one, *given[0]) ? 1 : 0;
         return JinjaValue::of(times);
       }},
      {"index",
       {"value"},
       1,
       [](const JinjaValue& of, const Given& given) -> Outcome {
         for (std::size_t i = 0; i < of.as_list().size(); ++i)
           if (jinja_equal(of.as_list()[i], *given[0])) return JinjaValue::of(static_cast<std::int64_t>(i));
         return jinja_error("index of a value that is not there");
       }},
  };
  return methods;
}

// What Python has, too: not done here, or closed to templates because it changes its object.
bool python_has(const JinjaValue& of, const std::string& name) {
  static const std::vector<std::string> text = {
      "casefold",  "center",     "encode",      "expandtabs", "format",  "format_map",   "isascii", "isdecimal",
      "islower",   "isnumeric",  "isprintable", "istitle",    "isupper", "isidentifier", "ljust",   "rjust",
      "partition", "rpartition", "swapcase",    "translate",  "zfill",   "maketrans"};
  static const std::vector<std::string> list = {"append", "clear",  "copy",    "extend", "insert",
                                                "pop",    "remove", "reverse", "sort"};
  static const std::vector<std::string> table = {"clear", "fromkeys", "pop", "popitem", "setdefault", "update"};
  static const std::vector<std::string> number = {
      "real",      "imag",     "numerator",  "denominator",      "bit_length", "is_integer", "conjugate",
      "bit_count", "to_bytes", "from_bytes", "as_integer_ratio", "hex",        "fromhex"};
  const auto in = [&](const std::vector<std::string>& names) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  if (of.is(Kind::text)) return in(text);
  if (of.is_sequence()) return in(list);
  if (of.is(Kind::table)) return in(table);
  return of.is_number() && in(number);
}

}  // namespace

std::optional<JinjaValue> jinja_method(const JinjaValue& of, const std::string& name) {
  static const std::vector<Method> none;
  const std::vector<Method>& methods = of.is(Kind::text)    ? text_methods()
                                       : of.is(Kind::table) ? table_methods()
                                       : of.is_sequence()   ? list_methods()
                                                            : none;
  const std::string full = format("{}.{}", of.kind_name(), name);
  const auto found = std::find_if(methods.begin(), methods.end(), [&](const Method& m) { return name == m.name; });
  if (found == methods.end()) {
    if (!python_has(of, name)) return std::nullopt;
    return JinjaValue::of(JinjaFunction{
        full, [full](const JinjaArguments&) -> Outcome { return jinja_error(format("{} is not done here", full)); }});
  }
  const Method* method = &*found;
  return JinjaValue::of(JinjaFunction{full, [of, method, full](const JinjaArguments& arguments) -> Outcome {
                                        LH_TRY(const Given given, bind_arguments(full, arguments, method->parameters));
                                        for (std::size_t i = 0; i < method->required; ++i)
                                          if (!given[i])
                                            return jinja_error(
                                                format("{} lacks its argument {}", full, method->parameters[i]));
                                        if (of.is(Kind::text)) LH_CHECK(plain_text(full, of));
                                        return method->call(of, given);
                                      }});
}

}  // namespace longhaul
