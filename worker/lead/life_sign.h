// A lead that has taken over shows that it lives, to the process of the job's script on another node: it touches the
// file of its address. A thread of its own, because a lead may be busy for minutes with one thing (an artifact to read,
// the controller's last round); it ends with this object, and with the process.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

namespace longhaul {

inline constexpr std::int64_t life_sign_interval_ms = 5'000;

class LifeSign {
 public:
  explicit LifeSign(std::string path, std::int64_t interval_ms = life_sign_interval_ms);
  ~LifeSign();
  LifeSign(const LifeSign&) = delete;
  LifeSign& operator=(const LifeSign&) = delete;

 private:
  void run();

  const std::string path_;
  const std::int64_t interval_ms_;
  std::mutex mutex_;
  std::condition_variable told_;
  bool over_ = false;  // under mutex_
  std::thread thread_;
};

}  // namespace longhaul
