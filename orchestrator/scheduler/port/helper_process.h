// One process longhaul-slurm and the JSON lines to and from it. It is ended when it hangs, answers what nobody asked or
// has closed its socket, and dies with us. Not thread-safe.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/error/result.h"
#include "base/files/files.h"
#include "base/system/clock.h"
#include "base/value/value.h"

namespace longhaul {

class HelperProcess {
 public:
  // Called for every line of the helper's; false: it belongs to no request under way.
  using AnswerSink = std::function<bool(const Value&)>;

  // `cluster`: of several the one that is asked, or "". `environment`: of the jobs; empty: that of this process.
  HelperProcess(std::string program, std::string cluster, std::vector<std::string> environment);
  ~HelperProcess();
  HelperProcess(const HelperProcess&) = delete;
  HelperProcess& operator=(const HelperProcess&) = delete;

  const std::string& program() const { return program_; }
  pid_t pid() const { return pid_; }  // -1: none runs
  bool runs() const { return pid_ > 0; }
  Status start();
  void end();
  // Sends `text` and hands every answer to `take` until `done` says so; the deadline is that between two answers.
  // unavailable: the helper was ended, and its last line of stderr is in the error.
  Status exchange(const std::string& text, std::int64_t deadline_ms, const AnswerSink& take,
                  const std::function<bool()>& done);

 private:
  std::string last_failure_line();
  Error lost(const std::string& what);  // the helper is of no use any more: ends it
  // Sends what it takes now and receives what is there; waits for either until the deadline.
  Status move_bytes(const std::string& text, std::size_t& sent, const Deadline& deadline);
  Status receive();

  std::string program_, cluster_;
  std::vector<std::string> environment_;
  SystemClock clock_;
  pid_t pid_ = -1;
  FileDescriptor socket_, stderr_;  // stderr_: in memory
  std::string received_;
  std::size_t read_ = 0;  // of received_
};

}  // namespace longhaul
