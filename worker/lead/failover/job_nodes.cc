#include "worker/lead/failover/job_nodes.h"

#include "base/process/process.h"
#include "base/text/text.h"
#include "contracts/records/host_list.h"

namespace longhaul {

Result<std::vector<std::string>> parse_job_nodes(const std::string& text) {
  const std::string field = trim(text);
  auto nodes = expand_host_list(field);
  if (field.empty() || !nodes.ok())
    return make_error(ErrorCode::unavailable, "squeue says '" + field.substr(0, 80) + "' where nodes were asked for");
  return nodes;
}

Result<std::vector<std::string>> job_nodes_now(const std::string& job, std::int64_t deadline_ms) {
  SpawnSpec squeue;
  squeue.argv = {"squeue", "--noheader", "--jobs=" + job, "--format=%N"};
  LH_TRY(const RunOutput said, run_captured(std::move(squeue), deadline_ms));
  if (!said.status.success())
    return make_error(ErrorCode::unavailable, "squeue: " + said.status.text() + " " + trim(said.err));
  return parse_job_nodes(said.out);
}

}  // namespace longhaul
