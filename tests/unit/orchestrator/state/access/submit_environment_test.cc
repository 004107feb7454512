// The environment that a run keeps for its jobs.
#include "orchestrator/state/access/submit_environment.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include "base/files/files.h"
#include "tests/support/scratch.h"

namespace longhaul {

using Entries = std::vector<std::string>;

TEST_CASE("what a job of Slurm's or a step of MPI's has set for itself is not handed on to later jobs") {
  const Entries mine = {"A=1",
                        "HOME=/home/ana",
                        "LINES=a\nb",
                        "OMPI_MCA_pml=ucx",
                        "PATH=/opt/bin:/bin",
                        "PMIX_MCA_psec=native",
                        "SLURMISH=stays",
                        "VALUE=SLURM_JOB_ID=7"};
  Entries all = mine;
  for (const char* of_job :
       {"SLURM_JOB_ID=7", "SLURM_CONF=/etc/slurm.conf", "SLURM_JWT=secret", "SBATCH_ACCOUNT=x", "SRUN_CPUS_PER_TASK=4",
        "PMI_RANK=0", "PMIX_RANK=0", "OMPI_COMM_WORLD_RANK=0", "CUDA_VISIBLE_DEVICES=3", "nonsense", "=x"})
    all.emplace_back(of_job);
  CHECK(environment_for_jobs(all) == mine);
}

TEST_CASE("a run keeps it as it is, for its owner alone") {
  const testing::Scratch scratch;
  const Entries entries = {"EMPTY=", "LINES=a\nb", "NAME=v=w"};
  CHECK(read_submit_environment(scratch.path()).empty());  // an older run has none
  const std::string path = scratch.file(submit_environment_file);
  REQUIRE(write_file_atomic(path, submit_environment_text(entries), 0600).ok());
  CHECK(read_submit_environment(scratch.path()) == entries);
  REQUIRE(::chmod(path.c_str(), 0622) == 0);
  CHECK(read_submit_environment(scratch.path()).empty());  // others may have written it
  REQUIRE(::rename(path.c_str(), scratch.file("elsewhere").c_str()) == 0);
  REQUIRE(::chmod(scratch.file("elsewhere").c_str(), 0600) == 0);
  REQUIRE(::symlink("elsewhere", path.c_str()) == 0);
  CHECK(read_submit_environment(scratch.path()).empty());
}

}  // namespace longhaul
