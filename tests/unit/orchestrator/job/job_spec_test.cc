#include "orchestrator/job/job_spec.h"

#include <doctest/doctest.h>

#include "base/text/text.h"

using namespace longhaul;

namespace {

// Stages with one attempt each, as intents.
struct SpecRig {
  PlannedStage planned;
  std::vector<LedgerStage> stages;

  explicit SpecRig(const std::vector<std::string>& ids = {"train"}) {
    planned.stage = split(ids.front(), '/')[0];
    planned.kind = "command";
    planned.settings = Value::make_table();
    for (const std::string& id : ids) {
      LedgerStage stage;
      stage.id = id;
      LedgerAttempt attempt;
      attempt.number = 1;
      attempt.key = "key-" + id;
      stage.attempts.push_back(attempt);
      stages.push_back(stage);
    }
  }
  LedgerAttempt& attempt(std::size_t i = 0) { return stages[i].attempts.back(); }
  JobSpec spec(bool by_script = true, int cores = 8) const {
    std::vector<PendingAct> acts;
    for (const LedgerStage& stage : stages) acts.push_back({&stage, &stage.attempts.back()});
    return job_spec("/runs/r", planned, acts, cores, by_script);
  }
};

JobPlan spec_plan() {
  JobPlan plan;
  plan.directives = {{"nodes", "2", "workflow: nodes"}, {"time", "04:00:00", "site x: classes.a.max_time"}};
  return plan;
}

// "option=value (origin)" of each line.
std::string spec_words(const std::vector<Directive>& directives) {
  std::vector<std::string> words;
  for (const Directive& one : directives) words.push_back(format("{}={} ({})", one.option, one.value, one.origin));
  return join(words, "; ");
}

std::string spec_script(const JobPlan& plan, const LedgerAttempt& attempt) {
  JobScriptContext context;
  context.run = "r";
  context.stage = "train";
  context.run_dir = context.attempt_dir = "/runs/r";
  context.worker = "/runs/r/bin/longhaul-worker";
  context.of_attempt = attempt_directives(attempt, plan);
  const auto text = job_script(plan, context);
  REQUIRE(text.ok());
  return *text;
}

int spec_lines(const std::string& script, const std::string& begin) {
  int count = 0;
  for (const std::string& line : split(script, '\n')) count += starts_with(line, begin);
  return count;
}

}  // namespace

TEST_CASE("job spec: a job's key, folder and script; its predecessor's id where it is a chain's next") {
  SpecRig rig;
  rig.stages[0].attempts.push_back(rig.attempt());
  rig.stages[0].attempts[0].job = "41";
  rig.attempt().number = 2;
  rig.attempt().key = "second";
  rig.attempt().after = 1;
  const JobSpec spec = rig.spec();
  CHECK(spec.key == "second");
  CHECK(spec.attempt_dir == "/runs/r/stages/train/attempts/2");
  CHECK(spec.script == "/runs/r/stages/train/attempts/2/job.sbatch");
  CHECK(spec.worker == "/runs/r/bin/longhaul-worker");
  CHECK(spec.after == "41");
  CHECK(spec.array_tasks.empty());
  CHECK(!spec.withdrawn);
}

TEST_CASE("job spec: tasks of an array are one submission, throttled as the workflow says") {
  SpecRig rig({"sweep/x=1", "sweep/x=2", "sweep/x=3"});
  rig.planned.common.job.throttle = 2;
  for (int i = 0; i < 3; ++i) {
    rig.attempt(static_cast<std::size_t>(i)).array = "array-key";
    rig.attempt(static_cast<std::size_t>(i)).task = i + 4;
  }
  JobSpec spec = rig.spec();
  CHECK(spec.key == "array-key");
  CHECK(spec.attempt_dir == "/runs/r/stages/sweep/arrays/array-key");
  CHECK(spec.array_tasks == std::vector<int>{4, 5, 6});
  CHECK(spec.array_throttle == 2);
  CHECK(!spec.withdrawn);
  for (std::size_t i = 0; i < 3; ++i) rig.attempt(i).cancel_wanted = i != 1;
  CHECK(!rig.spec().withdrawn);  // one of them is still wanted
  rig.attempt(1).cancel_wanted = true;
  CHECK(rig.spec().withdrawn);
  SpecRig single;
  single.planned.common.job.throttle = 2;
  CHECK(single.spec().array_throttle == 0);
}

TEST_CASE("job spec: on one machine ranks take their threads, or a share of the cores") {
  SpecRig rig;
  rig.planned.common.ranks = 3;
  CHECK(rig.spec(false, 8).slots == 6);
  CHECK(rig.spec(false, 2).slots == 3);
  rig.planned.common.threads = 4;
  CHECK(rig.spec(false, 8).slots == 12);
  CHECK(rig.spec(false).script.empty());
}

TEST_CASE("attempt directives: a first attempt asks for what the plan does") {
  CHECK(attempt_directives({}, spec_plan()).empty());
}

TEST_CASE("attempt directives: nodes to avoid are the workflow's and the attempt's, in one line that reports both") {
  LedgerAttempt attempt;
  attempt.exclude = {"n3", "n5"};
  JobPlan plan = spec_plan();
  CHECK(spec_words(attempt_directives(attempt, plan)) == "exclude=n3,n5 (nodes on which earlier attempts failed)");
  plan.directives.push_back({"exclude", "n[1-2]", "workflow: job.exclude"});
  CHECK(spec_words(attempt_directives(attempt, plan)) ==
        "exclude=n[1-2],n3,n5 (workflow: job.exclude; nodes on which earlier attempts failed)");
  const std::string script = spec_script(plan, attempt);
  CHECK(spec_lines(script, "#SBATCH --exclude=") == 1);
  CHECK(spec_lines(script, "#SBATCH --exclude=n[1-2],n3,n5") == 1);
}

TEST_CASE("attempt directives: a time that was shortened replaces the plan's, and is never rounded up") {
  LedgerAttempt attempt;
  attempt.wall_s = 3 * 3600 + 59.9;
  CHECK(spec_words(attempt_directives(attempt, spec_plan())) ==
        "time=03:00:59 (shortened to end before the next maintenance)");
  const std::string script = spec_script(spec_plan(), attempt);
  CHECK(spec_lines(script, "#SBATCH --time=") == 1);
  CHECK(spec_lines(script, "#SBATCH --time=03:00:59") == 1);
  attempt.wall_s = 30 * 3600;
  CHECK(attempt_directives(attempt, spec_plan())[0].value == "1-06:00:00");
}
