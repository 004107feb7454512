// Epochs: one writer at a time without a lock. What a stopped controller writes after it was read never counts.
#include "orchestrator/state/epoch_log.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "base/files.h"
#include "base/text.h"

using namespace longhaul;

namespace {
struct EpochFolder {
  std::string path;
  SystemClock clock;
  EpochFolder() {
    static std::atomic<int> counter{0};
    path = format("/tmp/longhaul-epoch-{}-{}", ::getpid(), counter.fetch_add(1));
    REQUIRE(make_directories(path + "/log").ok());
  }
  ~EpochFolder() { (void)remove_tree(path).ok(); }
  std::vector<std::string> stages() const {  // of `skipped` facts, the payload of these tests
    const auto read = read_epochs(path);
    REQUIRE(read.ok());
    std::vector<std::string> found;
    for (const Fact& fact : read->facts)
      if (fact.kind == FactKind::skipped) found.push_back(fact.stage);
    return found;
  }
};
std::vector<Fact> one_fact(const std::string& stage) {
  return {{FactKind::skipped, stage, 0, {}, 0}};
}
}  // namespace

TEST_CASE("each claim is a later epoch; the older controller notices before it acts") {
  EpochFolder folder;
  std::vector<Fact> facts;
  const auto first = EpochLog::claim(folder.path, folder.clock, facts);
  REQUIRE(first.ok());
  CHECK(first->epoch() == 1);
  CHECK(first->check_newest().ok());
  auto fact = one_fact("a");
  REQUIRE(first->append(fact, folder.clock).ok());
  const auto second = EpochLog::claim(folder.path, folder.clock, facts);
  REQUIRE(second.ok());
  CHECK(second->epoch() == 2);
  CHECK(first->check_newest().error().code == ErrorCode::conflict);
  CHECK(second->check_newest().ok());
  bool has_a = false;
  for (const Fact& f : facts) has_a = has_a || f.stage == "a";
  CHECK(has_a);
}

TEST_CASE("what an older controller writes after it was read is ignored by everyone after") {
  EpochFolder folder;
  std::vector<Fact> facts;
  const auto first = EpochLog::claim(folder.path, folder.clock, facts);
  auto before = one_fact("before");
  REQUIRE(first->append(before, folder.clock).ok());
  const auto second = EpochLog::claim(folder.path, folder.clock, facts);
  auto late = one_fact("late");
  REQUIRE(first->append(late, folder.clock).ok());  // its check fails, so it never acts on this
  auto after = one_fact("after");
  REQUIRE(second->append(after, folder.clock).ok());
  CHECK(folder.stages() == std::vector<std::string>{"before", "after"});
  const auto third = EpochLog::claim(folder.path, folder.clock, facts);
  REQUIRE(third.ok());
  CHECK(folder.stages() == std::vector<std::string>{"before", "after"});
}

TEST_CASE("a torn last line never happened; a damaged earlier one is an error with its place") {
  EpochFolder folder;
  std::vector<Fact> facts;
  const auto first = EpochLog::claim(folder.path, folder.clock, facts);
  auto whole = one_fact("whole");
  REQUIRE(first->append(whole, folder.clock).ok());
  const std::string path = folder.path + "/log/000001.jsonl";
  const std::string text = *read_file(path);
  const std::string line = fact_line(one_fact("torn")[0]);
  for (std::size_t cut = 1; cut < line.size(); ++cut) {
    REQUIRE(write_file_atomic(path, text + line.substr(0, cut)).ok());
    CHECK(folder.stages() == std::vector<std::string>{"whole"});
    CHECK(EpochLog::reopen(folder.path, 1, facts).error().code == ErrorCode::conflict);
  }
  REQUIRE(write_file_atomic(path, "garbage\n" + text).ok());
  const auto damaged = read_epochs(folder.path);
  REQUIRE(!damaged.ok());
  CHECK(damaged.error().code == ErrorCode::corrupt);
  CHECK(damaged.error().where->line == 1);
}

TEST_CASE("of many controllers that claim at once each gets an epoch of its own") {
  EpochFolder folder;
  std::vector<std::thread> threads;
  std::atomic<int> sum{0}, failed{0};
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] {
      std::vector<Fact> facts;
      SystemClock clock;
      const auto log = EpochLog::claim(folder.path, clock, facts);
      if (log.ok())
        sum += static_cast<int>(log->epoch());
      else
        ++failed;
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(failed == 0);
  CHECK(sum == 36);  // 1 + 2 + ... + 8
}
