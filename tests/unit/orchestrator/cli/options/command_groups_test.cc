// The commands as they are offered, and help as plain text.
#include <doctest/doctest.h>

#include <map>

#include "orchestrator/cli/options/command_line.h"

using namespace longhaul;

TEST_CASE("every command is in one group, and the list names it with what it does") {
  std::map<Command, int> seen;
  for (const CommandGroup& group : command_groups())
    for (const Command command : group.commands) ++seen[command];
  const std::string text = grouped_commands_text();
  for (const CommandSpec& spec : command_specs()) {
    CAPTURE(spec.name);
    CHECK(seen[spec.command] == 1);
    CHECK(text.find("  " + spec.name + " ") != std::string::npos);
    CHECK(text.find(spec.summary) != std::string::npos);
  }
}

TEST_CASE("all commands take --json but the one that prints a script, and tune") {
  for (const CommandSpec& spec : command_specs()) {
    if (spec.command == Command::completion || spec.command == Command::tune) continue;
    CAPTURE(spec.name);
    bool json = false;
    for (const OptionText& option : option_texts(spec.command)) json = json || option.name == "--json";
    CHECK(json);
  }
}

TEST_CASE("help is plain text: links are what they are called, and words are quoted") {
  CHECK(plain_text("see `a b` in ([json.md](../json.md)), [x] and a[0]") == "see 'a b' in (json.md), [x] and a[0]");
  CHECK(plain_text("[open](never") == "open");
  for (const CommandSpec& spec : command_specs()) {
    CAPTURE(spec.name);
    CHECK(plain_text(spec.paragraph).find_first_of("`") == std::string::npos);
    CHECK(plain_text(spec.paragraph).find("](") == std::string::npos);
  }
}

TEST_CASE("RUN may be left out everywhere, also before an order") {
  const auto parsed = [](std::vector<const char*> words) {
    words.insert(words.begin(), "longhaul");
    return parse_command_line(static_cast<int>(words.size()), words.data(), "test");
  };
  CHECK(parsed({"tell", "checkpoint"}).run.empty());
  CHECK(parsed({"tell", "checkpoint"}).arguments == std::vector<std::string>{"checkpoint"});
  CHECK(parsed({"tell", "set", "lr=1e-4"}).arguments == std::vector<std::string>{"set", "lr=1e-4"});
  CHECK(parsed({"tell", "latest", "stop-after", "5"}).run == "latest");
  CHECK(parsed({"tell", "latest", "stop-after", "5"}).arguments == std::vector<std::string>{"stop-after", "5"});
  CHECK(parsed({"tell"}).exit == ExitCode::usage);
  CHECK(parsed({"tell", "latest"}).exit == ExitCode::usage);
  for (const char* command :
       {"status", "logs", "checkpoints", "cancel", "resume", "tick", "report", "faults", "notify"}) {
    CAPTURE(command);
    CHECK(!parsed({command}).finished);
  }
  CHECK(!parsed({"fork", "--from", "pretrain"}).finished);
}
