// What is logged of connections to or from somebody who is not of this job: the first at once, then one line a minute
// with their number, however many come and whatever they say. One thread.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "base/process/log.h"
#include "base/system/clock.h"

namespace longhaul {

class UnauthenticatedLog {
 public:
  // `event`: of the lines, "connection_refused".
  UnauthenticatedLog(std::string event, const Clock& clock, Logger& log)
      : event_(std::move(event)), clock_(clock), log_(log) {}

  // `from`: an address; `reason` may hold a stranger's bytes: what of them cannot be printed is not, and no line is
  // longer than 500 bytes.
  void note(const std::string& from, const std::string& reason);
  // Writes the line of a minute that is over. Called often.
  void look();

 private:
  void write();

  std::string event_;
  const Clock& clock_;
  Logger& log_;
  std::int64_t written_ns_ = -1;  // the last line; below 0: none yet
  std::int64_t times_ = 0;        // since then
  std::set<std::string> from_;    // since then, a few of them
  std::string last_from_, last_reason_;
};

}  // namespace longhaul
