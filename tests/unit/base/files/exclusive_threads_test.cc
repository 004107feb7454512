#include <doctest/doctest.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <thread>
#include <vector>

#include "base/files/files.h"
#include "base/process/log.h"
#include "base/text/text.h"
#include "tests/support/scratch.h"

namespace longhaul {

TEST_CASE("of eight threads that create one file exactly one succeeds, every time") {
  const testing::Scratch scratch;
  for (int round = 0; round < 50; ++round) {
    const std::string path = scratch.file("epoch" + std::to_string(round));
    std::atomic<int> won{0}, conflicts{0}, winner{-1};
    std::barrier together(8);
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i)
      threads.emplace_back([&, i] {
        together.arrive_and_wait();
        const Status status = create_file_exclusive(path, "writer " + std::to_string(i));
        if (status.ok()) {
          won.fetch_add(1);
          winner.store(i);
        } else if (status.error().code == ErrorCode::conflict) {
          conflicts.fetch_add(1);
        }
      });
    for (std::thread& thread : threads) thread.join();
    CAPTURE(round);
    CHECK(won.load() == 1);
    CHECK(conflicts.load() == 7);
    CHECK(read_file(path).value() == "writer " + std::to_string(winner.load()));
  }
  CHECK(list_directory(scratch.path()).value().size() == 50);
}

TEST_CASE("trust: who loses does not win because a stranger gave the file of the loser a second name") {
  const testing::Scratch scratch;
  const std::string path = scratch.file("epoch"), links = scratch.file("links");
  REQUIRE(make_directories(links).ok());
  REQUIRE(create_file_exclusive(path, "the winner").ok());
  std::atomic<bool> done{false};
  std::atomic<int> linked{0};
  std::thread stranger([&] {  // once each: two names are what a lost answer of NFS leaves
    while (!done.load()) {
      const auto names = list_directory(scratch.path());
      for (const std::string& name : names.ok() ? *names : std::vector<std::string>())
        if (name.find(".tmp.") != std::string::npos &&
            ::link(scratch.file(name).c_str(), join_path(links, name).c_str()) == 0)
          linked.fetch_add(1);
    }
  });
  int won = 0;
  // Until the stranger was in time often enough; on one core it may need a while.
  for (int i = 0; i < 20'000 && linked.load() < 200; ++i)
    if (create_file_exclusive(path, std::string(100'000, 'x')).ok()) ++won;
  done.store(true);
  stranger.join();
  CHECK(linked.load() >= 1);
  CHECK(won == 0);
  CHECK(read_file(path).value() == "the winner");
}

TEST_CASE("a reader sees the old or the new text, never a part") {
  const testing::Scratch scratch;
  const std::string path = scratch.file("state"), a(5000, 'a'), b(9000, 'b');
  REQUIRE(write_file_atomic(path, a).ok());
  std::atomic<bool> done{false};
  std::thread writer([&] {
    for (int i = 0; i < 100; ++i) (void)write_file_atomic(path, i % 2 ? a : b).ok();
    done.store(true);
  });
  int torn = 0;
  while (!done.load()) {
    const auto text = read_file(path);
    if (!text.ok() || (*text != a && *text != b)) ++torn;
  }
  writer.join();
  CHECK(torn == 0);
}

TEST_CASE("lines of several threads are not mixed") {
  const testing::Scratch scratch;
  {
    Logger log("engine", "", LogLevel::info, scratch.file("log"));
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([&, i] {
        for (int n = 0; n < 100; ++n) log.info(std::string(40, static_cast<char>('a' + i)));
      });
    for (std::thread& thread : threads) thread.join();
  }
  const auto lines = split(trim(read_file(scratch.file("log")).value()), '\n');
  CHECK(lines.size() == 400);
  for (const std::string& line : lines) CHECK(line.substr(line.size() - 40) == std::string(40, line.back()));
}

}  // namespace longhaul
