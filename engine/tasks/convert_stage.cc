#include "base/files.h"
#include "base/text.h"
#include "contracts/settings/inference.h"
#include "engine/model/model_folder.h"
#include "engine/tasks/stages.h"

namespace longhaul {

// Our model artifacts are Hugging Face folders already, so both directions read one and write one: weights checked
// against config.json, in the type asked for, config.json in the form that old and new readers agree on.
Status run_convert(TaskRun& run) {
  LH_TRY(const ConvertSettings settings, run.settings(convert_fields()));
  LH_TRY(const std::string model, run.task.input_path("model"));
  LH_TRY(const HfConfig config, load_model_config(model));
  run.section("load");
  ParameterStore store(config.shape, DType::f32);
  LH_CHECK(load_model_weights(run.compute, model, store));
  run.events.progress(1, 2, "passes");
  run.section("export");
  ModelFolderOptions options;
  options.dtype = settings.dtype;
  options.config = config;
  options.tokenizer_folder = file_exists(join_path(model, "tokenizer.json")) ? model : "";
  LH_CHECK(write_model_folder(run.launch.output_dir, store, options));
  run.events.progress(2, 2, "passes");
  return write_figures(run, {{"parameters", static_cast<double>(config.shape.parameter_count()), ""}});
}

}  // namespace longhaul
