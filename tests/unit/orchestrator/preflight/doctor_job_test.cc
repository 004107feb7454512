// The job of `longhaul doctor --job`: what it asks for, and that it is gone afterwards whatever happens.
#include "orchestrator/preflight/doctor_job.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "base/files/files.h"
#include "base/text/text.h"
#include "tests/support/scratch.h"
#include "tests/unit/orchestrator/scheduler/fake_slurm.h"

using namespace longhaul;

namespace {

Site site_of(const std::string& name) {
  auto site = load_site(name, {LONGHAUL_SOURCE_DIR "/site-configs"});
  REQUIRE_MESSAGE(site.ok(), (site.ok() ? "" : site.error().message()));
  return *site;
}

std::string directive(const DoctorJob& job, const std::string& option) {
  for (const Directive& one : job.plan.directives)
    if (one.option == option) return one.value.empty() ? "set" : one.value;
  return "";
}

struct Rig {
  testing::Scratch scratch;
  ManualClock clock;
  FakeSlurm slurm{clock, {}};
  DoctorJob job;
  std::atomic<bool> stop{false};
  std::vector<std::string> said;

  Rig() {
    auto made = doctor_job(site_of("test-cluster"), "", join_path(scratch.path(), "look"), 2);
    REQUIRE_MESSAGE(made.ok(), (made.ok() ? "" : made.error().message()));
    job = *made;
    REQUIRE(write_doctor_job(job, "/opt/bin/longhaul-worker").ok());
    slurm.play = [](const std::string&, int) {
      FakeSlurm::Play play;
      play.duration_ms = 290'000, play.nodes = 2, play.leaves_claim = play.leaves_record = false;
      return play;
    };
  }
  Result<std::vector<DoctorFact>> run(double queue_s = 60) {
    const auto port = slurm.port();
    DoctorLimits limits;
    limits.queue_s = queue_s;
    return run_doctor_job(job, *port, limits, stop, clock, [this](const std::string& one) { said.push_back(one); });
  }
  int living() {
    const auto jobs = slurm.port()->jobs();
    REQUIRE(jobs.ok());
    return static_cast<int>(std::count_if(jobs->begin(), jobs->end(), [](const SlurmJob& one) {
      return one.state == "PENDING" || one.state == "RUNNING";
    }));
  }
};

}  // namespace

TEST_CASE("doctor job: made like the site's other jobs, of two nodes and five minutes, in the class for debugging") {
  const auto job = doctor_job(site_of("test-cluster"), "", "/runs/.doctor/look", 2);
  REQUIRE_MESSAGE(job.ok(), (job.ok() ? "" : job.error().message()));
  CHECK(job->plan.job_class == "debug");
  CHECK(directive(*job, "nodes") == "2");
  CHECK(directive(*job, "time") == "00:05:00");
  CHECK(directive(*job, "no-kill") == "set");
  CHECK(directive(*job, "gres") == "gpu:a100:4");
  CHECK(job->order.ranks == 8);
  CHECK(job->order.mpi == "pmix");
  const auto& launcher = job->order.launcher;
  CHECK(std::find(launcher.begin(), launcher.end(), "--mpi=pmix") != launcher.end());
  CHECK(join(job->order.agent_launcher, " ").find("--overlap") != std::string::npos);
  CHECK(job->order.sbatch.front() == "sbatch");
  for (const char* word : {"--partition=debug", "--nodes=2", "--time=00:05:00", "--gres=gpu:a100:4"})
    CHECK_MESSAGE(std::find(job->order.sbatch.begin(), job->order.sbatch.end(), word) != job->order.sbatch.end(), word);
  CHECK(doctor_job(site_of("test-cluster"), "prod", "/runs/look", 2)->plan.job_class == "prod");
  CHECK(!doctor_job(site_of("test-cluster"), "prdo", "/runs/look", 2).ok());
  CHECK(!doctor_job(site_of("test-cluster"), "debug", "/runs/look", 3).ok());  // more nodes than the class has
}

TEST_CASE("doctor job: facts of the job and those seen from outside; nothing is left") {
  Rig rig;
  const std::string script = read_file(rig.job.script).value();
  CHECK(script.find("exec '/opt/bin/longhaul-worker' doctor --order") != std::string::npos);
  REQUIRE(write_doctor_facts(rig.job.folder, {{"squeue_inside", "yes", "it answers"}}).ok());
  REQUIRE(write_file_atomic(doctor_done_path(rig.job.folder), "").ok());
  const auto facts = rig.run();
  REQUIRE_MESSAGE(facts.ok(), (facts.ok() ? "" : facts.error().message()));
  const auto answer = [&](const std::string& name) -> std::string {
    for (const DoctorFact& one : *facts)
      if (one.name == name) return one.answer;
    return "";
  };
  CHECK(answer("comment_kept") == "yes");
  CHECK(answer("squeue_inside") == "yes");
  CHECK(answer("cancel_to_end").find(" s") != std::string::npos);
  CHECK(rig.living() == 0);
  CHECK(rig.slurm.submissions(rig.job.comment) == 1);
}

TEST_CASE("doctor job: one that does not start, is refused, or is stopped leaves nothing behind") {
  Rig waits;
  SlurmSubmission before;  // takes both nodes for longer than anybody waits
  before.script = waits.job.script;
  before.options = {{"comment", "another"}};
  REQUIRE(waits.slurm.port()->submit({before}).front().ok());
  const auto late = waits.run(10);
  REQUIRE(!late.ok());
  CHECK(late.error().code == ErrorCode::timeout);
  CHECK(waits.living() == 1);  // the other one

  Rig refused;
  refused.slurm.refuse = [](const SlurmSubmission&) {
    return std::optional<Error>(make_error(ErrorCode::invalid_input, "Invalid account"));
  };
  CHECK(refused.run().error().message().find("Invalid account") != std::string::npos);

  Rig stopped;
  stopped.stop = true;
  CHECK(stopped.run().error().code == ErrorCode::aborted);
  CHECK(stopped.living() == 0);

  Rig silent;  // it ran, and found nothing
  silent.slurm.play = [](const std::string&, int) {
    FakeSlurm::Play play;
    play.duration_ms = 5'000, play.nodes = 2, play.state = "FAILED", play.leaves_claim = play.leaves_record = false;
    return play;
  };
  CHECK(silent.run().error().message().find("the job found nothing") != std::string::npos);
}

TEST_CASE("doctor job: what ran so is right in the site file") {
  const Site site = site_of("test-cluster");
  const auto job = doctor_job(site, "", "/runs/look", 2);
  REQUIRE(job.ok());
  const auto facts = facts_of_request(*job, site, {{"gpus_seen_by_ranks", "4", ""}});
  const auto has = [&](const std::string& key) {
    return std::any_of(facts.begin(), facts.end(), [&](const DoctorFact& one) { return one.key == key; });
  };
  CHECK(has("classes.debug.partition"));
  CHECK(has("can.no_kill"));
  CHECK(has("ask.gpu_request"));
  const auto blind = facts_of_request(*job, site, {{"gpus_seen_by_ranks", "0", ""}});
  CHECK(std::none_of(blind.begin(), blind.end(), [](const DoctorFact& one) { return one.key == "ask.gpu_request"; }));
}
