#include "contracts/schema/field_table.h"

#include <doctest/doctest.h>

#include "base/toml.h"
#include "contracts/tasks/stage_kinds.h"

using namespace longhaul;

namespace {

struct InnerSettings {
  int depth = 3;
};
const FieldTable<InnerSettings>& inner_fields() {
  static const auto table =
      FieldTable<InnerSettings>().field("depth", &InnerSettings::depth, {.help = "how deep", .min = 1});
  return table;
}
struct ProbeSettings {
  double rate = 0.5;
  std::int64_t count = 7;
  std::string mode = "fast";
  Seconds wait{90};
  ByteCount limit{1024};
  std::vector<std::string> names;
  std::map<std::string, std::int64_t> sizes;
  std::map<std::string, double> shares;
  InnerSettings inner;
};
const FieldTable<ProbeSettings>& probe_fields() {
  using S = ProbeSettings;
  static const auto table = FieldTable<S>()
                                .field("rate", &S::rate, {.help = "a rate", .min = 0, .max = 1})
                                .field("count", &S::count, {.unit = "items", .help = "a count", .required = true})
                                .field("mode", &S::mode, {.help = "a mode", .choices = {"fast", "slow"}})
                                .field("wait", &S::wait, {.help = "a wait"})
                                .field("limit", &S::limit, {.help = "a limit"})
                                .field("names", &S::names, {.help = "names"})
                                .field("sizes", &S::sizes, {.help = "sizes", .min = 1, .max = 64})
                                .field("shares", &S::shares, {.help = "shares", .min = 0})
                                .group("inner", &S::inner, inner_fields(), "a group");
  return table;
}

Diagnostics problems_of(const std::string& toml) {
  Diagnostics diagnostics;
  (void)probe_fields().parse(parse_toml(toml, "s.toml").value(), "sample", diagnostics);
  return diagnostics;
}

}  // namespace

TEST_CASE("a settings table fills its struct and keeps defaults") {
  Diagnostics d;
  const auto s = probe_fields().parse(
      parse_toml("count = 9\nwait = \"2min\"\nlimit = \"4KiB\"\nnames = [\"a\", \"b\"]\ninner = { depth = 5 }",
                 "s.toml")
          .value(),
      "sample", d);
  CHECK(d.empty());
  CHECK(s.count == 9);
  CHECK(s.rate == 0.5);
  CHECK(s.wait.value == 120);
  CHECK(s.limit.value == 4096);
  CHECK(s.names == std::vector<std::string>{"a", "b"});
  CHECK(s.inner.depth == 5);
}

TEST_CASE("all problems of a table are reported together, each at its place") {
  const Diagnostics d =
      problems_of("rate = 2.0\nmoed = \"fast\"\nmode = \"wild\"\nwait = \"30\"\ninner = { depth = 0 }\nnames = [1]\n");
  const std::string text = d.render("nothing was submitted");
  CAPTURE(text);
  CHECK(d.size() == 7);
  CHECK(text.find("s.toml:1:8: error: sample.rate = 2 is out of bounds; expected between 0 and 1") !=
        std::string::npos);
  CHECK(text.find("s.toml:2:1: error: unknown key 'moed' in [sample]; did you mean 'mode'?") != std::string::npos);
  CHECK(text.find("one of: fast, slow") != std::string::npos);
  CHECK(text.find("is not a duration") != std::string::npos);
  CHECK(text.find("sample.inner.depth = 0 is out of bounds") != std::string::npos);
  CHECK(text.find("sample.count is missing") != std::string::npos);
  CHECK(text.find("7 errors; nothing was submitted") != std::string::npos);
}

TEST_CASE("a table of numbers keeps its names, and each number that is none or out of bounds is said at its place") {
  Diagnostics d;
  const auto s = probe_fields().parse(
      parse_toml("count = 1\nsizes = { q_proj = 4, \"mlp.*\" = 8 }\nshares = { a = 2, b = 0.5 }", "s.toml").value(),
      "sample", d);
  CHECK(d.empty());
  CHECK(s.sizes == std::map<std::string, std::int64_t>{{"mlp.*", 8}, {"q_proj", 4}});
  CHECK(s.shares == std::map<std::string, double>{{"a", 2}, {"b", 0.5}});
  const std::string said =
      problems_of("count = 1\nsizes = { a = 0, b = 1.5, c = 3 }\nshares = { a = \"x\" }").render("");
  CHECK(said.find("sample.sizes.a = 0 is out of bounds; expected between 1 and 64") != std::string::npos);
  CHECK(said.find("sample.sizes.b is number, expected integer") != std::string::npos);
  CHECK(said.find("sample.shares.a is text, expected number") != std::string::npos);
  CHECK(said.find("sample.sizes.c") == std::string::npos);
  CHECK(problems_of("count = 1\nsizes = 3").render("").find("expected table of integers") != std::string::npos);
}

TEST_CASE("settings written as a value read back equal") {
  Diagnostics d;
  const Value once =
      probe_fields().to_value(probe_fields().parse(parse_toml("count = 1\nrate = 0.25", "s").value(), "s", d));
  const Value twice = probe_fields().to_value(probe_fields().parse(parse_toml(to_toml(once), "s").value(), "s", d));
  CHECK(d.empty());
  CHECK(once == twice);
}

TEST_CASE("every stage kind resolves its own defaults without complaint") {
  for (const StageKind& kind : stage_kinds()) {
    CAPTURE(kind.name);
    Diagnostics d;
    const Value resolved = kind.resolve(Value::make_table(), "stage.x", {}, d);
    CHECK(d.empty());
    Diagnostics again;
    CHECK(kind.resolve(parse_toml(to_toml(resolved), "x").value(), "stage.x", {}, again) == resolved);
    CHECK_MESSAGE(again.empty(), again.render(""));
    for (const FieldInfo& field : kind.fields) CHECK_MESSAGE(!field.options.help.empty(), field.name);
  }
}

namespace {

struct DerivedSettings : ProbeSettings {
  bool extra = false;
  DerivedSettings() { rate = 0.25, inner.depth = 8; }
};
const FieldTable<DerivedSettings>& derived_fields() {
  static const auto table =
      FieldTable<DerivedSettings>().include(probe_fields()).field("extra", &DerivedSettings::extra, {.help = "more"});
  return table;
}

}  // namespace

TEST_CASE("a table that includes another has its fields, with the defaults of the struct that is derived") {
  Diagnostics d;
  const DerivedSettings s =
      derived_fields().parse(parse_toml("count = 9\nmode = \"slow\"\nextra = true", "s.toml").value(), "sample", d);
  CHECK(d.empty());
  CHECK(s.count == 9);
  CHECK(s.mode == "slow");
  CHECK(s.extra);
  CHECK(s.rate == 0.25);
  CHECK(derived_fields().to_value(s).get_number("rate") == 0.25);
  const std::vector<FieldInfo> fields = derived_fields().describe();
  REQUIRE(fields.size() == 10);
  CHECK(fields[0].default_text == "0.25");
  CHECK(fields[1].default_text.empty());  // required
  CHECK(fields[8].members[0].default_text == "8");
  CHECK(probe_fields().describe()[8].members[0].default_text == "3");
  (void)derived_fields().parse(parse_toml("count = 9\nrate = 2", "s.toml").value(), "sample", d);
  CHECK(d.size() == 1);
}
