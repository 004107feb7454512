// A fake Slurm in virtual time, a SlurmScheduler that has been at work for a while, and folders for its jobs.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/files/files.h"
#include "orchestrator/scheduler/slurm/slurm_scheduler.h"
#include "tests/support/scratch.h"
#include "tests/unit/orchestrator/scheduler/fake_slurm.h"

namespace longhaul {

struct SlurmWorld {
  explicit SlurmWorld(FakeSlurm::Options options = {}) : slurm(clock, options), log("test", "", LogLevel::error) {
    REQUIRE(write_file_atomic(scratch.file("job.sbatch"), "#!/bin/sh\n").ok());
    new_controller();
    REQUIRE(scheduler->snapshot({}).ok());  // one that has been at work for a while
    clock.advance_ms(settle_ms);
  }
  static constexpr std::int64_t settle_ms = 15'000, grace_ms = 60'000;

  void new_controller() {
    SlurmSchedulerOptions options;
    options.comments = comments;
    options.last_look = last_look;
    options.settle_ms = settle_ms;
    options.record_grace_ms = grace_ms;
    scheduler = std::make_unique<SlurmScheduler>(slurm.port(), options, clock, log);
  }
  JobSpec job(const std::string& key, bool maybe_known = false) {
    const std::string folder = scratch.file(key);
    REQUIRE(make_directories(folder).ok());
    return {.key = key,
            .attempt_dir = folder,
            .worker = {},
            .maybe_known = maybe_known,
            .script = scratch.file("job.sbatch"),
            .after = {},
            .array_tasks = {},
            .name = submission_name("lh-world", key),
            .work_dir = scratch.path(),
            .wanted_ms = clock.wall_ms()};
  }
  // As the log reports it when its submission was just answered.
  OpenJob open(const std::string& key, const std::string& id) {
    OpenJob made{key, id, scratch.file(key)};
    made.folder = made.attempt_dir;
    made.work_dir = scratch.path();
    made.answered_ms = clock.wall_ms();
    return made;
  }
  std::optional<JobInfo> look(const OpenJob& job) {
    if (std::none_of(looked_at.begin(), looked_at.end(), [&](const OpenJob& other) { return other.key == job.key; }))
      looked_at.push_back(job);
    const auto infos = scheduler->snapshot(looked_at);
    REQUIRE(infos.ok());
    std::optional<JobInfo> found;
    for (const JobInfo& info : *infos) {
      if (info.key != job.key) continue;
      CHECK_FALSE(found);  // one answer for a key
      found = info;
    }
    return found;
  }

  ManualClock clock;
  testing::Scratch scratch;
  FakeSlurm slurm;
  Logger log;
  std::vector<OpenJob> looked_at;  // all of them are open
  bool comments = true;            // of the site: identity = "comment"
  bool last_look = false;          // nobody comes after this controller
  std::unique_ptr<SlurmScheduler> scheduler;
};

inline FakeSlurm::Play long_play(int nodes) {
  FakeSlurm::Play play;
  play.duration_ms = 1'000'000;
  play.nodes = nodes;
  return play;
}

inline void leave_record(const std::string& folder, const std::string& outcome, const std::string& nodes = {}) {
  JobRecord record;
  record.outcome = outcome;
  record.nodes = nodes;
  REQUIRE(write_record(join_path(folder, "record.json"), record).ok());
}

}  // namespace longhaul
