// The small commands of longhaul-engine: what it is built with, how fast it is, what files hold, what a model says.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "engine/tasks/commands/command_line.h"

namespace longhaul {

// One of them as it was asked for; `arguments`: behind the command.
struct Question {
  const std::vector<std::string>& arguments;
  const EngineEnvironment& around;
  // From then on a signal raises what comes back, instead of ending the process.
  const std::atomic<bool>& (*listen_to_signals)();
};
struct QuestionCommand {
  const char* name;
  const char* summary;
  Status (*run)(const Question& question, const QuestionCommand& command);
};
const std::vector<QuestionCommand>& question_commands();

}  // namespace longhaul
