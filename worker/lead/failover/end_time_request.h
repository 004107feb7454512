// Asks the scheduler once more when it ends the job, while ranks are being watched: the answer may take as long as a
// busy controller likes, and whoever leads is never kept waiting.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "base/files/files.h"
#include "base/system/clock.h"
#include "worker/lead/failover/job_end_time.h"

namespace longhaul {

class EndTimeRequest {
 public:
  // `job`: "1234", "1234_7"; "": there is no scheduler, and no answer.
  EndTimeRequest(std::string job, const Clock& clock) : job_(std::move(job)), clock_(clock) {}
  ~EndTimeRequest() { end(); }
  EndTimeRequest(const EndTimeRequest&) = delete;
  EndTimeRequest& operator=(const EndTimeRequest&) = delete;

  void begin();  // one that is under way is not asked twice
  bool under_way() const { return pid_ > 0; }
  // The answer, once; unavailable: squeue failed, or said nothing for 10 s.
  std::optional<Result<JobTimes>> look();

 private:
  void end();

  std::string job_;
  const Clock& clock_;
  pid_t pid_ = -1;
  FileDescriptor said_;
  std::int64_t begun_ns_ = 0;
};

}  // namespace longhaul
