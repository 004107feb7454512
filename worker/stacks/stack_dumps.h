// Room worker/stacks
// Call stacks of ranks that stand still, one file for each rank.
// stack_dumps.h starts a helper process with a deadline; stack_text.h makes the text in that process.
// native_stacks.h walks another process's stack (libdw); process_threads.h reads what the kernel says.
// It does not know why it is asked: agents and leads ask after a hang or an order.
//
// Stack dumps of ranks on this host, one file each: <launch>/stacks/rank-<r>.txt, written beside and renamed. Each is
// made by a helper process that is killed past its deadline; then the file holds what can be known without it. So every
// rank that was asked for has a file in the end, the target runs on (or stays stopped, if it was), and the owner never
// waits. One thread.
//
//   StackDumps dumps(own_program_path(), clock);
//   LH_CHECK(dumps.begin(stacks_folder(launch_dir), {{3, 4711}, {4, 4712}}));
//   while (!dumps.look()) ...                     // or dump_stacks(...), which waits
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "base/error/result.h"
#include "base/system/clock.h"

namespace longhaul {

struct StackTarget {
  int rank = 0;   // of the launch
  pid_t pid = 0;  // on this host; 0: not known, which the file then says
};

std::string stacks_folder(const std::string& launch_dir);
std::string stack_path(const std::string& folder, int rank);
// Before dumps of a launch are made again: those that are there keep their place under another name, `stacks.1` and so
// on, so that what was seen at a hang is not lost to somebody's curiosity. Not while dumps are being written there.
Status set_earlier_stacks_aside(const std::string& launch_dir);

class StackDumps {
 public:
  static constexpr std::int64_t deadline_default_ms = 5'000;

  // `worker_program`: longhaul-worker, which makes the dumps.
  StackDumps(std::string worker_program, const Clock& clock)
      : worker_program_(std::move(worker_program)), clock_(clock) {}
  ~StackDumps();
  StackDumps(const StackDumps&) = delete;
  StackDumps& operator=(const StackDumps&) = delete;

  // Starts a helper for each, eight at a time. A rank whose dump is under way is not asked again. io: no folder.
  Status begin(const std::string& folder, const std::vector<StackTarget>& targets,
               std::int64_t deadline_ms = deadline_default_ms);
  // Non-blocking; true: none is under way.
  bool look();
  int under_way() const { return static_cast<int>(waiting_.size() + helpers_.size()); }

 private:
  struct Dump {
    StackTarget target;
    std::string path, title;
    std::int64_t deadline_ms = 0, killed_at_ns = 0;
    pid_t helper = -1;
  };
  void start(Dump dump);
  // Whether it is over.
  bool look(Dump& dump) const;
  void write_short(const Dump& dump, const std::string& problem) const;

  std::string worker_program_;
  const Clock& clock_;
  std::deque<Dump> waiting_;
  std::vector<Dump> helpers_;
};

// Waits until all files are there: at most about `deadline_ms` for every eight ranks.
Status dump_stacks(const std::string& worker_program, const std::string& folder,
                   const std::vector<StackTarget>& targets, Clock& clock,
                   std::int64_t deadline_ms = StackDumps::deadline_default_ms);

}  // namespace longhaul
