// Room engine/tasks/commands
// The command line of longhaul-engine: `run` and the small commands beside it.
// command_line.h lists all; question_commands.h has the small ones; checkpoint_tools.h inspects and reshards;
// measure_processor.h times the machine. It lies above everything in the engine; nothing includes it but main.cc.
//
// The command line of longhaul-engine:
//   run --task TASK --launch LAUNCH [--rank N]      one stage, as one rank. MPI is started only when launch.ranks > 1
//                                                   and no GPU talks through NCCL: then N, or the launcher's
//                                                   environment, says which rank this is
//   tokenize-ids --tokenizer FILE --documents FILE  token ids of each document's text, one JSON array a line
//   logits --model FOLDER --tokens FILE             f32 logits of {"tokens": [...]} or [...], as JSON
//   generate --model FOLDER --prompt TEXT           the greedy continuation
//   serve --model FOLDER --token-file FILE          the model behind the OpenAI HTTP API (engine/infer/serve/serve.h)
//                                                   these three take --device cpu|gpu
//   inspect | verify | reshard | export CHECKPOINT  what a checkpoint holds, whether it is whole, the same as of
//   another
//                                                   layout, its model (engine/tasks/commands/checkpoint_commands.h)
//   stop-server --endpoint FILE                     ends a server that a deploy stage left running
// Results go to stdout, an error to stderr as one line; exit codes distinguish error codes.
#pragma once

#include <optional>
#include <string>

#include "base/error/result.h"
#include "engine/comm/device_ranks.h"
#include "engine/ops/gpu.h"
#include "engine/tasks/common/available_memory.h"

namespace longhaul {

// Which of the launch's ranks a launcher says that this process is, and of how many; 0: it does not say.
struct LaunchedRank {
  int rank = 0, size = 0;
};
// What main knows of where it runs.
struct EngineEnvironment {
  SchedulerMemory scheduler;
  OpenGpu open_gpu;             // empty: built without
  StartDeviceRanks start_nccl;  // empty: built without
  std::optional<LaunchedRank> launched;
  std::string cpu_max;  // the instruction set that this process is held down to (cpu_levels.h); empty: none
};
int engine_main(int argc, char** argv, const EngineEnvironment& around = {});
// 1 internal, 2 usage, 3 invalid_input, 4 not_found, 5 unsupported, 6 io, 7 aborted, 8 timeout, 9 conflict, 10 corrupt,
// 11 unavailable; 0 is success. As far as they mean the same, the numbers are those of `longhaul`.
int engine_exit_code(ErrorCode code);

}  // namespace longhaul
