// What Slurm forgets, drops, loses and repeats: each case has a test, in virtual time.
#include "orchestrator/scheduler/slurm/slurm_scheduler.h"

#include <unistd.h>

#include "base/text/text.h"
#include "tests/unit/orchestrator/scheduler/slurm_world.h"

using namespace longhaul;

TEST_CASE("slurm: a submission whose answer was lost is found by its key and never repeated") {
  SlurmWorld world;
  world.slurm.answers_to_lose = 1;
  const auto lost = world.scheduler->submit_one(world.job("k"));
  REQUIRE_FALSE(lost.ok());
  CHECK(lost.error().code == ErrorCode::unavailable);
  // The same controller, and another one after it: both find it.
  const auto found = world.scheduler->submit_one(world.job("k", true));
  REQUIRE(found.ok());
  world.new_controller();
  CHECK(*world.scheduler->submit_one(world.job("k", true)) == *found);
  CHECK(world.slurm.submissions("k") == 1);
  CHECK(world.look(world.open("k", ""))->id == *found);
}

TEST_CASE("slurm: an unanswered submission has its time to appear from Slurm's next answer on") {
  SlurmWorld world;
  REQUIRE(world.scheduler->snapshot({}).ok());
  world.slurm.answers_to_lose = 1;
  world.slurm.appears_after_ms = SlurmWorld::settle_ms + 5'000;  // frozen for longer than it needs to settle
  REQUIRE_FALSE(world.scheduler->submit_one(world.job("k")).ok());
  world.clock.advance_ms(SlurmWorld::settle_ms + 1'000);
  CHECK(world.scheduler->submit_one(world.job("k", true)).error().code == ErrorCode::unavailable);
  world.clock.advance_ms(SlurmWorld::settle_ms);
  CHECK(world.scheduler->submit_one(world.job("k", true)).ok());
  CHECK(world.slurm.submissions("k") == 1);
}

TEST_CASE("slurm: an unanswered submission that shows up late is waited for") {
  SlurmWorld world;
  world.slurm.answers_to_lose = 1;
  world.slurm.appears_after_ms = 9'000;
  REQUIRE_FALSE(world.scheduler->submit_one(world.job("k")).ok());
  for (int second = 0; second < 9; second += 3) {
    const auto early = world.scheduler->submit_one(world.job("k", true));
    REQUIRE_FALSE(early.ok());
    CHECK(early.error().code == ErrorCode::unavailable);
    world.clock.advance_ms(3'000);
  }
  CHECK(world.scheduler->submit_one(world.job("k", true)).ok());
  CHECK(world.slurm.submissions("k") == 1);
}

TEST_CASE("slurm: a new controller believes a key absent only after the settling time, then submits") {
  SlurmWorld world;
  world.new_controller();
  CHECK(world.scheduler->submit_one(world.job("k", true)).error().code == ErrorCode::unavailable);
  CHECK(world.scheduler->submit_one(world.job("fresh")).ok());  // made in this round: nobody can have submitted it
  world.clock.advance_ms(SlurmWorld::settle_ms);
  CHECK(world.scheduler->submit_one(world.job("k", true)).ok());
  CHECK(world.slurm.submissions("k") == 1);
}

TEST_CASE(
    "slurm: of two live jobs with one key the one that holds the attempt is reported, and the other is cancelled") {
  SlurmWorld world({.nodes = 1});
  world.slurm.play = [](const std::string&, int) { return long_play(1); };
  const auto first = world.scheduler->submit_one(world.job("k"));
  REQUIRE(first.ok());
  world.new_controller();
  const auto second = world.scheduler->submit_one(world.job("k"));  // as if it were new
  REQUIRE(second.ok());
  REQUIRE(world.slurm.submissions("k") == 2);
  // Whoever only looks cancels nothing; the attempt's job is reported, whatever the ledger has.
  CHECK(world.look(world.open("k", *second))->id == *first);
  CHECK(world.slurm.cancels() == 0);
  world.scheduler->ask_before_acting([] { return Status(); });
  const auto info = world.look(world.open("k", *second));
  CHECK(info->id == *first);
  CHECK(info->state == JobState::running);
  CHECK(world.slurm.cancels() == 1);
  CHECK(world.look(world.open("k", *second))->id == *first);
  CHECK(world.slurm.cancels() == 1);
  const auto left = world.scheduler->port().jobs();
  REQUIRE(left.ok());
  for (const SlurmJob& job : *left) CHECK((job.id == *first ? job.state == "RUNNING" : job.state == "CANCELLED"));
}

TEST_CASE("slurm: a job that found its attempt claimed and ended is never the attempt's end") {
  SlurmWorld world;
  world.slurm.play = [](const std::string&, int) { return long_play(1); };
  const auto works = world.scheduler->submit_one(world.job("k"));
  REQUIRE(works.ok());
  REQUIRE(world.look(world.open("k", *works))->state == JobState::running);
  world.slurm.play = [](const std::string&, int) {
    FakeSlurm::Play second;
    second.leaves_claim = second.leaves_record = false;
    return second;
  };
  world.new_controller();  // the one that submitted the second job, and had its number
  const auto idle = world.scheduler->submit_one(world.job("k"));  // as if it were new
  REQUIRE(idle.ok());
  for (std::int64_t ms = 0; ms < 3 * SlurmWorld::grace_ms; ms += SlurmWorld::grace_ms / 2) {
    const auto info = world.look(world.open("k", *idle));
    REQUIRE(info);
    CHECK(info->state == JobState::running);
    CHECK(info->id == *works);
    world.clock.advance_ms(SlurmWorld::grace_ms / 2);
  }
}

TEST_CASE("slurm: where it cannot be known whether a lead was at work, nothing is submitted") {
  SlurmWorld world;
  JobSpec spec = world.job("k", true);
  REQUIRE(remove_tree(spec.attempt_dir).ok());
  REQUIRE(write_file_atomic(spec.attempt_dir, "in the folder's place").ok());
  const auto answer = world.scheduler->submit_one(spec);
  REQUIRE_FALSE(answer.ok());
  CHECK(answer.error().code == ErrorCode::unavailable);
  CHECK(world.slurm.submissions("k") == 0);
}

TEST_CASE("slurm: a script or a worker of which the file system says nothing costs no attempt") {
  SlurmWorld world;
  const JobSpec spec = world.job("k");
  const std::string loop = world.scratch.file("loop");  // what lies behind a link to itself nobody can look for
  REQUIRE(::symlink(loop.c_str(), loop.c_str()) == 0);
  for (std::string JobSpec::* const program : {&JobSpec::script, &JobSpec::worker}) {
    JobSpec other = spec;
    other.*program = loop + "/program";
    const auto answer = world.scheduler->submit_one(other);
    REQUIRE_FALSE(answer.ok());
    CHECK(answer.error().code == ErrorCode::unavailable);
    other.*program = world.scratch.file("nowhere");
    CHECK(world.scheduler->submit_one(other).error().code == ErrorCode::not_found);
  }
  CHECK(world.scheduler->submit_one(spec).ok());
  CHECK(world.slurm.submissions("k") == 1);
}

TEST_CASE("slurm: while slurmctld is silent, no time passes for a submission that may be on its way") {
  SlurmWorld world;
  world.slurm.answers_to_lose = 1;
  world.slurm.appears_after_ms = 65'000;  // taken when slurmctld goes on
  REQUIRE_FALSE(world.scheduler->submit_one(world.job("k")).ok());
  world.slurm.down_until_ms = world.clock.wall_ms() + 60'000;
  world.new_controller();
  for (int second = 0; second < 70; second += 10) {
    CHECK(world.scheduler->submit_one(world.job("k", true)).ok() == false);
    world.clock.advance_ms(10'000);
  }
  CHECK(world.scheduler->submit_one(world.job("k", true)).ok());
  CHECK(world.slurm.submissions("k") == 1);
}

TEST_CASE("slurm: nothing is handed over by a controller that was overtaken while it asked") {
  SlurmWorld world;
  int asked = 0;
  world.scheduler->ask_before_acting(
      [&] { return ++asked == 1 ? Status() : Status(make_error(ErrorCode::conflict, "overtaken")); });
  std::vector<JobSpec> specs;
  for (int i = 0; i < 300; ++i) specs.push_back(world.job("k" + std::to_string(i)));
  const auto ids = world.scheduler->submit(specs);
  CHECK(ids.front().ok());
  REQUIRE_FALSE(ids.back().ok());
  CHECK(ids.back().error().code == ErrorCode::conflict);
  CHECK(world.slurm.submissions("k299") == 0);
}

TEST_CASE("slurm: a key that has left its record or claim is not submitted again, though Slurm has forgotten it") {
  SlurmWorld world;
  const JobSpec done = world.job("done", true), led = world.job("led", true);
  leave_record(done.attempt_dir, "succeeded");
  REQUIRE(write_claim(join_path(led.attempt_dir, "claim.json"),
                      {.key = "led", .host = "n1", .process = {}, .started_ms = 5, .scheduler_job = {}})
              .ok());
  const auto ids = world.scheduler->submit({done, led});
  REQUIRE(ids[0].ok());
  REQUIRE(ids[1].ok());
  CHECK(world.slurm.submissions("done") == 0);
  CHECK(world.slurm.submissions("led") == 0);
  CHECK(world.look(world.open("done", *ids[0]))->state == JobState::ended);
  CHECK(world.scheduler->cancel(*ids[0]).ok());
  // The one that was claimed may still run somewhere: lost only after a while.
  CHECK(world.look(world.open("led", *ids[1]))->state != JobState::lost);
  world.clock.advance_ms(SlurmWorld::grace_ms);
  CHECK(world.look(world.open("led", *ids[1]))->state == JobState::lost);
}

TEST_CASE("slurm: all unknown keys of a window share one snapshot") {
  SlurmWorld world;
  std::vector<JobSpec> specs;
  for (int i = 0; i < 50; ++i) specs.push_back(world.job(format("k{}", i), true));
  const int before = world.slurm.queries();
  for (const auto& id : world.scheduler->submit(specs)) CHECK(id.ok());
  CHECK(world.slurm.queries() == before + 1);
}

TEST_CASE("slurm: questions of a round do not grow with the jobs that it looks at") {
  for (const int jobs : {5, 300}) {
    CAPTURE(jobs);
    SlurmWorld world;
    world.slurm.play = [](const std::string&, int) { return long_play(1); };
    std::vector<JobSpec> specs;
    for (int i = 0; i < jobs; ++i) specs.push_back(world.job(format("k{}", i)));
    const auto ids = world.scheduler->submit(specs);
    std::vector<OpenJob> open;
    for (int i = 0; i < jobs; ++i) open.push_back(world.open(format("k{}", i), *ids[static_cast<std::size_t>(i)]));
    const auto asked = [&] {
      const int before = world.slurm.questions();
      REQUIRE(world.scheduler->snapshot(open).ok());
      return world.slurm.questions() - before;
    };
    CHECK(asked() == 1);
    // All of them forgotten at once, which a crash of slurmctld does: each is asked for by itself, a few in a round.
    for (const auto& id : ids) world.slurm.lose(*id);
    world.clock.advance_ms(1'000);
    CHECK(asked() == 1);
    world.clock.advance_ms(SlurmWorld::grace_ms);
    CHECK(asked() <= 2 + std::min(jobs, 20));
  }
}

TEST_CASE("slurm: a forgotten job is known by its record, else lost after a while, never at once") {
  FakeSlurm::Options options;
  options.min_job_age_ms = 2'000;
  SlurmWorld world(options);
  FakeSlurm::Play silent;
  silent.leaves_record = false;
  world.slurm.play = [&](const std::string& comment, int) { return comment == "silent" ? silent : FakeSlurm::Play{}; };
  const auto reported = world.scheduler->submit_one(world.job("reported"));
  const auto gone = world.scheduler->submit_one(world.job("silent"));
  REQUIRE(reported.ok());
  REQUIRE(gone.ok());
  world.clock.advance_ms(10'000);  // both have ended, and Slurm knows neither
  CHECK(world.look(world.open("reported", *reported))->record->outcome == "succeeded");
  CHECK(world.look(world.open("silent", *gone))->state != JobState::lost);
  world.clock.advance_ms(SlurmWorld::grace_ms - 1'000);
  CHECK(world.look(world.open("silent", *gone))->state != JobState::lost);
  world.clock.advance_ms(1'000);
  const auto lost = world.look(world.open("silent", *gone));
  CHECK(lost->state == JobState::lost);
  CHECK(lost->end == SchedulerEnd::forgotten);
  CHECK_FALSE(lost->cause.empty());
  // A record that comes after that changes nothing any more.
  leave_record(world.scratch.file("silent"), "succeeded");
  CHECK(world.look(world.open("silent", *gone))->state == JobState::lost);
}

TEST_CASE(
    "slurm: where Slurm itself remembers long enough, a process that looks once knows that a forgotten job is lost") {
  SlurmWorld world;  // MinJobAge 300 s
  FakeSlurm::Play silent;
  silent.leaves_record = false;
  world.slurm.play = [&](const std::string&, int) { return silent; };
  const auto id = world.scheduler->submit_one(world.job("k"));
  world.clock.advance_ms(1'000'000);
  world.new_controller();
  CHECK(world.look(world.open("k", *id))->state == JobState::lost);
}

TEST_CASE("slurm: a memory of Slurm that is shorter than a record is waited for, by however little, is too short") {
  FakeSlurm::Options remembers;
  remembers.min_job_age_ms = 60'000;
  SlurmWorld world(remembers);
  FakeSlurm::Play silent;
  silent.leaves_record = false;
  world.slurm.play = [&](const std::string&, int) { return silent; };
  const auto id = world.scheduler->submit_one(world.job("k"));
  world.clock.advance_ms(1'000'000);
  for (const std::int64_t grace_ms : {60'001, 60'000}) {
    SlurmSchedulerOptions options;
    options.settle_ms = SlurmWorld::settle_ms, options.record_grace_ms = grace_ms;
    world.scheduler = std::make_unique<SlurmScheduler>(world.slurm.port(), options, world.clock, world.log);
    CHECK((world.look(world.open("k", *id))->state == JobState::lost) == (grace_ms == 60'000));
  }
}

TEST_CASE("slurm: a job that a crashed slurmctld has lost is lost only after a while") {
  SlurmWorld world;
  const auto id = world.scheduler->submit_one(world.job("k"));
  CHECK(world.look(world.open("k", *id))->state == JobState::running);
  world.slurm.lose(*id);
  CHECK(world.look(world.open("k", *id))->state == JobState::running);
  world.clock.advance_ms(SlurmWorld::grace_ms + 1);
  // Its lead went on and has left a record by now.
  leave_record(world.scratch.file("k"), "succeeded");
  CHECK(world.look(world.open("k", *id))->state == JobState::ended);
}

TEST_CASE("slurm: accounting says how a forgotten job ended; when it is down the job is lost all the same") {
  for (const bool down : {false, true}) {
    CAPTURE(down);
    FakeSlurm::Options options;
    options.accounting = true;
    options.min_job_age_ms = 2'000;
    SlurmWorld world(options);
    FakeSlurm::Play killed;
    killed.leaves_record = false;
    killed.state = "OUT_OF_MEMORY";
    world.slurm.play = [&](const std::string&, int) { return killed; };
    world.slurm.accounting_down = down;
    const auto id = world.scheduler->submit_one(world.job("k"));
    world.clock.advance_ms(10'000);
    CHECK(world.look(world.open("k", *id))->state != JobState::lost);
    world.clock.advance_ms(SlurmWorld::grace_ms);
    const auto lost = world.look(world.open("k", *id));
    CHECK(lost->state == JobState::lost);
    CHECK(lost->end == (down ? SchedulerEnd::forgotten : SchedulerEnd::out_of_memory));
  }
}

TEST_CASE("slurm: an end without a record is lost after a grace, and says state, reason, exit code and nodes") {
  SlurmWorld world;
  FakeSlurm::Play play;
  play.state = "NODE_FAIL";
  play.reason = "NodeDown";
  play.leaves_record = false;
  FakeSlurm::Play late;
  late.record_late_ms = 20'000;
  world.slurm.play = [&](const std::string& comment, int) { return comment == "late" ? late : play; };
  const auto id = world.scheduler->submit_one(world.job("k"));
  const auto slow = world.scheduler->submit_one(world.job("late"));
  world.clock.advance_ms(2'000);
  CHECK(world.look(world.open("k", *id))->state == JobState::running);
  CHECK(world.look(world.open("late", *slow))->state == JobState::running);
  world.clock.advance_ms(25'000);
  CHECK(world.look(world.open("late", *slow))->state == JobState::ended);
  world.clock.advance_ms(SlurmWorld::grace_ms);
  const auto lost = world.look(world.open("k", *id));
  CHECK(lost->state == JobState::lost);
  CHECK(lost->end == SchedulerEnd::node_fail);
  for (const char* word : {"NODE_FAIL", "NodeDown", "exit code 0", "n1"})
    CHECK(lost->cause.find(word) != std::string::npos);
  SlurmJob without;
  without.state = "FAILED";
  for (const char* none : {"", "None"}) {
    without.reason = none;
    CHECK(end_text(without, "Slurm") == "Slurm says FAILED, exit code 0");
  }
}

TEST_CASE("slurm: every end has its name") {
  const std::vector<std::pair<const char*, SchedulerEnd>> ends = {
      {"COMPLETED", SchedulerEnd::completed},        {"FAILED", SchedulerEnd::failed},
      {"CANCELLED", SchedulerEnd::cancelled},        {"TIMEOUT", SchedulerEnd::time_limit},
      {"NODE_FAIL", SchedulerEnd::node_fail},        {"PREEMPTED", SchedulerEnd::preempted},
      {"BOOT_FAIL", SchedulerEnd::boot_fail},        {"DEADLINE", SchedulerEnd::deadline},
      {"OUT_OF_MEMORY", SchedulerEnd::out_of_memory}};
  for (const auto& [state, end] : ends) {
    SlurmJob job;
    job.state = state;
    CHECK(scheduler_end_of(job) == end);
  }
  SlurmJob job;
  job.state = "FAILED";
  job.reason = "JobLaunchFailure";
  CHECK(scheduler_end_of(job) == SchedulerEnd::launch_failed);
  job.exit_signal = 9;  // Slurm gives that reason also to a script that was killed
  CHECK(scheduler_end_of(job) == SchedulerEnd::failed);
  job.reason = "";
  job.exit_signal = 53;  // what accounting keeps of a script that slurmd could not start
  CHECK(scheduler_end_of(job) == SchedulerEnd::launch_failed);
  CHECK(end_text(job, "Slurm").find("a file system that the node shares") != std::string::npos);
}

TEST_CASE("slurm: of accounting's records the newest of this very job reports the end, once it is known") {
  const auto record = [](const char* state, const char* comment, int submitted, int ended) {
    SlurmJob job;
    job.id = "12";
    job.state = state;
    job.comment = comment;
    job.submitted_s = submitted;
    job.ended_s = ended;
    return job;
  };
  const auto state = [](const std::vector<SlurmJob>& records) {
    const SlurmJob* reported = accounted_end(records, "12", {.key = "k"});
    return reported ? reported->state : std::string("nothing");
  };
  CHECK(state({}) == "nothing");
  CHECK(state({record("FAILED", "k", 5, 9)}) == "FAILED");
  CHECK(state({record("FAILED", "", 5, 9)}) == "FAILED");        // a site that stores no comments
  CHECK(state({record("FAILED", "", 5, 0)}) == "nothing");       // slurmdbd has not heard all of it
  CHECK(state({record("FAILED", "other", 5, 9)}) == "nothing");  // the number is another job's
  CHECK(state({record("FAILED", "other", 15, 19), record("TIMEOUT", "k", 5, 9)}) == "TIMEOUT");
  CHECK(state({record("FAILED", "", 15, 19), record("TIMEOUT", "k", 5, 9)}) == "TIMEOUT");
  // Lives of a job that was queued again, in any order; the newest still runs as far as accounting knows.
  CHECK(state({record("COMPLETED", "k", 15, 19), record("NODE_FAIL", "k", 5, 9)}) == "COMPLETED");
  CHECK(state({record("NODE_FAIL", "k", 5, 9), record("RUNNING", "", 15, 0)}) == "nothing");
  SlurmJob task = record("FAILED", "k", 5, 9);
  task.array_id = "7";
  task.array_tasks = "3";
  CHECK(accounted_end({task}, "7_3", {.key = "k"}) != nullptr);
  CHECK(accounted_end({task}, "7_2", {.key = "k"}) == nullptr);
  CHECK(accounted_end({task}, "12", {.key = "k"}) == nullptr);
  SlurmJob changed = record("FAILED", "the site's", 5, 9);
  changed.name = submission_name("lh-run-stage", "k");
  CHECK(state({changed}) == "FAILED");  // ours by its name
  CHECK(state({changed, record("TIMEOUT", "other", 15, 19)}) == "FAILED");
  changed.comment.clear();
  CHECK(state({changed, record("TIMEOUT", "k", 3, 4)}) == "FAILED");
}

TEST_CASE("slurm: a requeued id is queued again and its restarts have grown") {
  SlurmWorld world;
  const auto id = world.scheduler->submit_one(world.job("k"));
  CHECK(world.look(world.open("k", *id))->state == JobState::running);
  world.slurm.fail_node_and_requeue(*id);
  const auto again = world.look(world.open("k", *id));
  CHECK((again->state == JobState::queued || again->state == JobState::running));
  CHECK(again->restarts == 1);
  CHECK(again->id == *id);
  CHECK(world.slurm.submissions("k") == 1);
}

TEST_CASE("slurm: 'launch failed requeued held' waits for a release, and says so") {
  SlurmWorld world;
  const auto id = world.scheduler->submit_one(world.job("k"));
  world.slurm.fail_launch_and_hold(*id);
  world.clock.advance_ms(100'000);
  const auto held = world.look(world.open("k", *id));
  CHECK(held->state == JobState::queued);
  CHECK(held->held);
  CHECK(held->reason == "launch_failed_requeued_held");
  CHECK(held->restarts == 1);
  CHECK(world.scheduler->release(*id).ok());
  CHECK(world.look(world.open("k", *id))->state == JobState::running);
}

TEST_CASE("slurm: what a person holds, its owner or an administrator, is not held for us to release") {
  for (const std::string reason : {"JobHeldUser", "JobHeldAdmin"}) {
    CAPTURE(reason);
    SlurmWorld world;
    world.slurm.play = [](const std::string&, int) { return long_play(2); };
    REQUIRE(world.scheduler->submit_one(world.job("first")).ok());
    const auto id = world.scheduler->submit_one(world.job("k"));
    world.slurm.hold_by_person(*id, reason);
    const auto held = world.look(world.open("k", *id));
    CHECK(held->state == JobState::queued);
    CHECK_FALSE(held->held);
  }
}

TEST_CASE("slurm: why a job was asked to stop is known while it still clears its nodes") {
  for (const bool rank_first : {false, true}) {  // SIGTERM reaches all: the lead may see its rank die of it first
    CAPTURE(rank_first);
    SlurmWorld world;
    world.slurm.play = [](const std::string&, int) { return long_play(1); };
    const auto id = world.scheduler->submit_one(world.job("k"));
    REQUIRE(world.look(world.open("k", *id))->state == JobState::running);
    JobRecord record;
    record.outcome = rank_first ? "failed" : "cancelled";
    record.signal = rank_first ? 15 : 0;
    REQUIRE(write_record(join_path(world.scratch.file("k"), "record.json"), record).ok());
    CHECK(world.look(world.open("k", *id))->state == JobState::running);  // not known yet
    world.slurm.begin_to_end(*id, "PREEMPTED");
    const auto ended = world.look(world.open("k", *id));
    CHECK(ended->state == JobState::ended);
    CHECK(ended->end == SchedulerEnd::preempted);
  }
}

TEST_CASE("slurm: a forgotten job is not mistaken for another one that was given its number") {
  SlurmWorld world;
  world.slurm.play = [](const std::string&, int) { return long_play(1); };
  const auto id = world.scheduler->submit_one(world.job("k"));
  world.slurm.lose_with_its_number(*id);
  world.new_controller();
  REQUIRE(*world.scheduler->submit_one(world.job("stranger")) == *id);
  (void)world.look(world.open("k", *id));
  world.clock.advance_ms(SlurmWorld::grace_ms + 1'000);
  const auto lost = world.look(world.open("k", *id));
  CHECK(lost->state == JobState::lost);
  CHECK(lost->end == SchedulerEnd::forgotten);
}

TEST_CASE("slurm: tasks of an array have keys and ends of their own") {
  SlurmWorld world;
  world.slurm.play = [](const std::string&, int task) {
    FakeSlurm::Play play;
    if (task == 7) play.state = "FAILED";
    return play;
  };
  JobSpec spec = world.job("a");
  spec.array_tasks = {3, 4, 7};
  spec.array_throttle = 1;
  std::string folders;
  for (int task = 0; task < 8; ++task) {
    const std::string folder = world.scratch.file(format("task{}", task));
    REQUIRE(make_directories(folder).ok());
    folders += folder + "\n";
  }
  REQUIRE(write_file_atomic(join_path(spec.attempt_dir, "tasks.txt"), folders).ok());
  const auto id = world.scheduler->submit_one(spec);
  REQUIRE(id.ok());
  std::vector<OpenJob> open;
  for (const int task : spec.array_tasks)
    open.push_back({array_task_key("a", task), format("{}_{}", *id, task), world.scratch.file(format("task{}", task))});
  const auto states = [&] {
    const auto infos = world.scheduler->snapshot(open);
    REQUIRE(infos.ok());
    std::map<std::string, JobInfo> found;
    for (const JobInfo& info : *infos) found[info.key] = info;
    CHECK(found.size() == infos->size());
    return found;
  };
  auto seen = states();
  REQUIRE(seen.size() == 3);
  CHECK(seen["a+3"].state == JobState::running);
  CHECK(seen["a+4"].state == JobState::queued);
  CHECK(seen["a+7"].id == *id + "_7");
  // A waiting task that is cancelled alone leaves nothing in Slurm, and has ended.
  CHECK(world.scheduler->cancel(*id + "_4").ok());
  CHECK(states()["a+4"].record->outcome == "cancelled");
  // Another controller finds the array, whose first task has left its claim.
  world.new_controller();
  JobSpec again = spec;
  again.maybe_known = true;
  CHECK(*world.scheduler->submit_one(again) == *id);
  world.clock.advance_ms(10'000);
  seen = states();
  CHECK(seen["a+3"].record->outcome == "succeeded");
  CHECK(seen["a+7"].record->outcome == "failed");
  CHECK(seen["a+4"].state != JobState::lost);  // this controller knows nothing of the cancelling: only after a while
  CHECK(world.slurm.submissions("a") == 1);
  spec.key = "wide";
  spec.array_tasks = {1001};
  CHECK(world.scheduler->submit_one(spec).error().code == ErrorCode::invalid_input);
}

TEST_CASE("slurm: a scheduler that does not answer for ten minutes is not an end of anything") {
  SlurmWorld world;
  FakeSlurm::Play longer;
  longer.duration_ms = 3'600'000;
  world.slurm.play = [&](const std::string&, int) { return longer; };
  const auto id = world.scheduler->submit_one(world.job("k"));
  REQUIRE(id.ok());
  world.slurm.down_until_ms = world.clock.wall_ms() + 600'000;
  for (int minute = 0; minute < 10; ++minute) {
    CHECK(world.scheduler->snapshot({world.open("k", *id)}).error().code == ErrorCode::unavailable);
    CHECK(world.scheduler->submit_one(world.job("n")).error().code == ErrorCode::unavailable);
    CHECK(world.scheduler->cancel(*id).error().code == ErrorCode::unavailable);
    world.clock.advance_ms(60'000);
  }
  CHECK(world.look(world.open("k", *id))->state == JobState::running);
}

TEST_CASE("slurm: limits are waited for, refusals are final") {
  FakeSlurm::Options options;
  options.live_jobs_max = 1;
  SlurmWorld world(options);
  REQUIRE(world.scheduler->submit_one(world.job("a")).ok());
  CHECK(world.scheduler->submit_one(world.job("b")).error().code == ErrorCode::unavailable);
  world.clock.advance_ms(60'000);
  // Time to settle counts from Slurm's first answer to a question about it.
  CHECK(world.scheduler->submit_one(world.job("b", true)).error().code == ErrorCode::unavailable);
  world.clock.advance_ms(60'000);
  CHECK(world.scheduler->submit_one(world.job("b", true)).ok());
  CHECK(world.slurm.submissions("b") == 1);
  world.slurm.refuse = [](const SlurmSubmission&) {
    return std::optional(make_error(ErrorCode::invalid_input, "Invalid account or account/partition combination"));
  };
  const auto refused = world.scheduler->submit_one(world.job("c"));
  CHECK(refused.error().code == ErrorCode::invalid_input);
  CHECK(refused.error().what.find("Invalid account") != std::string::npos);
  JobSpec no_script = world.job("d");
  no_script.script = "/nowhere/job.sbatch";
  CHECK(world.scheduler->submit_one(no_script).error().code == ErrorCode::not_found);
  JobSpec bad_key = world.job("e");
  bad_key.key = "a b";
  CHECK(world.scheduler->submit_one(bad_key).error().code == ErrorCode::invalid_input);
}

TEST_CASE("slurm: a queued job that is cancelled ends at once, though nobody wrote a record") {
  SlurmWorld world;
  FakeSlurm::Play longer;
  longer.duration_ms = 50'000;
  longer.nodes = 2;
  world.slurm.play = [&](const std::string&, int) { return longer; };
  REQUIRE(world.scheduler->submit_one(world.job("first")).ok());
  const auto id = world.scheduler->submit_one(world.job("second"));
  REQUIRE(world.scheduler->cancel(*id).ok());
  const auto info = world.look(world.open("second", *id));
  CHECK(info->state == JobState::ended);
  CHECK(info->record->outcome == "cancelled");
  CHECK(info->end == SchedulerEnd::cancelled);
}
