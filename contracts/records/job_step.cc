#include "contracts/records/job_step.h"

namespace longhaul {

Value job_step_to_value(const JobStep& step) {
  Value one = Value::make_table();
  one.set("service", step.service);
  one.set("first_node", step.first_node);
  one.set("nodes", step.nodes);
  one.set("own_nodes", step.own_nodes);
  one.set("ranks", step.ranks);
  one.set("cpus_per_rank", step.cpus_per_rank);
  one.set("gpus_per_node", step.gpus_per_node);
  one.set("launcher", ValueArray(step.launcher.begin(), step.launcher.end()));
  return one;
}

}  // namespace longhaul
