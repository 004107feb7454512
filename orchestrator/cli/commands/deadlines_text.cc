#include "orchestrator/cli/commands/deadlines_text.h"

#include <algorithm>

#include "base/error/diagnostics.h"
#include "base/text/text.h"
#include "contracts/settings/job/resumable.h"
#include "orchestrator/preflight/timeout_check.h"

namespace longhaul {
namespace {

struct SharedDeadlines {
  std::vector<std::string> stages;
  std::vector<NamedDeadline> deadlines;
};

bool are_same(const std::vector<NamedDeadline>& a, const std::vector<NamedDeadline>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const NamedDeadline& x, const NamedDeadline& y) {
    return x.name == y.name && x.timeout.seconds == y.timeout.seconds;
  });
}

std::vector<SharedDeadlines> deadlines_of(const Site& site, const RunPlan& plan, const std::vector<JobPlan>& jobs) {
  std::vector<SharedDeadlines> all;
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    const PlannedStage& stage = plan.stages[i];
    if (!trains(stage.kind)) continue;
    Diagnostics known;  // what is wrong with a job was reported before
    const JobPlan job = i < jobs.size() ? jobs[i] : plan_job(site, stage, known);
    std::vector<NamedDeadline> deadlines = deadlines_in_order(job_timeouts(site, stage, job));
    const auto same = std::find_if(all.begin(), all.end(),
                                   [&](const SharedDeadlines& one) { return are_same(one.deadlines, deadlines); });
    if (same == all.end())
      all.push_back({{stage.stage}, std::move(deadlines)});
    else if (same->stages.back() != stage.stage)
      same->stages.push_back(stage.stage);
  }
  return all;
}

}  // namespace

std::string deadlines_text(const Site& site, const RunPlan& plan, const std::vector<JobPlan>& jobs) {
  std::string text;
  for (const SharedDeadlines& shared : deadlines_of(site, plan, jobs)) {
    text += format("\ndeadlines of {}, from short to long\n", join(shared.stages, ", "));
    for (const NamedDeadline& one : shared.deadlines) {
      text += format("  {:>9}  {}", format("{:g} s", one.timeout.seconds), one.name);
      text += one.timeout.setting.empty() ? "\n" : format(" ({})\n", one.timeout.setting);
    }
  }
  return text;
}

Value deadlines_value(const Site& site, const RunPlan& plan, const std::vector<JobPlan>& jobs) {
  Value all = Value::make_array();
  for (const SharedDeadlines& shared : deadlines_of(site, plan, jobs)) {
    Value list = Value::make_array();
    for (const NamedDeadline& one : shared.deadlines) {
      Value entry = Value::make_table();
      entry.set("name", one.name);
      entry.set("seconds", one.timeout.seconds);
      if (!one.timeout.setting.empty()) entry.set("setting", one.timeout.setting);
      list.push_back(std::move(entry));
    }
    Value entry = Value::make_table();
    entry.set("stages", Value(ValueArray(shared.stages.begin(), shared.stages.end())));
    entry.set("deadlines", std::move(list));
    all.push_back(std::move(entry));
  }
  return all;
}

}  // namespace longhaul
