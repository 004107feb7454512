#include "orchestrator/trials/nested_run.h"

#include <algorithm>

#include "base/files/file_query.h"
#include "base/files/files.h"
#include "base/text/text.h"
#include "base/toml.h"
#include "orchestrator/controller/controller.h"
#include "orchestrator/job/job_plan.h"
#include "orchestrator/state/access/run_access.h"
#include "orchestrator/state/budget.h"

namespace longhaul {
namespace {

constexpr int moves_max = 200;  // rounds of the controller in one go

std::string as_one_word(std::string id) {
  std::replace(id.begin(), id.end(), '/', '_');
  return id;
}

}  // namespace

NestedRunSetup child_setup(const std::string& run_dir, const FrozenRun& run, const RunLedger& ledger,
                           const TickOptions& options, std::function<Status()> may_act, const Clock& clock) {
  NestedRunSetup setup;
  setup.run_dir = run_dir;
  setup.run = run;
  setup.run.plan.stages.clear();
  if (run.plan.budget_node_hours > 0)
    setup.budget_node_hours =
        std::max(1e-9, run.plan.budget_node_hours - spent_node_hours(ledger, run.plan, clock.wall_ms()));
  setup.options = options;
  setup.may_act = std::move(may_act);
  return setup;
}

std::string nested_run_folder(const NestedRunSetup& setup, int number) {
  return join_path(stage_folder(setup.run_dir, setup.stage), format("rounds/{}", number));
}

Status check_trial_job(const std::string& run_dir, const PlannedStage& trial) {
  const std::string path = join_path(run_dir, "site.toml");
  LH_TRY(const bool has_site, is_there(path));
  if (!has_site) return {};
  LH_TRY(const Site site, load_site(path, {}));
  if (!site.config.is_slurm()) return {};
  Diagnostics diagnostics;
  (void)plan_job(site, trial, diagnostics);
  if (diagnostics.empty()) return {};
  const Error& first = diagnostics.errors().front();
  return make_error(ErrorCode::invalid_input, first.what, first.hint);
}

Status create_nested_run(const NestedRunSetup& setup, int number, NestedRunPlan planned, const Clock& clock) {
  planned.plan.workflow = setup.run.plan.workflow;
  planned.plan.budget_node_hours = setup.budget_node_hours;
  RunOrigin origin;
  LH_TRY(origin.workflow_text, read_file(join_path(setup.run_dir, "workflow.toml")));
  LH_TRY(Value site, read_toml_file(join_path(setup.run_dir, "site.toml")));
  site.erase("notify");  // people hear of the run, not of its trials
  origin.site_text = to_toml(site);
  origin.workflow_path = setup.run.workflow_path;
  origin.programs_dir = driving_programs(setup.run_dir, setup.options.programs_dir);
  origin.driver = setup.run.driver;
  origin.software = setup.run.software;
  origin.access = access_of(site);
  origin.folder_name = std::to_string(number);
  origin.name = format("{}.{}.{}", setup.run.name, as_one_word(setup.stage), number);
  origin.parent = setup.run_dir;
  origin.jobs_alone = planned.jobs_alone;
  origin.add = std::move(planned.add);
  if (setup.may_act) LH_CHECK(setup.may_act());
  const auto made = create_run(parent_path(nested_run_folder(setup, number)), planned.plan, origin, clock);
  return made.ok() || made.error().code == ErrorCode::conflict ? Status() : Status(made.error());
}

NestedRun::NestedRun(const NestedRunSetup& setup, int number, Clock& clock, Logger& log)
    : setup_(setup), number_(number), clock_(clock), log_(log) {}
NestedRun::~NestedRun() = default;

const RunLedger& NestedRun::ledger() const {
  return controller_->ledger();
}

Status NestedRun::open() {
  if (controller_) return {};
  TickOptions options = setup_.options;
  options.environment = {};
  LH_TRY(controller_, Controller::open(folder(), 0, options, clock_, log_));
  if (!setup_.may_act) return {};
  // Whoever has been overtaken must not keep it from the one that has overtaken it.
  const Status newest = setup_.may_act();
  if (!newest.ok()) leave();
  return newest;
}

// Where a controller of the run above has been overtaken, it may still claim this one, and then leaves it without a
// round: nobody but the newest comes back for it, so that claims it again.
Status NestedRun::move_on() {
  for (int moves = 0; moves < moves_max; ++moves) {
    LH_CHECK(open());
    const auto outcome = controller_->round();
    if (!outcome.ok() && outcome.error().code == ErrorCode::conflict) {
      leave();
      if (!setup_.may_act) return outcome.error();
      LH_CHECK(setup_.may_act());
      continue;
    }
    if (!outcome.ok()) return outcome.error();
    if (!outcome->changed) return {};
  }
  return {};
}

Status NestedRun::ask(const std::string& what, const Value& arguments) {
  const auto asked = request(folder(), what, arguments, clock_);
  return asked.ok() ? move_on() : Status(asked.error());
}

Status NestedRun::cancel() {
  LH_CHECK(open());
  if (controller_->ledger().cancel_requested || controller_->ledger().ended) return {};
  return ask("cancel", Value::make_table());
}

void NestedRun::leave() {
  if (controller_) controller_->leave();
  controller_.reset();
}

bool NestedRun::unanswered() const {
  return controller_ && controller_->unanswered();
}

}  // namespace longhaul
