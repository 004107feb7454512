// Epochs: one writer at a time without a lock. What a stopped controller writes after it was read never counts.
#include "orchestrator/state/epoch_log.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "base/files/files.h"
#include "base/text/text.h"
#include "orchestrator/state/sealed_line.h"

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

TEST_CASE("after a failed append the log takes nothing more, and the next claim finds what was written before") {
  EpochFolder folder;
  std::vector<Fact> facts;
  auto log = EpochLog::claim(folder.path, folder.clock, facts);
  REQUIRE(log.ok());
  auto fact = one_fact("a");
  REQUIRE(log->append(fact, folder.clock).ok());
  const std::string logs = folder.path + "/log", aside = folder.path + "/aside";
  REQUIRE(::rename(logs.c_str(), aside.c_str()) == 0);  // what cannot be appended to, also by root
  auto lost = one_fact("b");
  const Status failed = log->append(lost, folder.clock);
  REQUIRE_FALSE(failed.ok());
  REQUIRE(::rename(aside.c_str(), logs.c_str()) == 0);
  auto later = one_fact("c");
  const Status refused = log->append(later, folder.clock);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().what == failed.error().what);
  REQUIRE(EpochLog::claim(folder.path, folder.clock, facts).ok());
  CHECK(folder.stages() == std::vector<std::string>{"a"});
}

TEST_CASE("each claim is a later epoch; the older controller notices before it acts") {
  EpochFolder folder;
  std::vector<Fact> facts;
  auto first = EpochLog::claim(folder.path, folder.clock, facts);
  REQUIRE(first.ok());
  CHECK(first->epoch() == 1);
  CHECK(first->check_newest().ok());
  auto fact = one_fact("a");
  REQUIRE(first->append(fact, folder.clock).ok());
  auto second = EpochLog::claim(folder.path, folder.clock, facts);
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
  auto first = EpochLog::claim(folder.path, folder.clock, facts);
  auto before = one_fact("before");
  REQUIRE(first->append(before, folder.clock).ok());
  auto second = EpochLog::claim(folder.path, folder.clock, facts);
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
  auto first = EpochLog::claim(folder.path, folder.clock, facts);
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

TEST_CASE("a hole in the last append never happened; the same in one that was followed by another is damage") {
  EpochFolder folder;
  std::vector<Fact> facts;
  auto first = EpochLog::claim(folder.path, folder.clock, facts);
  auto whole = one_fact("whole");
  REQUIRE(first->append(whole, folder.clock).ok());
  const std::string path = folder.path + "/log/000001.jsonl";
  const std::string before = *read_file(path);
  std::vector<Fact> many(4, one_fact("lost")[0]);
  REQUIRE(first->append(many, folder.clock).ok());
  const std::string text = *read_file(path);
  std::string holed = text;  // the page with the second line was never written
  const std::size_t second = text.find('\n', before.size()) + 1;
  for (std::size_t i = second; i < text.find('\n', second) + 3; ++i) holed[i] = '\0';
  REQUIRE(write_file_atomic(path, holed).ok());
  CHECK(folder.stages() == std::vector<std::string>{"whole", "lost"});
  CHECK(EpochLog::reopen(folder.path, 1, facts).error().code == ErrorCode::conflict);
  REQUIRE(write_file_atomic(path, holed + seal_line(R"({"fact":"skipped","stage":"next"})", {4, 0, 1})).ok());
  const auto damaged = read_epochs(folder.path);
  REQUIRE(!damaged.ok());
  CHECK(damaged.error().code == ErrorCode::corrupt);
  REQUIRE(damaged.error().where);
  CHECK(damaged.error().where->line == 5);
  // Claimed while the hole was torn text: nothing behind it is ever believed.
  REQUIRE(write_file_atomic(path, holed).ok());
  REQUIRE(EpochLog::claim(folder.path, folder.clock, facts).ok());
  CHECK(folder.stages() == std::vector<std::string>{"whole", "lost"});
}

TEST_CASE("logs of a version without seals are read; a hole in them is torn text, other damage is an error") {
  EpochFolder folder;
  const std::string one = "{\"fact\":\"epoch\",\"ms\":1,\"with\":{\"epoch\":1}}\n";
  const std::string first = fact_line(one_fact("a")[0]), second = fact_line(one_fact("b")[0]);
  REQUIRE(write_file_atomic(folder.path + "/log/000001.jsonl", one + first + second).ok());
  REQUIRE(write_file_atomic(folder.path + "/log/000002.jsonl",
                            "{\"fact\":\"epoch\",\"ms\":1,\"with\":{\"epoch\":2}}\n"
                            "{\"fact\":\"adopted\",\"ms\":1,\"with\":{\"lengths\":{\"1\":" +
                                std::to_string(one.size() + first.size()) + "}}}\n" + fact_line(one_fact("c")[0]))
              .ok());
  CHECK(folder.stages() == std::vector<std::string>{"a", "c"});
  std::vector<Fact> facts;
  auto third = EpochLog::claim(folder.path, folder.clock, facts);
  REQUIRE(third.ok());
  auto more = one_fact("d");
  REQUIRE(third->append(more, folder.clock).ok());
  REQUIRE(EpochLog::claim(folder.path, folder.clock, facts).ok());
  CHECK(folder.stages() == std::vector<std::string>{"a", "c", "d"});
  EpochFolder holed;
  REQUIRE(
      write_file_atomic(holed.path + "/log/000001.jsonl", one + first + std::string(4096, '\0') + "\n" + second).ok());
  CHECK(holed.stages() == std::vector<std::string>{"a"});
  REQUIRE(EpochLog::claim(holed.path, holed.clock, facts).ok());
  CHECK(holed.stages() == std::vector<std::string>{"a"});
  EpochFolder bad;
  REQUIRE(write_file_atomic(bad.path + "/log/000001.jsonl", one + "garbage\n" + second).ok());
  CHECK(read_epochs(bad.path).error().code == ErrorCode::corrupt);
}

TEST_CASE("text that was believed once and is gone or changed is an error, and never fewer facts") {
  EpochFolder folder;
  std::vector<Fact> facts;
  auto first = EpochLog::claim(folder.path, folder.clock, facts);
  auto a = one_fact("a"), b = one_fact("b");
  REQUIRE(first->append(a, folder.clock).ok());
  REQUIRE(first->append(b, folder.clock).ok());
  REQUIRE(EpochLog::claim(folder.path, folder.clock, facts).ok());
  const std::string path = folder.path + "/log/000001.jsonl", text = *read_file(path);
  REQUIRE(write_file_atomic(path, text.substr(0, text.size() - 5)).ok());
  CHECK(read_epochs(folder.path).error().code == ErrorCode::corrupt);
  std::string changed = text;
  changed[text.rfind("skipped")] = 'S';
  REQUIRE(write_file_atomic(path, changed).ok());
  CHECK(read_epochs(folder.path).error().code == ErrorCode::corrupt);
  REQUIRE(write_file_atomic(path, text).ok());
  CHECK(folder.stages() == std::vector<std::string>{"a", "b"});
}

TEST_CASE("hundreds of claims: a log of two short lines each, and a reader that opens a hundred of them at most") {
  EpochFolder folder;
  std::vector<Fact> facts;
  std::uint64_t bytes_at_120 = 0, bytes_at_240 = 0;
  const auto bytes = [&] {
    std::uint64_t sum = 0;
    const auto names = list_directory(folder.path + "/log");
    for (const std::string& name : *names) sum += *file_size(folder.path + "/log/" + name);
    return sum;
  };
  for (int epoch = 1; epoch <= 240; ++epoch) {
    auto log = EpochLog::claim(folder.path, folder.clock, facts);
    REQUIRE(log.ok());
    if (epoch % 50 == 1) {
      auto fact = one_fact(std::to_string(epoch));
      REQUIRE(log->append(fact, folder.clock).ok());
    }
    if (epoch == 120) bytes_at_120 = bytes();
  }
  bytes_at_240 = bytes();
  MESSAGE("bytes for each claim: ", bytes_at_240 / 240);
  CHECK(bytes_at_240 < 240 * 1500);
  CHECK(bytes_at_240 < 2 * bytes_at_120 + 100'000);  // not with the square
  const auto read = read_epochs(folder.path);
  REQUIRE(read.ok());
  CHECK(read->lengths.size() <= 102);
  CHECK(folder.stages() == std::vector<std::string>{"1", "51", "101", "151", "201"});
  // What was put together is a help: without it, or with another text in its place, the logs say the same.
  std::vector<std::string> kept;
  const auto names = list_directory(folder.path + "/log");
  for (const std::string& name : *names)
    if (ends_with(name, ".facts")) kept.push_back(folder.path + "/log/" + name);
  REQUIRE(kept.size() == 1);
  const std::size_t all = read->facts.size();
  REQUIRE(write_file_atomic(kept[0], "something else\n").ok());
  CHECK(read_epochs(folder.path)->facts.size() == all);
  REQUIRE(remove_tree(kept[0]).ok());
  CHECK(read_epochs(folder.path)->facts.size() == all);
  CHECK(read_epochs(folder.path)->lengths.size() == 240);
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
