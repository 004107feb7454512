#include "orchestrator/preflight/queue_estimate.h"

#include <doctest/doctest.h>

#include "base/files/files.h"
#include "base/text/text.h"
#include "tests/unit/orchestrator/scheduler/fake_slurm.h"

using namespace longhaul;

namespace {

// A plan of jobs that differ in their wall time, and the Slurm that is asked about them. A job of 13 minutes is refused
// for good, one of 17 for now, one of 16 as long as too few nodes are up; after one of 19 nothing is answered any more.
struct QueueRig {
  ManualClock clock;
  FakeSlurm slurm{clock, {}};
  std::vector<std::string> scripts;  // as Slurm read them
  RunPlan plan;
  std::vector<JobPlan> jobs;

  QueueRig() {
    clock.advance_ms(1'000'000'000);
    slurm.refuse = [this](const SlurmSubmission& submission) -> std::optional<Error> {
      const auto text = read_file(submission.script);
      REQUIRE_MESSAGE(text.ok(), (text.ok() ? "" : text.error().message()));
      scripts.push_back(*text);
      const auto asks = [&](const char* time) { return text->find(time) != std::string::npos; };
      const auto refusal = [&](ErrorCode code, const char* words) {
        return make_error(code, submission.script + " would not run: " + words);
      };
      if (asks("--time=00:13:00")) return refusal(ErrorCode::invalid_input, "Requested time limit is invalid");
      if (asks("--time=00:16:00"))
        return refusal(ErrorCode::invalid_input, "Requested node configuration is not available");
      if (asks("--time=00:17:00")) return refusal(ErrorCode::unavailable, "Required partition not available");
      if (!asks("--time=00:19:00")) return std::nullopt;
      slurm.down_until_ms = clock.wall_ms() + 600'000;
      return make_error(ErrorCode::unavailable, "sbatch gave no answer within 30 s");
    };
  }
  void add(const std::string& stage, const std::string& variant, int minutes) {
    PlannedStage planned;
    planned.stage = stage;
    planned.variant = variant;
    plan.stages.push_back(std::move(planned));
    JobPlan job;
    job.wall_s = 60 * minutes;
    job.directives = {{"nodes", "2", "workflow"}, {"time", format("00:{:02}:00", minutes), "workflow"}};
    jobs.push_back(std::move(job));
  }
  // "stage: answer" for each.
  std::string ask() {
    const auto port = slurm.port();
    estimate = ask_queue(*port, plan, jobs, "/scratch/runs");
    std::vector<std::string> words;
    for (const QueueAnswer& answer : estimate.answers)
      words.push_back(answer.stage + ": " + (answer.refused.empty() ? answer.partition : answer.refused));
    return join(words, ", ");
  }
  QueueEstimate estimate;
};

}  // namespace

TEST_CASE(
    "queue estimate: each job's start, partition and nodes; equal jobs are asked for once, nothing is submitted") {
  QueueRig rig;
  rig.add("curate", "", 10);
  rig.add("train", "", 20);
  rig.add("evaluate", "", 10);
  CHECK(rig.ask() == "curate: main, train: main, evaluate: main");
  CHECK(rig.estimate.problem.empty());
  CHECK(rig.estimate.cluster == "fake");
  CHECK(rig.estimate.answers[0].nodes == "n1");
  CHECK(rig.estimate.answers[0].start_s == rig.clock.wall_ms() / 1000);
  CHECK(rig.slurm.will_runs() == 2);
  REQUIRE(rig.scripts.size() == 2);
  CHECK(rig.scripts[0].find("#SBATCH --nodes=2") != std::string::npos);
  CHECK(rig.scripts[0].find("#SBATCH --time=00:10:00") != std::string::npos);
  CHECK(rig.scripts[0].find("#SBATCH --chdir=/scratch/runs ") != std::string::npos);  // filters look at it
  CHECK(rig.slurm.port()->jobs()->empty());
}

TEST_CASE("queue estimate: variants that ask for the same have one answer, others one each") {
  QueueRig rig;
  rig.add("same", "lr=1", 10);
  rig.add("same", "lr=2", 10);
  rig.add("sized", "nodes=1", 10);
  rig.add("sized", "nodes=2", 13);
  rig.add("sized", "nodes=3", 10);
  CHECK(rig.ask() == "same: main, sized/nodes=1: main, sized/nodes=2: Requested time limit is invalid");
}

TEST_CASE(
    "queue estimate: a job that is refused, for good or for a while, says why; the others are asked for all the same") {
  QueueRig rig;
  rig.add("a", "", 13);
  rig.add("b", "", 17);
  rig.add("c", "", 10);
  CHECK(rig.ask() == "a: Requested time limit is invalid, b: Required partition not available, c: main");
  CHECK(rig.estimate.problem.empty());
  CHECK(rig.estimate.answers[0].for_good);
  CHECK_FALSE(rig.estimate.answers[1].for_good);
  CHECK_FALSE(rig.estimate.answers[2].for_good);
}

TEST_CASE("queue estimate: nodes that are down, or not known yet, are no reason to refuse a job") {
  QueueRig rig;
  rig.add("a", "", 16);
  CHECK(rig.ask() == "a: Requested node configuration is not available");
  CHECK_FALSE(rig.estimate.answers[0].for_good);
}

TEST_CASE("queue estimate: a cluster that falls silent is asked no more, and its silence is no refusal") {
  QueueRig rig;
  rig.add("a", "", 10);
  rig.add("b", "", 19);
  rig.add("c", "", 20);
  rig.add("d", "", 30);
  CHECK(rig.ask() == "a: main");
  CHECK(rig.estimate.problem == "sbatch gave no answer within 30 s");
  CHECK(rig.slurm.will_runs() == 2);
  CHECK(rig.ask().empty());  // silent from the beginning
  CHECK(rig.slurm.will_runs() == 2);
  CHECK(rig.estimate.problem.find("Unable to contact slurm controller") != std::string::npos);
}

TEST_CASE("queue estimate: no more than so many different jobs are asked for") {
  QueueRig rig;
  for (int i = 0; i < 30; ++i) rig.add(format("s{}", i), "", 20 + i);
  rig.ask();
  CHECK(rig.estimate.answers.size() == questions_max);
  CHECK(rig.slurm.will_runs() == static_cast<int>(questions_max));
  CHECK(rig.estimate.problem == "only 20 different jobs are asked for");
}
