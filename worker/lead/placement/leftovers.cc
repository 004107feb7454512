#include "worker/lead/placement/leftovers.h"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "base/files/files.h"
#include "base/process/process.h"
#include "base/text/text.h"

namespace longhaul {
namespace {

bool carries(const std::string& environment, const std::string& entry) {
  for (std::size_t at = environment.find(entry); at != std::string::npos; at = environment.find(entry, at + 1)) {
    const bool begins = at == 0 || environment[at - 1] == '\0';
    const bool ends = at + entry.size() == environment.size() || environment[at + entry.size()] == '\0';
    if (begins && ends) return true;
  }
  return false;
}

// Whole, before a file of it goes: a lead that was believed dead may publish it at this very moment, and what it
// publishes has all its files or is not there.
Status take_staging_away(const Attempt& earlier) {
  const std::string aside = earlier.staging_dir() + "-removed";
  LH_CHECK(remove_tree(aside));  // of a lead that was killed here
  if (::rename(earlier.staging_dir().c_str(), aside.c_str()) != 0)
    return errno == ENOENT ? Status{}
                           : Status(errno_error(ErrorCode::io, "cannot rename " + earlier.staging_dir(), errno));
  return remove_tree(aside);
}

}  // namespace

Result<int> end_processes_of(const std::string& key, Clock& clock) {
  const std::string entry = "LONGHAUL_ATTEMPT_KEY=" + key;
  const Deadline deadline(clock, 10'000);
  int ended = 0;
  for (;;) {
    LH_TRY(const auto names, list_directory("/proc"));
    int alive = 0;
    for (const std::string& name : names) {
      const pid_t pid = std::atoi(name.c_str());
      if (pid <= 1 || pid == ::getpid()) continue;
      // Unreadable: another user's, or gone; a zombie's environment is empty.
      const auto environment = read_file("/proc/" + name + "/environ", 1 << 22);
      if (!environment.ok() || !carries(*environment, entry)) continue;
      ++alive;
      if (::kill(pid, SIGKILL) == 0) ++ended;
    }
    if (alive == 0) return ended;
    if (deadline.passed()) return make_error(ErrorCode::timeout, format("{} processes of {} do not end", alive, key));
    clock.sleep_ms(5);
  }
}

Status clear_earlier_attempts(const Attempt& attempt, Clock& clock) {
  for (int n = 1; n < attempt.attempt; ++n) {
    const auto earlier = read_attempt(join_path(attempt.stage_dir, format("attempts/{}/attempt.toml", n)));
    if (!earlier.ok() && earlier.error().code == ErrorCode::io) return earlier.error();
    if (!earlier.ok()) continue;  // never written: nothing of it was started
    LH_TRY([[maybe_unused]] const int ended, end_processes_of(earlier->key, clock));
    LH_CHECK(take_staging_away(*earlier));
  }
  return {};
}

}  // namespace longhaul
