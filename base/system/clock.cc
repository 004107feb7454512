#include "base/system/clock.h"

#include <chrono>
#include <cstdio>
#include <ctime>
#include <thread>

namespace longhaul {

std::int64_t SystemClock::wall_ms() const {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}
std::int64_t SystemClock::monotonic_ns() const {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}
void SystemClock::sleep_ms(std::int64_t ms) {
  std::this_thread::sleep_for(std::chrono::milliseconds(ms));
}

namespace {
std::tm broken_down(std::int64_t wall_ms) {
  const std::time_t seconds = static_cast<std::time_t>(wall_ms / 1000);
  std::tm tm{};
  ::gmtime_r(&seconds, &tm);
  return tm;
}
}  // namespace

std::string utc_text(std::int64_t wall_ms) {
  const std::tm tm = broken_down(wall_ms);
  char text[80];
  std::snprintf(text, sizeof text, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday,
                tm.tm_hour, tm.tm_min, tm.tm_sec, static_cast<int>(wall_ms % 1000));
  return text;
}

std::string compact_utc_text(std::int64_t wall_ms) {
  const std::tm tm = broken_down(wall_ms);
  char text[80];
  std::snprintf(text, sizeof text, "%04d%02d%02d-%02d%02d%02d", tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday,
                tm.tm_hour, tm.tm_min, tm.tm_sec);
  return text;
}

}  // namespace longhaul
