#include "contracts/settings/job/mpi_place.h"

#include "base/files/files.h"
#include "base/text/text.h"

namespace longhaul {
namespace {

constexpr const char* library_name = "libmpi.so.40";  // Open MPI's, 4 and 5 alike

// "4.1.0" of "Open MPI v4.1.0, package: ..." and of "mpirun (Open MPI) 4.1.0"; "" where it is no Open MPI.
std::string open_mpi_version(const std::string& text) {
  std::size_t at = text.find("Open MPI");
  if (at == std::string::npos) return {};
  at = text.find_first_of("0123456789", at);
  if (at == std::string::npos) return {};
  return text.substr(at, text.find_first_not_of("0123456789.", at) - at);
}

}  // namespace

std::string mpi_heading(const std::string& text) {
  std::string heading;
  for (const std::string& line : split(text, '\n')) {
    heading += (heading.empty() ? "" : " ") + trim(line);
    if (heading.find_first_of("0123456789") != std::string::npos) break;
  }
  return heading;
}

MpiPlace find_mpi(const std::string& programs_dir, const std::string& library_path) {
  MpiPlace place;
  for (const std::string& folder : split(library_path, ':')) {
    const std::string library = join_path(folder, library_name);
    if (place.site_library.empty() && !folder.empty() && file_exists(library)) place.site_library = library;
  }
  const std::string own = join_path(parent_path(programs_dir), "lib/longhaul/openmpi");
  if (!file_exists(join_path(own, "bin/mpirun"))) return place;
  place.own_folder = own;
  if (place.site_library.empty()) place.mpirun = join_path(own, "bin/mpirun");
  return place;
}

std::string mpi_mismatch(const std::string& mpirun_version, const std::string& library_version) {
  const std::string starts = open_mpi_version(mpirun_version), carries = open_mpi_version(library_version);
  if (!starts.empty() && split(starts, '.').front() == split(carries, '.').front()) return {};
  return format(
      "mpirun is '{}' and the engine's library is '{}': ranks may not find each other; load the module of one Open MPI "
      "4 "
      "or 5, so that PATH has its mpirun and LD_LIBRARY_PATH the folder of its libmpi.so.40, or neither; for another "
      "MPI build Longhaul at the site (docs/install.md)",
      mpi_heading(mpirun_version), mpi_heading(library_version));
}

}  // namespace longhaul
