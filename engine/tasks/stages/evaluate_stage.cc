#include <algorithm>
#include <memory>
#include <optional>

#include "base/files/files.h"
#include "base/text/text.h"
#include "contracts/evaluation/task_folder.h"
#include "engine/data/template/end_tokens.h"
#include "engine/data/template/post_processor.h"
#include "engine/model/store/model_folder.h"
#include "engine/parallel/mesh/rank_share.h"
#include "engine/tasks/common/heldout_documents.h"
#include "engine/tasks/common/measure.h"
#include "engine/tasks/common/parity_commands.h"
#include "engine/tasks/common/token_files.h"
#include "engine/tasks/harness/group_scores.h"
#include "engine/tasks/harness/measure_task.h"
#include "engine/tasks/rewards/measure_rewards.h"
#include "engine/tasks/rewards/reward_model.h"
#include "engine/tasks/stages/stages.h"

namespace longhaul {

namespace {

// Held-out data lies in a folder or is a list of files, distinguished by their names.
Result<std::string> data_file(const TaskRun& run, const std::vector<std::string>& names) {
  const TaskInput* input = run.task.input("data");
  if (!input)
    return make_error(ErrorCode::invalid_input, "the input 'data' is missing", "give a folder with " + names.front());
  for (const std::string& path : input->paths) {
    if (is_directory(path)) {
      auto found = find_data_file(path, names);
      if (found.ok()) return found;
    }
    if (std::find(names.begin(), names.end(), file_name(path)) != names.end()) return path;
  }
  if (input->paths.size() == 1 && !is_directory(input->paths.front())) return input->paths.front();  // of any name
  return make_error(ErrorCode::not_found, "the input 'data' holds none of " + join(names, ", "));
}

// Of data that has none of them a reward model ranks pairs.
std::vector<std::string> rated_file_names(const RewardForm& form) {
  if (form.method == "attributes") return {"ratings.jsonl", "ratings-heldout.jsonl"};
  if (form.method == "process") return {"steps.jsonl", "steps-heldout.jsonl"};
  return {};
}

Result<MeasuredItems> measure_built_in(TaskRun& run, ScoringModel& model, const std::string& task,
                                       const EvaluateSettings& settings) {
  if (task == "bits_per_byte") {
    LH_TRY(const std::string tokens, run.task.input_path("tokens"));
    LH_TRY(const std::vector<std::string> documents, heldout_documents(tokens));
    LH_TRY(std::vector<Figure> figures, measure_bits_per_byte(run, model, documents, settings.stride));
    return MeasuredItems{std::move(figures), {}};
  }
  if (task == "answer_loss") {
    LH_TRY(const std::string file, data_file(run, {"answers.jsonl", "heldout.jsonl"}));
    LH_TRY(std::vector<Figure> figures, measure_answer_loss(run, model, file, settings.ignore));
    return MeasuredItems{std::move(figures), {}};
  }
  if (task == "preference") {
    LH_TRY(const std::string file, data_file(run, {"pairs.jsonl", "pairs-heldout.jsonl"}));
    return measure_preferences(run, model, file, settings.ignore);
  }
  if (task == "reward") {
    LH_TRY(const RewardForm form, reward_form_of_folder(model.folder()));
    const std::vector<std::string> rated = rated_file_names(form);
    if (!rated.empty())
      if (const auto file = data_file(run, rated); file.ok())
        return measure_ratings(run, model, form, *file, settings.ignore);
    LH_TRY(const std::string file, data_file(run, {"pairs.jsonl", "pairs-heldout.jsonl"}));
    return measure_rewards(run, model, form, file, settings.ignore);
  }
  LH_TRY(const std::string file, data_file(run, {"choices.jsonl"}));
  return measure_choices(run, model, file);
}

// Every task that is asked: those without a file, and those that the files of the input `harness` describe.
struct AskedTasks {
  std::vector<std::string> built_in;
  std::vector<EvaluationTask> described;
  std::vector<EvaluationGroup> groups;
};

Result<AskedTasks> asked_tasks(const TaskRun& run, const EvaluateSettings& settings) {
  AskedTasks asked;
  std::vector<std::string> names;
  for (const std::string& task : settings.tasks) {
    const auto& known = built_in_evaluations();
    (std::find(known.begin(), known.end(), task) != known.end() ? asked.built_in : names).push_back(task);
  }
  if (names.empty()) return asked;
  const TaskInput* input = run.task.input("harness");
  if (!input)
    return make_error(ErrorCode::invalid_input,
                      format("the task '{}' is none of {}, and the input 'harness' is missing", names.front(),
                             join(built_in_evaluations(), ", ")));
  Diagnostics diagnostics;
  ChosenTasks chosen = choose_tasks(input->paths, names, diagnostics);
  asked.described = std::move(chosen.tasks), asked.groups = std::move(chosen.groups);
  check_code_is_allowed(asked.described, settings.run_code, diagnostics);
  LH_CHECK(diagnostics.to_status("nothing was measured"));
  return asked;
}

Status write_samples(TaskRun& run, const std::string& folder, const EvaluateSettings& settings) {
  if (settings.prompts.empty()) return {};
  run.section("samples");
  LH_CHECK(load_model_config(folder, AdapterParts::known));
  LH_TRY(const Tokenizer tokenizer, Tokenizer::load(join_path(folder, "tokenizer.json")));
  LH_TRY(const PostProcessor around, PostProcessor::create(tokenizer, join_path(folder, "tokenizer.json")));
  LH_TRY(const ModelTokens named, tokens_of_folder(folder, tokenizer));
  std::vector<std::vector<std::int32_t>> prompts;
  std::int64_t longest = 0;
  for (const std::string& prompt : settings.prompts) {
    LH_TRY(std::vector<std::int32_t> text, tokenizer.encode(prompt, true));
    std::vector<std::int32_t> ids = around.around(std::move(text));
    prompts.push_back(std::move(ids));
    longest = std::max(longest, static_cast<std::int64_t>(prompts.back().size()));
  }
  LH_TRY(InferenceModel model,
         load_for_one(run.compute, folder, settings.precision == "bf16" ? DType::bf16 : DType::f32,
                      longest + settings.prompt_tokens, longest));
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const std::vector<std::int32_t>& ids = prompts[i];
    LH_TRY(const std::vector<std::int32_t> out,
           generate_greedy(run.compute, model, ids, settings.prompt_tokens, named.ends));
    Value fields = Value::make_table();
    fields.set("prompt", settings.prompts[i]);
    fields.set("text", repair_utf8(tokenizer.decode(out, true)));
    run.events.write("sample", std::move(fields));
  }
  return {};
}

// The model less the baseline, over the items that both were asked.
void add_differences(std::vector<Figure>& figures, const ItemScores& model, const ItemScores& baseline) {
  for (std::size_t i = 0; i < model.figures.size(); ++i) {
    const PairedCounts counts = count_pairs(model, baseline, i);
    const Interval interval = paired_interval(counts);
    const auto items = static_cast<double>(counts.items());
    const std::string name = model.figures[i] + "_difference";
    figures.push_back({name, static_cast<double>(counts.first_alone - counts.second_alone) / std::max(1.0, items), ""});
    figures.push_back({name + "_low", interval.low, ""});
    figures.push_back({name + "_high", interval.high, ""});
    if (i == 0) figures.push_back({model.compared, items, ""});
  }
  for (std::size_t i = 0; i < model.means.size(); ++i) {
    const std::vector<ItemAmount> differences = paired_differences(model, baseline, i);
    const WeightedMean mean = weighted_mean(differences);
    const Interval interval = normal_interval(mean);
    const std::string name = model.means[i] + "_difference";
    figures.push_back({name, mean.value, ""});
    figures.push_back({name + "_low", interval.low, ""});
    figures.push_back({name + "_high", interval.high, ""});
    if (i == 0 && model.figures.empty())
      figures.push_back({model.compared, static_cast<double>(differences.size()), ""});
  }
}

// Tasks of a group with their scores. `all`: of the built-in tasks, then of those described.
std::vector<GroupTask> tasks_of(const EvaluationGroup& group, const AskedTasks& asked,
                                const std::vector<MeasuredItems>& all) {
  std::vector<GroupTask> made;
  for (std::size_t i = 0; i < asked.described.size(); ++i)
    if (std::ranges::count(group.tasks, asked.described[i].name) > 0)
      made.push_back({&asked.described[i], &all[asked.built_in.size() + i].scores});
  return made;
}

void add_groups(const AskedTasks& asked, std::vector<MeasuredItems>& all) {
  std::vector<MeasuredItems> groups;
  for (const EvaluationGroup& group : asked.groups)
    groups.push_back({group_figures(group, tasks_of(group, asked, all)), {}});
  for (MeasuredItems& group : groups) all.push_back(std::move(group));
}

// What tasks have together that were named by a tag. `all`: of the built-in tasks, then of those described.
void add_tags(const EvaluateSettings& settings, const AskedTasks& asked, std::vector<MeasuredItems>& all) {
  const std::size_t first = asked.built_in.size();
  std::vector<MeasuredItems> tags;
  for (const std::string& name : settings.tasks) {
    std::vector<const ItemScores*> tagged;
    bool is_task = false;
    for (std::size_t i = 0; i < asked.described.size(); ++i) {
      const EvaluationTask& task = asked.described[i];
      is_task = is_task || task.name == name;
      if (std::ranges::count(task.tags, name) > 0) tagged.push_back(&all[first + i].scores);
    }
    if (!is_task && !tagged.empty()) tags.push_back({pooled_figures(name, tagged), pooled_scores(name, tagged)});
  }
  for (MeasuredItems& tag : tags) all.push_back(std::move(tag));
}

// All tasks by the model of one input; `samples` grows by their lines.
Result<std::vector<MeasuredItems>> measure_tasks(TaskRun& run, EvaluatedModel& model, const std::string& input,
                                                 const EvaluateSettings& settings, const AskedTasks& asked,
                                                 const ScoringTools& tools, std::string& samples) {
  std::vector<MeasuredItems> all;
  const auto keep = [&](const std::string& task, MeasuredItems measured) {
    samples += sample_lines(measured.scores, input, task);
    all.push_back(std::move(measured));
  };
  for (const std::string& task : asked.built_in) {
    LH_TRY(ScoringModel* const scoring, model.scoring());
    LH_TRY(MeasuredItems measured, measure_built_in(run, *scoring, task, settings).with_context(task));
    keep(task, std::move(measured));
  }
  std::optional<ChatTemplate> turns;
  if (settings.chat_template && !asked.described.empty()) {
    LH_TRY(turns, ChatTemplate::load(model.folder()));
    if (!turns)
      return make_error(ErrorCode::invalid_input, model.folder() + " has no chat template", "leave out chat_template");
  }
  const TaskChat chat{turns ? &*turns : nullptr, settings.examples_as_turns};
  for (const EvaluationTask& task : asked.described) {
    LH_TRY(MeasuredItems measured, measure_task(run, model, task, chat, tools).with_context(task.name));
    keep(task.name, std::move(measured));
  }
  add_tags(settings, asked, all);
  add_groups(asked, all);
  return all;
}

// Each rank its share.
Result<std::vector<ProgramVerdict>> judge_on_ranks(TaskRun& run, const ProgramTests& tests,
                                                   const std::vector<TestedProgram>& programs) {
  const RankShare share(run.group, programs.size());
  std::vector<TestedProgram> mine;
  for (const std::size_t i : share.mine()) mine.push_back(programs[i]);
  const auto verdicts = tests.judge_all(mine, run.compute.threads(), [&](std::size_t done) {
    run.section("test programs");
    run.events.progress(static_cast<double>(done), static_cast<double>(mine.size()), "programs");
  });
  Result<std::vector<std::string>> texts = std::vector<std::string>();
  if (!verdicts.ok()) texts = verdicts.error();
  if (verdicts.ok())
    for (const ProgramVerdict& one : *verdicts) texts->push_back((one.passed ? "+" : "-") + one.why);
  LH_TRY(const std::vector<std::string> all, share.gather(texts));
  std::vector<ProgramVerdict> made;
  for (const std::string& text : all) made.push_back({text.front() == '+', text.substr(1)});
  return made;
}

// Programs are tried before anything is asked: that they cannot be run here is said at once.
Result<ScoringTools> scoring_tools(TaskRun& run, const EvaluateSettings& settings, const AskedTasks& asked) {
  ScoringTools tools;
  if (!std::ranges::any_of(asked.described, &EvaluationTask::runs_code)) return tools;
  const auto tests = ProgramTests::create(settings.python).with_context("run_code");
  LH_CHECK(run.group.agree(tests.ok() ? Status() : Status(tests.error())));
  report_missing_limits(run.events);
  tools.judge = [&run, tests = *tests](const std::vector<TestedProgram>& programs) {
    return judge_on_ranks(run, tests, programs);
  };
  return tools;
}

// Values and steps are compared with those of a model that says the same; pairs with those of any.
Status check_reward_baseline(const TaskRun& run, const EvaluateSettings& settings) {
  if (!measures_rewards(settings) || !run.task.input("baseline")) return {};
  LH_TRY(const std::string model, run.task.input_path("model"));
  LH_TRY(const std::string baseline, run.task.input_path("baseline"));
  LH_TRY(const RewardForm mine, reward_form_of_folder(model));
  LH_TRY(const RewardForm other, reward_form_of_folder(baseline));
  const auto has_file = [&](const RewardForm& form) {
    const std::vector<std::string> names = rated_file_names(form);
    return !names.empty() && data_file(run, names).ok();
  };
  if (mine == other || (!has_file(mine) && !has_file(other))) return {};
  return make_error(ErrorCode::invalid_input,
                    format("the numbers of {} and of the baseline {} mean different things", model, baseline),
                    "compare reward models of the same method, attributes and steps; or give pairs.jsonl alone");
}

}  // namespace

Status run_evaluate(TaskRun& run) {
  LH_TRY(const EvaluateSettings settings, run.settings(evaluate_fields()));
  LH_CHECK(check_evaluate(settings));
  LH_TRY(const AskedTasks asked, asked_tasks(run, settings));
  LH_CHECK(check_reward_baseline(run, settings));
  LH_TRY(const ScoringTools tools, scoring_tools(run, settings, asked));
  std::vector<Figure> figures;
  std::vector<MeasuredItems> of_model;
  std::string samples;
  for (const char* input : {"model", "baseline"}) {
    const bool is_baseline = std::string(input) == "baseline";
    if (is_baseline && !run.task.input("baseline")) continue;
    LH_TRY(const std::string folder, run.task.input_path(input));
    auto model = std::make_unique<EvaluatedModel>(run, folder, settings);
    LH_TRY(std::vector<MeasuredItems> measured, measure_tasks(run, *model, input, settings, asked, tools, samples));
    for (const MeasuredItems& task : measured)
      for (const Figure& figure : task.figures)
        figures.push_back({is_baseline ? "baseline_" + figure.name : figure.name, figure.value, figure.unit});
    for (std::size_t i = 0; is_baseline && i < measured.size(); ++i)
      add_differences(figures, of_model[i].scores, measured[i].scores);
    for (const EvaluationGroup& group : asked.groups)
      if (is_baseline)
        for (Figure& figure :
             group_differences(group, tasks_of(group, asked, of_model), tasks_of(group, asked, measured)))
          figures.push_back(std::move(figure));
    if (!is_baseline) of_model = std::move(measured);
    model.reset();  // its memory is the next one's
    if (!is_baseline) LH_CHECK(write_samples(run, folder, settings));
  }
  if (!samples.empty() && run.is_first())
    LH_CHECK(write_file_atomic(join_path(run.launch.output_dir, "samples.jsonl"), samples));
  return write_figures(run, figures);
}

}  // namespace longhaul
