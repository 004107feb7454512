#include "worker/protocol/ranks/rank_look.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace longhaul {
namespace {

BeatSnapshot beat_of(std::int64_t pid, const char* section, std::int64_t changed_ns = 0) {
  BeatSnapshot beat;
  beat.pid = pid, beat.section = section, beat.changed_ns = changed_ns;
  return beat;
}

// Reads these pages one after the other, the last one for ever, while process 7 has ended and all others run.
struct Looked {
  explicit Looked(std::vector<BeatSnapshot> read) : pages(std::move(read)) {}

  std::vector<BeatSnapshot> pages;
  std::size_t reads = 0;
  ManualClock clock;

  RankReport look() {
    return look_at_rank([&] { return pages[std::min(reads++, pages.size() - 1)]; },
                        [](std::int64_t pid) { return pid == 7 ? ProcessState::ended : ProcessState::running; }, clock);
  }
};

}  // namespace

TEST_CASE("rank look: one that writes that it has finished and ends while it is looked at has finished") {
  Looked looked({beat_of(7, "curate"), beat_of(7, "finished")});
  const RankReport report = looked.look();
  CHECK(report.state == ProcessState::ended);
  CHECK(report.beat.section == "finished");
}

TEST_CASE("rank look: one that runs is read once, one that ended without a word keeps its section") {
  Looked runs({beat_of(8, "micro_batch"), beat_of(8, "finished")});
  CHECK(runs.look().beat.section == "micro_batch");
  CHECK(runs.reads == 1);
  Looked killed({beat_of(7, "micro_batch")});
  CHECK(killed.look().beat.section == "micro_batch");
  CHECK(killed.look().state == ProcessState::ended);
}

TEST_CASE("rank look: where another process has taken the page, it is that one's state") {
  Looked taken({beat_of(7, "save"), beat_of(8, "start")});
  const RankReport report = taken.look();
  CHECK(report.beat.pid == 8);
  CHECK(report.state == ProcessState::running);
}

TEST_CASE("rank look: a page without a first beat has no age") {
  Looked looked({beat_of(8, "start"), beat_of(8, "start", 1)});
  looked.clock.advance_ms(5'000);
  CHECK(looked.look().idle_ms == 0);
  CHECK(looked.look().idle_ms >= 4'999);
}

}  // namespace longhaul
