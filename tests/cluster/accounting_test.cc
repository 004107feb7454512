// What sacct says of jobs that slurmctld has forgotten, from a real slurmdbd. Needs a test cluster of two hosts that
// was started with `--accounting --min-job-age 2`: $LONGHAUL_CLUSTER_STATE names it. Ends come all at once, for
// slurmctld takes its time to look at limits and to forget.
#include <doctest/doctest.h>

#include <map>
#include <vector>

#include "orchestrator/scheduler/names/refusals.h"
#include "orchestrator/scheduler/port/cli_port.h"
#include "orchestrator/scheduler/port/helper_port.h"
#include "orchestrator/scheduler/slurm/slurm_scheduler.h"
#include "tests/cluster/cluster_rig.h"

using namespace longhaul;
using testing::ClusterRig;
using testing::play;

namespace {

constexpr int wait_max_ms = 90'000;

void slurm(const std::vector<std::string>& argv) {
  const auto done = run_slurm_query(argv, 30'000);
  REQUIRE(done.ok());
  INFO(argv[0] << ": " << done->err);
  REQUIRE(done->status.success());
}

void wait_until(ClusterRig& rig, const std::string& what, const std::function<bool()>& reached) {
  for (int ms = 0; !reached(); ms += 200) {
    INFO("waiting for " << what);
    REQUIRE(ms < wait_max_ms);
    rig.clock().sleep_ms(200);
  }
}

bool is_forgotten(ClusterRig& rig, const std::string& id) {
  const auto jobs = rig.port().job(id.substr(0, id.find('_')));
  return !jobs.ok() && jobs.error().code == ErrorCode::not_found;
}

// As soon as slurmctld has forgotten it and accounting knows its end.
SlurmJob end_of(ClusterRig& rig, const std::string& id, const std::string& key) {
  SlurmJob end;
  wait_until(rig, key + " in accounting", [&] {
    if (!is_forgotten(rig, id)) return false;
    const auto records = rig.port().accounted({id});
    REQUIRE(records.ok());
    const SlurmJob* reported = accounted_end(*records, id, {.key = key});
    if (reported) end = *reported;
    return reported != nullptr;
  });
  return end;
}

ClusterRig commands() {
  return ClusterRig(std::make_unique<CliPort>());
}

SlurmSubmission on(ClusterRig& rig, const std::string& comment, const std::string& text,
                   const std::vector<std::pair<std::string, std::string>>& options) {
  SlurmSubmission made = rig.script(comment, text);
  made.options.insert(made.options.end(), options.begin(), options.end());
  return made;
}

}  // namespace

TEST_CASE("accounting reports state, exit code and place of every end that slurmctld has forgotten") {
  ClusterRig rig = commands();
  const std::string odd = "a|b \"c\" $(d)\xc3\xbc";
  std::map<std::string, std::string> ids;
  const auto submit = [&](const std::string& key, const SlurmSubmission& job) { ids[key] = rig.submit(job); };
  const std::pair<std::string, std::string> once{"no-requeue", ""};
  const std::pair<std::string, std::string> safe{"nodelist", "n1"};  // the other host is killed below
  submit("late", on(rig, "late", "sleep 300", {once, safe}));
  submit("preempted",
         on(rig, "preempted", "sleep 300", {once, {"partition", "low"}, {"nodelist", "n1"}, {"gpus", "4"}}));
  submit("node", on(rig, "node", "sleep 300", {once, {"nodelist", "n2"}}));
  submit("again", on(rig, "again", "test \"$SLURM_RESTART_COUNT\" = 1 && exit 5; sleep 300", {{"requeue", ""}, safe}));
  submit("stopped", on(rig, "stopped", "sleep 300", {safe}));
  submit("never", on(rig, "never", "true", {{"begin", "now+1hour"}}));
  submit("well", on(rig, "well", "exit 0", {{"job-name", "na|me"}}));
  submit("three", on(rig, "three", "exit 3", {}));
  submit("killed", on(rig, "killed", "kill -9 $$", {once}));
  submit("unlaunched", on(rig, "unlaunched", "true", {once, {"output", "/dev/null/file"}}));
  submit("array", on(rig, "array", "exit $SLURM_ARRAY_TASK_ID", {{"array", "0,2-3%1"}}));
  submit(odd, on(rig, odd, "exit 4", {}));
  for (const char* key : {"late", "preempted", "node", "again", "stopped"}) rig.wait_state(ids[key], "RUNNING");
  // Refused where the job's first second is not over yet.
  wait_until(rig, "a new end of the job that is late", [&] {
    const auto done = run_slurm_query({"scontrol", "update", "JobId=" + ids["late"], "EndTime=now"}, 30'000);
    return done.ok() && done->status.success();
  });
  submit("urgent", on(rig, "urgent", "exit 0", {{"partition", "high"}, {"nodelist", "n1"}, {"gpus", "4"}}));
  CHECK(rig.port().requeue(ids["again"], false).ok());
  CHECK(rig.port().cancel(ids["stopped"]).ok());
  CHECK(rig.port().cancel(ids["never"]).ok());
  rig.wait_state(ids["urgent"], "COMPLETED");
  play({"kill-node", "n2"});

  constexpr int any = -1;
  const auto check = [&](const std::string& key, const char* state, int code, int signal, SchedulerEnd end) {
    CAPTURE(key);
    const std::string id = key == "array" ? ids[key] + format("_{}", code) : ids[key];
    const SlurmJob job = end_of(rig, id, key);
    CHECK(job.state == state);
    if (code != any) CHECK(job.exit_code == code);
    CHECK(job.exit_signal == signal);
    CHECK(job.comment == key);
    CHECK(scheduler_end_of(job) == end);
    return job;
  };
  CHECK(check("well", "COMPLETED", 0, 0, SchedulerEnd::completed).name == "na|me");
  check("three", "FAILED", 3, 0, SchedulerEnd::failed);
  check("killed", "FAILED", 0, 9, SchedulerEnd::failed);
  CHECK(check("unlaunched", "FAILED", 0, 53, SchedulerEnd::launch_failed).time_limit_s == 600);
  for (const int task : {0, 2, 3}) {
    const bool fine = task == 0;
    check("array", fine ? "COMPLETED" : "FAILED", task, 0, fine ? SchedulerEnd::completed : SchedulerEnd::failed);
  }
  check(odd, "FAILED", 4, 0, SchedulerEnd::failed);
  CHECK(check("never", "CANCELLED", 0, 0, SchedulerEnd::cancelled).nodes.empty());
  CHECK_FALSE(check("stopped", "CANCELLED", 0, 0, SchedulerEnd::cancelled).nodes.empty());
  CHECK(check("preempted", "PREEMPTED", 0, 0, SchedulerEnd::preempted).nodes == "n1");
  // 0 in 22.05, 1 in later releases
  CHECK(check("node", "NODE_FAIL", any, 0, SchedulerEnd::node_fail).nodes == "n2");
  check("late", "TIMEOUT", 0, 0, SchedulerEnd::time_limit);
  check("again", "FAILED", 5, 0, SchedulerEnd::failed);
  // The helper asks the same accounting; of an unknown job and of another's comment it has nothing to say.
  HelperPort helper(testing::helper_path());
  const auto records = helper.accounted({ids["again"], ids["three"], "4000000"});
  REQUIRE(records.ok());
  CHECK(std::count_if(records->begin(), records->end(), [&](const auto& job) { return job.id == ids["again"]; }) == 2);
  CHECK(accounted_end(*records, ids["three"], {.key = "three"})->exit_code == 3);
  CHECK(accounted_end(*records, ids["three"], {.key = "of-another"}) == nullptr);
  CHECK(accounted_end(*records, "4000000", {.key = "three"}) == nullptr);
  play({"heal"});
}

TEST_CASE("without stored comments a job is still found by its number") {
  ClusterRig rig = commands();
  play({"configure", "--set", "AccountingStoreFlags=job_env"});
  const std::string id = rig.submit(rig.job("plain", 10, 6));
  const SlurmJob job = end_of(rig, id, "plain");
  CHECK(job.comment.empty());
  CHECK(job.exit_code == 6);
  play({"configure", "--set", "AccountingStoreFlags=job_comment"});
}

TEST_CASE("accounting that is down or silent says nothing, and afterwards the truth") {
  CliPort patient, hasty(2'000);
  ClusterRig rig = commands();
  const std::string before = rig.submit(rig.job("before", 10, 8));
  rig.wait_state(before, "FAILED");
  play({"stop-accounting"});
  const std::string meanwhile = rig.submit(rig.job("meanwhile", 10, 9));
  CHECK(patient.accounted({before}).error().code == ErrorCode::unavailable);
  rig.wait_state(meanwhile, "FAILED");
  play({"start-accounting"});
  play({"freeze-accounting"});
  CHECK(hasty.accounted({before}).error().code == ErrorCode::unavailable);
  play({"thaw-accounting"});
  // Before slurmctld has reported it all, its end is not known; never a wrong one.
  CHECK(end_of(rig, meanwhile, "meanwhile").exit_code == 9);
  CHECK(end_of(rig, before, "before").exit_code == 8);
}

TEST_CASE("a job that left no record and is forgotten is lost for the cause that accounting reports") {
  ClusterRig rig = commands();
  const std::string id = rig.submit(rig.job("gone", 10, 9));
  wait_until(rig, "slurmctld to forget", [&] { return is_forgotten(rig, id); });
  end_of(rig, id, "gone");
  Logger log("test", "", LogLevel::error);
  SystemClock clock;
  SlurmSchedulerOptions options;
  options.record_grace_ms = 1'000;
  SlurmScheduler scheduler(std::make_unique<CliPort>(), options, clock, log);
  JobInfo seen;
  wait_until(rig, "a conclusion", [&] {
    const auto infos = scheduler.snapshot({{"gone", id, rig.file("no-such-attempt")}});
    REQUIRE(infos.ok());
    for (const JobInfo& info : *infos)
      if (info.key == "gone") seen = info;
    return seen.state == JobState::lost;
  });
  CHECK(seen.end == SchedulerEnd::failed);
  CHECK(seen.cause.find("accounting says FAILED, exit code 9 on n") != std::string::npos);
}

TEST_CASE("either port goes to the cluster that the site names, and says so of one that slurmdbd does not know") {
  const auto configuration = CliPort().configuration();
  REQUIRE(configuration.ok());
  const auto port = [](bool helper, const std::string& cluster) -> std::unique_ptr<SlurmPort> {
    HelperPort::Options options;
    options.cluster = cluster;
    if (helper) return std::make_unique<HelperPort>(testing::helper_path(), options);
    return std::make_unique<CliPort>(submission_deadline_ms, ProgramPaths(), cluster);
  };
  for (const bool helper : {true, false}) {
    CAPTURE(helper);
    ClusterRig rig(port(helper, configuration->cluster));
    const std::string id = rig.submit(rig.with(rig.job("named", 10, 0), "hold", ""));
    CHECK(rig.only(id).comment == "named");
    const auto jobs = rig.port().jobs();
    REQUIRE(jobs.ok());
    CHECK(std::any_of(jobs->begin(), jobs->end(), [&](const SlurmJob& job) { return job.id == id; }));
    CHECK(rig.port().accounted({id}).ok());
    CHECK(rig.port().nodes()->size() == 2);
    CHECK(rig.port().configuration()->cluster == configuration->cluster);
    CHECK(rig.port().update(id, {{"comment", "renamed"}}).ok());
    CHECK(rig.port().cancel(id).ok());
    CHECK(rig.wait_state(id, "CANCELLED").comment == "renamed");
    const auto nowhere = port(helper, "nowhere")->jobs();
    REQUIRE_FALSE(nowhere.ok());
    CHECK(nowhere.error().what.find("nowhere") != std::string::npos);
  }
}

// The last one: the cluster goes on to enforce.
TEST_CASE("an unknown account is refused for good, a limit of accounting for now") {
  play({"configure", "--set", "AccountingStorageEnforce=associations,limits"});
  play({"restart-controller"});
  ClusterRig rig = commands();
  HelperPort helper(testing::helper_path());
  const auto answers = [&](const SlurmSubmission& job) {
    return std::vector<Result<std::string>>{rig.port().submit({job})[0], helper.submit({job})[0]};
  };
  for (const auto& answer : answers(rig.with(rig.job("a", 10, 0), "account", "nobody's"))) {
    REQUIRE_FALSE(answer.ok());
    CHECK(answer.error().code == ErrorCode::invalid_input);
  }
  for (const auto& answer : answers(rig.with(rig.job("b", 10, 0), "account", "project"))) CHECK(answer.ok());
  slurm({"sacctmgr", "-i", "modify", "user", "root", "where", "account=project", "set", "MaxSubmitJobs=0"});
  for (const auto& answer : answers(rig.with(rig.job("c", 10, 0), "account", "project"))) {
    REQUIRE_FALSE(answer.ok());
    CHECK(answer.error().code == ErrorCode::unavailable);
    CHECK(refusal_in(answer.error()) == Refusal::limit);  // the library says which limit it is on stderr only
    CHECK(answer.error().what.find("AssocMaxSubmitJobLimit") != std::string::npos);
  }
  slurm({"sacctmgr", "-i", "modify", "user", "root", "where", "account=project", "set", "MaxSubmitJobs=-1"});
}
