// Commands and options of other programs are answered with what they are here.
#include "orchestrator/cli/options/habits.h"

#include <doctest/doctest.h>

#include "base/text/text.h"
#include "orchestrator/cli/options/command_line.h"

namespace longhaul {
namespace {

namespace habits_test {

TEST_CASE("habits: what a command is called here exists, with its options") {
  for (const char* typed : {"ls", "stop", "start", "restart", "check", "watch", "tail", "show", "new", "rm"}) {
    CAPTURE(typed);
    const auto words = split(command_habit(typed), ' ');
    REQUIRE(words.size() >= 2);
    CHECK(words[0] == "longhaul");
    const CommandSpec* meant = nullptr;
    for (const CommandSpec& spec : command_specs())
      if (spec.name == words[1]) meant = &spec;
    REQUIRE(meant != nullptr);
    for (const std::string& word : words)
      if (starts_with(word, "--")) {
        bool has = false;
        for (const OptionText& option : option_texts(meant->command)) has |= option.name == word;
        CHECK_MESSAGE(has, word);
      }
  }
  CHECK(command_habit("run").empty());
  CHECK(command_habit("frobnicate").empty());
}

TEST_CASE("habits: options that are nearly known, another program's, or a setting") {
  const std::vector<std::string> known = {"--set", "--site", "--runs-dir"};
  CHECK(option_hint("--sites", known) == "did you mean '--site'?");
  CHECK(option_hint("--dry-run", known) == "longhaul plan WORKFLOW shows what would be done");
  CHECK(option_hint("--steps", known) == "a setting is given as --set stage.NAME.steps=VALUE");
  CHECK(option_hint("--time-limit", known) == "a setting is given as --set stage.NAME.time_limit=VALUE");
  CHECK(option_hint("--steps", {"--json"}).empty());  // a command that takes no settings
  CHECK(option_hint("--frobnicate", known).empty());
  CHECK(option_hint("-x", known).empty());
}

}  // namespace habits_test

}  // namespace
}  // namespace longhaul
