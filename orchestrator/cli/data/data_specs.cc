// The commands that look at data before anything is trained on it.
#include "orchestrator/cli/options/command_specs.h"

namespace longhaul {

std::vector<CommandSpec> data_specs() {
  using enum ExitCode;
  return {
      {Command::data,
       "data",
       "longhaul data check FILE [options]",
       "what a file of tuning data is, before anything is trained on it",
       "Reads rows of tuning data as `sft` and `align` would and prints their forms and counts, and what is refused, "
       "by "
       "line, with the reason. With --model also lengths in tokens, and the first three rows as they will be trained: "
       "in the model's form of conversations, with what is learnt marked. Every form and every refusal: "
       "[tuning-rows.md](tuning-rows.md). The keys of --json stand in [json.md](json.md). Ends with 3 where a row is "
       "refused. Writes nothing.",
       {"longhaul data check rows.jsonl", "longhaul data check rows.jsonl --model models/llama --sequence-length 4096",
        "longhaul data check pairs.jsonl --for align --ignore id --ignore source --json"},
       {invalid_input, not_found, system, interrupted, timeout}},
  };
}

}  // namespace longhaul
