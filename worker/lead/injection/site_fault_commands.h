// Programs of the site that make an injected fault (contracts/settings/job/fault_commands.h), at work beside the lead.
// Nothing here waits. A program past its deadline is ended with all that it has started. One that is at work when the
// lead goes is left alone, for it may be about to undo what it did. One thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/error/result.h"
#include "base/system/clock.h"

namespace longhaul {

class SiteFaultCommands {
 public:
  explicit SiteFaultCommands(const Clock& clock) : clock_(clock) {}

  // `what`: the fault, for people. What the program prints goes to `output_path`.
  Status start(const std::string& what, const std::vector<std::string>& arguments, const std::string& output_path,
               std::int64_t deadline_ms);
  // One sentence for each that has ended badly since the last look: the fault, and the last line that was printed.
  std::vector<std::string> look();
  bool idle() const { return running_.empty(); }

 private:
  struct Running {
    std::string what, program, output_path;
    pid_t pid = -1;
    std::int64_t deadline_ms = 0, end_ns = 0;
    bool killed = false, over = false;
  };
  std::string problem_of(Running& command) const;

  const Clock& clock_;
  std::vector<Running> running_;
};

}  // namespace longhaul
