// checkpoints: which ones of a run there are. Only reads.
#include <sys/stat.h>

#include <algorithm>

#include "base/files/file_query.h"
#include "base/files/files.h"
#include "base/system/clock.h"
#include "base/text/print.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "contracts/records/checkpoint_format.h"
#include "orchestrator/cli/session/asked_run.h"
#include "orchestrator/cli/session/commands.h"
#include "orchestrator/cli/session/load_workflow.h"
#include "orchestrator/render/logs/shown_stage.h"
#include "orchestrator/render/run/checkpoints_text.h"
#include "orchestrator/runs/saved_state.h"

namespace longhaul {
namespace {

constexpr std::uint64_t manifest_bytes_max = 256 << 20;  // of thousands of ranks

ShownCheckpoint look_at_checkpoint(const std::string& stage, const std::string& folder, std::int64_t step) {
  ShownCheckpoint one;
  one.stage = stage;
  one.path = folder;
  one.step = step;
  one.pinned = file_exists(join_path(folder, checkpoint_pin_name));
  const std::string manifest = join_path(folder, checkpoint_manifest_name);
  if (struct stat info{}; ::stat(manifest.c_str(), &info) == 0)
    one.saved_ms = static_cast<std::int64_t>(info.st_mtim.tv_sec) * 1000 + info.st_mtim.tv_nsec / 1'000'000;
  if (const auto names = list_directory(folder); names.ok())
    for (const std::string& name : *names)
      if (const auto bytes = file_size(join_path(folder, name)); bytes.ok()) one.bytes += static_cast<double>(*bytes);
  const auto text = read_file(manifest, manifest_bytes_max);
  const auto value = text.ok() ? parse_json(*text, manifest) : Result<Value>(text.error());
  const Value* extra = value.ok() ? value->find("extra") : nullptr;
  const auto number = [&](const char* name) -> std::optional<double> {
    const Value* found = extra && extra->is_table() ? extra->find(name) : nullptr;
    return found && found->is_number() ? std::optional(found->as_number()) : std::nullopt;
  };
  one.loss = number("loss");
  one.heldout_loss = number("heldout_loss");
  return one;
}

Result<std::vector<ShownCheckpoint>> find_checkpoints(const std::string& run, const std::vector<std::string>& stages) {
  std::vector<ShownCheckpoint> found;
  for (const std::string& stage : stages) {
    const std::string folder = checkpoints_folder(run, stage);
    LH_TRY(std::vector<std::int64_t> steps, checkpoint_steps(folder));
    std::ranges::reverse(steps);
    for (const std::int64_t step : steps) {
      found.push_back(look_at_checkpoint(stage, join_path(folder, checkpoint_folder_name(step)), step));
      found.back().newest = step == steps.front();
    }
  }
  return found;
}

}  // namespace

ExitCode show_checkpoints(const CommandLine& line, const Installation& installation) {
  const auto run = asked_run(line, installation);
  if (!run.ok()) return fail(line, run.error());
  const auto status = read_run_status(*run);
  if (!status.ok()) return fail(line, status.error());
  std::vector<std::string> stages;
  if (!line.stage.empty()) {
    const auto stage = asked_stage(*status, line.stage);
    if (!stage.ok()) return fail(line, stage.error());
    stages.push_back(stage->id);
  } else {
    for (const StageStatus& stage : status->stages) stages.push_back(stage.id);
  }
  const auto found = find_checkpoints(*run, stages);
  if (!found.ok()) return fail(line, found.error());
  if (line.json)
    print_text(stdout, to_json_pretty(checkpoints_value(*run, *found)));
  else if (!found->empty())
    print_text(stdout, checkpoints_text(*found, SystemClock().wall_ms()));
  else
    print(stderr, "{} has no checkpoint: none was saved yet, or gc deleted them\n", status->name);
  return ExitCode::ok;
}

}  // namespace longhaul
