// Where launchers say which rank a process is; the first that is there counts.
#pragma once

namespace longhaul {

inline constexpr const char* launcher_rank_variables[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK",
                                                          "SLURM_PROCID"};

}  // namespace longhaul
