#include "worker/stacks/stack_dumps.h"

#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "base/files/files.h"
#include "base/process/process.h"
#include "base/text/text.h"
#include "worker/stacks/stack_text.h"

namespace longhaul {
namespace {

constexpr std::size_t helpers_max = 8;
constexpr std::int64_t patience_ms = 1'000;  // with a helper, past its own deadline
constexpr int earlier_max = 99;

}  // namespace

std::string stacks_folder(const std::string& launch_dir) {
  return join_path(launch_dir, "stacks");
}

std::string stack_path(const std::string& folder, int rank) {
  return join_path(folder, format("rank-{}.txt", rank));
}

Status set_earlier_stacks_aside(const std::string& launch_dir) {
  const std::string folder = stacks_folder(launch_dir);
  if (!is_directory(folder)) return {};
  for (int i = 1; i <= earlier_max; ++i) {
    const std::string aside = format("{}.{}", folder, i);
    if (file_exists(aside)) continue;
    if (::rename(folder.c_str(), aside.c_str()) != 0)
      return errno_error(ErrorCode::io, "cannot set " + folder + " aside", errno);
    return {};
  }
  return remove_tree(folder);
}

StackDumps::~StackDumps() {
  for (const Dump& dump : helpers_) ::kill(dump.helper, SIGKILL);
  const Deadline deadline(clock_, patience_ms);
  for (const Dump& dump : helpers_) {
    for (auto exit = poll_exit(dump.helper); exit.ok() && !exit->has_value() && !deadline.passed();
         exit = poll_exit(dump.helper)) {
      const timespec pause{0, 1'000'000};
      ::nanosleep(&pause, nullptr);
    }
  }
}

Status StackDumps::begin(const std::string& folder, const std::vector<StackTarget>& targets, std::int64_t deadline_ms) {
  LH_CHECK(make_directories(folder));
  for (const StackTarget& target : targets) {
    Dump dump{target, stack_path(folder, target.rank), format("rank {} on {}", target.rank, host_name()), deadline_ms};
    const auto same = [&](const Dump& other) { return other.path == dump.path; };
    if (std::any_of(waiting_.begin(), waiting_.end(), same) || std::any_of(helpers_.begin(), helpers_.end(), same))
      continue;
    waiting_.push_back(std::move(dump));
  }
  look();
  return {};
}

bool StackDumps::look() {
  std::erase_if(helpers_, [this](Dump& dump) { return look(dump); });
  while (!waiting_.empty() && helpers_.size() < helpers_max) {
    Dump dump = std::move(waiting_.front());
    waiting_.pop_front();
    start(std::move(dump));
  }
  return helpers_.empty() && waiting_.empty();
}

void StackDumps::start(Dump dump) {
  if (dump.target.pid <= 0) return write_short(dump, "no heartbeat and no launcher says which process it is");
  SpawnSpec spec;
  spec.argv = {worker_program_, "stacks",   "--pid",         std::to_string(dump.target.pid),
               "--title",       dump.title, "--deadline-ms", std::to_string(dump.deadline_ms),
               "--output",      dump.path};
  // libdw would fetch debug information from servers that are named there.
  spec.environment_removed = {"DEBUGINFOD_*"};
  spec.stdout_path = spec.stderr_path = "/dev/null";
  spec.dies_with_starter = true;
  const auto helper = spawn(spec);
  if (!helper.ok()) return write_short(dump, helper.error().message());
  dump.helper = *helper;
  dump.killed_at_ns = clock_.monotonic_ns() + (dump.deadline_ms + patience_ms) * 1'000'000;
  helpers_.push_back(std::move(dump));
}

bool StackDumps::look(Dump& dump) const {
  const auto exit = poll_exit(dump.helper);
  if (exit.ok() && !exit->has_value()) {
    if (clock_.monotonic_ns() < dump.killed_at_ns) return false;
    ::kill(dump.helper, SIGKILL);
    // One that is itself stuck in the kernel is not waited for; it is reaped when it can end.
    if (clock_.monotonic_ns() < dump.killed_at_ns + patience_ms * 1'000'000) return false;
  }
  if (!exit.ok() || !exit->has_value() || !(*exit)->success())
    write_short(dump, !exit.ok() || !exit->has_value() ? "looking at it did not end"
                                                       : "looking at it ended with " + (*exit)->text());
  return true;
}

void StackDumps::write_short(const Dump& dump, const std::string& problem) const {
  const StackRequest question{dump.title, dump.target.pid, dump.deadline_ms};
  // On a full disk there is nobody to inform.
  (void)write_file_renamed(dump.path, short_stack_text(question, problem, clock_)).ok();
}

Status dump_stacks(const std::string& worker_program, const std::string& folder,
                   const std::vector<StackTarget>& targets, Clock& clock, std::int64_t deadline_ms) {
  StackDumps dumps(worker_program, clock);
  LH_CHECK(dumps.begin(folder, targets, deadline_ms));
  while (!dumps.look()) clock.sleep_ms(2);
  return {};
}

}  // namespace longhaul
