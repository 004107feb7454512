// Which calls of the C library fail, wait or answer with something old: what the plan says that the environment
// variable CALL_FAULTS_PLAN names. The library liblonghaul_call_faults.so stands before the C library (LD_PRELOAD)
// in programs of tests, and in nothing else.
//
// A plan has one line per action, and may get further lines while programs run; only whole lines count:
//
//     CALL[,CALL...]|all PATH ACTION [times=N] [for_ms=T] [host=NAME] [program=NAME]
//
//   CALL     open read write fsync rename readdir link stat unlink mkdir (the files of a system), kill, clock
//   PATH     the call's path, made absolute, begins so; of a kill the program of the process; "-": whatever it is
//   ACTION   error=ENAME      the call fails (EIO, ESTALE, ENOSPC, EROFS, EACCES, ENOENT, EDQUOT, ETIMEDOUT)
//            delay_ms=N       the call begins N ms later; of kill: SIGKILL arrives N ms later, and until then the
//            process is
//                             stopped, as one whose memory and devices take so long to be given back
//            stall_ms=N       from the first such call on the file system stands still for N ms: whoever calls, waits
//            for
//                             the end of that
//            old_listing_ms=N readdir answers what it answered on this host up to N ms ago, as a client that caches
//            does ahead_ms=N       of clock: CLOCK_REALTIME is so far ahead (negative: behind); the last line that fits
//            counts
//   times    after so many passages of all processes together it acts no more; errors: 1 unless for_ms is said; 0:
//   always for_ms   nor later than so long after its first passage host     only where gethostname() says so; program:
//   only where /proc/self/comm says so
//
// A thread that waits here is in state D, as on a file system that does not answer, with its signals held back. SIGKILL
// ends it, which is so of NFS, and not of every file system. Beside the plan lie PLAN.log, one line for each thing that
// was done ("MS HOST PROGRAM PID CALL ACTION PATH", MS of CLOCK_MONOTONIC), and PLAN.done/, which counts passages. A
// line that cannot be meant ends the program, with the reason on its standard error.
//
// What does not come through here: programs that are linked statically, calls that the C library makes of itself (so
// fopen counts as open, fflush and fclose as write), memory that is mapped, and system calls that are made directly (of
// those, pidfd_send_signal does).
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <string>

namespace longhaul::call_faults {

enum class Call : int { open, read, write, fsync, rename, readdir, link, stat, unlink, mkdir, kill, clock, count };

struct Rule {
  enum class Action { error, delay, stall, old_listing, ahead };
  std::string name;         // "line 3": of its counters
  std::uint32_t calls = 0;  // a bit for each
  std::string path;         // "": any
  Action action = Action::error;
  std::string word;  // the action as it was written
  std::int64_t number = 0;
  std::int64_t times = 0, for_ms = 0;  // 0: no limit
  mutable std::atomic<bool> over{false};
};
using Plan = std::deque<Rule>;  // rules of other hosts and programs are left out

// The plan as it is now; nullptr: there is none. What it points to stays.
const Plan* current_plan();

// What the plan does to a call, after the waiting: 0, or the error that it ends with. `path` is absolute or "".
int pass(Call call, const std::string& path);
// The rule of another action that fits, if it still acts; a passage is counted.
const Rule* acting_rule(Call call, const std::string& path, Rule::Action action);
void log_line(Call call, const std::string& word, const std::string& path);

std::string absolute_from(int folder, const char* path);
std::string path_of(int descriptor);  // "" where it has none
const std::string& host_name();
const std::string& plan_path();
std::int64_t monotonic_ms();

// Until then the calling thread is in state D.
void wait_in_state_d(std::int64_t until_ms);

// The text of a file, and a file that is there whole or not at all: by system calls of our own. false: it was not made,
// for it is there (only_new), or at all.
std::string file_text(const std::string& path);
bool put_file(const std::string& path, const std::string& text, bool only_new);

}  // namespace longhaul::call_faults
