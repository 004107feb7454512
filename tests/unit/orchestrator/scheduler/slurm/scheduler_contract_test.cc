// One contract, three schedulers: the local one with real leads, the fake one with virtual time that stands for it in
// simulations, and the one of Slurm, here over a fake cluster.
#include <doctest/doctest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <memory>

#include "base/files/files.h"
#include "base/process/process.h"
#include "base/text/text.h"
#include "contracts/records/attempt.h"
#include "contracts/settings/stages/command.h"
#include "contracts/tasks/task.h"
#include "orchestrator/scheduler/local_scheduler.h"
#include "orchestrator/scheduler/slurm/slurm_scheduler.h"
#include "tests/support/scratch.h"
#include "tests/unit/orchestrator/scheduler/fake_scheduler.h"
#include "tests/unit/orchestrator/scheduler/fake_slurm.h"

using namespace longhaul;

namespace {

// What the suite needs of a scheduler under test: jobs that take some time, and time that passes.
class SchedulerRig {
 public:
  virtual ~SchedulerRig() = default;
  virtual Scheduler& scheduler() = 0;
  virtual JobSpec job(const std::string& name, int slots, std::int64_t ms, bool fails) = 0;
  virtual Clock& clock() = 0;
  virtual int starts() = 0;                           // of jobs, counted from outside
  virtual void new_controller() = 0;                  // the process is killed, another takes its place
  virtual std::vector<OpenJob> open() { return {}; }  // what the controller's log says

  JobInfo info(const std::string& key) {
    const auto jobs = scheduler().snapshot(open());
    REQUIRE(jobs.ok());
    for (const JobInfo& candidate : *jobs)
      if (candidate.key == key) return candidate;
    FAIL("no job " << key);
    return {};
  }
  JobInfo wait_for(const std::string& key, std::initializer_list<JobState> states) {
    for (int tries = 0; tries < 4000; ++tries) {
      const JobInfo seen = info(key);
      if (std::find(states.begin(), states.end(), seen.state) != states.end()) return seen;
      clock().sleep_ms(3);
    }
    FAIL("job " << key << " did not get there");
    return {};
  }
};

class FakeRig final : public SchedulerRig {
 public:
  FakeRig() : scheduler_(clock_, 2, [this](const std::string& key) { return scripts_[key]; }) {}
  Scheduler& scheduler() override { return scheduler_; }
  Clock& clock() override { return clock_; }
  int starts() override { return scheduler_.starts(); }
  void new_controller() override {}
  JobSpec job(const std::string& name, int slots, std::int64_t ms, bool fails) override {
    scripts_[name] = {ms, fails ? "failed" : "succeeded", fails ? "exit code 1" : ""};
    return {.key = name,
            .attempt_dir = "/nowhere",
            .worker = "/nowhere",
            .slots = slots,
            .script = {},
            .after = {},
            .array_tasks = {}};
  }

 private:
  ManualClock clock_;
  std::map<std::string, FakeScheduler::Script> scripts_;
  FakeScheduler scheduler_;
};

class LocalRig final : public SchedulerRig {
 public:
  LocalRig() : log_("test", "", LogLevel::error) {
    static std::atomic<int> counter{0};
    root_ = format("/tmp/longhaul-local-{}-{}", ::getpid(), counter.fetch_add(1));
    REQUIRE(make_directories(root_).ok());
    new_controller();
  }
  ~LocalRig() override { (void)remove_tree(root_).ok(); }
  Scheduler& scheduler() override { return *scheduler_; }
  Clock& clock() override { return clock_; }
  int starts() override {
    const auto text = read_file(root_ + "/starts");
    return text.ok() ? static_cast<int>(std::count(text->begin(), text->end(), '\n')) : 0;
  }
  void new_controller() override { scheduler_ = std::make_unique<LocalScheduler>(root_, 2, clock_, log_); }
  JobSpec job(const std::string& name, int slots, std::int64_t ms, bool fails) override {
    Task task;
    task.stage = name;
    task.kind = "command";
    task.key = name + "-key";
    CommandSettings settings;
    settings.script =
        format("echo {} >> {}/starts; sleep {}; exit {}", name, root_, static_cast<double>(ms) / 1000, fails ? 1 : 0);
    task.settings = command_fields().to_value(settings);
    Attempt attempt;
    attempt.key = name;
    attempt.stage_dir = root_ + "/" + name;
    attempt.attempt_dir = attempt.stage_dir + "/attempts/1";
    attempt.task_path = attempt.stage_dir + "/task.toml";
    REQUIRE(make_directories(attempt.attempt_dir).ok());
    REQUIRE(write_task(attempt.task_path, task).ok());
    REQUIRE(write_attempt(attempt.attempt_dir + "/attempt.toml", attempt).ok());
    return {.key = name,
            .attempt_dir = attempt.attempt_dir,
            .worker = parent_path(own_program_path()) + "/longhaul-worker",
            .slots = slots,
            .script = {},
            .after = {},
            .array_tasks = {}};
  }
  const std::string& root() const { return root_; }

 private:
  SystemClock clock_;
  Logger log_;
  std::string root_;
  std::unique_ptr<LocalScheduler> scheduler_;
};

class SlurmRig final : public SchedulerRig {
 public:
  SlurmRig() : slurm_(clock_, {}), log_("test", "", LogLevel::error) {
    slurm_.play = [this](const std::string& comment, int) { return plays_[comment]; };
    REQUIRE(write_file_atomic(scratch_.file("job.sbatch"), "#!/bin/sh\n").ok());
    new_controller();
  }
  Scheduler& scheduler() override { return *scheduler_; }
  Clock& clock() override { return clock_; }
  int starts() override { return slurm_.starts(); }
  void new_controller() override {
    SlurmSchedulerOptions options;
    options.settle_ms = 0;
    scheduler_ = std::make_unique<SlurmScheduler>(slurm_.port(), options, clock_, log_);
  }
  std::vector<OpenJob> open() override { return open_; }
  JobSpec job(const std::string& name, int slots, std::int64_t ms, bool fails) override {
    FakeSlurm::Play play;
    play.duration_ms = ms;
    play.nodes = slots;
    if (fails) play.state = "FAILED";
    plays_[name] = play;
    const std::string folder = scratch_.file(name);
    REQUIRE(make_directories(folder).ok());
    const auto known = std::find_if(open_.begin(), open_.end(), [&](const OpenJob& job) { return job.key == name; });
    if (known == open_.end()) open_.push_back({name, "", folder});
    return {.key = name,
            .attempt_dir = folder,
            .worker = {},
            .slots = slots,
            .script = scratch_.file("job.sbatch"),
            .after = {},
            .array_tasks = {}};
  }

 private:
  ManualClock clock_;
  testing::Scratch scratch_;
  FakeSlurm slurm_;
  Logger log_;
  std::map<std::string, FakeSlurm::Play> plays_;
  std::vector<OpenJob> open_;
  std::unique_ptr<SlurmScheduler> scheduler_;
};

void scheduler_contract(SchedulerRig& rig) {
  // Submitting is idempotent by key, also across a killed controller.
  const JobSpec a = rig.job("a", 1, 150, false);
  const auto id = rig.scheduler().submit_one(a);
  REQUIRE(id.ok());
  CHECK(*rig.scheduler().submit_one(a) == *id);
  rig.new_controller();
  CHECK(*rig.scheduler().submit_one(a) == *id);
  CHECK(rig.scheduler().snapshot(rig.open())->size() == 1);

  // A job runs, ends, and keeps its record; its end is seen by a later controller as well.
  CHECK(rig.wait_for("a", {JobState::running}).started_ms > 0);
  rig.new_controller();
  const JobInfo ended = rig.wait_for("a", {JobState::ended, JobState::lost});
  REQUIRE(ended.state == JobState::ended);
  CHECK(ended.record->outcome == "succeeded");
  CHECK(rig.starts() == 1);

  // Slots: two jobs of one slot run side by side, the third waits; a job larger than the machine runs alone.
  for (const char* name : {"b", "c"}) REQUIRE(rig.scheduler().submit_one(rig.job(name, 1, 250, false)).ok());
  rig.clock().sleep_ms(2);
  REQUIRE(rig.scheduler().submit_one(rig.job("d", 16, 50, true)).ok());
  rig.wait_for("b", {JobState::running});
  rig.wait_for("c", {JobState::running});
  CHECK(rig.info("d").state == JobState::queued);
  const JobInfo failed = rig.wait_for("d", {JobState::ended});
  CHECK(failed.record->outcome == "failed");
  CHECK(rig.info("b").state == JobState::ended);
  CHECK(rig.info("c").state == JobState::ended);

  // Cancelling: a queued job never starts, a running one ends as cancelled, an ended one stays as it is.
  const auto e = rig.scheduler().submit_one(rig.job("e", 2, 20'000, false));
  rig.clock().sleep_ms(2);
  const auto f = rig.scheduler().submit_one(rig.job("f", 2, 20'000, false));
  rig.wait_for("e", {JobState::running});
  CHECK(rig.info("f").state == JobState::queued);
  const int starts = rig.starts();
  CHECK(rig.scheduler().cancel(*f).ok());
  CHECK(rig.wait_for("f", {JobState::ended}).record->outcome == "cancelled");
  CHECK(rig.scheduler().cancel(*e).ok());
  CHECK(rig.wait_for("e", {JobState::ended}).record->outcome == "cancelled");
  CHECK(rig.scheduler().cancel(*e).ok());
  CHECK(rig.scheduler().cancel(*id).ok());
  CHECK(rig.info("a").record->outcome == "succeeded");
  CHECK(rig.starts() <= starts + 1);  // e may not have counted itself yet; f never does
  CHECK(rig.scheduler().cancel("unheard-of").error().code == ErrorCode::not_found);
}

}  // namespace

TEST_CASE("scheduler contract: fake, virtual time") {
  FakeRig rig;
  scheduler_contract(rig);
}

TEST_CASE("scheduler contract: slurm, a fake cluster") {
  SlurmRig rig;
  scheduler_contract(rig);
}

TEST_CASE("scheduler contract: local, real leads") {
  LocalRig rig;
  scheduler_contract(rig);
}

TEST_CASE("local: a lead that is killed is a lost job, a record wins over a process that is gone") {
  LocalRig rig;
  REQUIRE(rig.scheduler().submit_one(rig.job("a", 1, 20'000, false)).ok());
  rig.wait_for("a", {JobState::running});
  const auto claim = read_claim(rig.root() + "/a/attempts/1/claim.json");
  REQUIRE(claim.ok());
  ::kill(claim->process.pid, SIGKILL);
  const JobInfo lost = rig.wait_for("a", {JobState::lost, JobState::ended});
  CHECK(lost.state == JobState::lost);
  CHECK(lost.cause.find(format("pid {}", claim->process.pid)) != std::string::npos);
  // The same files with a record: whoever looks for the first time sees the end, not the loss.
  JobRecord record;
  record.outcome = "succeeded";
  REQUIRE(write_record(rig.root() + "/a/attempts/1/record.json", record).ok());
  rig.new_controller();
  CHECK(rig.info("a").state == JobState::ended);
}

TEST_CASE("local: a lead that cannot begin is given up after three starts, with its last lines") {
  LocalRig rig;
  const JobSpec spec = rig.job("a", 1, 10, false);
  REQUIRE(write_file_atomic(spec.attempt_dir + "/attempt.toml", "this is not an attempt").ok());
  REQUIRE(rig.scheduler().submit_one(spec).ok());
  const JobInfo lost = rig.wait_for("a", {JobState::lost});
  CHECK(lost.cause.find("3 times") != std::string::npos);
  CHECK(lost.cause.find("attempt.toml") != std::string::npos);
}

TEST_CASE("local: a job that was given up is not started by the next controller") {
  LocalRig rig;
  const JobSpec spec = rig.job("a", 1, 10, false);
  const auto good = read_file(spec.attempt_dir + "/attempt.toml");
  REQUIRE(good.ok());
  REQUIRE(write_file_atomic(spec.attempt_dir + "/attempt.toml", "this is not an attempt").ok());
  REQUIRE(rig.scheduler().submit_one(spec).ok());
  rig.wait_for("a", {JobState::lost});
  REQUIRE(write_file_atomic(spec.attempt_dir + "/attempt.toml", *good).ok());  // the file system answers again
  rig.new_controller();
  const JobInfo ended = rig.info("a");
  CHECK(ended.state == JobState::ended);
  REQUIRE(ended.record.has_value());
  CHECK(ended.record->outcome == "failed");
  CHECK(ended.record->cause.find("3 times") != std::string::npos);
  CHECK(rig.starts() == 0);
}

TEST_CASE("local: a job that is given up where no claim can be written leaves the queue") {
  LocalRig rig;
  const JobSpec spec = rig.job("a", 1, 10, false);
  REQUIRE(rig.scheduler().submit_one(spec).ok());
  REQUIRE(remove_tree(spec.attempt_dir).ok());
  rig.wait_for("a", {JobState::lost});
  rig.new_controller();
  const auto jobs = rig.scheduler().snapshot({});
  REQUIRE(jobs.ok());
  CHECK(jobs->empty());
}

TEST_CASE("local: a missing worker program is refused at submission") {
  LocalRig rig;
  JobSpec spec = rig.job("a", 1, 10, false);
  spec.worker = "/nowhere/longhaul-worker";
  CHECK(rig.scheduler().submit_one(spec).error().code == ErrorCode::not_found);
}
