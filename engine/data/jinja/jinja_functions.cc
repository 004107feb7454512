#include "engine/data/jinja/jinja_functions.h"

#include "base/text/text.h"
#include "engine/data/jinja/values/jinja_access.h"

namespace longhaul {
namespace {

using What = JinjaValue::Kind;

constexpr std::int64_t range_max = 100'000;  // as Jinja's sandbox

Result<JinjaValue> make_range(const JinjaArguments& arguments) {
  std::int64_t limits[3] = {0, 0, 1};
  const JinjaList& given = arguments.positional;
  if (given.empty() || given.size() > 3 || !arguments.named.empty()) return jinja_error("range takes 1 to 3 numbers");
  for (std::size_t i = 0; i < given.size(); ++i) {
    LH_TRY(limits[given.size() == 1 ? 1 : i], whole_argument("range", &given[i], 0));
  }
  const auto [begin, end, step] = limits;
  if (step == 0) return jinja_error("the step of a range is 0");
  JinjaList list;
  for (std::int64_t at = begin; step > 0 ? at < end : at > end; at += step) {
    if (static_cast<std::int64_t>(list.size()) >= range_max)
      return jinja_error(format("a range of more than {} numbers", range_max));
    list.push_back(JinjaValue::of(at));
    if (step > 0 ? at > INT64_MAX - step : at < INT64_MIN - step) break;
  }
  return JinjaValue::of(std::move(list));
}

Result<JinjaTable> members_of(const JinjaArguments& arguments, const char* what) {
  JinjaTable members;
  if (arguments.positional.size() > 1) return jinja_error(format("{} takes one table at most", what));
  if (!arguments.positional.empty()) {
    if (!arguments.positional[0].is(What::table)) return jinja_error(format("{} of a value that is no table", what));
    members = arguments.positional[0].as_table();
  }
  for (const auto& [name, value] : arguments.named) members.set(name, value);
  return members;
}

}  // namespace

JinjaTable jinja_functions(const std::optional<std::tm>& now) {
  JinjaTable functions;
  const auto define = [&](const char* name, std::function<Result<JinjaValue>(const JinjaArguments&)> call) {
    functions.set(name, JinjaValue::of(JinjaFunction{name, std::move(call)}));
  };
  define("range", make_range);
  define("dict", [](const JinjaArguments& arguments) -> Result<JinjaValue> {
    LH_TRY(JinjaTable members, members_of(arguments, "dict"));
    return JinjaValue::of(std::move(members));
  });
  define("namespace", [](const JinjaArguments& arguments) -> Result<JinjaValue> {
    LH_TRY(JinjaTable members, members_of(arguments, "namespace"));
    for (const auto& [name, value] : members.members)
      if (value.holds_names()) return jinja_error("a namespace within a namespace is not done here");
    return JinjaValue::of(JinjaNamespace{std::move(members)});
  });
  define("raise_exception", [](const JinjaArguments& arguments) -> Result<JinjaValue> {
    std::string text = "the template refuses the conversation";
    if (!arguments.positional.empty()) {
      LH_TRY(text, jinja_str(arguments.positional[0]));
    }
    return make_error(ErrorCode::invalid_input, "the chat template says: " + text);
  });
  if (!now) return functions;
  define("strftime_now", [at = *now](const JinjaArguments& arguments) -> Result<JinjaValue> {
    if (arguments.positional.size() != 1) return jinja_error("strftime_now takes one text");
    LH_TRY(const std::string form, plain_text("strftime_now", arguments.positional[0]));
    char text[512];
    const std::size_t length = std::strftime(text, sizeof text, form.c_str(), &at);
    if (length == 0 && !form.empty()) return jinja_error("strftime_now gives a text that is too long, or none");
    return JinjaValue::of(std::string(text, length));
  });
  return functions;
}

JinjaTable jinja_loop(const JinjaList& items, std::size_t at, int depth) {
  JinjaTable loop;
  const auto count = static_cast<std::int64_t>(items.size()), i = static_cast<std::int64_t>(at);
  const auto set = [&](const char* name, JinjaValue value) { loop.members.emplace_back(name, std::move(value)); };
  set("index", JinjaValue::of(i + 1));
  set("index0", JinjaValue::of(i));
  set("revindex", JinjaValue::of(count - i));
  set("revindex0", JinjaValue::of(count - i - 1));
  set("first", JinjaValue::of(i == 0));
  set("last", JinjaValue::of(i + 1 == count));
  set("length", JinjaValue::of(count));
  set("depth", JinjaValue::of(static_cast<std::int64_t>(depth)));
  set("depth0", JinjaValue::of(static_cast<std::int64_t>(depth - 1)));
  set("previtem", at > 0 ? items[at - 1] : JinjaValue::undefined("loop.previtem"));
  set("nextitem", at + 1 < items.size() ? items[at + 1] : JinjaValue::undefined("loop.nextitem"));
  set("cycle", JinjaValue::of(JinjaFunction{"loop.cycle", [at](const JinjaArguments& arguments) -> Result<JinjaValue> {
                                              if (arguments.positional.empty())
                                                return jinja_error("a cycle of nothing");
                                              return arguments.positional[at % arguments.positional.size()];
                                            }}));
  set("changed", JinjaValue::of(JinjaFunction{"loop.changed", [](const JinjaArguments&) -> Result<JinjaValue> {
                                                return jinja_error("loop.changed is not done here");
                                              }}));
  return loop;
}

}  // namespace longhaul
