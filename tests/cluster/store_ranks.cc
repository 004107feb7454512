// Ranks that leave entries for each other, round after round, as the engine's do (engine/comm/rendezvous.h), and
// measure how long each was on its way: the hosts of the test cluster share one clock. Started by longhaul-worker as a
// `command`.
//
// A value says its launch, and one of another launch ends the rank. $LONGHAUL_STATE/stop ends them all after a round;
// there each leaves a line for every round: its number, and the entries' longest and median time in milliseconds. With
// TWO_VALUES in the environment ranks 0 and 1 leave different values under one name.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "base/files/files.h"
#include "base/system/clock.h"
#include "base/text/text.h"
#include "engine/comm/rendezvous.h"

namespace longhaul {
namespace {

constexpr std::int64_t entry_within_ms = 60'000, round_pause_ms = 50, look_pause_us = 500;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

Result<Launch> newest_launch() {
  const std::string folder = join_path(parent_path(variable("LONGHAUL_EVENTS")), "launches");
  LH_TRY(const auto names, list_directory(folder));
  int newest = 0;
  for (const std::string& name : names) newest = std::max(newest, std::atoi(name.c_str()));
  return read_launch(join_path(folder, format("{}/launch.toml", newest)));
}

class StoreRank {
 public:
  StoreRank(const Launch& launch, Rendezvous& store, int rank, int ranks)
      : launch_(launch.launch), store_(store), rank_(rank), ranks_(ranks) {}

  Status run(const std::string& state) {
    std::ofstream times(join_path(state, format("times-{}-rank-{}", launch_, rank_)));
    if (!variable("TWO_VALUES").empty()) return disagree();
    for (int round = 1;; ++round) {
      LH_CHECK(store_.put(name(round, rank_), text()));
      if (rank_ == 0)
        LH_CHECK(store_.put(format("{}.end", round), file_exists(join_path(state, "stop")) ? "end" : "on"));
      std::vector<double> ms;
      for (int other = 0; other < ranks_; ++other) {
        if (other == rank_) continue;
        LH_TRY(const std::string value, get(name(round, other)));
        LH_TRY(const double took_ms, took(value));
        ms.push_back(took_ms);
      }
      std::sort(ms.begin(), ms.end());
      times << format("{} {:.1f} {:.1f}\n", round, ms.back(), ms[ms.size() / 2]) << std::flush;
      LH_TRY(const std::string on, get(format("{}.end", round)));
      if (on == "end") return {};
      clock_.sleep_ms(round_pause_ms);
    }
  }

 private:
  static std::string name(int round, int rank) { return format("round{}.rank{}", round, rank); }
  std::string text() const { return format("{} {}", launch_, clock_.monotonic_ns()); }

  // From when it was put, or from when somebody looked for it, whichever was later.
  Result<double> took(const std::string& value) const {
    const std::vector<std::string> parts = split(value, ' ');
    if (parts.size() != 2 || std::atoi(parts[0].c_str()) != launch_)
      return make_error(ErrorCode::conflict, format("launch {} reads a value of another: '{}'", launch_, value));
    const std::int64_t since_ns = std::max<std::int64_t>(std::atoll(parts[1].c_str()), asked_ns_);
    return static_cast<double>(clock_.monotonic_ns() - since_ns) * 1e-6;
  }

  Result<std::string> get(const std::string& name) {
    asked_ns_ = clock_.monotonic_ns();
    for (const Deadline deadline(clock_, entry_within_ms); !deadline.passed(); ::usleep(look_pause_us)) {
      LH_TRY(const auto value, store_.look(name));
      if (value) return *value;
    }
    return make_error(ErrorCode::timeout, format("the entry {} did not come within {} ms", name, entry_within_ms));
  }

  // All look until they hear of it.
  Status disagree() {
    if (rank_ < 2) LH_CHECK(store_.put("one", format("from rank {}", rank_)));
    for (const Deadline deadline(clock_, entry_within_ms); !deadline.passed(); clock_.sleep_ms(5)) {
      LH_TRY(const auto value, store_.look("one"));
      (void)value;
    }
    return make_error(ErrorCode::timeout, "nobody got the refusal of two different values");
  }

  int launch_;
  Rendezvous& store_;
  int rank_, ranks_;
  SystemClock clock_;
  std::int64_t asked_ns_ = 0;
};

Status run() {
  LH_TRY(const Launch launch, newest_launch());
  const std::unique_ptr<Rendezvous> store = rendezvous_of(launch);
  std::printf("store in %s\n", launch.store_dir.c_str());
  std::fflush(stdout);
  StoreRank rank(launch, *store, std::atoi(variable("LONGHAUL_RANK").c_str()), launch.ranks);
  return rank.run(variable("LONGHAUL_STATE"));
}

}  // namespace
}  // namespace longhaul

int main() {
  const longhaul::Status ended = longhaul::run();
  if (ended.ok()) return 0;
  std::fprintf(stderr, "error: %s\n", ended.error().message().c_str());
  return 1;
}
