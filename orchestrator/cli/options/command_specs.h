// The commands in words: what `--help` prints and docs/reference/commands.md holds.
#pragma once

#include <string>
#include <vector>

#include "orchestrator/cli/options/exit_code.h"

namespace longhaul {

enum class Command {
  none,
  init,
  run,
  submit,
  validate,
  plan,
  status,
  runs,
  logs,
  checkpoints,
  cancel,
  resume,
  tick,
  report,
  docs,
  explain,
  doctor,
  sites,
  tell,
  notify,
  fork,
  gc,
  faults,
  support_bundle,
  simulate,
  tune,
  serving,
  size,
  data,
  completion
};

struct CommandSpec {
  Command command;
  std::string name;
  std::string usage;      // "longhaul run WORKFLOW [options]"
  std::string summary;    // one line
  std::string paragraph;  // what it does, and what it leaves behind
  std::vector<std::string> examples;
  std::vector<ExitCode> exit_codes;  // beside ok, internal and usage, which every command has
};
const std::vector<CommandSpec>& command_specs();
const CommandSpec& command_spec(Command command);
// Of those that people need once a run is under way; part of command_specs().
std::vector<CommandSpec> day_one_specs();
// Of data before anything is trained on it; part of command_specs().
std::vector<CommandSpec> data_specs();
// Of questions to the tuner's arithmetic; part of command_specs().
std::vector<CommandSpec> question_specs();

// The commands by what a person wants to do: run, look, steer, machine, plan. Every command is in one group.
struct CommandGroup {
  std::string title;  // "run: from a workflow to its end"
  std::vector<Command> commands;
};
const std::vector<CommandGroup>& command_groups();
std::string grouped_commands_text();

// A paragraph of the reference, which is Markdown, as plain text: of a link what it is called, words in quotes instead
// of backticks.
std::string plain_text(const std::string& markdown);

// Examples and exit codes, as they stand below the options.
std::string command_footer(const CommandSpec& spec);

}  // namespace longhaul
