#include "orchestrator/job/request/job_class.h"

#include <algorithm>

#include "contracts/settings/job/resumable.h"

namespace longhaul {
namespace {

constexpr const char* on_processors = "cpu";  // in a class's `kinds`: every stage that computes on processors

bool names_kind(const JobClass& one, const std::string& kind) {
  return std::find(one.kinds.begin(), one.kinds.end(), kind) != one.kinds.end();
}

bool has_own_route(const JobOptions& job) {
  return !job.partition.empty() || !job.qos.empty() || !job.constraint.empty() || !job.reservation.empty();
}

// Within the class's nodes, and within its longest job where the stage cannot go on in another.
bool fits_class(const JobClass& one, const PlannedStage& stage) {
  const int nodes = stage.common.nodes_with_spares();
  if (nodes < one.min_nodes || (one.max_nodes > 0 && nodes > one.max_nodes)) return false;
  return one.max_wall.value <= 0 || stage.common.time_limit.value <= one.max_wall.value ||
         is_resumable(stage.kind, stage.common.job);
}

const JobClass* default_class_of(const SiteConfig& site) {
  if (const JobClass* usual = site.find_class(site.default_class)) return usual;
  return site.classes.size() == 1 ? &site.classes.front() : nullptr;
}

}  // namespace

int gpus_of_class(const SiteConfig& site, const JobClass& one) {
  return one.gpus_per_node >= 0 ? one.gpus_per_node : site.node.gpus;
}

bool takes_stages(const JobClass& one) {
  return one.kinds.empty() || std::any_of(one.kinds.begin(), one.kinds.end(), [](const std::string& kind) {
           return kind == on_processors || find_stage_kind(kind) != nullptr;
         });
}

JobClass job_class_of(const SiteConfig& site, const PlannedStage& stage) {
  return job_class_of(site, stage, stage.device);
}

JobClass job_class_of(const SiteConfig& site, const PlannedStage& stage, const std::string& device) {
  const JobOptions& job = stage.common.job;
  if (!job.job_class.empty()) {
    const JobClass* asked = site.find_class(job.job_class);
    return asked ? *asked : JobClass();
  }
  for (const JobClass& one : site.classes)
    if (names_kind(one, stage.kind)) return one;
  const JobClass* usual = default_class_of(site);
  const bool may_move = device == on_processors && !has_own_route(job);
  if (may_move && gpus_of_class(site, usual ? *usual : JobClass()) > 0)
    for (const JobClass& one : site.classes)
      if (gpus_of_class(site, one) == 0 && takes_stages(one) && fits_class(one, stage)) return one;
  return usual ? *usual : JobClass();
}

bool job_has_gpus(const SiteConfig& site, const JobClass& one, const PlannedStage& stage) {
  const int asked = stage.common.job.gpus_per_node;
  return asked >= 0 ? asked > 0 : gpus_of_class(site, one) > 0;
}

}  // namespace longhaul
