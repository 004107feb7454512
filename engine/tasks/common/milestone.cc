#include "engine/tasks/common/milestone.h"

#include "base/files/file_retry.h"
#include "base/files/files.h"
#include "base/process/process.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "contracts/records/manifest.h"
#include "contracts/records/milestone.h"

namespace longhaul {
namespace {

// Of the first rank. What is damaged, or of another task, is not there; a file system that does not answer says
// nothing.
Result<bool> is_there(const std::string& folder, const std::string& key) {
  const auto manifest = retried({}, [&] { return read_manifest(folder); });
  if (!manifest.ok() && manifest.error().code == ErrorCode::io) return manifest.error();
  return manifest.ok() && manifest->key == key && verify_artifact(folder, *manifest, false).ok();
}

Status write_figures_of(const std::string& folder, const MilestoneReached& reached) {
  Value figures = Value::make_table();
  figures.set("steps", static_cast<double>(reached.step));
  figures.set("loss", reached.loss);
  if (reached.steered) figures.set("steered", 1.0);  // not what the settings alone would have given
  Value artifact = Value::make_table();
  artifact.set("figures", std::move(figures));
  return write_file_atomic(join_path(folder, "artifact.json"), to_json_pretty(artifact));
}

Result<Manifest> manifest_for(const TaskRun& run, const std::string& folder, const std::string& key,
                              std::int64_t step) {
  LH_TRY(Manifest manifest, make_manifest(folder));
  manifest.stage = run.task.variant.empty() ? run.task.stage : run.task.stage + "/" + run.task.variant;
  manifest.kind = run.task.kind;
  manifest.kind_version = run.task.kind_version;
  manifest.key = key;
  manifest.created_ms = run.clock.wall_ms();
  Value inputs = Value::make_table();
  for (const TaskInput& input : run.task.inputs) inputs.set(input.name, input.digest);
  manifest.provenance.set("run", run.task.run);
  manifest.provenance.set("attempt", run.launch.attempt);
  manifest.provenance.set("host", host_name());
  manifest.provenance.set("milestone", static_cast<long long>(step));
  manifest.provenance.set("inputs", std::move(inputs));
  manifest.provenance.set("settings", run.task.settings);
  return manifest;
}

// Of the first rank: a folder to fill beside its place, under a name that no other attempt writes to and that no reader
// takes for a milestone.
Result<std::string> begin_staging(const TaskRun& run, std::int64_t step) {
  const std::string staging =
      join_path(run.launch.milestones_dir, format(".{}.{}.{}", step, run.launch.attempt_key, run.launch.owner.tag()));
  LH_CHECK(remove_tree(staging));
  LH_CHECK(make_directories(staging));
  return staging;
}

// Of the first rank. Returns the bytes written. Nothing is published where a later launch owns the stage's state.
Result<std::uint64_t> publish(const TaskRun& run, const MilestoneReached& reached, const std::string& staging,
                              const std::string& target) {
  LH_CHECK(write_figures_of(staging, reached));
  LH_TRY(const Manifest manifest, manifest_for(run, staging, milestone_key(run.task.key, reached.step), reached.step));
  LH_CHECK(write_manifest(staging, manifest));
  LH_CHECK(sync_tree(staging));
  LH_CHECK(fence_of(run.launch).look());
  LH_CHECK(remove_tree(target));  // damaged, or of another task: the stage's inputs have changed
  LH_CHECK(publish_directory(staging, target));
  LH_CHECK(fence_of(run.launch).look());
  std::uint64_t bytes = 0;
  for (const ManifestFile& file : manifest.files) bytes += file.bytes;
  return bytes;
}

}  // namespace

Status publish_milestone(const TaskRun& run, const MilestoneReached& reached,
                         const std::function<Status(const std::string& folder)>& write_model) {
  if (run.launch.milestones_dir.empty()) return {};
  run.section("milestone");
  const std::int64_t started = run.clock.monotonic_ns();
  const std::string context = format("milestone of step {}", reached.step);
  const std::string target = milestone_folder(run.launch.milestones_dir, reached.step);
  const Result<bool> known =
      run.is_first() ? is_there(target, milestone_key(run.task.key, reached.step)) : Result<bool>(false);
  LH_CHECK(run.group.agree(known.ok() ? Status() : Status(known.error())).with_context(context));
  std::vector<double> known_there(static_cast<std::size_t>(run.group.size()));
  const double mine = *known ? 1 : 0;
  LH_CHECK(run.group.all_gather({&mine, 1}, known_there).with_context(context));
  std::uint64_t bytes = 0;  // 0: it was there
  if (known_there.front() == 0) {
    const Result<std::string> staging = run.is_first() ? begin_staging(run, reached.step) : std::string();
    LH_CHECK(run.group.agree(staging.ok() ? Status() : Status(staging.error())).with_context(context));
    LH_CHECK(run.group.agree(write_model(*staging)).with_context(context));
    const auto published =
        run.is_first() ? publish(run, reached, *staging, target) : Result<std::uint64_t>(std::uint64_t{0});
    LH_CHECK(run.group.agree(published.ok() ? Status() : Status(published.error())).with_context(context));
    bytes = *published;
  }
  Value fields = Value::make_table();
  fields.set("step", reached.step);
  fields.set("path", target);
  fields.set("bytes", bytes);
  fields.set("stall_s", static_cast<double>(run.clock.monotonic_ns() - started) * 1e-9);
  run.events.write("milestone", std::move(fields));
  return {};
}

}  // namespace longhaul
