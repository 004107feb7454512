#include "contracts/settings/stages/sample.h"

#include <functional>

#include "base/text/text.h"

namespace longhaul {

namespace {

const FieldTable<JudgeSettings>& judge_fields() {
  using J = JudgeSettings;
  static const auto table =
      FieldTable<J>().field("question", &J::question,
                            {.help = "what the judge is asked, with {constitution}, {prompt}, {answer_a} and "
                                     "{answer_b}; it has to be answered by A or B"});
  return table;
}

bool has_text(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

using Unless = std::function<void(bool fine, const char* key, std::string what, std::string hint)>;

void check_kept(const SampleSettings& s, const Unless& unless) {
  const SampleSettings plain;
  unless(s.keep != "pairs" || s.samples >= 2, "samples", "keep = \"pairs\" with samples = 1: there is nothing to pair",
         "2 or more; 8 is usual");
  unless(s.samples == 1 || s.temperature > 0, "temperature",
         format("temperature = 0 with samples = {}: all answers to a prompt would be the same", s.samples),
         "use samples = 1, or a temperature above 0");
  unless(s.keep == "best" || s.reward_above == plain.reward_above, "reward_above",
         format("reward_above means nothing with keep = \"{}\"", s.keep), "leave it out; it goes with best");
  unless(s.keep == "pairs" || s.margin_above == plain.margin_above, "margin_above",
         format("margin_above means nothing with keep = \"{}\"", s.keep), "leave it out; it goes with pairs");
}

// A kind of reward and the input that it asks: neither means anything without the other.
void check_asked(const SampleSettings& s, const char* kind, const char* input, bool given, const char* made_by,
                 const Unless& unless) {
  const bool asked = s.reward.kind == kind;
  unless(!asked || given, "reward", format("reward.kind = \"{}\" without the input '{}'", kind, input),
         format("give inputs.{}, {}", input, made_by));
  unless(asked || !given, "inputs", format("the input '{}' means nothing without reward.kind = \"{}\"", input, kind),
         format("leave it out, or set reward = {{ kind = \"{}\" }}", kind));
}

void check_judge(const SampleSettings& s, const SampleInputs& inputs, const Unless& unless) {
  check_asked(s, "model", "reward", inputs.reward, "the artifact of a stage of the kind reward", unless);
  check_asked(s, "judge", "judge", inputs.judge, "the language model that judges", unless);
  if (s.reward.kind != "judge") {
    unless(s.judge == JudgeSettings(), "judge", format("judge means nothing with reward.kind = \"{}\"", s.reward.kind),
           "leave it out, or set reward = { kind = \"judge\" }");
    unless(!inputs.constitution, "inputs", "the input 'constitution' means nothing without reward.kind = \"judge\"",
           "leave it out, or set reward = { kind = \"judge\" }");
    return;
  }
  unless(s.samples >= 2, "samples", "reward.kind = \"judge\" with samples = 1: a judge compares answers to one prompt",
         "2 or more");
  for (const char* part : {"{prompt}", "{answer_a}", "{answer_b}"})
    unless(has_text(s.judge.question, part), "judge", format("judge.question has no {}", part),
           "the judge has to see the prompt and both answers");
  const bool named = has_text(s.judge.question, "{constitution}");
  unless(!named || inputs.constitution, "judge", "judge.question names {constitution}, and there is none",
         "give inputs.constitution, a file of text, or a judge.question without it");
  unless(named || !inputs.constitution, "judge", "judge.question leaves the constitution out", "add {constitution}");
}

}  // namespace

const FieldTable<SampleSettings>& sample_fields() {
  using S = SampleSettings;
  static const FieldTable<RewardSettings> rewards = reward_fields(
      "the reward model of inputs.reward (model), or how likely the language model of inputs.judge "
      "prefers it to the other answers (judge)",
      {"model", "judge"});
  static const auto table =
      FieldTable<S>()
          .field("samples", &S::samples, {.help = "answers to each prompt", .min = 1, .max = 4096})
          .field("temperature", &S::temperature, {.help = "of the draws; 0 takes the likeliest", .min = 0, .max = 2})
          .field("top_p", &S::top_p,
                 {.help = "draws are from the likeliest tokens that reach this probability together",
                  .min = 1e-6,
                  .max = 1})
          .field("max_new_tokens", &S::max_new_tokens, {.unit = "tokens", .help = "longest answer", .min = 1})
          .field("slots", &S::slots,
                 {.help = "answers that a rank generates at the same time, each with its cache", .min = 1, .max = 4096})
          .field("keep", &S::keep,
                 {.help = "what the artifact holds: every answer with its reward (all: samples.jsonl), the best one to "
                          "each prompt as rows of sft (best: train.jsonl), or the best and the worst as pairs of align "
                          "and reward (pairs: pairs.jsonl)",
                  .choices = {"all", "best", "pairs"}})
          .field("reward_above", &S::reward_above,
                 {.help = "best: an answer is kept where its reward is above this", .min = -1e30, .max = 1e30})
          .field("margin_above", &S::margin_above,
                 {.help = "pairs: kept where the rewards are further apart than this", .min = 0, .max = 1e30})
          .group("reward", &S::reward, rewards, "what an answer is worth")
          .group("judge", &S::judge, judge_fields(), "reward.kind = \"judge\": how it is asked")
          .field("precision", &S::precision, {.help = "type of the matrix products", .choices = {"bf16", "f32"}})
          .field("seed", &S::seed, {.help = "of the draws", .min = 0})
          .field("ignore", &S::ignore,
                 {.help = "keys of rows that are not used; others that are not known are refused"});
  return table;
}

std::vector<AlignmentProblem> sample_problems(const SampleSettings& s, const SampleInputs& inputs) {
  std::vector<AlignmentProblem> problems = reward_problems(s.reward);
  const auto unless = [&](bool fine, const char* key, std::string what, std::string hint) {
    if (!fine) problems.push_back({key, std::move(what), std::move(hint)});
  };
  check_kept(s, unless);
  check_judge(s, inputs, unless);
  return problems;
}

Status check_sample(const SampleSettings& settings, const SampleInputs& inputs) {
  return as_one_error(sample_problems(settings, inputs));
}

}  // namespace longhaul
