// Settings of the stage kind `command`: any program in the engine's place, under the same worker.
#pragma once

#include "contracts/field_table.h"

namespace longhaul {

struct CommandSettings {
  std::vector<std::string> argv;  // program and arguments; no shell
  std::string script;             // or a text for `bash -euo pipefail`
  std::map<std::string, std::string> environment;
};
const FieldTable<CommandSettings>& command_fields();

}  // namespace longhaul
