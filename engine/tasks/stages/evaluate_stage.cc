#include <algorithm>

#include "base/files/files.h"
#include "base/text/text.h"
#include "engine/data/template/end_tokens.h"
#include "engine/data/template/post_processor.h"
#include "engine/model/store/model_folder.h"
#include "engine/tasks/common/heldout_documents.h"
#include "engine/tasks/common/measure.h"
#include "engine/tasks/common/parity_commands.h"
#include "engine/tasks/common/token_files.h"
#include "engine/tasks/stages/stages.h"

namespace longhaul {

namespace {

// Held-out data lies in a folder or is a list of files, told apart by their names.
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
  return make_error(ErrorCode::not_found, "the input 'data' holds none of " + join(names, ", "));
}

Result<MeasuredItems> measure(TaskRun& run, ScoringModel& model, const std::string& task,
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
  LH_TRY(const std::string file, data_file(run, {"choices.jsonl"}));
  return measure_choices(run, model, file);
}

Status write_samples(TaskRun& run, const std::string& folder, const EvaluateSettings& settings) {
  if (settings.prompts.empty()) return {};
  run.section("samples");
  LH_CHECK(load_model_config(folder));
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
}

// All tasks by the model of one input; `samples` grows by their lines.
Result<std::vector<MeasuredItems>> measure_tasks(TaskRun& run, ScoringModel& model, const std::string& input,
                                                 const EvaluateSettings& settings, std::string& samples) {
  std::vector<MeasuredItems> all;
  for (const std::string& task : settings.tasks) {
    LH_TRY(MeasuredItems measured, measure(run, model, task, settings).with_context(task));
    samples += sample_lines(measured.scores, input, task);
    all.push_back(std::move(measured));
  }
  return all;
}

}  // namespace

Status run_evaluate(TaskRun& run) {
  LH_TRY(const EvaluateSettings settings, run.settings(evaluate_fields()));
  std::vector<Figure> figures;
  std::vector<MeasuredItems> of_model;
  std::string samples;
  for (const char* input : {"model", "baseline"}) {
    const bool is_baseline = std::string(input) == "baseline";
    if (is_baseline && !run.task.input("baseline")) continue;
    LH_TRY(const std::string folder, run.task.input_path(input));
    run.section("load");
    LH_TRY(std::unique_ptr<ScoringModel> model,
           ScoringModel::load(run, folder, settings.precision, settings.context_length));
    LH_TRY(std::vector<MeasuredItems> measured, measure_tasks(run, *model, input, settings, samples));
    for (const MeasuredItems& task : measured)
      for (const Figure& figure : task.figures)
        figures.push_back({is_baseline ? "baseline_" + figure.name : figure.name, figure.value, figure.unit});
    for (std::size_t i = 0; is_baseline && i < measured.size(); ++i)
      add_differences(figures, of_model[i].scores, measured[i].scores);
    if (!is_baseline) of_model = std::move(measured);
    model.reset();  // its memory is the next one's
    if (!is_baseline) LH_CHECK(write_samples(run, folder, settings));
  }
  if (!samples.empty() && run.is_first())
    LH_CHECK(write_file_atomic(join_path(run.launch.output_dir, "samples.jsonl"), samples));
  return write_figures(run, figures);
}

}  // namespace longhaul
