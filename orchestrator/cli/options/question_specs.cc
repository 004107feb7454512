// The commands in words that answer questions by arithmetic alone.
#include "orchestrator/cli/options/command_specs.h"

namespace longhaul {

std::vector<CommandSpec> question_specs() {
  using enum ExitCode;
  return {
      {Command::serving,
       "serving",
       "longhaul serving KEY=VALUE... [options]",
       "the best way to serve a model on some GPUs: tensor parallelism, slots, cache, number formats",
       "Computes, in a second and without starting anything, which tensor parallelism, slots, pieces of prompts and "
       "number formats serve a model best for the prompts, answers and targets that the keys say; prints the winner "
       "with its memory and step, why the others lost, what tokens/s cost in time, and a deploy stage to paste. The "
       "model is a recipe's, one that `model.KEY` says, or with --workflow that of a deploy stage. The GPUs are the "
       "site's, or gpu=NAME. Where nothing fits it says by how much and what would make it fit; where no server meets "
       "the targets, how near the nearest comes (both end with 6). All keys: reference/questions.md.",
       {"longhaul serving recipe=llama3-8b model.vocab_size=128256 gpus=4 itl_max=30ms --site leonardo-booster",
        "longhaul serving --workflow my.toml gpu=H100 goal=latency concurrency=8 weights=bf16,fp8 gpus=8",
        "longhaul serving --question chat.toml --site alps-clariden --json"},
       {invalid_input, not_found, system}},
      {Command::size,
       "size",
       "longhaul size KEY=VALUE... [options]",
       "which model a budget buys: parameters, tokens, days and GPUs from each other",
       "Of parameters, tokens, days, gpus and the rate of a GPU (tflops, or mfu as a share of its peak) any one is "
       "found "
       "from the others; parameters and tokens together by the law of least loss, or with tokens_per_parameter. "
       "Without a rate it is the one that the search predicts for the very shape that is found, on the GPUs of the "
       "site "
       "or gpu=NAME. Prints the shape with the loss to expect and where that comes from, days, GPU-hours, and a "
       "pretrain "
       "stage to paste, with its layout. Numbers may end in K, M, B or T. All keys: reference/questions.md.",
       {"longhaul size days=30 gpus=1024 --site alps-clariden",
        "longhaul size parameters=8B tokens=2T gpus=512 gpu=H100",
        "longhaul size parameters=70B days=60 gpu=H100 mfu=0.4 tokens_per_parameter=20"},
       {invalid_input, not_found, system}},
  };
}

}  // namespace longhaul
