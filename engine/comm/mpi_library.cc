#include "engine/comm/mpi_library.h"

#define OMPI_SKIP_MPICXX 1  // the C interface only, as in mpi_communicator.cc
#define MPICH_SKIP_MPICXX 1
#include <dlfcn.h>
#include <mpi.h>

#include <cstdlib>

#include "base/files/files.h"
#include "base/text/text.h"

namespace longhaul {

MpiLibrary mpi_library() {
  MpiLibrary library;
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  if (MPI_Get_library_version(text, &length) == MPI_SUCCESS)            // allowed before MPI_Init
    library.version = trim(replace_all(std::string(text), "\n", " "));  // Open MPI counts the zero behind it
  Dl_info found;
  if (::dladdr(reinterpret_cast<const void*>(&MPI_Get_library_version), &found) != 0 && found.dli_fname)
    library.path = absolute_path(found.dli_fname);
  return library;
}

void place_own_mpi() {
  const std::string folder = parent_path(parent_path(mpi_library().path));  // .../openmpi/lib/libmpi.so.40
  if (!ends_with(folder, "lib/longhaul/openmpi")) return;
  setenv("OPAL_PREFIX", folder.c_str(), 0);
  setenv("OPAL_SYSCONFDIR", join_path(folder, "etc").c_str(), 0);
  setenv("PMIX_PKGLIBDIR", join_path(folder, "pmix/lib/pmix").c_str(), 0);
  setenv("PMIX_PKGDATADIR", join_path(folder, "pmix/share/pmix").c_str(), 0);
}

}  // namespace longhaul
