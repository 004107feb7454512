// longhaul-engine inspect | verify | reshard | export: checkpoints without a training (checkpoint_tools.h).
#pragma once

#include <string>
#include <vector>

#include "base/error/result.h"

namespace longhaul {

struct CheckpointCommand {
  const char* name;
  const char* summary;
  Status (*run)(const std::vector<std::string>& arguments, const CheckpointCommand& command);
};
const std::vector<CheckpointCommand>& checkpoint_commands();
bool is_checkpoint_command(const std::string& command);
// Results go to stdout, progress to stderr when it is a terminal. A damaged checkpoint is ErrorCode::corrupt and names
// the shard.
Status run_checkpoint_command(const std::string& command, const std::vector<std::string>& arguments);

}  // namespace longhaul
