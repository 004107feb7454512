#include "engine/data/jinja/values/jinja_access.h"

#include <algorithm>

#include "base/text/text.h"
#include "engine/data/jinja/values/jinja_text.h"

namespace longhaul {

using Kind = JinjaValue::Kind;

namespace {

Error of_undefined(const JinjaValue& of, const std::string& wanted) {
  return jinja_error(format("'{}' is undefined, and {} of it is asked for", of.undefined_name(), wanted));
}

// A place counted from either end; nullopt: outside.
std::optional<std::size_t> place(std::int64_t index, std::size_t size) {
  const auto count = static_cast<std::int64_t>(size);
  if (index < 0) index += count;
  if (index < 0 || index >= count) return std::nullopt;
  return static_cast<std::size_t>(index);
}

}  // namespace

Result<JinjaValue> jinja_attribute(const JinjaValue& of, const std::string& name) {
  if (of.is(Kind::undefined)) return of_undefined(of, "'" + name + "'");
  if (starts_with(name, "_")) return jinja_error(format("the attribute '{}' is not open to templates", name));
  if (of.is(Kind::names)) {
    if (const JinjaValue* found = of.as_names().members.find(name)) return *found;
    return JinjaValue::undefined(name);
  }
  if (auto method = jinja_method(of, name)) return *method;
  if (of.is(Kind::table))
    if (const JinjaValue* found = of.as_table().find(name)) return *found;
  return JinjaValue::undefined(name);
}

Result<JinjaValue> jinja_item(const JinjaValue& of, const JinjaValue& index) {
  if (of.is(Kind::undefined)) return of_undefined(of, "an item");
  if (index.is(Kind::text)) {
    if (of.is(Kind::table))
      if (const JinjaValue* found = of.as_table().find(index.as_text())) return *found;
    return starts_with(index.as_text(), "_") ? JinjaValue::undefined(index.as_text())
                                             : jinja_attribute(of, index.as_text());
  }
  if (index.is_whole() && of.is_sequence()) {
    if (const auto at = place(index.as_integer(), of.as_list().size())) return of.as_list()[*at];
    return JinjaValue::undefined("item " + std::to_string(index.as_integer()));
  }
  if (index.is_whole() && of.is(Kind::text)) {
    const std::vector<std::string> characters = characters_of(of.as_text());
    if (const auto at = place(index.as_integer(), characters.size())) return JinjaValue::of(characters[*at]);
  }
  return JinjaValue::undefined(format("an item of a value of kind {}", of.kind_name()));
}

Result<JinjaValue> jinja_path(const JinjaValue& of, const std::string& path) {
  JinjaValue at = of;
  for (const std::string& part : split(path, '.')) {
    const bool number = !part.empty() && part.find_first_not_of("0123456789") == std::string::npos;
    LH_TRY(at, jinja_item(at, number ? JinjaValue::of(static_cast<std::int64_t>(std::stoll(part.substr(0, 9))))
                                     : JinjaValue::of(part)));
  }
  return at;
}

Result<JinjaValue> jinja_slice(const JinjaValue& of, const JinjaSlice& slice) {
  if (of.is(Kind::undefined)) return of_undefined(of, "a slice");
  if (!of.is_sequence() && !of.is(Kind::text))
    return jinja_error(format("a value of kind {} has no slices", of.kind_name()));
  const JinjaList items = of.is(Kind::text) ? JinjaList() : of.as_list();
  const std::vector<std::string> characters =
      of.is(Kind::text) ? characters_of(of.as_text()) : std::vector<std::string>();
  const auto size = static_cast<std::int64_t>(of.is(Kind::text) ? characters.size() : items.size());
  const std::int64_t step = slice.step.value_or(1);
  if (step == 0) return jinja_error("the step of a slice is 0");
  const auto clamp = [&](std::int64_t index, std::int64_t low, std::int64_t high) {
    if (index < 0) index = index < -size ? -1 : index + size;
    return std::clamp(index, low, high);
  };
  const std::int64_t low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
  const std::int64_t begin = slice.begin ? clamp(*slice.begin, low, high) : (step > 0 ? low : high);
  const std::int64_t end = slice.end ? clamp(*slice.end, low, high) : (step > 0 ? high : low);
  JinjaList out;
  std::string text;
  for (std::int64_t at = begin; step > 0 ? at < end : at > end; at += step) {
    const auto i = static_cast<std::size_t>(at);
    of.is(Kind::text) ? void(text += characters[i]) : out.push_back(items[i]);
    if (step > size || step < -size) break;
  }
  if (of.is(Kind::text)) return JinjaValue::of(std::move(text));
  return JinjaValue::of(std::move(out), of.kind());
}

Result<bool> jinja_contains(const JinjaValue& container, const JinjaValue& element) {
  if (container.is(Kind::text)) {
    if (!element.is(Kind::text))
      return jinja_error(format("a value of kind {} is looked for in a text", element.kind_name()));
    return container.as_text().find(element.as_text()) != std::string::npos;
  }
  if (container.is(Kind::table)) {
    if (element.is_sequence() || element.is(Kind::table))
      return element.is(Kind::tuple) ? Result<bool>(false)
                                     : Result<bool>(jinja_error("a list or table is looked for among keys"));
    return element.is(Kind::text) && container.as_table().find(element.as_text()) != nullptr;
  }
  LH_TRY(const JinjaList items, jinja_items(container));
  return std::any_of(items.begin(), items.end(), [&](const JinjaValue& item) { return jinja_equal(item, element); });
}

Result<std::vector<const JinjaValue*>> bind_arguments(const std::string& what, const JinjaArguments& arguments,
                                                      const std::vector<std::string>& names) {
  if (arguments.positional.size() > names.size())
    return jinja_error(format("{} takes at most {} arguments", what, names.size()));
  std::vector<const JinjaValue*> bound(names.size());
  for (std::size_t i = 0; i < arguments.positional.size(); ++i) bound[i] = &arguments.positional[i];
  for (const auto& [name, value] : arguments.named) {
    const auto at = std::find(names.begin(), names.end(), name);
    if (at == names.end()) return jinja_error(format("{} takes no argument '{}' here", what, name));
    const auto i = static_cast<std::size_t>(at - names.begin());
    if (bound[i]) return jinja_error(format("{} is given '{}' twice", what, name));
    bound[i] = &value;
  }
  return bound;
}

bool is_given(const JinjaValue* argument) {
  return argument && !argument->is(JinjaValue::Kind::none);
}

Result<std::int64_t> whole_argument(const std::string& what, const JinjaValue* value, std::int64_t otherwise) {
  if (!value) return otherwise;
  if (value->is_whole()) return value->as_integer();
  return jinja_error(format("{} takes a whole number, not a value of kind {}", what, value->kind_name()));
}

Result<std::string> text_argument(const std::string& what, const JinjaValue* value, const std::string& otherwise) {
  if (!value) return otherwise;
  return plain_text(what, *value);
}

Result<std::string> plain_text(const std::string& what, const JinjaValue& value) {
  if (!value.is(Kind::text))
    return jinja_error(format("{} takes a text, not a value of kind {}", what, value.kind_name()));
  if (value.is_safe()) return jinja_error(format("{} of a text marked safe is not done here", what));
  return value.as_text();
}

}  // namespace longhaul
