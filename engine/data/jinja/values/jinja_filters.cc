#include "engine/data/jinja/values/jinja_filters.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/text/text.h"
#include "engine/data/jinja/values/jinja_access.h"
#include "engine/data/jinja/values/jinja_tests.h"
#include "engine/data/jinja/values/jinja_text.h"

namespace longhaul {
namespace {

using Kind = JinjaValue::Kind;
using Outcome = Result<JinjaValue>;
using Given = std::vector<const JinjaValue*>;

struct Filter {
  const char* name;
  std::vector<std::string> parameters;
  Outcome (*apply)(const JinjaValue& value, const Given& given);
};

// What a filter of texts sees: the text itself, or str() of anything else, as Jinja's soft_str.
Result<std::string> soft_text(const std::string& what, const JinjaValue& value) {
  if (value.is(Kind::text)) return plain_text(what, value);
  return jinja_str(value);
}
template <TextCase wanted>
Outcome cased(const JinjaValue& value, const Given&) {
  LH_TRY(const std::string text, soft_text("a change of case", value));
  LH_TRY(std::string changed, in_case(text, wanted));
  return JinjaValue::of(std::move(changed));
}

// Letters behind white space and opening brackets, and behind "-", become capitals; unlike str.title().
Outcome title_filter(const JinjaValue& value, const Given&) {
  LH_TRY(const std::string text, soft_text("title", value));
  LH_TRY(const std::string lower, in_case(text, TextCase::lower));
  LH_TRY(const std::string upper, in_case(text, TextCase::upper));
  std::string out;
  bool begins = true;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool parts = std::string_view("-({[<").find(text[i]) != std::string_view::npos ||
                       is_python_space(static_cast<unsigned char>(text[i]));
    out += begins && !parts ? upper[i] : lower[i];
    begins = parts;
  }
  return JinjaValue::of(std::move(out));
}

Outcome trim_filter(const JinjaValue& value, const Given& given) {
  LH_TRY(const std::string text, soft_text("trim", value));
  if (!is_given(given[0])) return JinjaValue::of(strip_text(text, true, true));
  LH_TRY(const std::string which, plain_text("trim", *given[0]));
  return JinjaValue::of(strip_text(text, true, true, which));
}

Outcome length(const JinjaValue& value, const Given&) {
  switch (value.kind()) {
    case Kind::undefined: return JinjaValue::of(std::int64_t{0});
    case Kind::text: return JinjaValue::of(count_of_characters(value.as_text()));
    case Kind::list:
    case Kind::tuple: return JinjaValue::of(static_cast<std::int64_t>(value.as_list().size()));
    case Kind::table: return JinjaValue::of(static_cast<std::int64_t>(value.as_table().members.size()));
    case Kind::stream:
      if (value.as_stream().view) return JinjaValue::of(static_cast<std::int64_t>(value.as_stream().items->size()));
      break;
    default: break;
  }
  return jinja_error(format("a value of kind {} has no length", value.kind_name()), "put `list` before `length`");
}

Outcome default_filter(const JinjaValue& value, const Given& given) {
  const bool use = value.is(Kind::undefined) || (given[1] && given[1]->is_true() && !value.is_true());
  if (!use) return value;
  return given[0] ? *given[0] : JinjaValue::of(std::string());
}

Outcome join_filter(const JinjaValue& value, const Given& given) {
  LH_TRY(const std::string between, text_argument("join", given[0], ""));
  LH_TRY(const JinjaList items, jinja_items(value));
  std::string out;
  for (std::size_t i = 0; i < items.size(); ++i) {
    JinjaValue item = items[i];
    if (is_given(given[1])) {
      LH_TRY(const std::string path, plain_text("join", *given[1]));
      LH_TRY(item, jinja_path(item, path));
    }
    LH_TRY(const std::string text, jinja_str(item));
    out += (i > 0 ? between : "") + text;
    LH_CHECK(check_text_size(out.size()));
  }
  return JinjaValue::of(std::move(out));
}

Outcome replace_filter(const JinjaValue& value, const Given& given) {
  LH_TRY(const std::string text, soft_text("replace", value));
  if (!given[0] || !given[1]) return jinja_error("replace takes what is replaced and by what");
  JinjaArguments arguments;
  arguments.positional = {*given[0], *given[1]};
  if (is_given(given[2])) arguments.positional.push_back(*given[2]);
  return jinja_method(JinjaValue::of(text), "replace")->as_function().call(arguments);
}

Outcome first(const JinjaValue& value, const Given&) {
  if (value.is(Kind::stream) && !value.as_stream().view) {
    JinjaStream& stream = value.as_stream();
    if (stream.taken == stream.items->size()) return JinjaValue::undefined("the first of none");
    return (*stream.items)[stream.taken++];
  }
  LH_TRY(const JinjaList items, jinja_items(value));
  return items.empty() ? JinjaValue::undefined("the first of none") : items.front();
}
Outcome last(const JinjaValue& value, const Given&) {
  if (value.is(Kind::stream) && !value.as_stream().view)
    return jinja_error("the last of a generator is an error in Jinja, too", "put `list` before `last`");
  LH_TRY(const JinjaList items, jinja_items(value));
  return items.empty() ? JinjaValue::undefined("the last of none") : items.back();
}

Outcome list_filter(const JinjaValue& value, const Given&) {
  LH_TRY(JinjaList items, jinja_items(value));
  return JinjaValue::of(std::move(items));
}
Outcome string_filter(const JinjaValue& value, const Given&) {
  if (value.is(Kind::text)) return value;
  LH_TRY(std::string text, jinja_str(value));
  return JinjaValue::of(std::move(text));
}
Outcome safe_filter(const JinjaValue& value, const Given&) {
  LH_TRY(std::string text, jinja_str(value));
  return JinjaValue::of(std::move(text), true);
}

Outcome int_filter(const JinjaValue& value, const Given& given) {
  const JinjaValue otherwise = given[0] ? *given[0] : JinjaValue::of(std::int64_t{0});
  if (value.is_whole()) return JinjaValue::of(value.as_integer());
  if (value.is(Kind::number)) {
    if (!(std::abs(value.as_number()) < 9e18)) return jinja_error("int of a number that is too large");
    return JinjaValue::of(static_cast<std::int64_t>(value.as_number()));
  }
  if (!value.is(Kind::text)) {
    if (value.is(Kind::undefined))
      return jinja_error(format("'{}' is undefined: it has no int", value.undefined_name()));
    return otherwise;
  }
  const std::string text = strip_text(value.as_text(), true, true);
  std::int64_t whole = 0;
  const char* begin = text.data() + (starts_with(text, "+") ? 1 : 0);
  const auto read = std::from_chars(begin, text.data() + text.size(), whole);
  if (!text.empty() && read.ec == std::errc() && read.ptr == text.data() + text.size()) return JinjaValue::of(whole);
  if (text.find_first_of("0123456789") != std::string::npos)
    return jinja_error("int of a text that is no plain whole number is not done here");
  return otherwise;
}

Outcome float_filter(const JinjaValue& value, const Given& given) {
  if (value.is_number()) return JinjaValue::of(value.as_number());
  if (value.is(Kind::text)) {
    const std::string text = strip_text(value.as_text(), true, true);
    double number = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
    if (!text.empty() && read.ec == std::errc() && read.ptr == text.data() + text.size()) return JinjaValue::of(number);
  }
  return given[0] ? *given[0] : JinjaValue::of(0.0);
}

Outcome abs_filter(const JinjaValue& value, const Given&) {
  if (value.is_whole() && value.as_integer() > INT64_MIN) return JinjaValue::of(std::abs(value.as_integer()));
  if (value.is(Kind::number)) return JinjaValue::of(std::abs(value.as_number()));
  return jinja_error(format("abs of a value of kind {}", value.kind_name()));
}

Outcome items_filter(const JinjaValue& value, const Given&) {
  if (value.is(Kind::undefined)) return JinjaValue::stream({});
  if (!value.is(Kind::table)) return jinja_error("items of a value that is no table");
  JinjaList items;
  for (const auto& [key, member] : value.as_table().members)
    items.push_back(JinjaValue::of(JinjaList{JinjaValue::of(key), member}, Kind::tuple));
  return JinjaValue::stream(std::move(items));
}

Outcome reverse_filter(const JinjaValue& value, const Given&) {
  LH_TRY(JinjaList items, jinja_items(value));
  std::reverse(items.begin(), items.end());
  if (!value.is(Kind::text)) return JinjaValue::stream(std::move(items));
  std::string text;
  for (const JinjaValue& character : items) text += character.as_text();
  return JinjaValue::of(std::move(text));
}

// What texts are sorted by, where their case does not count.
Outcome sort_key(const JinjaValue& value, bool with_case) {
  if (with_case || !value.is(Kind::text)) return value;
  LH_TRY(std::string lower, in_case(value.as_text(), TextCase::lower));
  return JinjaValue::of(std::move(lower));
}

Result<JinjaList> sorted(const JinjaList& items, const JinjaList& keys, bool descending) {
  std::vector<std::size_t> order(items.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::optional<Error> problem;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    if (problem) return false;
    const Result<int> compared = jinja_compare(keys[a], keys[b]);
    if (!compared.ok()) problem = compared.error();
    return compared.ok() && (descending ? *compared > 0 : *compared < 0);
  });
  if (problem) return *problem;
  JinjaList out;
  for (const std::size_t i : order) out.push_back(items[i]);
  return out;
}

Outcome sort_filter(const JinjaValue& value, const Given& given) {
  LH_TRY(const JinjaList items, jinja_items(value));
  JinjaList keys;
  for (JinjaValue key : items) {
    if (is_given(given[2])) {
      LH_TRY(const std::string path, plain_text("sort", *given[2]));
      if (path.find(',') != std::string::npos) return jinja_error("sort by several attributes is not done here");
      LH_TRY(key, jinja_path(key, path));
    }
    LH_TRY(key, sort_key(key, given[1] && given[1]->is_true()));
    keys.push_back(std::move(key));
  }
  LH_TRY(JinjaList out, sorted(items, keys, given[0] && given[0]->is_true()));
  return JinjaValue::of(std::move(out));
}

Outcome dictsort(const JinjaValue& value, const Given& given) {
  if (!value.is(Kind::table)) return jinja_error("dictsort of a value that is no table");
  LH_TRY(const std::string by, text_argument("dictsort", given[1], "key"));
  if (by != "key" && by != "value") return jinja_error("dictsort sorts by key or by value");
  JinjaList items, keys;
  for (const auto& [key, member] : value.as_table().members) {
    items.push_back(JinjaValue::of(JinjaList{JinjaValue::of(key), member}, Kind::tuple));
    LH_TRY(JinjaValue sorting, sort_key(by == "key" ? JinjaValue::of(key) : member, given[0] && given[0]->is_true()));
    keys.push_back(std::move(sorting));
  }
  LH_TRY(JinjaList out, sorted(items, keys, given[2] && given[2]->is_true()));
  return JinjaValue::of(std::move(out));
}

Outcome unique_filter(const JinjaValue& value, const Given& given) {
  LH_TRY(const JinjaList items, jinja_items(value));
  JinjaList out, seen;
  for (const JinjaValue& item : items) {
    LH_TRY(JinjaValue key, sort_key(item, given[0] && given[0]->is_true()));
    if (std::any_of(seen.begin(), seen.end(), [&](const JinjaValue& one) { return jinja_equal(one, key); })) continue;
    seen.push_back(std::move(key));
    out.push_back(item);
    if (out.size() > 10'000) return jinja_error("unique of more than 10,000 values is not done here");
  }
  return JinjaValue::stream(std::move(out));
}

Outcome indent_filter(const JinjaValue& value, const Given& given) {
  LH_TRY(std::string text, soft_text("indent", value));
  std::string by = "    ";
  if (given[0] && given[0]->is(Kind::text)) {
    by = given[0]->as_text();
  } else {
    LH_TRY(const std::int64_t width, whole_argument("indent", given[0], 4));
    by = std::string(static_cast<std::size_t>(std::clamp<std::int64_t>(width, 0, 1000)), ' ');
  }
  const bool first_too = given[1] && given[1]->is_true(), blank_too = given[2] && given[2]->is_true();
  // Jinja adds a line end, splits at every kind of it, and joins by \n; before an empty line nothing is put.
  LH_TRY(const JinjaValue all, jinja_method(JinjaValue::of(text + "\n"), "splitlines")->as_function().call({}));
  std::string out;
  std::size_t lines = 0;
  for (const JinjaValue& one : all.as_list()) {
    const std::string& line = one.as_text();
    if (lines > 0) out += '\n';
    if ((lines > 0 && (blank_too || !line.empty())) || (lines == 0 && first_too)) out += by;
    out += line;
    ++lines;
    LH_CHECK(check_text_size(out.size()));
  }
  return JinjaValue::of(std::move(out));
}

Outcome tojson(const JinjaValue& value, const Given& given) {
  JinjaJsonForm form;
  form.ascii = given[0] && given[0]->is_true();
  form.sort_keys = given[3] && given[3]->is_true();
  if (is_given(given[1])) {
    form.indented = true;
    form.item_separator = ",";
    if (given[1]->is(Kind::text)) {
      form.indent = given[1]->as_text();
    } else {
      LH_TRY(const std::int64_t width, whole_argument("tojson", given[1], 0));
      if (width > 64) return jinja_error("tojson with an indent above 64 is not done here");
      form.indent = std::string(static_cast<std::size_t>(std::max<std::int64_t>(width, 0)), ' ');
    }
  }
  if (is_given(given[2])) {
    if (!given[2]->is_sequence() || given[2]->as_list().size() != 2) return jinja_error("separators are two texts");
    LH_TRY(form.item_separator, plain_text("tojson", given[2]->as_list()[0]));
    LH_TRY(form.key_separator, plain_text("tojson", given[2]->as_list()[1]));
  }
  LH_TRY(std::string text, jinja_json(value, form));
  return JinjaValue::of(std::move(text));
}

const std::vector<Filter>& all_filters() {
  static const std::vector<Filter> filters = {
      {"abs", {}, abs_filter},
      {"capitalize", {}, cased<TextCase::capital>},
      {"count", {}, length},
      {"d", {"default_value", "boolean"}, default_filter},
      {"default", {"default_value", "boolean"}, default_filter},
      {"dictsort", {"case_sensitive", "by", "reverse"}, dictsort},
      {"first", {}, first},
      {"float", {"default"}, float_filter},
      {"indent", {"width", "first", "blank"}, indent_filter},
      {"int", {"default"}, int_filter},
      {"items", {}, items_filter},
      {"join", {"d", "attribute"}, join_filter},
      {"last", {}, last},
      {"length", {}, length},
      {"list", {}, list_filter},
      {"lower", {}, cased<TextCase::lower>},
      {"replace", {"old", "new", "count"}, replace_filter},
      {"reverse", {}, reverse_filter},
      {"safe", {}, safe_filter},
      {"sort", {"reverse", "case_sensitive", "attribute"}, sort_filter},
      {"string", {}, string_filter},
      {"title", {}, title_filter},
      {"tojson", {"ensure_ascii", "indent", "separators", "sort_keys"}, tojson},
      {"trim", {"chars"}, trim_filter},
      {"unique", {"case_sensitive"}, unique_filter},
      {"upper", {}, cased<TextCase::upper>},
  };
  return filters;
}

// map, select, reject, selectattr, rejectattr: over the items, by another filter or test.
Outcome map_filter(const JinjaList& items, const JinjaArguments& arguments) {
  JinjaList out;
  const JinjaValue *attribute = arguments.find("attribute"), *otherwise = arguments.find("default");
  const bool by_filter = !arguments.positional.empty();
  if (by_filter == (attribute != nullptr) || (by_filter && otherwise))
    return jinja_error("map takes attribute=\"...\", or the name of a filter");
  if (!by_filter && arguments.named.size() != (otherwise ? 2U : 1U))
    return jinja_error("map takes no other arguments beside attribute and default");
  JinjaArguments rest;
  if (by_filter) rest = {{arguments.positional.begin() + 1, arguments.positional.end()}, arguments.named};
  LH_TRY(const std::string name, plain_text("map", by_filter ? arguments.positional[0] : *attribute));
  for (const JinjaValue& item : items) {
    LH_TRY(JinjaValue made, by_filter ? apply_jinja_filter(name, item, rest) : jinja_path(item, name));
    if (otherwise && made.is(Kind::undefined)) made = *otherwise;
    out.push_back(std::move(made));
  }
  return JinjaValue::stream(std::move(out));
}

Outcome select_filter(const JinjaList& items, const JinjaArguments& arguments, bool of_attribute, bool wanted) {
  std::size_t at = 0;
  std::string path, test;
  if (!arguments.named.empty()) return jinja_error("select and reject take no arguments by name here");
  if (of_attribute) {
    if (arguments.positional.empty()) return jinja_error("selectattr and rejectattr take an attribute");
    LH_TRY(path, plain_text("selectattr", arguments.positional[at++]));
  }
  if (at < arguments.positional.size()) {
    LH_TRY(test, plain_text("select", arguments.positional[at++]));
    for (const auto& [sign, name] :
         {std::pair{"==", "eq"}, {"!=", "ne"}, {"<", "lt"}, {"<=", "le"}, {">", "gt"}, {">=", "ge"}})
      if (test == sign) test = name;
  }
  JinjaArguments rest;
  rest.positional.assign(arguments.positional.begin() + static_cast<std::ptrdiff_t>(at), arguments.positional.end());
  JinjaList out;
  for (const JinjaValue& item : items) {
    JinjaValue looked_at = item;
    if (of_attribute) {
      LH_TRY(looked_at, jinja_path(item, path));
    }
    bool holds = looked_at.is_true();
    if (!test.empty()) {
      LH_TRY(holds, apply_jinja_test(test, looked_at, rest));
    }
    if (holds == wanted) out.push_back(item);
  }
  return JinjaValue::stream(std::move(out));
}

const std::vector<std::string>& filters_of_items() {
  static const std::vector<std::string> names = {"map", "reject", "rejectattr", "select", "selectattr"};
  return names;
}

}  // namespace

bool is_jinja_filter(const std::string& name) {
  const auto& over = filters_of_items();
  return std::find(over.begin(), over.end(), name) != over.end() ||
         std::any_of(all_filters().begin(), all_filters().end(), [&](const Filter& f) { return name == f.name; });
}

std::string jinja_filter_names() {
  std::vector<std::string> names = filters_of_items();
  for (const Filter& filter : all_filters()) names.emplace_back(filter.name);
  std::sort(names.begin(), names.end());
  return join(names, ", ");
}

Result<JinjaValue> apply_jinja_filter(const std::string& name, const JinjaValue& value,
                                      const JinjaArguments& arguments) {
  const auto& over = filters_of_items();
  if (std::find(over.begin(), over.end(), name) != over.end()) {
    JinjaList items;
    if (value.is_true()) {  // what is false has no items, also where it could not be gone through
      LH_TRY(items, jinja_items(value));
    }
    if (name == "map") return map_filter(items, arguments);
    return select_filter(items, arguments, ends_with(name, "attr"), starts_with(name, "select"));
  }
  for (const Filter& filter : all_filters()) {
    if (name != filter.name) continue;
    LH_TRY(const Given given, bind_arguments("the filter " + name, arguments, filter.parameters));
    return filter.apply(value, given);
  }
  return jinja_error(format("the filter '{}' is not done here", name), "these are: " + jinja_filter_names());
}

}  // namespace longhaul
