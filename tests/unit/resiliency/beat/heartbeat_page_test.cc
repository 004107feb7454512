// The heartbeat page: what a rank writes, another process sees; orders come back; foreign files are refused; a write
// costs nanoseconds.
#include "resiliency/beat/heartbeat_page.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <fstream>

#include "base/files/files.h"
#include "resiliency/beat/beat_folder.h"
#include "resiliency/beat/longhaul_beat.h"
#include "tests/support/scratch.h"

using namespace longhaul;

namespace {
struct BeatFolder {
  std::string path =
      (std::filesystem::temp_directory_path() / ("longhaul-beat-" + std::to_string(::getpid()))).string();
  BeatFolder() { std::filesystem::create_directories(path); }
  ~BeatFolder() { std::filesystem::remove_all(path); }
};
}  // namespace

TEST_CASE(
    "trust: a page is made for its owner alone, and no link, FIFO or file that others could write is taken for one") {
  const testing::Scratch shared;
  REQUIRE(::chmod(shared.path().c_str(), 0777) == 0);  // a folder that somebody has made for us
  const std::string precious = shared.file("precious");
  REQUIRE(write_file_atomic(precious, "keep this").ok());
  REQUIRE(HeartbeatPage::create(beat_page_path(shared.path(), 0), 0).ok());
  struct stat info{};
  REQUIRE(::stat(beat_page_path(shared.path(), 0).c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0600);

  REQUIRE(::symlink(precious.c_str(), beat_page_path(shared.path(), 1).c_str()) == 0);
  REQUIRE(::mkfifo(beat_page_path(shared.path(), 2).c_str(), 0666) == 0);
  REQUIRE(::link(precious.c_str(), beat_page_path(shared.path(), 3).c_str()) == 0);
  REQUIRE(::symlink(beat_page_path(shared.path(), 0).c_str(), beat_page_path(shared.path(), 4).c_str()) == 0);
  for (int rank = 1; rank <= 4; ++rank) {
    CAPTURE(rank);
    const std::string path = beat_page_path(shared.path(), rank);
    CHECK(HeartbeatPage::create(path, rank).error().code == ErrorCode::invalid_input);
    CHECK(HeartbeatPage::open(path).error().code == ErrorCode::invalid_input);
    CHECK(longhaul_beat_open(path.c_str(), rank) == nullptr);
  }
  CHECK(read_file(precious).value() == "keep this");

  // What others could have written may name any process and carry any order.
  REQUIRE(::chmod(beat_page_path(shared.path(), 0).c_str(), 0666) == 0);
  const auto opened = HeartbeatPage::open(beat_page_path(shared.path(), 0));
  REQUIRE_FALSE(opened.ok());
  CHECK(opened.error().message().find("mode 0666") != std::string::npos);
}

TEST_CASE("trust: in a place that all share the folder of pages is our own and closed, or it is refused") {
  const testing::Scratch memory;
  REQUIRE(::chmod(memory.path().c_str(), 01777) == 0);  // as /dev/shm
  const auto mode_of_folder = [](const std::string& path) {
    struct stat info{};
    return ::stat(path.c_str(), &info) == 0 ? info.st_mode & 0777 : 0;
  };
  REQUIRE(make_beat_folder(memory.file("ours")).ok());
  CHECK(mode_of_folder(memory.file("ours")) == 0700);
  REQUIRE(make_beat_folder(memory.file("ours")).ok());  // by the next rank
  REQUIRE(::mkdir(memory.file("theirs").c_str(), 0777) == 0);
  REQUIRE(::chmod(memory.file("theirs").c_str(), 0777) == 0);
  REQUIRE(::symlink(memory.file("ours").c_str(), memory.file("link").c_str()) == 0);
  for (const char* planted : {"theirs", "link"}) {
    const Status refused = make_beat_folder(memory.file(planted));
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code == ErrorCode::invalid_input);
    CHECK(refused.error().message().find(planted) != std::string::npos);
  }
  // In a run the folder is as the run has it.
  REQUIRE(make_beat_folder(memory.file("ours/launches/1")).ok());
  CHECK(mode_of_folder(memory.file("ours/launches/1")) != 0);
}

TEST_CASE("what a rank writes through the C interface, a watcher in another process sees") {
  const BeatFolder folder;
  const std::string path = beat_page_path(folder.path, 3);
  const pid_t child = ::fork();
  if (child == 0) {
    longhaul_beat* beat = longhaul_beat_open(path.c_str(), 3);
    longhaul_beat_enter(beat, longhaul_beat_section(beat, "forward"));
    longhaul_beat_step(beat, 41);
    longhaul_beat_epoch(beat, 2);
    const int dp = longhaul_beat_communicator(beat, "dp");
    for (int i = 0; i < 5; ++i) longhaul_beat_enqueued(beat, dp);
    for (int i = 0; i < 4; ++i) longhaul_beat_completed(beat, dp);
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  const auto page = HeartbeatPage::open(path);
  REQUIRE(page.ok());
  const BeatSnapshot seen = page->snapshot();
  CHECK(seen.rank == 3);
  CHECK(seen.pid == child);
  CHECK(seen.section == "forward");
  CHECK(seen.step == 41);
  CHECK(seen.epoch == 2);
  CHECK(seen.changed_ns > 0);
  REQUIRE(seen.communicators.size() == 1);
  CHECK(seen.communicators[0].name == "dp");
  CHECK(seen.communicators[0].enqueued == 5);
  CHECK(seen.communicators[0].completed == 4);
  CHECK(std::filesystem::file_size(path) == 4096);
}

TEST_CASE("orders of the worker reach the rank") {
  const BeatFolder folder;
  auto rank = HeartbeatPage::create(beat_page_path(folder.path, 0), 0);
  auto worker = HeartbeatPage::open(beat_page_path(folder.path, 0));
  REQUIRE(rank.ok());
  REQUIRE(worker.ok());
  CHECK(rank->checkpoint_orders() == 0);
  CHECK(rank->stop_after_step() == -1);
  CHECK(rank->learning_rate() == 0);
  CHECK(worker->order_checkpoint() == 1);
  CHECK(worker->order_stop_after(120) == 2);
  CHECK(worker->order_checkpoint_interval(50) == 3);
  CHECK(worker->order_learning_rate(2.5e-4) == 4);
  CHECK(rank->checkpoint_orders() == 1);
  CHECK(rank->stop_after_step() == 120);
  CHECK(rank->checkpoint_interval() == 50);
  CHECK(rank->learning_rate() == 2.5e-4);
  CHECK(rank->orders() == 4);
  CHECK(worker->orders_obeyed() == 0);
  rank->obeyed(3);
  CHECK(worker->orders_obeyed() == 3);
}

TEST_CASE("orders reach a program through the C interface") {
  const BeatFolder folder;
  const std::string path = beat_page_path(folder.path, 0);
  longhaul_beat* beat = longhaul_beat_open(path.c_str(), 0);
  REQUIRE(beat != nullptr);
  auto worker = HeartbeatPage::open(path);
  REQUIRE(worker.ok());
  worker->order_checkpoint_interval(7);
  worker->order_learning_rate(0.5);
  CHECK(longhaul_beat_checkpoint_interval(beat) == 7);
  CHECK(longhaul_beat_learning_rate(beat) == 0.5);
  CHECK(longhaul_beat_orders(beat) == 2);
  longhaul_beat_obeyed(beat, 2);
  CHECK(worker->orders_obeyed() == 2);
  longhaul_beat_close(beat);
}

TEST_CASE("where a rank waits is unknown until its program says so, then shown, and shown to be over") {
  const BeatFolder folder;
  const std::string path = beat_page_path(folder.path, 0);
  longhaul_beat* beat = longhaul_beat_open(path.c_str(), 0);
  const auto worker = HeartbeatPage::open(path);
  REQUIRE(worker.ok());
  CHECK(worker->snapshot().waits_in == beat_waits_unknown);
  CHECK(worker->snapshot().waits_for == -1);
  const int tp = longhaul_beat_communicator(beat, "tp@0"), pp = longhaul_beat_communicator(beat, "pp@0");
  longhaul_beat_waits(beat, tp, -1);
  CHECK(worker->snapshot().waits_in == tp);
  longhaul_beat_waits(beat, pp, 6);
  longhaul_beat_polled(beat);
  CHECK(worker->snapshot().waits_in == pp);
  CHECK(worker->snapshot().waits_for == 6);
  CHECK(worker->snapshot().polls == 1);
  longhaul_beat_waits(beat, -1, -1);
  CHECK(worker->snapshot().waits_in == beat_waits_nowhere);
  longhaul_beat_computed(beat, 5), longhaul_beat_computed(beat, 7);
  CHECK(worker->snapshot().computed_ns == 12);
  longhaul_beat_waits(beat, 11, -1);  // a communicator that nobody has named
  CHECK(worker->snapshot().waits_in == beat_waits_unknown);
  longhaul_beat_close(beat);
}

TEST_CASE("a communicator that is made anew counts from 0") {
  const BeatFolder folder;
  auto page = HeartbeatPage::create(beat_page_path(folder.path, 0), 0);
  REQUIRE(page.ok());
  const int dp = page->communicator("dp@0");
  page->enqueued(dp), page->completed(dp);
  page->restart_counters(page->communicator("dp@0"));
  page->restart_counters(-1);
  CHECK(page->snapshot().communicators[0].enqueued == 0);
  CHECK(page->snapshot().communicators[0].completed == 0);
}

TEST_CASE("a page of another version is refused") {
  const BeatFolder folder;
  const std::string path = beat_page_path(folder.path, 0);
  REQUIRE(HeartbeatPage::create(path, 0).ok());
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(offsetof(BeatPageLayout, version));
  const std::uint32_t older = 1;
  file.write(reinterpret_cast<const char*>(&older), sizeof older);
  file.close();
  CHECK(HeartbeatPage::open(path).error().code == ErrorCode::corrupt);
}

TEST_CASE("names are bounded: too many or too long are cut, nothing is written beyond the page") {
  const BeatFolder folder;
  auto page = HeartbeatPage::create(beat_page_path(folder.path, 0), 0);
  REQUIRE(page.ok());
  for (int i = 1; i < beat_sections_max; ++i) CHECK(page->section("section " + std::to_string(i)) == i);
  CHECK(page->section("one too many") == 0);
  CHECK(page->section("section 7") == 7);
  for (int i = 0; i < beat_communicators_max; ++i)
    CHECK(page->communicator(std::string(100, static_cast<char>('a' + i))) == i);
  CHECK(page->communicator("one too many") == -1);
  page->enqueued(-1);
  CHECK(page->snapshot().communicators[15].name == std::string(31, 'p'));
}

TEST_CASE("missing, short and foreign files are refused; nobody watching is no error") {
  const BeatFolder folder;
  CHECK(HeartbeatPage::open(folder.path + "/none").error().code == ErrorCode::not_found);
  std::ofstream(folder.path + "/short") << "x";
  CHECK(HeartbeatPage::open(folder.path + "/short").error().code == ErrorCode::not_found);
  std::ofstream(folder.path + "/foreign") << std::string(4096, 'x');
  CHECK(HeartbeatPage::open(folder.path + "/foreign").error().code == ErrorCode::corrupt);
  longhaul_beat* none = longhaul_beat_open(nullptr, 0);
  CHECK(none == nullptr);
  longhaul_beat_step(none, 1);
  longhaul_beat_enqueued(none, longhaul_beat_communicator(none, "dp"));
  CHECK(longhaul_beat_stop_after(none) == -1);
  longhaul_beat_close(none);
}

TEST_CASE("a write costs nanoseconds") {
  const BeatFolder folder;
  auto page = HeartbeatPage::create(beat_page_path(folder.path, 0), 0);
  REQUIRE(page.ok());
  const int dp = page->communicator("dp");
  const auto measure = [](auto&& write) {
    constexpr int times = 200'000;
    double best = 1e9;
    for (int attempt = 0; attempt < 5; ++attempt) {  // the fastest of five: others share these cores
      const auto start = std::chrono::steady_clock::now();
      for (int i = 0; i < times; ++i) write(i);
      best = std::min(
          best, std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count() / times);
    }
    return best;
  };
  const double step_ns = measure([&](int i) { page->step(i); });
  const double counter_ns = measure([&](int) { page->enqueued(dp); });
  MESSAGE("step with time stamp ", step_ns, " ns, collective counter ", counter_ns, " ns");
  CHECK(step_ns < 2000);
  CHECK(counter_ns < 500);
}

TEST_CASE("a restart is offered and ordered on the page, and a rank may wait on the word itself") {
  const BeatFolder folder;
  auto rank = HeartbeatPage::create(beat_page_path(folder.path, 7), 7);
  auto worker = HeartbeatPage::open(beat_page_path(folder.path, 7));
  REQUIRE(rank.ok());
  REQUIRE(worker.ok());
  CHECK(rank->restart_epoch() == 0);
  CHECK(rank->restart_wait_ms() == 0);
  CHECK(rank->end_by_ns() == 0);
  const std::atomic<std::int64_t>& word = rank->restart_word();
  worker->offer_restart(10'000);
  worker->order_restart(4);
  worker->must_end_by(1'700'000'000'000);
  CHECK(rank->restart_wait_ms() == 10'000);
  CHECK(rank->restart_epoch() == 4);
  CHECK(word.load() == 4);
  CHECK(rank->end_by_ns() == 1'700'000'000'000);
  // Beside the orders that were there before.
  CHECK(rank->checkpoint_orders() == 0);
  CHECK(rank->stop_after_step() == -1);
  CHECK(rank->orders() == 0);
}
