// What the cluster's own Slurm says against the launchers of a plan's jobs.
#include "orchestrator/preflight/launcher_check.h"

#include <doctest/doctest.h>

#include "base/files/files.h"
#include "base/text/text.h"
#include "orchestrator/scheduler/port/mpi_types.h"
#include "orchestrator/scheduler/port/slurm_release.h"
#include "tests/support/scratch.h"

namespace longhaul {
namespace {

Site launching_site(const testing::Scratch& scratch, const std::string& mpi) {
  const std::string path = scratch.path() + "/here.toml";
  write_file_renamed(path, "name = \"here\"\nscheduler = \"slurm\"\n[launcher]\nmpi = \"" + mpi + "\"\n").value();
  auto site = load_site(path, {});
  REQUIRE_MESSAGE(site.ok(), site.error().message());
  return *site;
}

JobPlan launched_by(std::vector<std::string> launcher, bool agents = false, bool no_kill = false) {
  JobPlan job;
  job.launcher = std::move(launcher);
  if (agents) job.agent_launcher = {"srun"};
  if (no_kill) job.directives = {{"no-kill", "", ""}};
  return job;
}

SlurmConfiguration slurm_of(const std::string& version, bool stepmgr = false) {
  SlurmConfiguration slurm;
  slurm.version = version;
  slurm.stepmgr = stepmgr;
  return slurm;
}

}  // namespace

TEST_CASE("srun --mpi=list, as several releases print it") {
  const std::vector<std::string> debian = {"pmix", "none", "cray_shasta", "pmi2", "pmix_v4"};
  CHECK(parse_mpi_types("MPI plugin types are...\n\tpmix\n\tnone\n\tcray_shasta\n\tpmi2\n"
                        "specific pmix plugin versions available: pmix_v4\n") == debian);
  CHECK(parse_mpi_types("srun: MPI types are...\nsrun: cray_shasta\nsrun: none\nsrun: pspmix\n") ==
        std::vector<std::string>{"cray_shasta", "none", "pspmix"});
  CHECK(parse_mpi_types("MPI plugin types are...\n\tnone\nspecific pmix plugin versions available: pmix_v4,pmix_v5") ==
        std::vector<std::string>{"none", "pmix_v4", "pmix_v5"});
  CHECK(parse_mpi_types("").empty());
  CHECK(parse_mpi_types("srun: error: Unable to contact slurm controller (connect failure)\n").empty());
  CHECK(parse_mpi_types("ready\n").empty());
}

TEST_CASE("a plugin that srun does not have is refused by name, where the site says it; pspmix may be written") {
  const testing::Scratch scratch;
  const auto problems = [&](const std::string& mpi, const std::vector<JobPlan>& jobs,
                            const std::vector<std::string>& known) {
    Diagnostics diagnostics;
    check_mpi_types(launching_site(scratch, mpi), jobs, known, diagnostics);
    return diagnostics.empty() ? std::string() : diagnostics.render("");
  };
  const std::vector<std::string> known = {"none", "pmi2", "pmix"};
  const std::vector<JobPlan> jobs = {launched_by({"srun", "--mpi=none"}), launched_by({"srun", "--mpi=pspmix"})};
  const std::string reported = problems("pspmix", jobs, known);
  CHECK(reported.find("here.toml:4:7: error: launcher.mpi = \"pspmix\": srun takes no --mpi=pspmix") !=
        std::string::npos);
  CHECK(reported.find("did you mean 'pmix'? there are: none, pmi2, pmix") != std::string::npos);
  CHECK(problems("pspmix", jobs, {"none", "pspmix"}).empty());
  CHECK(problems("pspmix", jobs, {}).empty());          // nobody knows
  CHECK(problems("pspmix", {jobs[0]}, known).empty());  // nobody needs it
  CHECK(problems("pmix", {launched_by({"srun", "--mpi=pmix"})}, known).empty());
  JobPlan steps;
  steps.steps.resize(1);
  steps.steps[0].launcher = {"srun", "--mpi=pspmix"};
  CHECK(!problems("pspmix", {steps}, known).empty());
}

TEST_CASE("a site's MPI is a word") {
  const testing::Scratch scratch;
  for (const char* word : {"pmix", "pspmix", "pmix_v5", "cray_shasta", "none", "openmpi"})
    CHECK(launching_site(scratch, word).config.launcher.mpi == word);
  for (const char* wrong : {"", "pmix --overlap", "$(id)", "a/b"}) {
    CAPTURE(wrong);
    const std::string path = scratch.path() + "/wrong.toml";
    write_file_renamed(path, format("name = \"here\"\nscheduler = \"slurm\"\n[launcher]\nmpi = \"{}\"\n", wrong))
        .value();
    const auto site = load_site(path, {});
    REQUIRE(!site.ok());
    CHECK(site.error().message().find("wrong.toml:4:7: error: launcher.mpi") != std::string::npos);
  }
}

TEST_CASE("releases are numbers, whatever stands around them") {
  CHECK(slurm_release("22.05.8") == SlurmRelease{22, 5, 8});
  CHECK(slurm_release("slurm 24.11.5-1") == SlurmRelease{24, 11, 5});
  CHECK(slurm_release("23.11.0-0rc1") == SlurmRelease{23, 11, 0});
  CHECK(slurm_release("23.02") == SlurmRelease{23, 2, 0});
  CHECK(!slurm_release("").has_value());
  CHECK(!slurm_release("unknown").has_value());
  CHECK(slurm_release("21.08.8")->text() == "21.08.8");
}

TEST_CASE(
    "what a release means for jobs: agents from 22.05 on, --no-kill from 23.02.6 on, stepmgr and the first node") {
  RunPlan plan;
  plan.stages.resize(1);
  const auto refused = [&](const std::string& version, bool agents) {
    Diagnostics diagnostics;
    check_slurm_release(plan, {launched_by({"srun"}, agents)}, slurm_of(version), diagnostics);
    return diagnostics.empty() ? std::string() : diagnostics.render("");
  };
  CHECK(refused("21.08.8", true).find("Slurm 21.08.8 lets a job's agents and its ranks wait for each other") !=
        std::string::npos);
  CHECK(refused("21.08.8", false).empty());
  CHECK(refused("22.05.0", true).empty());
  CHECK(refused("what", true).empty());
  const auto notes = [](const std::string& version, bool no_kill, bool stepmgr) {
    return join(notes_on_slurm({launched_by({"srun"}, true, no_kill)}, slurm_of(version, stepmgr)), "\n");
  };
  CHECK(notes("22.05.8", true, false).find("fixed in 23.02.6") != std::string::npos);
  CHECK(notes("23.02.5", true, false).find("fixed in 23.02.6") != std::string::npos);
  CHECK(notes("23.02.6", true, false).empty());
  CHECK(notes("22.05.8", false, false).empty());
  CHECK(notes("25.05.1", true, true).find("ends with that one") != std::string::npos);
  CHECK(notes("25.05.1", false, true).empty());
}

}  // namespace longhaul
