// What sbatch of 24.11.5 and 26.05.5 was seen to say of a job's tasks.
#include "orchestrator/slurm_helper/task_variables.h"

#include <doctest/doctest.h>

namespace longhaul {
namespace {

using Variables = std::vector<std::string>;

TEST_CASE("what a task asks for is one text") {
  CHECK(tres_per_task(0, "").empty());
  CHECK(tres_per_task(2, "") == "cpu=2");
  CHECK(tres_per_task(2, "1") == "cpu=2,gres/gpu=1");
  CHECK(tres_per_task(0, "a100:1") == "gres/gpu:a100=1");
  CHECK(tres_per_task(0, "a100:1,h100:2") == "gres/gpu:a100=1,gres/gpu:h100=2");
}

TEST_CASE("mpirun's srun says that it launches for another program, unless the user has chosen") {
  const std::string open_mpi = "OMPI_MCA_plm_slurm_args=--external-launcher";
  const std::string prrte = "PRTE_MCA_plm_slurm_args=--external-launcher";
  const Variables all = {open_mpi,
                         prrte,
                         "HYDRA_BOOTSTRAP=slurm",
                         "HYDRA_LAUNCHER_EXTRA_ARGS=--external-launcher",
                         "I_MPI_HYDRA_BOOTSTRAP=slurm",
                         "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS=--external-launcher"};
  CHECK(launcher_variables({"PATH=/bin", "MY_HYDRA_BOOTSTRAP=ssh"}, true) == all);
  CHECK(launcher_variables({}, false) == Variables{open_mpi, prrte});
  CHECK(launcher_variables({"HYDRA_BOOTSTRAP=ssh", "I_MPI_HYDRA_BOOTSTRAP=rsh", "OMPI_MCA_plm_slurm_args=--x"}, true) ==
        Variables{prrte});
  CHECK(launcher_variables({"HYDRA_BOOTSTRAP=slurm"}, false) ==
        Variables{open_mpi, prrte, "HYDRA_LAUNCHER_EXTRA_ARGS=--external-launcher"});
}

TEST_CASE("--export says which variables a job inherits, and what it sets itself") {
  CHECK(parse_export("").inherits("HOME=/home/a"));
  CHECK(parse_export("ALL").everything);
  const ExportOption none = parse_export("NONE");
  CHECK(!none.inherits("HOME=/home/a"));
  CHECK(none.inherits("SLURM_CONF=/etc/slurm.conf"));
  CHECK(none.inherits("SPANK_X=1"));
  const ExportOption some = parse_export("HOME,LANG=C");
  CHECK(some.inherits("HOME=/home/a"));
  CHECK(!some.inherits("HOMEPAGE=x"));
  CHECK(!some.inherits("LANG=de"));
  CHECK(some.set == std::map<std::string, std::string>{{"LANG", "C"}});
  const ExportOption most = parse_export("ALL,LANG=C");
  CHECK(!most.everything);
  CHECK(most.inherits("HOME=/home/a"));
  CHECK(!most.inherits("LANG=de"));
}

}  // namespace
}  // namespace longhaul
