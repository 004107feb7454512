#include "base/files/files.h"

#include <doctest/doctest.h>

#include "base/digest/hash.h"
#include "contracts/events/event.h"
#include "contracts/records/attempt.h"
#include "contracts/records/launch.h"
#include "contracts/records/manifest.h"
#include "contracts/records/record.h"
#include "contracts/tasks/task.h"

using namespace longhaul;

namespace {
struct ScratchFolder {
  std::string path = "/tmp/longhaul-contracts-" + random_hex(6).value();
  ScratchFolder() { make_directories(path).value(); }
  ~ScratchFolder() { (void)remove_tree(path).ok(); }
};
Task sample_task() {
  Task task;
  task.run = "r", task.stage = "tokens", task.kind = "tokenize", task.kind_version = 1;
  task.inputs = {{"corpus", {"/data/a"}, "corpus", "abc"}};
  task.settings.set("vocabulary", 512);
  task.resources.ranks = 2;
  task.dims.dp_replicate = 2;
  return task;
}
}  // namespace

TEST_CASE("task and launch files read back as they were written") {
  ScratchFolder scratch;
  const Task task = sample_task();
  write_task(scratch.path + "/task.toml", task).value();
  const auto back = read_task(scratch.path + "/task.toml");
  REQUIRE(back.ok());
  CHECK(task_to_value(*back) == task_to_value(task));
  Launch launch;
  launch.hosts = {"n1", "n2"}, launch.rank_host = {0, 1}, launch.epoch = 4, launch.output_dir = "/x",
  launch.dims.dp_replicate = 2, launch.launch_dir = "/l";
  CHECK(rendezvous_folder(launch) == "/l/store");
  launch.store_dir = "/w";
  CHECK(rendezvous_folder(launch) == "/w");
  write_launch(scratch.path + "/launch.toml", launch).value();
  CHECK(launch_to_value(read_launch(scratch.path + "/launch.toml").value()) == launch_to_value(launch));
  CHECK(!read_launch(scratch.path + "/task.toml").ok());
}

TEST_CASE("an attempt file reads back as it was written, its steps in their order") {
  ScratchFolder scratch;
  Attempt attempt;
  attempt.key = "k", attempt.launcher = {"srun", "--mpi=pmix"};
  JobStep second{"actor", true, 2, 1, true, 4, 5, 3, {"srun", "--nodes=1"}};
  attempt.steps = {{"learner", false, 0, 2, true, 2, 1, 0, {}}, second};
  write_attempt(scratch.path + "/attempt.toml", attempt).value();
  const auto back = read_attempt(scratch.path + "/attempt.toml");
  REQUIRE(back.ok());
  CHECK(back->launcher == attempt.launcher);
  REQUIRE(back->steps.size() == 2);
  CHECK(back->steps[0].name == "learner");
  CHECK(back->steps[0].nodes == 2);
  const JobStep& actor = back->steps[1];
  CHECK(actor.name == "actor");
  CHECK(actor.service);
  CHECK(actor.first_node == 2);
  CHECK(actor.own_nodes);
  CHECK(actor.ranks == 4);
  CHECK(actor.cpus_per_rank == 5);
  CHECK(actor.gpus_per_node == 3);
  CHECK(actor.launcher == second.launcher);
}

TEST_CASE("a task's key names its result: what changes the result changes it, paths and speed do not") {
  const Task task = sample_task();
  const std::string key = task_key(task);
  Task moved = task;
  moved.inputs[0].paths = {"/elsewhere"}, moved.run = "other", moved.resources.threads = 8;
  CHECK(task_key(moved) == key);
  Task changed = task;
  changed.settings.set("vocabulary", 513);
  CHECK(task_key(changed) != key);
  changed = task;
  changed.inputs[0].digest = "abd";
  CHECK(task_key(changed) != key);
  changed = task;
  changed.kind_version = 2;
  CHECK(task_key(changed) != key);
}

TEST_CASE("a record and a claim are written once") {
  ScratchFolder scratch;
  JobRecord record;
  record.key = "k", record.outcome = "failed", record.signal = 9, record.cause = "rank 1 was killed by signal 9";
  CHECK(read_record(scratch.path + "/record.json").error().code == ErrorCode::not_found);
  write_record(scratch.path + "/record.json", record).value();
  CHECK(write_record(scratch.path + "/record.json", record).error().code == ErrorCode::conflict);
  CHECK(read_record(scratch.path + "/record.json")->cause == record.cause);
  CHECK_FALSE(read_record(scratch.path + "/record.json")->saved_step);  // of a lead that does not say it
  record.saved_step = -1;
  CHECK(record_from_text(record_text(record), "reported")->saved_step == -1);
  record.saved_step = 240;
  CHECK(record_from_text(record_text(record), "reported")->saved_step == 240);
  LeadClaim claim{"k", "here", {123, 456}, 789, "1234"};
  write_claim(scratch.path + "/claim.json", claim).value();
  CHECK(write_claim(scratch.path + "/claim.json", claim).error().code == ErrorCode::conflict);
  CHECK(read_claim(scratch.path + "/claim.json")->process == claim.process);
  CHECK(read_claim(scratch.path + "/claim.json")->scheduler_job == "1234");
}

TEST_CASE("a launch and its attempt know below which step a training must not begin") {
  ScratchFolder scratch;
  Launch launch;
  CHECK(launch_from_value(launch_to_value(launch))->at_least_step == 0);
  launch.at_least_step = 1200;
  write_launch(scratch.path + "/launch.toml", launch).value();
  CHECK(read_launch(scratch.path + "/launch.toml")->at_least_step == 1200);
  Attempt attempt;
  attempt.at_least_step = 700;
  write_attempt(scratch.path + "/attempt.toml", attempt).value();
  CHECK(read_attempt(scratch.path + "/attempt.toml")->at_least_step == 700);
}

TEST_CASE("a manifest notices every change of its artifact") {
  ScratchFolder scratch;
  write_file_atomic(scratch.path + "/a.bin", "hello").value();
  make_directories(scratch.path + "/sub").value();
  write_file_atomic(scratch.path + "/sub/b.bin", "world").value();
  write_file_atomic(scratch.path + "/artifact.json", R"({"figures": {"loss": 2.5}})").value();
  Manifest m = make_manifest(scratch.path).value();
  m.stage = "s", m.kind = "tokenize";
  write_manifest(scratch.path, m).value();
  const Manifest back = read_manifest(scratch.path).value();
  CHECK(back.files.size() == 3);
  CHECK(back.figures.get_number("loss") == 2.5);
  CHECK(back.digest() == m.digest());
  CHECK(verify_artifact(scratch.path, back, true).ok());
  write_file_atomic(scratch.path + "/sub/b.bin", "worle").value();
  CHECK(verify_artifact(scratch.path, back, false).ok());
  CHECK(!verify_artifact(scratch.path, back, true).ok());
  write_file_atomic(scratch.path + "/a.bin", "hell").value();
  CHECK(verify_artifact(scratch.path, back, false).error().what.find("a.bin has 4 bytes, its manifest says 5") !=
        std::string::npos);
}

TEST_CASE("numbers that Python writes and JSON does not have are null; text keeps its words") {
  const auto event = parse_event(
      R"({"ms": 5, "kind": "metric", "step": 3, "loss": NaN, "low": -Infinity, "note": "NaN \"Infinity\"", "lr": 0.5})");
  REQUIRE(event.ok());
  REQUIRE(event->fields.find("loss"));
  CHECK(event->fields.find("loss")->is_null());
  CHECK(event->fields.find("low")->is_null());
  CHECK(event->fields.get_string("note") == "NaN \"Infinity\"");
  CHECK(event->fields.get_number("lr") == 0.5);
  CHECK(!parse_event(R"({"kind": "metric", "loss": NaNa})").ok());
}

TEST_CASE("events are read as they come, a torn last line waits") {
  ScratchFolder scratch;
  const std::string path = scratch.path + "/events.jsonl";
  ManualClock clock;
  EventWriter writer(clock, path, 3);
  writer.figure("loss", 1.5);
  std::uint64_t offset = 0;
  auto events = read_events(path, offset).value();
  REQUIRE(events.size() == 1);
  CHECK(events[0].kind == "figure");
  CHECK(events[0].rank == 3);
  CHECK(events[0].fields.get_number("value") == 1.5);
  append_file_synced(path, R"({"kind":"mes)").value();
  CHECK(read_events(path, offset)->empty());
  append_file_synced(path, "sage\",\"text\":\"x\"}\nnot json\n").value();
  events = read_events(path, offset).value();
  REQUIRE(events.size() == 1);
  CHECK(events[0].fields.get_string("text") == "x");
}
