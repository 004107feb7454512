#include "orchestrator/workflow/layout/stage_computing.h"

#include "base/files/files.h"
#include "base/text/text.h"
#include "contracts/settings/stages/command.h"
#include "contracts/settings/stages/hyper_search.h"
#include "contracts/settings/stages/tune.h"

namespace longhaul {
namespace {

constexpr const char* engine_program = "longhaul-engine";

template <class Program>
std::string program_name(const Program& program) {
  return program.argv.empty() ? "bash" : file_name(program.argv.front());
}

std::string command_program(const PlannedStage& stage) {
  Diagnostics reported;  // when it was planned
  const CommandSettings settings = command_fields().parse(stage.settings, "", reported);
  std::string text = settings.steps.empty() ? program_name(settings) : "steps ";
  for (std::size_t i = 0; i < settings.steps.size(); ++i)
    text += format("{}{} ({})", i == 0 ? "" : ", ", settings.steps[i].name, program_name(settings.steps[i]));
  const std::string& image = stage.common.job.container;
  return image.empty() ? text : text + " in " + image;
}

std::string precision_of(const std::string& kind, const Value& settings) {
  if (kind == "quantize") return settings.get_string("method") + " weights";
  if (kind == "convert") return settings.get_string("dtype");
  std::string text = settings.get_string("precision");
  const Value* fewer_bits = settings.find("low_precision");
  const std::string recipe = fewer_bits ? fewer_bits->get_string("recipe", "none") : "none";
  return recipe == "none" ? text : format("{}, products in fp8 or less ({})", text, recipe);
}

// Of a tune or search stage: what its trials have.
const Value* settings_of_trials(const PlannedStage& stage) {
  if (stage.kind != tune_kind_name && stage.kind != search_kind_name) return nullptr;
  const Value* target = stage.settings.find(tune_target_key);
  return target ? target->find("settings") : nullptr;
}

}  // namespace

StageComputing computing_of(const PlannedStage& stage) {
  StageComputing computing;
  const Value* trials = settings_of_trials(stage);
  const Value& settings = trials ? *trials : stage.settings;
  computing.device = stage.device.empty() ? settings.get_string("device", "cpu") : stage.device;
  computing.why = stage.device_why;
  computing.program = stage.kind == "command" ? command_program(stage) : engine_program;
  computing.precision = precision_of(stage.kind, settings);
  return computing;
}

std::string computing_text(const StageComputing& computing) {
  if (computing.device.empty()) return "-";
  std::string text = computing.device;
  if (!computing.precision.empty()) text += ", " + computing.precision;
  return text + ", " + computing.program;
}

void set_computing(const StageComputing& computing, Value& table) {
  table.set("device", computing.device);
  if (!computing.why.empty()) table.set("device_why", computing.why);
  table.set("program", computing.program);
  if (!computing.precision.empty()) table.set("precision", computing.precision);
}

}  // namespace longhaul
