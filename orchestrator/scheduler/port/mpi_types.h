// Which values srun takes for --mpi: plugins of the site's Slurm, of which only srun itself knows.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error/result.h"

namespace longhaul {

// What `srun --mpi=list` prints: "none pmi2 pmix pmix_v4". Empty where it is no such list.
std::vector<std::string> parse_mpi_types(const std::string& text);
// unavailable: there is no srun here, or it says nothing of that kind.
Result<std::vector<std::string>> ask_mpi_types(std::int64_t deadline_ms = 10'000);

// "" where srun takes it, or nothing is known; else what would have to be written instead.
std::string mpi_type_remedy(const std::string& mpi, const std::vector<std::string>& known);

}  // namespace longhaul
