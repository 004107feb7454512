// json_cost: what hostile JSON texts of 1 and 16 MiB cost to parse, time and peak memory, each in a process of its own,
// beside the bars: 16 times the text in at most 32 times the time (twice linear: caches), and at most 50 times the text
// in memory. Exit code 1 where one is missed.
#include <malloc.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "base/files/files.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "tests/support/hostile_json.h"

using namespace longhaul;

namespace {

constexpr double memory_bar = 50, time_bar = 32;

struct Cost {
  double seconds = 0, bytes = 0;
  bool taken = false;
};

double kib_of(const char* field) {
  const std::string text = read_file("/proc/self/status").value();
  const std::size_t at = text.find(field);
  return at == std::string::npos ? 0 : std::atof(text.c_str() + at + std::string(field).size());
}

// Resets VmHWM. Written to the kernel's file directly: no file of ours.
bool begin_peak_anew() {
  std::FILE* const file = std::fopen("/proc/self/clear_refs", "w");
  const bool written = file && std::fputs("5", file) >= 0;
  return file && std::fclose(file) == 0 && written;
}

Cost cost_of(const HostileJson& hostile, std::size_t bytes) {
  int ends[2];
  if (::pipe(ends) != 0) std::exit(2);
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string text = hostile.text(bytes);
    ::malloc_trim(0);
    if (!begin_peak_anew()) ::_exit(3);
    const double before = kib_of("VmRSS:");
    const std::clock_t begun = std::clock();
    Cost cost;
    const auto value = parse_json(text, hostile.name);
    cost.seconds = static_cast<double>(std::clock() - begun) / CLOCKS_PER_SEC;
    cost.bytes = 1024 * (kib_of("VmHWM:") - before);
    cost.taken = value.ok();
    const bool reported = ::write(ends[1], &cost, sizeof cost) == sizeof cost;
    ::_exit(reported ? 0 : 2);
  }
  Cost cost;
  if (child < 0 || ::read(ends[0], &cost, sizeof cost) != sizeof cost) std::exit(2);
  (void)::waitpid(child, nullptr, 0);
  ::close(ends[0]), ::close(ends[1]);
  return cost;
}

}  // namespace

int main() {
  bool held = true;
  std::printf("sizeof(Value) %zu, sizeof(ValueMember) %zu\n", sizeof(Value), sizeof(ValueMember));
  std::printf("%-24s %9s %9s %7s %7s %9s %9s %9s\n", "text", "1 MiB", "16 MiB", "times", "bar", "memory 1", "16 MiB",
              "bar");
  for (const HostileJson& hostile : hostile_json()) {
    const std::size_t small = std::size_t{1} << 20, large = small << 4;
    const Cost one = cost_of(hostile, small), sixteen = cost_of(hostile, large);
    const double times = sixteen.seconds / std::max(one.seconds, 1e-3);
    const double first = one.bytes / static_cast<double>(small), second = sixteen.bytes / static_cast<double>(large);
    held = held && times <= time_bar && first <= memory_bar && second <= memory_bar;
    std::printf("%-24s %7.3f s %7.3f s %7.1f %7.0f %8.1fx %8.1fx %8.0fx%s\n", hostile.name.c_str(), one.seconds,
                sixteen.seconds, times, time_bar, first, second, memory_bar, sixteen.taken ? "" : "  refused");
  }
  std::printf("%s\n", held ? "all bars held" : "a bar was missed");
  return held ? 0 : 1;
}
