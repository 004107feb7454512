// longhaul-worker: what runs inside a job. Started by schedulers and launchers, hardly ever by hand.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/files.h"
#include "base/log.h"
#include "base/process.h"
#include "base/text.h"
#include "worker/launch/rank_exec.h"
#include "worker/lead/lead.h"

namespace {

constexpr const char* usage =
    "usage: longhaul-worker lead --attempt DIR             leads one job: claims it, starts its ranks, writes its "
    "record\n"
    "       longhaul-worker rank --log-dir DIR -- PROGRAM  becomes one rank below mpirun, with a log file of its own\n";

std::string launcher_rank() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"})
    if (const char* value = std::getenv(name)) return value;
  return {};
}

int lead(const std::string& attempt_dir) {
  using namespace longhaul;
  SystemClock clock;
  Logger log("lead", "attempt=" + attempt_dir);
  const auto end = run_lead(absolute_path(attempt_dir), own_program_path(), clock, log);
  if (end.ok()) return 0;
  log.error("event=lead_failed error='" + end.error().message() + "'");
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() == 3 && words[0] == "lead" && words[1] == "--attempt") return lead(words[2]);
  if (words.size() >= 5 && words[0] == "rank" && words[1] == "--log-dir" && words[3] == "--") {
    const auto failed = longhaul::exec_rank(words[2], launcher_rank(), {words.begin() + 4, words.end()});
    std::fprintf(stderr, "longhaul-worker: %s\n", failed.error().message().c_str());
    return 127;
  }
  std::fputs(usage, stderr);
  return 2;
}
