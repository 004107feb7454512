// Which MPI this process was given by the loader: for `longhaul-engine info` and for errors about ranks that do not
// meet.
#pragma once

#include <string>

namespace longhaul {

struct MpiLibrary {
  std::string version;  // "Open MPI v4.1.0, package: ...": what the library says of itself, one line
  std::string path;     // its file
};
MpiLibrary mpi_library();

// The Open MPI of a package (lib/longhaul/openmpi) gets the folder where it lies now; any other is left alone. Before
// MPI begins.
void place_own_mpi();

}  // namespace longhaul
