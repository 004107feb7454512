// What the scheduler says about the job that a lead runs in, and whose mpirun starts its ranks; read from the
// environment by main, empty outside of Slurm.
#pragma once

#include <string>

namespace longhaul {

struct AllocationInfo {
  std::string scheduler_job;      // "1234", "1234_7" for the task of an array
  int restarts = 0;               // how often the scheduler has queued this job again
  std::string nodes;              // "n[1-2]"
  std::string node = {};          // this one, as the scheduler names it
  std::string mpirun = "mpirun";  // contracts/settings/job/mpi_place.h
  // The node that makes the job's steps, where Slurm's controller does not (enable_stepmgr since 24.05: SLURM_STEPMGR);
  // without it nothing can be started in the job any more. "": the controller does.
  std::string step_maker = {};
};

}  // namespace longhaul
