// ctrl-C and SIGTERM as values. One watch at a time; the handlers of before come back when it ends.
#pragma once

#include <atomic>

namespace longhaul {

class SignalWatch {
 public:
  SignalWatch();
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  const std::atomic<bool>& stop() const;  // set by the first signal
  int count() const;                      // signals so far
  int last() const;                       // SIGINT or SIGTERM, 0 if none
  void go_on();                           // clears stop; the count stays
  void request_stop();                    // as a signal would, without counting
};

}  // namespace longhaul
