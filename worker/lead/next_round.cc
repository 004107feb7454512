#include "worker/lead/next_round.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/files/files.h"
#include "base/files/owned_files.h"
#include "base/process/process.h"
#include "base/text/text.h"
#include "contracts/control/round_exit.h"
#include "contracts/records/attempt.h"

namespace longhaul {

NextRound::NextRound(std::vector<std::string> argv, std::string log_path, const std::vector<double>& due_s,
                     const Clock& clock, Logger& log)
    : argv_(std::move(argv)), log_path_(std::move(log_path)), clock_(clock), log_(log) {
  for (const double seconds : due_s)
    due_ns_.push_back(clock_.monotonic_ns() + static_cast<std::int64_t>(seconds * 1e9));
  std::sort(due_ns_.begin(), due_ns_.end());
}

void NextRound::look() {
  if (argv_.empty() || running()) return;
  const bool due = !due_ns_.empty() && clock_.monotonic_ns() >= due_ns_.front();
  if (!due && !asked_) return;
  std::erase_if(due_ns_, [&](std::int64_t then) { return then <= clock_.monotonic_ns(); });
  asked_ = false;
  start();
}

void NextRound::start_last(const std::string& record, std::int64_t patience_ms) {
  due_ns_.clear();
  if (argv_.empty()) return;
  end();  // one that began before the record was written may not have seen it
  start(record, patience_ms);
}

namespace {

// In memory: where a record cannot be written, neither can another file.
Result<FileDescriptor> in_memory(const std::string& text) {
  FileDescriptor file(::memfd_create("record", MFD_CLOEXEC));
  if (!file.valid()) return errno_error(ErrorCode::io, "cannot keep the record in memory", errno);
  LH_CHECK(write_to(file.get(), text, "the record in memory"));
  if (::lseek(file.get(), 0, SEEK_SET) != 0) return errno_error(ErrorCode::io, "cannot rewind the record", errno);
  return file;
}

}  // namespace

void NextRound::start(const std::string& record, std::int64_t patience_ms) {
  SpawnSpec spec;
  spec.argv = argv_;
  was_killed_ = may_be_repeated_ = false;
  FileDescriptor input;
  if (!record.empty()) {
    auto file = in_memory(record);
    if (!file.ok()) log_.error("event=record_not_passed error='" + file.error().message() + "'");
    if (file.ok()) {
      input = std::move(file).value();
      spec.argv.push_back(unwritten_record_option);
      spec.stdin_fd = input.get();
    }
  }
  if (patience_ms > 0) {
    spec.argv.emplace_back(round_patience_option);
    spec.argv.push_back(format("{}s", std::max<std::int64_t>(1, patience_ms / 1000)));
  }
  spec.environment_removed = {"SLURM_*", "SBATCH_*", "SRUN_*", "PMIX_*", "PMI_*", "OMPI_*"};
  spec.environment_kept = {"SLURM_CONF", "SLURM_JWT"};
  spec.own_group = spec.dies_with_starter = true;
  spec.stdout_path = spec.stderr_path = log_path_;
  const auto pid = spawn(spec);
  may_be_repeated_ = !pid.ok();
  if (pid.ok())
    pid_ = *pid;
  else
    log_.error("event=round_not_started error='" + pid.error().message() + "'");
}

bool NextRound::running() {
  if (pid_ < 0) return false;
  const auto exit = poll_exit(pid_);
  if (exit.ok() && !exit->has_value()) return true;
  was_killed_ = exit.ok() && (*exit)->signal != 0;
  may_be_repeated_ = exit.ok() && !was_killed_ && round_may_be_repeated((*exit)->code);
  if (exit.ok())
    log_.info("event=round_ended status='" + (*exit)->text() + "'");
  else
    log_.error("event=round_lost error='" + exit.error().message() + "'");
  pid_ = -1;
  return false;
}

void NextRound::end() {
  if (pid_ > 0) (void)::kill(-pid_, SIGKILL);
  while (running()) ::usleep(1000);
}

}  // namespace longhaul
