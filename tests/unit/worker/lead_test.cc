// A lead as a real process: one per attempt, whatever happens there is a record with a cause, an artifact is whole or
// absent.
#include <signal.h>
#include <sys/mount.h>

#include <map>

#include "base/process/fault_point.h"
#include "base/text/text.h"
#include "contracts/control/order.h"
#include "contracts/events/event.h"
#include "contracts/records/launch.h"
#include "contracts/records/manifest.h"
#include "resiliency/beat/heartbeat_page.h"
#include "tests/unit/worker/lead_rig.h"

using namespace longhaul;

TEST_CASE("a command's output becomes an artifact with manifest, record and events") {
  LeadRig rig(
      "echo hello > \"$LONGHAUL_OUT/text\"; echo '{\"figures\": {\"loss\": 2.5}}' > \"$LONGHAUL_OUT/artifact.json\"");
  CHECK(rig.wait(rig.start()).success());
  const JobRecord record = rig.record();
  CHECK(record.outcome == "succeeded");
  CHECK(record.key == rig.attempt.key);
  CHECK(record.launches == 1);
  const auto manifest = read_manifest(rig.attempt.out_dir());
  REQUIRE(manifest.ok());
  CHECK(manifest->key == rig.task.key);
  CHECK(manifest->figures.get_number("loss") == 2.5);
  CHECK(verify_artifact(rig.attempt.out_dir(), *manifest, true).ok());
  CHECK(!file_exists(rig.attempt.staging_dir()));
  std::uint64_t offset = 0;
  const auto events = read_events(rig.attempt.events_path(), offset);
  std::string kinds;
  for (const Event& event : *events) kinds += event.kind + " ";
  CHECK(kinds == "launched ranks_ended published ");
}

TEST_CASE("trust: paths of an input with blanks and globs are read line by line") {
  LeadRig rig(
      "while IFS= read -r path; do echo \"[$path]\"; done < \"$LONGHAUL_PATHS_PAGES\" > \"$LONGHAUL_OUT/seen\"");
  rig.task.inputs = {{"pages", {"/data/a b", "/data/*", "/data/$(id)"}, "", "digest"}};
  CHECK(rig.wait(rig.start()).success());
  CHECK(read_file(rig.attempt.out_dir() + "/seen").value() == "[/data/a b]\n[/data/*]\n[/data/$(id)]\n");
}

TEST_CASE("trust: a path of an input with a line end is refused") {
  LeadRig rig("exit 0");
  rig.task.inputs = {{"pages", {"/data/a\n/etc/passwd"}, "", "digest"}};
  CHECK_FALSE(rig.wait(rig.start()).success());
  CHECK(rig.text("work/attempts/1/lead.log").find("line end in its name") != std::string::npos);
}

TEST_CASE("a failure names the rank, the exit and the last line of its log, and publishes nothing") {
  LeadRig rig("echo first; echo 'no such corpus' >&2; exit 7");
  CHECK(rig.wait(rig.start()).code == 1);
  const JobRecord record = rig.record();
  CHECK(record.outcome == "failed");
  CHECK(record.exit_code == 7);
  CHECK(record.cause == "rank 0 ended: exit code 7: no such corpus");
  CHECK(!file_exists(rig.attempt.out_dir()));
}

TEST_CASE("one failing rank of three ends the others, and is the one that is named") {
  LeadRig rig("if [ $LONGHAUL_RANK = 1 ]; then echo 'I am broken'; exit 3; fi; sleep 60", 3);
  CHECK(rig.wait(rig.start()).code == 1);
  CHECK(rig.record().cause == "rank 1 ended: exit code 3: I am broken");
}

TEST_CASE("a job whose agents cannot be started launches without them") {
  LeadRig rig("exit 0");
  rig.environment.emplace_back("SLURM_JOB_NODELIST", "n1");
  rig.attempt.agent_launcher = {"/nowhere/srun", "--overlap"};
  CHECK(rig.wait(rig.start()).success());
  CHECK(rig.record().outcome == "succeeded");
  CHECK(rig.text("work/attempts/1/lead.log").find("event=no_agents") != std::string::npos);
  CHECK(!file_exists(rig.attempt.attempt_dir + "/lead-secret"));
}

TEST_CASE("a job whose agents are refused launches without them, says so, and a launch that fails names why") {
  LeadRig rig("exit 3");
  rig.environment.emplace_back("SLURM_JOB_NODELIST", "n[1-2]");
  rig.attempt.agent_launcher = {"/bin/sh", "-c", "echo 'srun: error: Invalid generic resource' >&2; exit 1", "srun",
                                "--gpus-per-node=4"};
  CHECK(rig.wait(rig.start()).code == 1);
  CHECK(rig.record().cause == "rank 0 ended: exit code 3; no agents: srun: error: Invalid generic resource");
  const auto launch = read_launch(rig.attempt.attempt_dir + "/launches/1/launch.toml");
  REQUIRE(launch.ok());
  CHECK(launch->beat_dir.empty());  // where an agent would read them nobody does
  CHECK(launch->store_dir.find(rig.attempt.attempt_dir) == 0);
  const std::string events = rig.text("work/attempts/1/events.jsonl");
  const std::size_t reported = events.find("\"no_agents\"");
  REQUIRE(reported != std::string::npos);
  CHECK(events.find("\"no_agents\"", reported + 1) == std::string::npos);
  CHECK(reported < events.find("\"launched\""));
}

TEST_CASE("of two leads of one attempt exactly one works") {
  LeadRig rig("echo x >> " + std::string("\"$LONGHAUL_STATE/../count\"; sleep 0.2"));
  std::vector<pid_t> leads;
  for (int i = 0; i < 5; ++i) leads.push_back(rig.start());
  for (const pid_t lead : leads) CHECK(rig.wait(lead).success());
  CHECK(rig.text("work/count") == "x\n");
  CHECK(rig.record().outcome == "succeeded");
}

TEST_CASE("SIGTERM to the lead stops the ranks, also those that do not listen, and is recorded as cancelled") {
  LeadRig rig("trap '' TERM; echo $$ > \"$LONGHAUL_STATE/pid\"; sleep 60 & wait; sleep 60");
  const pid_t lead = rig.start();
  rig.until([&] { return !rig.text("work/state/pid").empty(); });
  const pid_t rank = std::atoi(rig.text("work/state/pid").c_str());
  ::kill(lead, SIGTERM);
  CHECK(rig.wait(lead).code == 1);
  CHECK(rig.record().outcome == "cancelled");
  CHECK(!identify_process(rank).ok());
}

TEST_CASE("a time limit ends the stage and says so") {
  LeadRig rig("sleep 60");
  rig.attempt.time_limit_s = 0.3;
  CHECK(rig.wait(rig.start()).code == 1);
  CHECK(rig.record().outcome == "failed");
  CHECK(rig.record().cause.find("time limit") != std::string::npos);
  CHECK(rig.record().ended_by == "time_limit");
}

TEST_CASE("ranks die with a lead that is killed, and the next attempt ends what is left and goes on") {
  // The grandchild leaves its group and session: only its environment says whose it is.
  LeadRig rig(
      "if [ -e \"$LONGHAUL_STATE/again\" ]; then echo done > \"$LONGHAUL_OUT/text\"; exit 0; fi; touch "
      "\"$LONGHAUL_STATE/again\";"
      "echo half > \"$LONGHAUL_OUT/half\"; setsid sleep 60 & echo $! > \"$LONGHAUL_STATE/left\"; echo $$ > "
      "\"$LONGHAUL_STATE/pid\"; sleep 60");
  const pid_t lead = rig.start();
  rig.until([&] { return !rig.text("work/state/pid").empty(); });
  const pid_t rank = std::atoi(rig.text("work/state/pid").c_str()),
              left = std::atoi(rig.text("work/state/left").c_str());
  ::kill(lead, SIGKILL);
  CHECK(rig.wait(lead).signal == SIGKILL);
  rig.until([&] { return !identify_process(rank).ok(); });
  CHECK(identify_process(left).ok());
  CHECK(!file_exists(rig.attempt.record_path()));
  const std::string half = rig.attempt.staging_dir();
  CHECK(file_exists(half));
  REQUIRE(make_directories(half + "-removed/0-1").ok());  // of a lead that was killed while it cleared
  rig.use_attempt(2);
  CHECK(rig.wait(rig.start()).success());
  CHECK(rig.record().outcome == "succeeded");
  CHECK(!identify_process(left).ok());
  CHECK(!file_exists(half));
  CHECK(!file_exists(half + "-removed"));
  CHECK(!file_exists(rig.attempt.out_dir() + "/half"));
}

TEST_CASE("a lead killed at any of its points leaves nothing half: the next attempt ends with one whole artifact") {
  // How often the command has run in the end: again only where nothing of it was published.
  const std::map<std::string, std::string> runs = {
      {"lead_claimed", "x\n"},
      {"lead_ranks_started", ""},  // once or twice: the kill meets it anywhere
      {"lead_before_publish", "x\nx\n"},
      {"lead_after_publish", "x\n"},
      {"lead_before_record", "x\n"}};
  const std::vector<std::string> points = fault_point_names("lead_");
  REQUIRE(points.size() == runs.size());
  for (const std::string& point : points) {
    CAPTURE(point);
    REQUIRE(runs.contains(point));
    LeadRig rig("echo x >> \"$LONGHAUL_STATE/../count\"; echo hi > \"$LONGHAUL_OUT/text\"");
    rig.attempt.fault_plan = rig.root() + "/plan";
    REQUIRE(make_directories(rig.root()).ok());
    REQUIRE(write_file_atomic(rig.attempt.fault_plan, point + " kill\n").ok());
    CHECK(rig.wait(rig.start()).signal == SIGKILL);
    CHECK(starts_with(read_file(rig.attempt.fault_plan + ".hits").value(), point + " "));
    CHECK(!file_exists(rig.attempt.record_path()));
    rig.use_attempt(2);
    rig.attempt.fault_plan.clear();
    CHECK(rig.wait(rig.start()).success());
    CHECK(rig.record().outcome == "succeeded");
    const auto manifest = read_manifest(rig.attempt.out_dir());
    REQUIRE(manifest.ok());
    CHECK(verify_artifact(rig.attempt.out_dir(), *manifest, true).ok());
    CHECK(rig.text("work/out/text") == "hi\n");
    CHECK(!file_exists(rig.attempt.staging_dir()));
    if (point == "lead_after_publish") CHECK(rig.record().cause == "published by an earlier attempt");
    if (!runs.at(point).empty()) CHECK(rig.text("work/count") == runs.at(point));
  }
}

TEST_CASE("the folder of another task's artifact is never overwritten") {
  LeadRig rig("echo hi > \"$LONGHAUL_OUT/text\"");
  CHECK(rig.wait(rig.start()).success());
  rig.use_attempt(2);
  rig.task.key = "fedcba9876543210";
  CHECK(rig.wait(rig.start()).code == 1);
  CHECK(rig.record().outcome == "failed");
  CHECK(rig.record().cause.find("another task") != std::string::npos);
  CHECK(read_manifest(rig.attempt.out_dir())->key == "0123456789abcdef");
}

TEST_CASE("a full disk fails the stage with the remedy, and nothing half is published") {
  const std::string mount = format("/tmp/longhaul-full-{}", ::getpid());
  REQUIRE(make_directories(mount).ok());
  if (::mount("none", mount.c_str(), "tmpfs", 0, "size=4m") != 0) {
    MESSAGE("skipped: mounting a small tmpfs needs root");
    (void)remove_tree(mount).ok();
    return;
  }
  {
    LeadRig rig("head -c 100000000 /dev/zero > \"$LONGHAUL_OUT/big\" || true", 1, mount + "/run");
    CHECK(rig.wait(rig.start()).code == 1);
    const JobRecord record = rig.record();
    CHECK(record.outcome == "failed");
    CHECK(record.cause.find("No space left on device") != std::string::npos);
    CHECK(record.cause.find("free disk space") != std::string::npos);
    CHECK(!file_exists(rig.attempt.out_dir()));
    CHECK(!file_exists(rig.attempt.staging_dir()));
  }
  {  // a program that ends because of it: its half-made output makes room for the record
    LeadRig rig("yes > \"$LONGHAUL_OUT/big\" || exit 5", 1, mount + "/other");
    CHECK(rig.wait(rig.start()).code == 1);
    const JobRecord record = rig.record();
    CHECK(record.exit_code == 5);
    CHECK(record.cause.find("No space left on device") != std::string::npos);
  }
  ::umount(mount.c_str());
  (void)remove_tree(mount).ok();
}

TEST_CASE("an order that was obeyed in the program's last moment is reported as done") {
  LeadRig rig("while [ ! -e \"$LONGHAUL_STATE/go\" ]; do sleep 0.01; done");
  rig.write();
  REQUIRE(place_order(rig.attempt.stage_dir, {"1", "stop_after", 7}).ok());
  const pid_t lead = rig.start();
  const std::string launch = rig.attempt.attempt_dir + "/launches/1";
  rig.until([&] { return file_exists(launch + "/launch.toml"); });
  auto page = HeartbeatPage::create(beat_page_path(launch, 0), 0);
  REQUIRE(page.ok());
  rig.until([&] { return page->orders() == 1; });
  page->step(7);
  page->obeyed(1);
  REQUIRE(write_file_atomic(rig.attempt.state_dir() + "/go", "").ok());
  CHECK(rig.wait(lead).success());
  const auto outcome = read_order_outcome(rig.attempt.stage_dir, "1");
  REQUIRE(outcome.ok());
  CHECK(outcome->done);
  CHECK(outcome->text == "done at step 7");
}

TEST_CASE("a program that says its steps in text is known by them, and takes orders") {
  LeadRig rig(
      "python3 -c '\n"
      "import os, socket\n"
      "s = socket.socket(socket.AF_UNIX)\n"
      "s.connect(os.environ[\"LONGHAUL_BEAT_SOCKET\"])\n"
      "s.sendall(b\"section forward\\nstep 41\\n\")\n"
      "order = s.makefile().readline()\n"
      "open(os.environ[\"LONGHAUL_STATE\"] + \"/order\", \"w\").write(order)\n"
      "s.sendall(b\"done 1\\nstep 42\\n\")\n"
      "' && exit 3");
  rig.attempt.resiliency.restarts = 0;
  rig.write();
  REQUIRE(place_order(rig.attempt.stage_dir, {"1", "stop_after", 42}).ok());
  CHECK(rig.wait(rig.start()).code == 1);
  CHECK(*read_file(rig.attempt.state_dir() + "/order") == "order 1 stop_after 42\n");
  CHECK(rig.record().step == 42);
  CHECK(rig.record().cause.find("in section forward at step 42") != std::string::npos);
  CHECK(read_order_outcome(rig.attempt.stage_dir, "1").ok());
}

TEST_CASE("stacks are written on demand, also of programs that say nothing of themselves") {
  LeadRig rig("while [ ! -e \"$LONGHAUL_STATE/go\" ]; do sleep 0.01; done", 2);
  const pid_t lead = rig.start();
  const std::string launch = rig.attempt.attempt_dir + "/launches/1";
  rig.until([&] { return file_exists(launch + "/rank-1.log"); });
  REQUIRE(place_order(rig.attempt.stage_dir, {"1", "stacks", 0}).ok());
  rig.until([&] { return read_order_outcome(rig.attempt.stage_dir, "1").ok(); });
  const auto outcome = read_order_outcome(rig.attempt.stage_dir, "1");
  CHECK(outcome->done);
  CHECK(outcome->text == "stacks of 2 ranks in " + launch + "/stacks");
  for (const int rank : {0, 1}) {
    const auto text = read_file(format("{}/stacks/rank-{}.txt", launch, rank));
    REQUIRE(text.ok());
    CHECK(text->find(format("rank {} on ", rank)) == 0);
    CHECK(text->find("bash: ") != std::string::npos);
    CHECK(text->find("go") != std::string::npos);
  }
  REQUIRE(write_file_atomic(rig.attempt.state_dir() + "/go", "").ok());
  CHECK(rig.wait(lead).success());
}

TEST_CASE("a program that does not exist is a record, not a lost job") {
  LeadRig rig("");
  CommandSettings settings;
  settings.argv = {"/nowhere/at/all"};
  rig.task.settings = command_fields().to_value(settings);
  CHECK(rig.wait(rig.start()).code == 1);
  CHECK(rig.record().outcome == "failed");
  CHECK(rig.record().cause.find("/nowhere/at/all") != std::string::npos);
}

TEST_CASE(
    "several engine ranks run below mpirun, each with its number and a log of its own; one of them is named when it "
    "fails") {
  LeadRig rig("", 2);
  rig.task.kind = "pretrain";
  rig.task.settings = Value::make_table();
  rig.task.resources.threads = 3;
  rig.attempt.engine = rig.root() + "/engine";
  REQUIRE(make_directories(rig.root()).ok());
  const std::string engine =
      "#!/bin/bash\necho \"$* threads=$OMP_NUM_THREADS rank=$OMPI_COMM_WORLD_RANK\"\n"
      "if [ -e " +
      rig.root() +
      "/break ]; then echo 'loss is NaN'; exit 1; fi\n"
      "[ $OMPI_COMM_WORLD_RANK = 0 ] && echo weights > " +
      "$(grep ^output_dir \"$5\" | tr -d \" \\\"'\" | cut -d= -f2)/model; exit 0\n";
  REQUIRE(write_file_atomic(rig.attempt.engine, engine, 0755).ok());
  CHECK(rig.wait(rig.start()).success());
  CHECK(rig.record().cause == "");
  CHECK(rig.record().outcome == "succeeded");
  const std::string logs = "work/attempts/1/launches/1/rank-";
  const std::string arguments =
      format("run --task {} --launch {}/launches/1/launch.toml threads=3 rank=", rig.attempt.task_path,
             rig.attempt.attempt_dir);
  CHECK(rig.text(logs + "0.log") == arguments + "0\n");
  CHECK(rig.text(logs + "1.log") == arguments + "1\n");

  REQUIRE(remove_tree(rig.attempt.out_dir()).ok());
  REQUIRE(write_file_atomic(rig.root() + "/break", "").ok());
  rig.use_attempt(2);
  rig.attempt.resiliency.restarts = 1;
  CHECK(rig.wait(rig.start()).code == 1);
  CHECK(rig.record().outcome == "failed");
  CHECK(rig.record().launches == 2);
  CHECK(rig.record().exit_code == 1);
  CHECK(rig.record().cause.find("loss is NaN") != std::string::npos);
}
