// Several programs in one job: they start together, know each other, and end together.
#include <doctest/doctest.h>
#include <signal.h>

#include "contracts/events/event.h"
#include "contracts/records/launch.h"
#include "tests/unit/worker/lead_rig.h"

using namespace longhaul;

namespace {

struct StepText {
  std::string name, script;
  int ranks = 1;
  bool service = false;
};

// A stage of these steps on one machine.
class StepsRig : public LeadRig {
 public:
  explicit StepsRig(const std::vector<StepText>& steps) : LeadRig("") {
    CommandSettings settings;
    settings.environment = {{"OF_STAGE", "stage"}, {"OF_BOTH", "stage"}};
    task.resources.ranks = 0;
    for (const StepText& text : steps) {
      CommandStep asked;
      asked.name = text.name;
      asked.script = text.script;
      asked.environment = {{"OF_BOTH", text.name}};
      asked.service = text.service;
      settings.steps.push_back(asked);
      JobStep step;
      step.name = text.name;
      step.ranks = text.ranks;
      step.service = text.service;
      step.cpus_per_rank = 3;
      attempt.steps.push_back(step);
      task.resources.ranks += text.ranks;
    }
    task.settings = command_fields().to_value(settings);
  }
  std::string out(const std::string& name) { return text("work/out/" + name); }
  std::string state(const std::string& name) { return text("work/state/" + name); }

  // Each step by a pretended srun on nodes of its own, in a job of these nodes.
  void use_srun(const std::string& nodes) {
    REQUIRE(make_directories(bin()).ok());
    // Like the real one: SIGTERM kills the tasks, other signals are passed on.
    REQUIRE(write_file_atomic(bin() + "/srun", R"(#!/bin/bash
tasks=1 name=none
echo "$*" > "$0.$$"
while [[ $1 == --* ]]; do
  case $1 in --ntasks=*) tasks=${1#*=} ;; --job-name=*) name=${1#*=} ;; esac
  shift
done
mv "$0.$$" "$0.$name"
trap 'kill -KILL $pids; exit 143' TERM
trap 'kill -USR1 $pids' USR1
export SLURM_STEP_ID=$$
for ((i = 0; i < tasks; i++)); do SLURM_PROCID=$i "$@" & pids="$pids $!"; done
echo "$pids" > "$0.pids.$$"
worst=0
for pid in $pids; do
  wait "$pid"; code=$?
  while kill -0 "$pid" 2> /dev/null; do wait "$pid"; code=$?; done
  [ $code = 0 ] || worst=$code
done
exit $worst
)",
                              0755)
                .ok());
    REQUIRE(write_file_atomic(
                bin() + "/scancel",
                "#!/bin/bash\necho \"$*\" >> \"$0.said\"\nkill -TERM $(cat \"${0%/*}/srun.pids.${2#*.}\")\n", 0755)
                .ok());
    environment = {
        {"PATH", bin() + ":/usr/local/bin:/usr/bin:/bin"}, {"SLURM_JOB_ID", "77"}, {"SLURM_JOB_NODELIST", nodes}};
    int first = 0;
    for (JobStep& step : attempt.steps) {
      step.own_nodes = true;
      step.first_node = first++;
      step.launcher = {bin() + "/srun", "--job-name=" + step.name, format("--ntasks={}", step.ranks)};
    }
  }
  std::string bin() const { return root() + "/bin"; }
};

}  // namespace

TEST_CASE("steps start together, know themselves and each other, and make one artifact") {
  StepsRig rig(
      {{"actor-1",
        "echo port-7 > \"$LONGHAUL_SHARED/port\"; until [ -e \"$LONGHAUL_SHARED/taken\" ]; do sleep 0.01; done; "
        "echo \"$LONGHAUL_STEP of $LONGHAUL_STEPS, $OF_STAGE $OF_BOTH $OMP_NUM_THREADS\" > \"$LONGHAUL_OUT/actor\""},
       {"learner",
        "until [ -s \"$LONGHAUL_SHARED/port\" ]; do sleep 0.01; done; touch \"$LONGHAUL_SHARED/taken\"; "
        "echo \"$LONGHAUL_RANK of $LONGHAUL_RANKS, $LONGHAUL_STEP_RANKS_ACTOR_1 actor on "
        "$LONGHAUL_STEP_HOSTS_ACTOR_1\" > \"$LONGHAUL_OUT/learner-$LONGHAUL_RANK\"; echo said",
        2}});
  CHECK(rig.wait(rig.start()).success());
  CHECK(rig.record().outcome == "succeeded");
  CHECK(rig.out("actor") == "actor-1 of actor-1 learner, stage actor-1 3\n");
  CHECK(rig.out("learner-0") == "0 of 2, 1 actor on " + host_name() + "\n");
  CHECK(rig.out("learner-1") == "1 of 2, 1 actor on " + host_name() + "\n");
  CHECK(rig.text("work/attempts/1/launches/1/steps/learner/rank-1.log") == "said\n");
  std::uint64_t offset = 0;
  const auto events = read_events(rig.attempt.events_path(), offset);
  REQUIRE(events.ok());
  const Value* steps = events->front().fields.find("steps");
  REQUIRE(steps);
  CHECK(steps->find("learner")->as_array()[0] == Value(host_name()));
}

TEST_CASE("a step that fails ends the others, gently and then by force, and is the one that is named") {
  StepsRig rig({{"polite",
                 "trap 'echo bye > \"$LONGHAUL_STATE/polite\"; exit 0' TERM; touch \"$LONGHAUL_SHARED/ready\"; "
                 "while true; do sleep 0.05; done"},
                {"deaf", "trap '' TERM; echo $$ > \"$LONGHAUL_STATE/deaf\"; while true; do sleep 0.05; done"},
                {"learner",
                 "until [ -e \"$LONGHAUL_SHARED/ready\" ] && [ -s \"$LONGHAUL_STATE/deaf\" ]; do sleep 0.01; done; "
                 "[ $LONGHAUL_RANK = 1 ] || sleep 60; echo 'loss is NaN'; exit 5",
                 2}});
  CHECK(rig.wait(rig.start()).code == 1);
  CHECK(rig.record().outcome == "failed");
  CHECK(rig.record().exit_code == 5);
  CHECK(rig.record().cause == "step learner: rank 1 ended: exit code 5: loss is NaN");
  CHECK(rig.state("polite") == "bye\n");
  CHECK(!identify_process(std::atoi(rig.state("deaf").c_str())).ok());
  CHECK(!file_exists(rig.attempt.out_dir()));
}

TEST_CASE("a service is ended when the others have ended well, however it then ends") {
  const std::string serve =
      "trap 'echo ended > \"$LONGHAUL_OUT/served\"; exit 9' TERM; touch \"$LONGHAUL_SHARED/ready\"; "
      "while true; do sleep 0.02; done";
  const std::string use =
      "until [ -e \"$LONGHAUL_SHARED/ready\" ]; do sleep 0.01; done; echo used > \"$LONGHAUL_OUT/used\"";
  StepsRig rig({{"server", serve, 1, true}, {"client", use}});
  CHECK(rig.wait(rig.start()).success());
  CHECK(rig.record().outcome == "succeeded");
  CHECK(rig.record().exit_code == 0);
  CHECK(rig.out("served") == "ended\n");
  CHECK(rig.out("used") == "used\n");

  StepsRig deaf({{"server", "trap '' TERM; touch \"$LONGHAUL_SHARED/ready\"; while true; do sleep 0.02; done", 1, true},
                 {"client", use}});
  CHECK(deaf.wait(deaf.start()).success());
  CHECK(deaf.record().outcome == "succeeded");
}

TEST_CASE("a service that fails before it is asked to end fails the stage; one that ends well does not") {
  StepsRig failing({{"server", "exit 4", 1, true}, {"client", "sleep 60"}});
  CHECK(failing.wait(failing.start()).code == 1);
  CHECK(failing.record().cause == "step server: rank 0 ended: exit code 4");
  StepsRig brief({{"server", "true", 1, true}, {"client", "sleep 0.2; echo x > \"$LONGHAUL_OUT/x\""}});
  CHECK(brief.wait(brief.start()).success());
  CHECK(brief.out("x") == "x\n");
}

TEST_CASE("SIGTERM to the lead reaches every step, and is recorded as cancelled") {
  const std::string work =
      "trap 'echo reported > \"$LONGHAUL_STATE/$LONGHAUL_STEP-reported\"; exit 0' TERM; echo $$ > "
      "\"$LONGHAUL_STATE/$LONGHAUL_STEP\"; "
      "while true; do sleep 0.02; done";
  StepsRig rig({{"a", work}, {"b", work}, {"c", work, 1, true}});
  const pid_t lead = rig.start();
  rig.until([&] { return !rig.state("a").empty() && !rig.state("b").empty() && !rig.state("c").empty(); });
  ::kill(lead, SIGTERM);
  CHECK(rig.wait(lead).code == 1);
  CHECK(rig.record().outcome == "cancelled");
  for (const char* step : {"a", "b", "c"}) {
    CAPTURE(step);
    CHECK(rig.state(std::string(step) + "-reported") == "reported\n");
    CHECK(!identify_process(std::atoi(rig.state(step).c_str())).ok());
  }
}

TEST_CASE("a lead that learns that its time is nearly over stops all steps and leaves the work to the next job") {
  const std::string work = "echo up > \"$LONGHAUL_STATE/$LONGHAUL_STEP\"; while true; do sleep 0.02; done";
  StepsRig rig({{"a", work}, {"b", work, 2}});
  const pid_t lead = rig.start();
  rig.until([&] { return !rig.state("a").empty() && !rig.state("b").empty(); });
  ::kill(lead, SIGUSR1);
  CHECK(rig.wait(lead).success());
  CHECK(rig.record().ended_by == "wall_time");
}

TEST_CASE("under srun each step gets its nodes by name, and is asked to end through Slurm") {
  StepsRig rig({{"actor",
                 "trap 'echo bye > \"$LONGHAUL_OUT/actor\"; exit 1' TERM; touch \"$LONGHAUL_SHARED/ready\"; "
                 "while true; do sleep 0.02; done",
                 1, true},
                {"learner",
                 "until [ -e \"$LONGHAUL_SHARED/ready\" ]; do sleep 0.01; done; "
                 "echo \"$LONGHAUL_STEP_HOSTS_ACTOR $LONGHAUL_STEP_HOSTS_LEARNER\" > \"$LONGHAUL_OUT/$LONGHAUL_RANK\"",
                 2}});
  rig.use_srun("n[1,03-04]");
  rig.attempt.steps[1].nodes = 2;
  CHECK(rig.wait(rig.start()).success());
  CHECK(rig.record().outcome == "succeeded");
  CHECK(rig.out("1") == "n1 n03 n04\n");
  CHECK(rig.out("actor") == "bye\n");
  CHECK(starts_with(rig.text("bin/srun.actor"), "--nodelist=n1 --job-name=actor --ntasks=1 "));
  CHECK(starts_with(rig.text("bin/srun.learner"), "--nodelist=n03,n04 --job-name=learner --ntasks=2 "));
  CHECK(starts_with(rig.text("bin/scancel.said"), "--signal=TERM 77."));
  CHECK(read_launch(rig.attempt.attempt_dir + "/launches/1/launch.toml")->rank_host == std::vector<int>{0, 1, 2});
}

TEST_CASE("under srun a step that does not listen is ended by srun, and a failing one is named with its last line") {
  StepsRig rig({{"deaf", "trap '' TERM; echo $$ > \"$LONGHAUL_STATE/deaf\"; while true; do sleep 0.05; done"},
                {"learner", "until [ -s \"$LONGHAUL_STATE/deaf\" ]; do sleep 0.01; done; echo 'loss is NaN'; exit 5"}});
  rig.use_srun("n[1-2]");
  rig.attempt.grace_s = 0.3;
  CHECK(rig.wait(rig.start()).code == 1);
  CHECK(rig.record().cause == "step learner: the ranks ended: exit code 5: loss is NaN");
  CHECK(!identify_process(std::atoi(rig.state("deaf").c_str())).ok());
}

TEST_CASE("under srun a step is asked to end again where slurmctld did not take the first request") {
  StepsRig rig({{"polite",
                 "trap 'echo bye > \"$LONGHAUL_STATE/polite\"; exit 1' TERM; touch \"$LONGHAUL_SHARED/ready\"; "
                 "while true; do sleep 0.05; done"},
                {"learner", "until [ -e \"$LONGHAUL_SHARED/ready\" ]; do sleep 0.01; done; exit 5"}});
  rig.use_srun("n[1-2]");
  const std::string scancel = *read_file(rig.bin() + "/scancel");
  const std::size_t first_line = scancel.find('\n') + 1;
  REQUIRE(write_file_atomic(rig.bin() + "/scancel",
                            scancel.substr(0, first_line) + "mkdir \"$0.failed\" 2> /dev/null && exit 1\n" +
                                scancel.substr(first_line),
                            0755)
              .ok());
  rig.attempt.grace_s = 10;
  CHECK(rig.wait(rig.start()).code == 1);
  CHECK(rig.state("polite") == "bye\n");
  CHECK(rig.record().cause == "step learner: the ranks ended: exit code 5");
}

TEST_CASE("under srun a step has its whole grace, however late slurmctld takes the request to end it") {
  StepsRig rig(
      {{"slow",
        "trap 'sleep 0.5; echo saved > \"$LONGHAUL_STATE/slow\"; exit 1' TERM; touch \"$LONGHAUL_SHARED/ready\"; "
        "while true; do sleep 0.05; done"},
       {"learner", "until [ -e \"$LONGHAUL_SHARED/ready\" ]; do sleep 0.01; done; exit 5"}});
  rig.use_srun("n[1-2]");
  const std::string scancel = *read_file(rig.bin() + "/scancel");
  const std::size_t first_line = scancel.find('\n') + 1;
  REQUIRE(write_file_atomic(rig.bin() + "/scancel",
                            scancel.substr(0, first_line) + "sleep 2.5\n" + scancel.substr(first_line), 0755)
              .ok());
  rig.attempt.grace_s = 2;
  CHECK(rig.wait(rig.start()).code == 1);
  CHECK(rig.state("slow") == "saved\n");
}

TEST_CASE("steps that are started on this machine are on this host, also within an allocation of others") {
  StepsRig rig(std::vector<StepText>{{"actor", "echo \"$LONGHAUL_STEP_HOSTS_ACTOR\" > \"$LONGHAUL_OUT/hosts\""}});
  rig.environment = {{"SLURM_JOB_ID", "77"}, {"SLURM_JOB_NODELIST", "n[1-3]"}};
  CHECK(rig.wait(rig.start()).success());
  CHECK(rig.out("hosts") == host_name() + "\n");
}

TEST_CASE("a job that was queued again finds nothing of its former life: no addresses, no numbers of steps") {
  StepsRig rig(std::vector<StepText>{{"actor", "ls \"$LONGHAUL_SHARED\" > \"$LONGHAUL_OUT/found\"; echo mine"}});
  rig.environment = {{"SLURM_RESTART_COUNT", "1"}};
  const std::string launch = rig.attempt.attempt_dir + "/launches/1", log = launch + "/steps/actor/rank-0.log";
  const std::string step_number = launch + "/steps/actor/slurm-step";
  for (const std::string& path : {launch + "/shared/port", step_number, log}) {
    REQUIRE(make_directories(parent_path(path)).ok());
    REQUIRE(write_file_atomic(path, "77.3\n").ok());
  }
  CHECK(rig.wait(rig.start()).success());
  CHECK(rig.record(1).outcome == "succeeded");
  CHECK(rig.out("found") == "");
  CHECK(!file_exists(step_number));  // it has none yet, or here never
  CHECK(rig.text("work/attempts/1/launches/1/steps/actor/rank-0.log") == "77.3\nmine\n");  // evidence stays
}

TEST_CASE("a job with fewer nodes than its steps need says so") {
  StepsRig rig({{"a", "true"}, {"b", "true"}});
  rig.use_srun("n1");
  CHECK(rig.wait(rig.start()).code == 1);
  CHECK(rig.record().cause.find("the steps need 2 nodes, and the job has 1") != std::string::npos);
}
