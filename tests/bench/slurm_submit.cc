// How fast 10,000 jobs are submitted through longhaul-slurm, beside the plain loop over libslurm in the same run on the
// same cluster; and through the whole scheduler, which looks for keys as well. The jobs are held: nothing starts
// meanwhile.
//   eval "$(tests/cluster/cluster env)"; build/release/bin/slurm_submit [COUNT]
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>

#include "base/files/files.h"
#include "base/process/log.h"
#include "base/process/process.h"
#include "base/system/clock.h"
#include "base/text/text.h"
#include "orchestrator/scheduler/port/helper_port.h"
#include "orchestrator/scheduler/slurm/slurm_scheduler.h"

using namespace longhaul;

namespace {

constexpr double bar = 0.80;
constexpr std::int64_t deadline_ms = 300'000;

double seconds_of(const std::function<void()>& work) {
  SystemClock clock;
  const std::int64_t begin = clock.monotonic_ns();
  work();
  return static_cast<double>(clock.monotonic_ns() - begin) * 1e-9;
}

void require(bool fine, const std::string& what) {
  if (fine) return;
  std::fprintf(stderr, "%s\n", what.c_str());
  std::exit(1);
}

struct Bench {
  std::string folder, script, raw, helper;

  double raw_loop(int count) const {
    const auto done = run_program({raw, std::to_string(count), script, folder, "held"}, deadline_ms);
    require(done.ok() && done->status.success(), "the plain loop failed");
    return std::atof(done->out.c_str());
  }
  double through_port(int count, const std::string& prefix) const {
    HelperPort port(helper);
    std::vector<SlurmSubmission> submissions;
    for (int i = 0; i < count; ++i)
      submissions.push_back({script, {folder}, {{"comment", format("{}-{}", prefix, i)}, {"hold", ""}}});
    return seconds_of([&] {
      for (const auto& id : port.submit(submissions)) require(id.ok(), id.ok() ? "" : id.error().message());
    });
  }
  double through_scheduler(int count, const std::string& prefix) const {
    SystemClock clock;
    Logger log("bench", "", LogLevel::error);
    SlurmSchedulerOptions options;
    options.settle_ms = 0;
    SlurmScheduler scheduler(std::make_unique<HelperPort>(helper), options, clock, log);
    std::vector<JobSpec> specs(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) {
      JobSpec& spec = specs[static_cast<std::size_t>(i)];
      spec.key = format("{}-{}", prefix, i);
      spec.attempt_dir = folder;
      spec.script = script;
      spec.maybe_known = i % 2 == 0;
    }
    return seconds_of([&] {
      for (const auto& id : scheduler.submit(specs)) require(id.ok(), id.ok() ? "" : id.error().message());
    });
  }
};

}  // namespace

int main(int argc, char** argv) {
  const int count = argc > 1 ? std::atoi(argv[1]) : 10'000;
  const char* state = std::getenv("LONGHAUL_CLUSTER_STATE");
  require(state != nullptr && count >= 4, "needs the test cluster (tests/cluster/cluster up) and a count");
  const std::string bin = parent_path(own_program_path());
  Bench bench{std::string(state) + "/scratch", std::string(state) + "/scratch/bench.sbatch", bin + "/slurm_submit_raw",
              bin + "/longhaul-slurm"};
  require(make_directories(bench.folder).ok() &&
              write_file_atomic(bench.script,
                                "#!/bin/bash\n#SBATCH --hold --nodes=1 --time=10 --output=/dev/null --job-name=bench\n"
                                "exec sleep 1\n")
                  .ok(),
          "no folder for the script");
  // Raw, port, port, raw: slurmctld slows down as its queue grows.
  double raw = bench.raw_loop(count / 2);
  double port = bench.through_port(count / 2, "a");
  port += bench.through_port(count / 2, "b");
  raw += bench.raw_loop(count / 2);
  const double scheduler = bench.through_scheduler(count, "c");
  std::printf("plain libslurm loop:   %6.0f jobs/s (%d jobs)\n", count / raw, count);
  std::printf("through longhaul-slurm: %5.0f jobs/s, ratio %.3f, bar %.2f\n", count / port, raw / port, bar);
  std::printf("through SlurmScheduler: %5.0f jobs/s, ratio %.3f, bar %.2f\n", count / scheduler, raw / scheduler, bar);
  HelperPort cleaner(bench.helper);
  const auto jobs = cleaner.jobs();
  const double listing = seconds_of([&] { (void)cleaner.jobs().ok(); });
  std::printf("one list of %zu jobs: %.0f ms\n", jobs.ok() ? jobs->size() : 0, listing * 1e3);
  (void)run_program({"scancel", "--state=PENDING", "--quiet", "--user=" + std::to_string(::getuid())}, deadline_ms)
      .ok();
  return raw / port >= bar && raw / scheduler >= bar ? 0 : 1;
}
