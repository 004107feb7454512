#include "orchestrator/scheduler/port/mpi_types.h"

#include <algorithm>

#include "base/error/diagnostics.h"
#include "base/process/process.h"
#include "base/text/text.h"

namespace longhaul {

// One name a line below "MPI plugin types are..." ("srun: MPI types are..." before 22.05), each behind "srun: " in some
// releases, and at the end "specific pmix plugin versions available: pmix_v4,pmix_v5".
std::vector<std::string> parse_mpi_types(const std::string& text) {
  std::vector<std::string> types;
  bool listed = false;
  for (std::string line : split(text, '\n')) {
    line = trim(line);
    if (starts_with(line, "srun: ")) line = trim(line.substr(6));
    if (line.find("types are") != std::string::npos) {
      listed = true;
      continue;
    }
    const std::size_t versions = line.find("versions available:");
    const std::string names = versions == std::string::npos ? line : line.substr(line.find(':') + 1);
    if (versions == std::string::npos && line.find(' ') != std::string::npos) continue;  // a sentence of something else
    for (const std::string& name : split(names, ','))
      if (const std::string one = trim(name); listed && !one.empty()) types.push_back(one);
  }
  return types;
}

Result<std::vector<std::string>> ask_mpi_types(std::int64_t deadline_ms) {
  SpawnSpec srun;
  srun.argv = {"srun", "--mpi=list"};
  srun.environment_removed = {"SLURM_MPI_TYPE"};
  LH_TRY(const RunOutput said, run_captured(std::move(srun), deadline_ms));
  std::vector<std::string> types = parse_mpi_types(said.out + "\n" + said.err);
  if (types.empty())
    return make_error(ErrorCode::unavailable, "srun --mpi=list: " + said.status.text() + " " + trim(said.err));
  return types;
}

std::string mpi_type_remedy(const std::string& mpi, const std::vector<std::string>& known) {
  if (known.empty() || mpi == "none" || std::find(known.begin(), known.end(), mpi) != known.end()) return {};
  const std::string nearest = nearest_word(mpi, known);
  return nearest.empty() ? "there are: " + join(known, ", ")
                         : "did you mean '" + nearest + "'? there are: " + join(known, ", ");
}

}  // namespace longhaul
