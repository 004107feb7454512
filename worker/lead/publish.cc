#include "worker/lead/publish.h"

#include "base/files/file_query.h"
#include "base/files/files.h"
#include "base/process/fault_point.h"
#include "base/process/process.h"
#include "worker/lead/placement/staging.h"

namespace longhaul {

Result<Manifest> published_artifact(const Attempt& attempt, const Task& task) {
  LH_TRY(const bool there, is_there(attempt.out_dir()));
  if (!there) return make_error(ErrorCode::not_found, attempt.out_dir() + " does not exist");
  LH_TRY(Manifest manifest, read_manifest(attempt.out_dir()));
  if (manifest.key != task.key)
    return make_error(
        ErrorCode::conflict,
        attempt.out_dir() + " holds the result of another task (" + manifest.key + ", not " + task.key + ")",
        "move that folder away, then resume");
  LH_CHECK(verify_artifact(attempt.out_dir(), manifest, false));
  return manifest;
}

Result<Manifest> publish_artifact(const Attempt& attempt, const Task& task, const Launch& launch, const Clock& clock) {
  const std::string& staging = launch.output_dir;
  LH_CHECK(fence_of(launch).look());
  LH_TRY(Manifest manifest, make_manifest(staging));
  manifest.stage = attempt.stage;
  manifest.kind = task.kind;
  manifest.kind_version = task.kind_version;
  manifest.key = task.key;
  manifest.software = attempt.software;
  manifest.created_ms = clock.wall_ms();
  Value inputs = Value::make_table();
  for (const TaskInput& input : task.inputs) inputs.set(input.name, input.digest);
  manifest.provenance.set("run", attempt.run);
  manifest.provenance.set("attempt", attempt.attempt);
  manifest.provenance.set("host", host_name());
  manifest.provenance.set("inputs", std::move(inputs));
  manifest.provenance.set("settings", task.settings);
  LH_CHECK(write_manifest(staging, manifest));
  LH_CHECK(sync_tree(staging));
  if (auto fault = fault_here(FaultPoint::lead_before_publish)) return *fault;
  LH_CHECK(fence_of(launch).look());
  const Status published = publish_directory(staging, attempt.out_dir());
  if (auto fault = fault_here(FaultPoint::lead_after_publish)) return *fault;
  [[maybe_unused]] const Status cleared = clear_staging(attempt, launch.owner.restarts);
  if (published.ok()) return manifest;
  if (published.error().code != ErrorCode::conflict) return published.error();
  return published_artifact(attempt, task);
}

}  // namespace longhaul
