// How long one job may be, by what its stage asks for and what its class allows, and when its lead is warned of the
// end.
#pragma once

#include "orchestrator/job/request/job_sources.h"

namespace longhaul {

struct JobLength {
  double wall_s = 0;         // of one job
  double longer_wall_s = 0;  // of every attempt after the first, where `wall_s` is from a forecast; 0: as the first
  double stop_before_s = 0;  // SIGUSR1 to the lead this long before the end
  bool resumable = false;    // keeps its state between jobs
  bool chain = false;        // longer than one job may be: goes on in another, queued before the first ends
  Chosen decided = {};       // by what `wall_s` was; without a value
};

// `nodes`: of the job, spares included. A time that the site does not allow is a problem of the stage's key.
JobLength length_of(const JobSources& from, int nodes);

// Seconds before the end at which a job's lead is warned: what the stage asks for, else the site's but a quarter of the
// job at most, and no more than a record takes where nothing is saved. 0 of a job without an end.
double warning_s(double wall_s, bool resumable, double asked_s, double of_site_s);

}  // namespace longhaul
