#include "worker/lead/failover/end_time_request.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/process/process.h"
#include "base/text/text.h"

namespace longhaul {
namespace {

constexpr std::int64_t answer_within_ms = 10'000;

}  // namespace

void EndTimeRequest::begin() {
  if (job_.empty() || pid_ > 0) return;
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return;
  said_ = FileDescriptor(ends[0]);
  const FileDescriptor write_end(ends[1]);
  SpawnSpec squeue = job_times_question(job_);
  squeue.stdout_fd = write_end.get();
  squeue.dies_with_starter = true;
  const auto pid = spawn(squeue);
  if (!pid.ok()) return said_.reset();
  pid_ = *pid;
  begun_ns_ = clock_.monotonic_ns();
}

std::optional<Result<JobTimes>> EndTimeRequest::look() {
  if (pid_ <= 0) return std::nullopt;
  const auto exit = poll_exit(pid_);
  if (exit.ok() && !exit->has_value()) {
    if (clock_.monotonic_ns() - begun_ns_ < answer_within_ms * 1'000'000) return std::nullopt;
    end();
    return make_error(ErrorCode::unavailable, "squeue says nothing");
  }
  pid_ = -1;
  std::array<char, 4096> room;  // two numbers
  const ssize_t got = ::read(said_.get(), room.data(), room.size());
  said_.reset();
  if (!exit.ok()) return exit.error();
  if (!(*exit)->success()) return make_error(ErrorCode::unavailable, "squeue: " + (*exit)->text());
  return parse_job_times(std::string(room.data(), static_cast<std::size_t>(std::max<ssize_t>(0, got))));
}

void EndTimeRequest::end() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    for (auto exit = poll_exit(pid_); exit.ok() && !exit->has_value(); exit = poll_exit(pid_)) ::usleep(1'000);
  }
  pid_ = -1;
  said_.reset();
}

}  // namespace longhaul
