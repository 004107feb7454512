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

Result<std::vector<Figure>> measure(TaskRun& run, ScoringModel& model, const std::string& task,
                                    const EvaluateSettings& settings) {
  if (task == "bits_per_byte") {
    LH_TRY(const std::string tokens, run.task.input_path("tokens"));
    LH_TRY(const std::vector<std::string> documents, heldout_documents(tokens));
    return measure_bits_per_byte(run, model, documents, settings.stride);
  }
  if (task == "answer_loss") {
    LH_TRY(const std::string file, data_file(run, {"answers.jsonl", "heldout.jsonl"}));
    return measure_answer_loss(run, model, file, settings.ignore);
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

}  // namespace

Status run_evaluate(TaskRun& run) {
  LH_TRY(const EvaluateSettings settings, run.settings(evaluate_fields()));
  std::vector<Figure> figures;
  for (const char* input : {"model", "baseline"}) {
    const bool is_baseline = std::string(input) == "baseline";
    if (is_baseline && !run.task.input("baseline")) continue;
    LH_TRY(const std::string folder, run.task.input_path(input));
    run.section("load");
    LH_TRY(std::unique_ptr<ScoringModel> model,
           ScoringModel::load(run, folder, settings.precision, settings.context_length));
    for (const std::string& task : settings.tasks) {
      LH_TRY(std::vector<Figure> measured, measure(run, *model, task, settings).with_context(task));
      for (Figure& figure : measured) {
        if (is_baseline) figure.name = "baseline_" + figure.name;
        figures.push_back(std::move(figure));
      }
    }
    model.reset();  // its memory is the next one's
    if (!is_baseline) LH_CHECK(write_samples(run, folder, settings));
  }
  return write_figures(run, figures);
}

}  // namespace longhaul
