// Settings of the stage kind `sample`: answers that a model draws to prompts, what each is worth, and which of them are
// kept.
#pragma once

#include "contracts/settings/stages/alignment.h"

namespace longhaul {

// What a judge is asked: which of two answers a constitution, a text of principles, prefers. The judge says "A" or "B".
// The template has {prompt}, {answer_a} and {answer_b}, and {constitution} where one is given (the input
// `constitution`).
struct JudgeSettings {
  std::string question =
      "{constitution}\n\nWhich of two answers follows these principles better?\n\n{prompt}\n\nA: {answer_a}\n\nB: "
      "{answer_b}\n\nSay A or B.";
  bool operator==(const JudgeSettings&) const = default;
};

struct SampleSettings {
  std::int64_t samples = 8;  // answers to a prompt
  double temperature = 1, top_p = 1;
  std::int64_t max_new_tokens = 64;  // of an answer, the token that ends it included
  std::int64_t slots = 64;           // answers that are generated at the same time, on each rank
  std::string keep = "all";          // | best | pairs
  double reward_above = 0;           // of best
  double margin_above = 0;           // of pairs
  RewardSettings reward;             // also of the kind judge
  JudgeSettings judge;
  std::string precision = "bf16";  // | f32
  std::int64_t seed = 0;
  std::vector<std::string> ignore;  // keys of rows that are not used
};
const FieldTable<SampleSettings>& sample_fields();

// Which of the inputs that a reward may need are given.
struct SampleInputs {
  bool reward = false, judge = false, constitution = false;
};
// Settings that do not go together, with each other or with the inputs.
std::vector<AlignmentProblem> sample_problems(const SampleSettings& settings, const SampleInputs& inputs);
// All of them as one error (invalid_input).
Status check_sample(const SampleSettings& settings, const SampleInputs& inputs);

}  // namespace longhaul
