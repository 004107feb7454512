#include "contracts/tasks/stage_kinds.h"

#include <algorithm>

#include "base/text/text.h"
#include "contracts/evaluation/task_folder.h"
#include "contracts/layout/parallel_dims.h"
#include "contracts/model/weight_decay.h"
#include "contracts/settings/stages/alignment.h"
#include "contracts/settings/stages/benchmark.h"
#include "contracts/settings/stages/command.h"
#include "contracts/settings/stages/curate.h"
#include "contracts/settings/stages/hyper_search.h"
#include "contracts/settings/stages/inference.h"
#include "contracts/settings/stages/reward_form.h"
#include "contracts/settings/stages/sample.h"
#include "contracts/settings/stages/tokenize.h"
#include "contracts/settings/stages/tune.h"
#include "contracts/settings/training/training.h"

namespace longhaul {
namespace {

template <class S>
StageKind kind_of(std::string name, int version, std::string help, std::vector<StageInput> inputs,
                  const FieldTable<S>& table) {
  StageKind kind;
  kind.name = std::move(name);
  kind.version = version;
  kind.help = std::move(help);
  kind.inputs = std::move(inputs);
  kind.fields = table.describe();
  kind.resolve = [&table](const Value& value, const std::string& where, const std::vector<std::string>& ignored,
                          Diagnostics& d) { return table.to_value(table.parse(value, where, d, ignored)); };
  return kind;
}

// A task that is no name of a built-in one is described in a file of the input `harness`.
void check_evaluated_tasks(const Value& table, const std::string& where, Diagnostics& d) {
  const Value *tasks = table.find("tasks"), *inputs = table.find("inputs");
  if (!tasks || !tasks->is_array() || (inputs && inputs->find("harness"))) return;
  const auto& known = built_in_evaluations();
  for (std::size_t i = 0; i < tasks->size(); ++i) {
    const Value& task = tasks->as_array()[i];
    // Settings that were resolved before have no places.
    if (!task.is_string() || task.pos.line == 0 || std::ranges::find(known, task.as_string()) != known.end()) continue;
    d.add(task.pos, format("{}.tasks[{}] = \"{}\" is not known", where, i, task.as_string()),
          "one of: " + join(known, ", ") + "; tasks of files need inputs.harness (docs/evaluation.md)");
  }
}

// Where the user wrote what an error is about: the innermost key that it names ("phase.main: tokens = 5 ...").
SourcePos place_of(const std::string& what, const Value& table) {
  const Value* at = &table;
  for (bool deeper = true; deeper && at->is_table();) {
    deeper = false;
    for (const ValueMember& member : at->as_table()) {
      const std::size_t found = what.find(member.key);
      if (found == std::string::npos || (found > 0 && what[found - 1] != '.' && what[found - 1] != ' ')) continue;
      const std::size_t end = found + member.key.size();
      if (end < what.size() && what[end] != '.' && what[end] != ':' && what[end] != ' ') continue;
      at = &member.value, deeper = true;
      break;
    }
  }
  return at->pos;
}

// Stages that train are also held to the rules between keys of their schedule.
template <class S>
StageKind training_kind_of(std::string name, int version, std::string help, std::vector<StageInput> inputs,
                           const FieldTable<S>& table) {
  StageKind kind = kind_of(std::move(name), version, std::move(help), std::move(inputs), table);
  kind.parallel = true;
  kind.resolve = [&table](const Value& value, const std::string& where, const std::vector<std::string>& ignored,
                          Diagnostics& d) {
    const std::size_t before = d.size();
    const S settings = table.parse(value, where, d, ignored);
    if (d.size() > before) return table.to_value(settings);  // a refused value stands at its default
    const auto hold = [&](const Status& status, const char* key) {
      const Value* at = value.find(key);
      if (!status.ok()) d.add((at ? *at : value).pos, where + ": " + status.error().what, status.error().hint);
    };
    hold(check_lr_schedule(settings.optimizer, settings.steps), "optimizer");
    hold(check_no_decay(settings.optimizer.no_decay), "optimizer");
    hold(check_moments(settings.optimizer), "optimizer");
    hold(check_adapter(settings.adapter), "adapter");
    if constexpr (std::is_same_v<S, PretrainSettings>) {
      hold(check_blend(settings.blend, settings.blend_weights), "blend_weights");
      const Value* given = value.find("inputs");
      const bool own_model = !given || !given->find("model");
      if (const Status status = check_pretraining(settings, own_model); !status.ok())
        d.add(place_of(status.error().what, value), where + ": " + status.error().what, status.error().hint);
    }
    if constexpr (std::is_same_v<S, RewardModelSettings>)
      for (const RewardModelProblem& problem : reward_model_problems(settings)) {
        const Value* at = value.find(problem.key);
        d.add((at ? *at : value).pos, where + ": " + problem.what, problem.hint);
      }
    if constexpr (std::is_same_v<S, AlignSettings>) {
      for (const AlignmentProblem& problem : alignment_problems(settings)) {
        const Value* at = value.find(problem.key);
        d.add((at ? *at : value).pos, where + ": " + problem.what, problem.hint);
      }
      const Value *given = value.find("inputs"), *at = value.find("reward");
      hold(check_reward_input(settings, given && given->find("reward")), at ? "reward" : "inputs");
      hold(check_teacher_input(settings, given && given->find("teacher")), "inputs");
    }
    return table.to_value(settings);
  };
  return kind;
}

// Its candidates are tables of another stage's keys: the planner reads them with that stage.
StageKind tune_kind() {
  StageKind kind =
      kind_of("tune", 1, "finds the fastest layout of a training stage by short trials", {}, tune_fields());
  kind.parallel = true;  // its jobs are those of the stage that it is for
  FieldInfo candidates_field;
  candidates_field.name = tune_candidates_key;
  candidates_field.type = "list of tables";
  candidates_field.options.help =
      "layouts to try, in this order: each with the keys of the stage that differ, and a `name` if you like; without "
      "them a search finds them";
  kind.fields.push_back(std::move(candidates_field));
  kind.resolve = [](const Value& value, const std::string& where, const std::vector<std::string>& ignored,
                    Diagnostics& d) {
    std::vector<std::string> others = ignored;
    others.emplace_back(tune_candidates_key);
    const std::size_t before = d.size();
    const TuneSettings settings = tune_fields().parse(value, where, d, others);
    Value resolved = tune_fields().to_value(settings);
    if (d.size() == before)
      if (const Status fits = check_tune(settings); !fits.ok()) {
        const Value* at = value.find("steps") ? value.find("steps") : value.find("warmup_steps");
        d.add((at ? *at : value).pos, where + ": " + fits.error().what, fits.error().hint);
      }
    const Value* candidates = value.find(tune_candidates_key);
    const auto is_table = [](const Value& one) { return one.is_table(); };
    if (candidates && (!candidates->is_array() || candidates->size() == 0 ||
                       !std::all_of(candidates->as_array().begin(), candidates->as_array().end(), is_table)))
      d.add(candidates->pos, where + "." + tune_candidates_key + " is not a list of tables",
            "for example candidates = [{ parallel = { tp = 2 } }, { parallel = { dp_shard = 2 } }]");
    else if (candidates)
      resolved.set(tune_candidates_key, *candidates);
    return resolved;
  };
  return kind;
}

// The planner holds its space to the settings of the stage that it is for.
StageKind search_kind() {
  StageKind kind =
      kind_of(search_kind_name, 1, "finds hyperparameters of a training stage: many trials begin, the best go on", {},
              hyper_search_fields());
  kind.parallel = true;  // its jobs are those of the stage that it is for
  FieldInfo space_field;
  space_field.name = search_space_key;
  space_field.type = "table of tables";
  space_field.options.required = true;
  space_field.options.help =
      "[stage.NAME.space.\"optimizer.lr\"] with min, max, scale (linear, log) and step, or with values; also "
      "\"params.NAME\"";
  kind.fields.push_back(std::move(space_field));
  FieldInfo trial_field;
  trial_field.name = search_trial_key;
  trial_field.type = "table";
  trial_field.options.help =
      "settings that trials have instead of the stage's: { optimizer = { lr_schedule = \"constant\" } }";
  kind.fields.push_back(std::move(trial_field));
  kind.resolve = [](const Value& value, const std::string& where, const std::vector<std::string>& ignored,
                    Diagnostics& d) {
    std::vector<std::string> others = ignored;
    others.emplace_back(search_trial_key);
    Value resolved = hyper_search_to_value(parse_hyper_search(value, where, d, others, false));
    const Value* trial = value.find(search_trial_key);
    if (trial && !trial->is_table())
      d.add(trial->pos, where + "." + search_trial_key + " is " + trial->kind_name() + ", expected a table",
            "for example { optimizer = { lr_schedule = \"constant\" } }");
    else if (trial)
      resolved.set(search_trial_key, *trial);
    return resolved;
  };
  return kind;
}

// A size that cannot be read is reported at the place of the list.
StageKind benchmark_kind() {
  StageKind kind =
      kind_of("benchmark", 1, "times products, memory and messages of the ranks it is given", {}, benchmark_fields());
  kind.parallel = true;
  kind.resolve = [](const Value& value, const std::string& where, const std::vector<std::string>& ignored,
                    Diagnostics& d) {
    const std::size_t before = d.size();
    const BenchmarkSettings settings = benchmark_fields().parse(value, where, d, ignored);
    if (d.size() == before)
      if (const Status fits = check_benchmark(settings); !fits.ok())
        d.add(value.pos, where + ": " + fits.error().what, fits.error().hint);
    return benchmark_fields().to_value(settings);
  };
  return kind;
}

StageKind sample_kind(const std::vector<std::string>& models) {
  StageKind kind = kind_of(
      "sample", 1, "draws answers of a model to prompts, judges them, and keeps all, the best ones, or pairs",
      {{"model", models, true, true, "the model that answers"},
       {"data", {"command"}, true, true, "JSONL of {prompt, answer} or {messages, answer}"},
       {"reward", {"reward"}, true, false, "with reward.kind = \"model\": the reward model that judges answers"},
       {"judge", models, true, false, "with reward.kind = \"judge\": the language model that compares answers"},
       {"constitution", {"command"}, true, false, "a file of text: the principles that the judge goes by"}},
      sample_fields());
  kind.parallel = true;  // replicas, which share out the prompts
  kind.resolve = [](const Value& value, const std::string& where, const std::vector<std::string>& ignored,
                    Diagnostics& d) {
    const std::size_t before = d.size();
    const SampleSettings settings = sample_fields().parse(value, where, d, ignored);
    const Value* given = value.find("inputs");
    const auto has = [&](const char* input) { return given && given->find(input) != nullptr; };
    if (d.size() == before)
      for (const AlignmentProblem& problem :
           sample_problems(settings, {has("reward"), has("judge"), has("constitution")})) {
        const Value* at = value.find(problem.key);
        d.add((at ? *at : value).pos, where + ": " + problem.what, problem.hint);
      }
    return sample_fields().to_value(settings);
  };
  return kind;
}

std::vector<StageKind> make_kinds() {
  const std::vector<std::string> models = {"pretrain", "sft", "align", "convert", "quantize"};
  const std::vector<std::string> measured = {"pretrain", "sft", "align", "convert", "quantize", "reward"};
  const std::vector<std::string> trained = {"pretrain", "sft", "align", "convert"};
  const std::vector<std::string> judges = {"pretrain", "sft", "align", "convert", "reward"};
  std::vector<StageKind> kinds;
  kinds.push_back(kind_of("curate", 3, "raw pages to clean, deduplicated documents with a held-out part",
                          {{"documents", {"command"}, true, true, "files, folders or globs of HTML and text"}},
                          curate_fields()));
  kinds.push_back(
      kind_of("tokenize", 2, "documents to a byte-level BPE vocabulary and token files",
              {{"corpus", {"curate", "command"}, true, true, "a folder with documents.jsonl"},
               {"tokenizer", {"tokenize", "convert"}, true, false, "use this tokenizer.json instead of training one"}},
              tokenize_fields()));
  kinds.push_back(
      training_kind_of("pretrain", 1, "trains a language model on tokens",
                       {{"tokens", {"tokenize"}, true, true, "a folder with tokenizer.json and train.bin/.idx"},
                        {"model", trained, true, false, "start from these weights instead of random ones"}},
                       pretrain_fields()));
  kinds.back().blended = StageInput{"", {"tokenize"}, true, false, "further token files, of the same tokenizer"};
  kinds.push_back(training_kind_of("sft", 4, "supervised fine-tuning on instructions; loss on the answers only",
                                   {{"model", trained, true, true, "the model to tune"},
                                    {"data",
                                     {"command", "sample"},
                                     true,
                                     true,
                                     "JSONL of {input, output} or chat messages (train.jsonl in a folder)"},
                                    {"heldout", {"command"}, true, false, "JSONL for the held-out loss"}},
                                   sft_fields()));
  kinds.push_back(training_kind_of(
      "align", 3,
      "preference tuning (DPO, IPO, SimPO, ORPO and others), learning from rewards (GRPO, RLOO) or from a teacher",
      {{"model", trained, true, true, "the model to tune, and the reference"},
       {"data",
        {"command", "sample"},
        true,
        true,
        "JSONL of {prompt, chosen, rejected}; with kto {prompt, completion, label}, with rewards {prompt, answer}, "
        "with distill {prompt}"},
       {"heldout", {"command", "sample"}, true, false, "JSONL of held-out pairs or prompts"},
       {"reward", {"reward"}, true, false, "with reward.kind = \"model\": the reward model that judges answers"},
       {"teacher", trained, true, false,
        "with distill: the model whose probabilities are learnt, with the same tokenizer"}},
      align_fields()));
  kinds.push_back(
      training_kind_of("reward", 1, "trains a reward model: a number for an answer, larger for a better one",
                       {{"model", judges, true, true, "the model to start from, a language model or a reward model"},
                        {"data",
                         {"command", "sample"},
                         true,
                         true,
                         "JSONL of {prompt, chosen, rejected}, with `margin` or `category` if you like; of attributes "
                         "{prompt, response} with their values; of process {prompt, completions, labels}"},
                        {"heldout", {"command", "sample"}, true, false, "JSONL of held-out rows"}},
                       reward_model_fields()));
  kinds.push_back(sample_kind(models));
  kinds.push_back(kind_of(
      "evaluate", 3,
      "bits per byte, answer loss, preferences, multiple choice, reward models, tasks of lm-evaluation-harness",
      {{"model", measured, true, true, "the model to measure"},
       {"tokens", {"tokenize"}, true, false, "held-out texts (heldout.txt; heldout.bin/.idx say where documents end)"},
       {"data",
        {"command", "sample"},
        true,
        false,
        "held-out questions: answers.jsonl, pairs.jsonl, choices.jsonl, ratings.jsonl, steps.jsonl"},
       {"harness",
        {"command"},
        true,
        false,
        "tasks as YAML of lm-evaluation-harness, with their data (docs/evaluation.md)"},
       {"baseline", measured, true, false, "measured beside it"}},
      evaluate_fields()));
  kinds.back().resolve = [](const Value& value, const std::string& where, const std::vector<std::string>& ignored,
                            Diagnostics& d) {
    check_evaluated_tasks(value, where, d);
    return evaluate_fields().to_value(evaluate_fields().parse(value, where, d, ignored));
  };
  kinds.back().parallel = true;  // replicas, which share out what is asked
  kinds.push_back(kind_of("quantize", 2, "smaller weights for serving",
                          {{"model", trained, true, true, "the model to quantize"},
                           {"tokens", {"tokenize"}, true, false, "held-out text for the perplexity before and after"}},
                          quantize_fields()));
  kinds.push_back(kind_of(
      "convert", 2, "to and from the Hugging Face layout",
      {{"model", models, true, true, "a model of ours, or a folder with config.json and model.safetensors"},
       {"adapter",
        {"pretrain", "sft", "align", "command"},
        true,
        false,
        "an adapter of it in PEFT's files (\"@stage/adapter\" of a training), merged into the weights; a prompt "
        "stands before every text"}},
      convert_fields()));
  kinds.back().resolve = [](const Value& value, const std::string& where, const std::vector<std::string>& ignored,
                            Diagnostics& d) {
    const ConvertSettings settings = convert_fields().parse(value, where, d, ignored);
    const Value *given = value.find("inputs"), *at = value.find("unmerge");
    if (const Status fits = check_convert(settings, given && given->find("adapter")); !fits.ok())
      d.add((at ? *at : value).pos, where + ": " + fits.error().what, fits.error().hint);
    return convert_fields().to_value(settings);
  };
  kinds.push_back(kind_of("deploy", 1, "serves a model with an OpenAI-compatible interface",
                          {{"model", measured, true, true, "the model to serve; of a reward model its scores"}},
                          deploy_fields()));
  kinds.push_back(kind_of("command", 1, "runs a program of yours under the same worker", {}, command_fields()));
  kinds.back().any_inputs = true;
  kinds.back().parallel = true;
  kinds.push_back(tune_kind());
  kinds.push_back(search_kind());
  kinds.push_back(benchmark_kind());
  return kinds;
}

}  // namespace

const std::vector<StageKind>& stage_kinds() {
  static const std::vector<StageKind> kinds = make_kinds();
  return kinds;
}

const StageKind* find_stage_kind(const std::string& name) {
  for (const StageKind& kind : stage_kinds())
    if (kind.name == name) return &kind;
  return nullptr;
}

const FieldTable<StageCommon>& stage_common_fields() {
  using S = StageCommon;
  static const auto table =
      FieldTable<S>()
          .field("needs", &S::needs, {.help = "stages that must have ended well, beside those named by inputs"})
          .field("ranks", &S::ranks,
                 {.unit = "processes",
                  .help = "ranks of the job; not given, those that `parallel` multiplies up to",
                  .min = 1,
                  .max = ranks_max,
                  .speed_only = true})
          .field("threads", &S::threads,
                 {.unit = "threads", .help = "per rank; 0 shares the cores", .min = 0, .max = 4096, .speed_only = true})
          .field("nodes", &S::nodes, {.help = "nodes of the job", .min = 1, .max = 1e6, .speed_only = true})
          .field("time_limit", &S::time_limit,
                 {.help = "the job is ended after this time; 0s is no limit", .min = 0, .speed_only = true})
          .field("retries", &S::retries,
                 {.help = "further attempts after one that failed by itself; of a resumable stage, without progress in "
                          "between",
                  .min = 0,
                  .max = 100,
                  .speed_only = true})
          .field("infrastructure_retries", &S::infrastructure_retries,
                 {.help = "further attempts after node, boot and launch failures, without progress in between",
                  .min = 0,
                  .max = 1000,
                  .speed_only = true})
          .field("on_failure", &S::on_failure,
                 {.help = "what a failed stage does to the run",
                  .choices = {"stop", "continue", "skip-dependents"},
                  .speed_only = true})
          .group("job", &S::job, job_options_fields(), "what only a cluster's scheduler needs to know")
          .group("resiliency", &S::resiliency, resiliency_fields(), "what is done about faults inside a job");
  return table;
}

std::vector<std::string> workflow_stage_keys() {
  std::vector<std::string> keys = {"kind",   "inputs", "matrix", "best", "parallel", "hyperparameters",
                                   "recipe", "for",    "faults"};
  for (const FieldInfo& field : stage_common_fields().describe()) keys.push_back(field.name);
  return keys;
}

}  // namespace longhaul
