#include "base/files/files.h"
#include "base/text/text.h"
#include "contracts/settings/stages/inference.h"
#include "engine/model/store/adapter_merge.h"
#include "engine/tasks/stages/stages.h"

namespace longhaul {

// Our model artifacts are Hugging Face folders already, so both directions read one and write one: weights checked
// against config.json, in the type asked for, config.json in the form that old and new readers agree on; with an
// adapter, which is merged into them.
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
  if (run.task.input("adapter")) {
    LH_TRY(const std::string folder, run.task.input_path("adapter"));
    LH_TRY(adapter, AdapterMerge::open(folder, config.shape));
  }
  LH_CHECK(copy_model(model, {adapter ? &*adapter : nullptr}, options, run.launch.output_dir,
                      [&](std::size_t done, std::size_t of) {
                        run.events.progress(static_cast<double>(done), static_cast<double>(of), "tensors");
                      }));
  std::vector<Figure> figures = {{"parameters", static_cast<double>(config.shape.parameter_count()), ""}};
  if (adapter) figures.push_back({"merged_tensors", static_cast<double>(adapter->tensors()), ""});
  return write_figures(run, figures);
}

}  // namespace longhaul
