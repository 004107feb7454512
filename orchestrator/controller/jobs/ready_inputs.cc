#include "orchestrator/controller/jobs/ready_inputs.h"

#include "base/text/text.h"
#include "orchestrator/decide/input_files.h"
#include "orchestrator/reuse/prepare.h"
#include "orchestrator/reuse/stage_reason.h"

namespace longhaul {
namespace {

constexpr std::int64_t inputs_asked_for_ms = 60'000, inputs_pause_ms = 2'000;
constexpr std::int64_t silence_ms = 2'000;  // of who waits for inputs to be read

}  // namespace

void ReadyInputs::look(const PlannedStage& planned, Observations& seen) {
  const Deadline deadline(run_.clock, inputs_asked_for_ms), silence(run_.clock, silence_ms);
  bool is_said = false;
  const auto read = [&](std::size_t files) {
    if (is_said || !run_.notice || !silence.passed()) return;
    is_said = true;
    run_.notice(format("{}: reading its inputs, {} file{} so far", planned.id(), files, files == 1 ? "" : "s"));
  };
  PreparedStage prepared = prepare_stage(planned, run_.ledger, run_.frozen.artifact_root, trust_, read);
  while (prepared.may_pass && !deadline.passed()) {
    run_.log.warn("event=inputs_not_read stage=" + planned.id() + " error='" + prepared.problem + "' next=try_again");
    run_.clock.sleep_ms(inputs_pause_ms);
    prepared = prepare_stage(planned, run_.ledger, run_.frozen.artifact_root, trust_, read);
  }
  if (!prepared.disbelieved.empty())
    run_.log.warn("event=artifact_not_believed stage=" + planned.id() + " why='" + prepared.disbelieved + "'");
  if (prepared.problem.empty() && run_.frozen.parent.empty()) say_why(planned, prepared);
  seen.prepared.emplace(planned.id(), std::move(prepared));
}

// For people alone: what cannot be written or found changes nothing of the run.
void ReadyInputs::say_why(const PlannedStage& planned, PreparedStage& prepared) {
  if (!prepared.raw_files.empty())
    (void)write_input_files(stage_folder(run_.run_dir, planned.id()), prepared.raw_files).ok();
  if (prepared.cached) return;
  prepared.why = reason_when_ready(planned, prepared, earlier_).text;
  run_.log.info("event=runs stage=" + planned.id() + " why='" + prepared.why + "'");
}

}  // namespace longhaul
