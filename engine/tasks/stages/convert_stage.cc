#include "base/files/files.h"
#include "base/text/text.h"
#include "contracts/settings/stages/inference.h"
#include "engine/model/store/adapter_merge.h"
#include "engine/model/store/model_folder.h"
#include "engine/parallel/mesh/box_copy.h"
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
  // One parameter after the other: models of any size.
  LH_TRY(const ModelFolderReader reader, ModelFolderReader::open(model, config.shape));
  LH_TRY(ModelFolderWriter writer, ModelFolderWriter::create(run.launch.output_dir, options));
  const std::vector<ParameterSpec> parameters = parameter_list(config.shape);
  std::vector<float> values;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const ParameterSpec& spec = parameters[i];
    values.resize(static_cast<std::size_t>(spec.elements()));
    LH_CHECK(reader.read(spec, whole_box(spec.shape), values));
    if (adapter) LH_CHECK(adapter->merge(spec, values));
    LH_CHECK(writer.add(spec.name, values));
    run.events.progress(static_cast<double>(i + 1), static_cast<double>(parameters.size()), "tensors");
  }
  LH_CHECK(writer.finish());
  std::vector<Figure> figures = {{"parameters", static_cast<double>(config.shape.parameter_count()), ""}};
  if (adapter) figures.push_back({"merged_tensors", static_cast<double>(adapter->tensors()), ""});
  return write_figures(run, figures);
}

}  // namespace longhaul
