// Whose MPI starts the ranks and carries their messages: the site's, or the Open MPI that a package of Longhaul brings
// along (lib/longhaul/openmpi beside bin/). The engine finds its libmpi.so.40 where the loader looks: LD_LIBRARY_PATH
// first, which the site's module sets, then the package's folder, then the system's. mpirun has to be of the same MPI,
// or every rank would take itself for the only one.
#pragma once

#include <string>

namespace longhaul {

struct MpiPlace {
  std::string mpirun = "mpirun";  // a path, or a name to be looked for in PATH
  std::string own_folder;         // of the Open MPI that the package brought; "" where it brought none
  std::string site_library;       // the site's libmpi.so.40 which comes before it; "" where LD_LIBRARY_PATH has none
};
// library_path: the variable LD_LIBRARY_PATH of the process that starts the ranks.
MpiPlace find_mpi(const std::string& programs_dir, const std::string& library_path);

// The lines of what an MPI says of itself up to the one with its version, as one.
std::string mpi_heading(const std::string& text);

// What speaks against starting ranks with this mpirun; "" where nothing does. mpirun_version: what `mpirun --version`
// says; library_version: what MPI_Get_library_version says in the engine.
std::string mpi_mismatch(const std::string& mpirun_version, const std::string& library_version);

}  // namespace longhaul
