// The next round of the controller, started by a lead where jobs drive their run: in a child that knows nothing of the
// job that it is started from. At most one at a time; while the ranks work nobody waits for it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/process/log.h"
#include "base/system/clock.h"

namespace longhaul {

class NextRound {
 public:
  // `argv` empty: this lead starts none. Times count from now.
  NextRound(std::vector<std::string> argv, std::string log_path, const std::vector<double>& due_s, const Clock& clock,
            Logger& log);
  ~NextRound() { end(); }
  NextRound(const NextRound&) = delete;
  NextRound& operator=(const NextRound&) = delete;

  // Starts one if it is due or asked for, and sees to one that has ended. Cheap to call often.
  void look();
  // There is news for a controller: one begins after whatever is under way.
  void ask() { asked_ = true; }
  // The last one: after whatever is under way. `patience_ms`: how long the round may wait for a scheduler that does not
  // answer; 0: as it likes. `record`: of this job, where its file could not be written; the round
  // reads it from its standard input (record_text(), option `unwritten_record_option`).
  void start_last(const std::string& record = {}, std::int64_t patience_ms = 0);
  bool running();
  bool was_killed() const { return was_killed_; }            // the one that ended last, by a signal
  bool may_be_repeated() const { return may_be_repeated_; }  // it: the machine refused (contracts/control/round_exit.h)
  void end();                                                // SIGKILL, reaped

 private:
  void start(const std::string& record = {}, std::int64_t patience_ms = 0);

  std::vector<std::string> argv_;
  std::string log_path_;
  std::vector<std::int64_t> due_ns_;
  const Clock& clock_;
  Logger& log_;
  pid_t pid_ = -1;
  bool asked_ = false;
  bool was_killed_ = false, may_be_repeated_ = false;
};

}  // namespace longhaul
