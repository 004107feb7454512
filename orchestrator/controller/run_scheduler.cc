#include "orchestrator/controller/run_scheduler.h"

#include "orchestrator/scheduler/local_scheduler.h"

namespace longhaul {

Result<RunScheduler> make_run_scheduler(const std::string& run_dir, const FrozenRun&, const TickOptions& options,
                                        Clock& clock, Logger& log) {
  RunScheduler made;
  auto local = std::make_unique<LocalScheduler>(run_dir, options.cpu_slots, clock, log);
  made.cores = local->slots();
  made.scheduler = std::move(local);
  return made;
}

}  // namespace longhaul
