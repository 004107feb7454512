#include "base/files/files.h"
#include "base/text/text.h"
#include "contracts/settings/stages/inference.h"
#include "engine/model/store/adapter_merge.h"
#include "engine/model/store/learned_prompt.h"
#include "engine/tasks/stages/stages.h"

namespace longhaul {

namespace {

Result<ModelShape> with_prompt(ModelShape shape, const PeftPrompt& prompt, const std::string& folder) {
  shape.virtual_tokens = prompt.tokens, shape.virtual_keys = prompt.of_layers;
  if (prompt.width != prompt_width(shape))
    return make_error(ErrorCode::invalid_input,
                      format("{} is no adapter of this model: its {} {} elements, the model's {}", folder,
                             prompt.of_layers ? "keys and values of a token have" : "embeddings have", prompt.width,
                             prompt_width(shape)),
                      "take the model that it was trained on: base_model_name_or_path of its adapter_config.json");
  if (prompt.of_layers && shape.is_moe())
    return make_error(ErrorCode::unsupported,
                      folder + " has keys and values before every text, for a mixture of experts, which is not there",
                      "use an adapter of another kind");
  if (shape.text_length_max() < 1)
    return make_error(ErrorCode::invalid_input,
                      format("{} has {} before every text, and the model {} positions: there is no room for a text",
                             folder, virtual_tokens_text(shape), shape.max_position_embeddings),
                      "take the model that it was trained on");
  return shape;
}

}  // namespace

// Our model artifacts are Hugging Face folders already, so both directions read one and write one: weights checked
// against config.json, in the type asked for, config.json in the form that old and new readers agree on; with an
// adapter, which is merged into them or taken out of them or, where it is a prompt, stands beside them.
Status run_convert(TaskRun& run) {
  LH_TRY(const ConvertSettings settings, run.settings(convert_fields()));
  LH_TRY(const std::string model, run.task.input_path("model"));
  LH_TRY(const HfConfig config, load_model_config(model));
  run.section("export");
  ModelFolderOptions options;
  options.dtype = settings.dtype;
  options.config = config;
  options.tokenizer_folder = model;
  std::optional<AdapterMerge> adapter;
  std::optional<PeftPrompt> prompt;
  LH_CHECK(check_convert(settings, run.task.input("adapter") != nullptr));
  if (run.task.input("adapter")) {
    LH_TRY(const std::string folder, run.task.input_path("adapter"));
    LH_TRY(prompt, read_peft_prompt(folder));
    if (prompt && settings.unmerge)
      return make_error(ErrorCode::unsupported,
                        folder + " stands before every text: nothing of it was merged into weights",
                        "take the model without it");
    if (prompt) {
      LH_TRY(options.config.shape, with_prompt(config.shape, *prompt, folder));
    } else {
      LH_TRY(adapter, AdapterMerge::open(folder, config.shape,
                                         settings.unmerge ? AdapterMerge::Way::out : AdapterMerge::Way::in));
    }
  }
  const ModelChange change{adapter ? &*adapter : nullptr, {}, prompt ? prompt->values : std::span<const float>()};
  LH_CHECK(copy_model(model, change, options, run.launch.output_dir, [&](std::size_t done, std::size_t of) {
    run.events.progress(static_cast<double>(done), static_cast<double>(of), "tensors");
  }));
  std::vector<Figure> figures = {{"parameters", static_cast<double>(config.shape.parameter_count()), ""}};
  if (adapter) figures.push_back({"merged_tensors", static_cast<double>(adapter->tensors()), ""});
  return write_figures(run, figures);
}

}  // namespace longhaul
