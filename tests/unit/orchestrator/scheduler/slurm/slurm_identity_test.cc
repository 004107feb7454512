// Sites that change what a job of ours is known by: submit filters, wrappers, numbers that are given again. Whatever
// they do, a submission has one job, and a cancellation leaves none.
#include "orchestrator/scheduler/slurm/slurm_identity.h"

#include <functional>
#include <map>
#include <random>
#include <set>

#include "base/text/text.h"
#include "tests/unit/orchestrator/scheduler/slurm_world.h"

namespace longhaul {
namespace {

using Filter = std::function<void(SlurmJob&)>;

struct NamedFilter {
  const char* name;
  Filter apply;
};

std::vector<NamedFilter> filters() {
  return {{"rewrites comments", [](SlurmJob& job) { job.comment = "x"; }},
          {"prefixes comments", [](SlurmJob& job) { job.comment = "p:" + job.comment; }},
          {"clears comments", [](SlurmJob& job) { job.comment.clear(); }},
          {"prefixes names as well", [](SlurmJob& job) { job.comment.clear(), job.name = "p-" + job.name; }},
          {"renames as well", [](SlurmJob& job) { job.comment = job.name = "x"; }},
          {"submits a copy of the script", [](SlurmJob& job) { job.comment.clear(), job.command = "/tmp/slurmXYZ"; }}};
}

std::function<FakeSlurm::Play(const std::string&, int)> runs_long() {
  return [](const std::string&, int) { return long_play(1); };
}

}  // namespace

TEST_CASE("slurm identity: the names of two submissions end differently, and are no longer than sites take") {
  const std::string key = "pretrain.2.8d2f3a11c0de4711beef";
  CHECK(name_tail(key) == ".2.8d2f3a11c0de");
  CHECK(name_tail("k") == ".k");
  CHECK(submission_name("lh-demo-1-pretrain", key) == "lh-demo-1-pretrain.2.8d2f3a11c0de");
  CHECK(submission_name(std::string(100, 'a'), key).size() == 100);
  CHECK(ends_with(submission_name(std::string(100, 'a'), key), ".2.8d2f3a11c0de"));
}

TEST_CASE(
    "slurm identity: a submission has one job whatever the site makes of its comment, and a cancellation ends it") {
  for (const NamedFilter& filter : filters()) {
    CAPTURE(filter.name);
    SlurmWorld world({.nodes = 1});
    world.slurm.play = runs_long();
    world.slurm.filter = filter.apply;
    const auto runs = world.scheduler->submit_one(world.job("k")), waits = world.scheduler->submit_one(world.job("w"));
    REQUIRE(runs.ok());
    const OpenJob first = world.open("k", *runs), second = world.open("w", *waits);
    for (std::int64_t ms = 0; ms < 4 * SlurmWorld::grace_ms; ms += SlurmWorld::grace_ms) {
      CHECK(world.look(first)->state == JobState::running);
      CHECK(world.look(second)->state == JobState::queued);
      world.new_controller();
      world.clock.advance_ms(SlurmWorld::grace_ms);
    }
    (void)world.look(first);
    REQUIRE(world.scheduler->notices().size() == 1);  // once, for two jobs and any number of looks
    CHECK(world.scheduler->notices()[0].id == "comment_changed");
    CHECK(world.slurm.submissions("k") == 1);
    for (const auto& id : {runs, waits}) CHECK(world.scheduler->cancel(*id).ok());
    CHECK(world.slurm.live() == 0);
    CHECK(world.look(first)->end == SchedulerEnd::cancelled);
    CHECK(world.look(second)->end == SchedulerEnd::cancelled);
  }
}

TEST_CASE("slurm identity: lines that a wrapper prints beside the answers are reported once, and change nothing") {
  SlurmWorld world({.nodes = 1});
  world.slurm.play = runs_long();
  const auto id = world.scheduler->submit_one(world.job("k"));
  REQUIRE(id.ok());
  const OpenJob job = world.open("k", *id);
  CHECK(world.look(job)->state == JobState::running);
  CHECK(world.scheduler->notices().empty());
  world.slurm.skipped = "squeue: Welcome";
  for (int i = 0; i < 3; ++i) CHECK(world.look(job)->state == JobState::running);
  REQUIRE(world.scheduler->notices().size() == 1);
  CHECK(world.scheduler->notices()[0].id == "lines_skipped");
  CHECK(world.scheduler->notices()[0].text.find("squeue: Welcome") != std::string::npos);
}

TEST_CASE("slurm identity: a submission whose answer was lost is found by its name, or by its script's argument") {
  for (const NamedFilter& filter : filters()) {
    CAPTURE(filter.name);
    SlurmWorld world;
    world.slurm.play = runs_long();
    world.slurm.filter = filter.apply;
    world.slurm.answers_to_lose = 1;
    REQUIRE_FALSE(world.scheduler->submit_one(world.job("k")).ok());
    world.new_controller();
    const auto found = world.scheduler->submit_one(world.job("k", true));
    REQUIRE(found.ok());
    CHECK(world.slurm.submissions("k") == 1);
    CHECK(world.look(world.open("k", *found))->state == JobState::running);
  }
}

TEST_CASE("slurm identity: where all names are gone, number, work folder and submit time are enough") {
  SlurmWorld world;
  world.slurm.play = runs_long();
  world.slurm.filter = [](SlurmJob& job) { job.comment = job.name = job.command = "x"; };
  const auto id = world.scheduler->submit_one(world.job("k"));
  const OpenJob open = world.open("k", *id);
  world.new_controller();
  CHECK(world.look(open)->state == JobState::running);
  world.clock.advance_ms(3 * SlurmWorld::grace_ms);
  CHECK(world.look(open)->state == JobState::running);
  CHECK(world.scheduler->cancel(*id).ok());
  CHECK(world.slurm.live() == 0);
  // One of another folder, or of another time, is not ours though it has our number.
  SlurmJob job;
  job.id = *id;
  job.name = job.comment = job.command = "x";
  job.work_dir = world.scratch.path();
  job.submitted_s = open.answered_ms / 1000;
  const SlurmIdentity identity{.key = "k", .id = *id, .work_dir = job.work_dir, .answered_ms = open.answered_ms};
  CHECK(known_by(job, identity) == KnownBy::id);
  job.submitted_s += 1000;
  CHECK(known_by(job, identity) == KnownBy::nothing);
  job.submitted_s -= 1000;
  job.work_dir = "/home/other";
  CHECK(known_by(job, identity) == KnownBy::nothing);
}

TEST_CASE("slurm identity: a site that forbids comments gets none, and loses nothing") {
  SlurmWorld world;
  world.comments = false;
  world.new_controller();
  world.clock.advance_ms(SlurmWorld::settle_ms);
  world.slurm.play = runs_long();
  world.slurm.refuse = [](const SlurmSubmission& submission) -> std::optional<Error> {
    for (const auto& [name, value] : submission.options)
      if (name == "comment") return make_error(ErrorCode::invalid_input, "comments are not allowed here");
    return std::nullopt;
  };
  world.slurm.answers_to_lose = 1;
  REQUIRE_FALSE(world.scheduler->submit_one(world.job("k")).ok());
  world.new_controller();
  const auto id = world.scheduler->submit_one(world.job("k", true));
  REQUIRE(id.ok());
  CHECK(world.slurm.submissions(submission_name("lh-world", "k")) == 1);
  CHECK(world.look(world.open("k", *id))->state == JobState::running);
  CHECK(world.scheduler->notices().empty());
  CHECK(world.scheduler->cancel(*id).ok());
  CHECK(world.slurm.live() == 0);
}

TEST_CASE("slurm identity: tasks of an array are known without their comment") {
  SlurmWorld world({.nodes = 2});
  world.slurm.play = runs_long();
  world.slurm.filter = [](SlurmJob& job) { job.comment = job.name = "x"; };
  JobSpec spec = world.job("a");
  spec.array_tasks = {0, 1, 2};
  std::string folders;
  for (int task = 0; task < 3; ++task) folders += world.job(format("task{}", task)).attempt_dir + "\n";
  REQUIRE(write_file_atomic(join_path(spec.attempt_dir, "tasks.txt"), folders).ok());
  const auto id = world.scheduler->submit_one(spec);
  REQUIRE(id.ok());
  world.new_controller();
  std::vector<OpenJob> open;
  for (int task = 0; task < 3; ++task) {
    OpenJob one = world.open(format("task{}", task), format("{}_{}", *id, task));
    one.key = array_task_key("a", task);
    one.folder = spec.attempt_dir;
    open.push_back(one);
  }
  for (int look = 0; look < 3; ++look) {
    const auto infos = world.scheduler->snapshot(open);
    REQUIRE(infos.ok());
    REQUIRE(infos->size() == 3);
    for (const JobInfo& info : *infos) CHECK(info.state == (info.key == "a+2" ? JobState::queued : JobState::running));
    world.clock.advance_ms(SlurmWorld::grace_ms);
  }
  for (const OpenJob& job : open) CHECK(world.scheduler->cancel(job.id).ok());
  CHECK(world.slurm.live() == 0);
}

TEST_CASE("slurm identity: the script of an attempt that somebody submits by hand is a job of its own") {
  SlurmWorld world;
  world.slurm.play = runs_long();
  const auto id = world.scheduler->submit_one(world.job("k"));
  const OpenJob open = world.open("k", *id);
  const auto by_hand = world.scheduler->port().submit({SlurmSubmission{world.job("k").script, {}, {}}});
  REQUIRE(by_hand[0].ok());
  CHECK(world.look(open)->id == *id);
  CHECK(world.scheduler->cancel(*id).ok());
  CHECK(world.slurm.live() == 1);
  CHECK(world.look(open)->state == JobState::ended);
}

TEST_CASE("slurm identity: a wrapper that answers another user's number leaves no job behind, and touches none") {
  for (const bool looked : {false, true}) {
    CAPTURE(looked);
    SlurmWorld world;
    world.slurm.play = runs_long();
    world.slurm.of_other_users = {"999"};
    world.slurm.wrong_answer = "999";
    const auto answered = world.scheduler->submit_one(world.job("k"));
    REQUIRE(*answered == "999");
    if (looked) {
      const auto info = world.look(world.open("k", *answered));
      CHECK(info->state == JobState::running);
      CHECK(info->id != "999");
      (void)world.look(world.open("k", *answered));
      REQUIRE(world.scheduler->notices().size() == 1);
      CHECK(world.scheduler->notices()[0].id == "number_differs");
      CHECK(world.scheduler->notices()[0].text.find("the number 999, and its job is " + info->id) != std::string::npos);
    }
    CHECK(world.scheduler->cancel("999").ok());
    CHECK(world.slurm.live() == 0);
    CHECK(world.slurm.cancels() == 1);
  }
}

TEST_CASE("slurm identity: a number that is another user's, and no job of ours: lost after a while, and named") {
  SlurmWorld world;
  world.slurm.of_other_users = {"999"};
  world.slurm.wrong_answer = "999";
  world.slurm.answers_for_nothing = true;
  const auto answered = world.scheduler->submit_one(world.job("k"));
  REQUIRE(answered.ok());
  const OpenJob open = world.open("k", *answered);
  CHECK(world.look(open)->state == JobState::queued);
  world.clock.advance_ms(SlurmWorld::grace_ms + 1'000);
  const auto lost = world.look(open);
  CHECK(lost->state == JobState::lost);
  CHECK(lost->cause.find("the number 999 is another job's") != std::string::npos);
}

TEST_CASE("slurm identity: a number that was given again is another job's, also where comments are changed") {
  SlurmWorld world;
  world.slurm.play = runs_long();
  world.slurm.filter = [](SlurmJob& job) { job.comment = "x"; };
  const auto ours = world.scheduler->submit_one(world.job("ours"));
  const OpenJob open = world.open("ours", *ours);
  (void)world.look(open);
  world.slurm.lose_with_its_number(*ours);
  world.new_controller();
  const auto theirs = world.scheduler->submit_one(world.job("theirs"));
  REQUIRE(*theirs == *ours);
  world.new_controller();
  CHECK(world.look(open)->state == JobState::queued);
  CHECK(world.scheduler->cancel(*ours).ok());
  CHECK(world.slurm.cancels() == 0);
  world.clock.advance_ms(SlurmWorld::grace_ms + 1'000);
  CHECK(world.look(open)->state == JobState::lost);
  CHECK(world.slurm.live() == 1);
}

TEST_CASE("slurm identity: a cancellation ends both of two jobs that one submission has become") {
  SlurmWorld world({.nodes = 1});
  world.slurm.play = runs_long();
  world.slurm.filter = [](SlurmJob& job) { job.comment.clear(); };
  REQUIRE(world.scheduler->submit_one(world.job("before")).ok());
  const auto first = world.scheduler->submit_one(world.job("k"));
  world.new_controller();
  const auto second = world.scheduler->submit_one(world.job("k"));  // as if it were new
  REQUIRE(world.slurm.submissions("k") == 2);
  CHECK(world.look(world.open("k", *first))->state == JobState::queued);
  CHECK(world.scheduler->cancel(*first).ok());
  CHECK(world.slurm.live() == 1);  // the one before
}

TEST_CASE("slurm identity: of an account that ends in the middle, what runs stays known, and what is new is refused") {
  SlurmWorld world;
  world.slurm.play = runs_long();
  const auto id = world.scheduler->submit_one(world.job("k"));
  world.slurm.refuse = [](const SlurmSubmission&) -> std::optional<Error> {
    return make_error(ErrorCode::invalid_input, "Invalid account or account/partition combination specified");
  };
  const auto refused = world.scheduler->submit_one(world.job("next"));
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().code == ErrorCode::invalid_input);
  CHECK(refused.error().what.find("Invalid account") != std::string::npos);
  CHECK(world.look(world.open("k", *id))->state == JobState::running);
  CHECK(world.scheduler->cancel(*id).ok());
  CHECK(world.slurm.live() == 0);
}

TEST_CASE("slurm identity: a slurmctld whose clock is off by a day loses no job, and is named once") {
  for (const std::int64_t off_s : {-86'400, 86'400}) {
    CAPTURE(off_s);
    SlurmWorld world;
    FakeSlurm::Play late;
    late.record_late_ms = 20'000;
    world.slurm.play = [&](const std::string& key, int) { return key == "late" ? late : long_play(1); };
    world.slurm.clock_off_s = off_s;
    const auto id = world.scheduler->submit_one(world.job("late")), other = world.scheduler->submit_one(world.job("k"));
    OpenJob open = world.open("late", *id);
    open.wanted_ms = open.answered_ms;
    const auto started = world.look(open);
    REQUIRE(started->state == JobState::running);
    CHECK(started->started_ms == world.clock.wall_ms());  // by our clock
    world.clock.advance_ms(5'000);
    // It has ended, by slurmctld's clock long ago, and its record is on its way.
    CHECK(world.look(open)->state != JobState::lost);
    CHECK(world.look(world.open("k", *other))->state == JobState::running);
    world.clock.advance_ms(20'000);
    CHECK(world.look(open)->state == JobState::ended);
    REQUIRE(world.scheduler->notices().size() == 1);
    CHECK(world.scheduler->notices()[0].id == "clock_differs");
    CHECK(world.scheduler->notices()[0].text.find(off_s > 0 ? "later" : "earlier") != std::string::npos);
  }
}

TEST_CASE(
    "slurm identity: twenty random sites, each with lost answers and controllers that end: one job each, none left") {
  const unsigned seed = std::random_device()();
  CAPTURE(seed);
  std::mt19937 random(seed);
  const auto one_of = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int site = 0; site < 20; ++site) {
    const int comment = one_of(5), name = one_of(4), command = one_of(3);
    CAPTURE(comment);
    CAPTURE(name);
    CAPTURE(command);
    SlurmWorld world({.nodes = 2});
    world.comments = one_of(4) > 0;
    world.new_controller();
    (void)world.scheduler->snapshot({});
    world.clock.advance_ms(SlurmWorld::settle_ms);
    world.slurm.play = runs_long();
    world.slurm.filter = [=](SlurmJob& job) {
      if (comment == 1) job.comment = "x";
      if (comment == 2) job.comment = "p:" + job.comment;
      if (comment == 3) job.comment.clear();
      if (comment == 4) job.comment = job.name + " at " + std::to_string(job.submitted_s);
      if (name == 1) job.name = "p-" + job.name;
      if (name == 2) job.name += "-s";
      // One of the two is left: after a crash before the answer nothing else names a job.
      if (name == 3 && command != 1) job.name = "job";
      if (command == 1 && (name == 0 || name == 1)) job.command.clear();
      job.partition = "routed";
      job.account = "added";
    };
    std::map<std::string, OpenJob> open;
    std::set<std::string> tried;
    for (int round = 0; round < 12; ++round) {
      if (one_of(3) == 0) world.new_controller();
      const std::string key = format("k{}", one_of(4));
      if (!open.contains(key)) {
        if (one_of(3) == 0) world.slurm.answers_to_lose = 1;
        const auto id = world.scheduler->submit_one(world.job(key, !tried.insert(key).second || one_of(2) == 0));
        world.slurm.answers_to_lose = 0;
        if (id.ok()) open.emplace(key, world.open(key, *id));
      }
      for (const auto& [each, job] : open) {
        const auto info = world.look(job);
        REQUIRE(info);
        CHECK((info->state == JobState::running || info->state == JobState::queued));
      }
      world.clock.advance_ms(SlurmWorld::settle_ms);
    }
    std::size_t jobs = 0;
    for (int i = 0; i < 4; ++i) {
      const std::string asked = world.comments ? format("k{}", i) : submission_name("lh-world", format("k{}", i));
      CHECK(world.slurm.submissions(asked) <= 1);
      jobs += static_cast<std::size_t>(world.slurm.submissions(asked));
    }
    CHECK(jobs >= open.size());
    for (int i = 0; i < 4; ++i) {  // as a controller cancels what it knows no number of
      const std::string key = format("k{}", i);
      const std::string asked = world.comments ? key : submission_name("lh-world", key);
      if (open.contains(key) || world.slurm.submissions(asked) == 0) continue;
      JobSpec unknown = world.job(key, true);
      unknown.withdrawn = true;
      const auto found = world.scheduler->submit_one(unknown);
      REQUIRE(found.ok());
      open.emplace(key, world.open(key, *found));
    }
    for (const auto& [key, job] : open) CHECK(world.scheduler->cancel(job.id).ok());
    CHECK(world.slurm.live() == 0);
  }
}

}  // namespace longhaul
