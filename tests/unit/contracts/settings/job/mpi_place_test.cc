#include "contracts/settings/job/mpi_place.h"

#include <doctest/doctest.h>

#include "base/files/files.h"
#include "tests/support/scratch.h"

namespace longhaul {
namespace {

struct Prefix {
  testing::Scratch folder;
  std::string bin = join_path(folder.path(), "a prefix/bin");
  std::string own = join_path(folder.path(), "a prefix/lib/longhaul/openmpi");
  std::string site = join_path(folder.path(), "site/lib");

  void put(const std::string& path) {
    REQUIRE(make_directories(parent_path(path)).ok());
    REQUIRE(write_file_renamed(path, "").ok());
  }
};

TEST_CASE("a build without a package's MPI takes mpirun from PATH") {
  Prefix prefix;
  const MpiPlace place = find_mpi(prefix.bin, "");
  CHECK(place.mpirun == "mpirun");
  CHECK(place.own_folder == "");
}

TEST_CASE("a package starts ranks with its own mpirun until the site's library comes before its own") {
  Prefix prefix;
  prefix.put(prefix.own + "/bin/mpirun");
  CHECK(find_mpi(prefix.bin, "/nowhere::").mpirun == prefix.own + "/bin/mpirun");

  prefix.put(prefix.site + "/libmpi.so.40");
  const MpiPlace place = find_mpi(prefix.bin, "/nowhere:" + prefix.site);
  CHECK(place.mpirun == "mpirun");
  CHECK(place.own_folder == prefix.own);
  CHECK(place.site_library == prefix.site + "/libmpi.so.40");
}

TEST_CASE("mpirun and library of one Open MPI fit; others are both named, with what to set") {
  const std::string library = "Open MPI v4.1.0, package: Debian OpenMPI, ident: 4.1.0, repo rev: v4.1.0";
  CHECK(mpi_mismatch("mpirun (Open MPI) 4.1.0\n\nReport bugs to", library) == "");
  CHECK(mpi_mismatch("mpirun (Open MPI) 4.0.5", library) == "");

  const std::string newer = mpi_mismatch("mpirun (Open MPI) 5.0.3", library);
  CHECK(newer.find("5.0.3") != std::string::npos);
  CHECK(newer.find("v4.1.0") != std::string::npos);
  CHECK(newer.find("LD_LIBRARY_PATH") != std::string::npos);
  const std::string other = mpi_mismatch("HYDRA build details:\n    Version: 4.0.2\n    CC: gcc", library);
  CHECK(other.find("'HYDRA build details: Version: 4.0.2'") != std::string::npos);
  CHECK(mpi_mismatch("mpirun (Open MPI) 4.1.0", "MPICH Version: 4.0.2").find("MPICH") != std::string::npos);
}

}  // namespace
}  // namespace longhaul
