#include "base/process/log.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/text/text.h"
#include "tests/support/scratch.h"

namespace longhaul {

TEST_CASE("a line carries time, level, component and coordinates, and braces in it are text") {
  const testing::Scratch scratch;
  {
    Logger log("engine", "stage=pretrain rank=3", LogLevel::info, scratch.file("log"));
    log.info("event=checkpoint_saved bytes=1048576");
    log.warn("text={} {0}");
    log.debug("not written");
  }
  const auto lines = split(read_file(scratch.file("log")).value(), '\n');
  REQUIRE(lines.size() == 3);
  CHECK(lines[0].size() > 24);
  CHECK(lines[0][10] == 'T');
  CHECK(lines[0].substr(24) == " info  engine stage=pretrain rank=3 event=checkpoint_saved bytes=1048576");
  CHECK(lines[1].substr(24) == " warn  engine stage=pretrain rank=3 text={} {0}");
  CHECK(lines[2].empty());
}

TEST_CASE("the level that was asked for is the least that is written") {
  const testing::Scratch scratch;
  const LogLevel levels[] = {LogLevel::debug, LogLevel::info, LogLevel::warn, LogLevel::error};
  for (int least = 0; least < 4; ++least) {
    const std::string path = scratch.file("log" + std::to_string(least));
    {
      Logger log("lead", "", levels[least], path);
      log.debug("d");
      log.info("i");
      log.warn("w");
      log.error("e");
    }
    CAPTURE(least);
    CHECK(split(read_file(path).value(), '\n').size() == static_cast<std::size_t>(4 - least + 1));
  }
}

TEST_CASE("a log that cannot be opened does not end the program: its lines go to stderr") {
  const testing::Scratch scratch;
  const int before = ::dup(2), file = ::open(scratch.file("stderr").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  REQUIRE(before >= 0);
  REQUIRE(file >= 0);
  ::dup2(file, 2);
  {
    Logger log("lead", "", LogLevel::error, "/proc/none/log");
    log.info("below the level");
    log.error("the disk is gone");
  }
  ::dup2(before, 2);
  ::close(before), ::close(file);
  const std::string text = read_file(scratch.file("stderr")).value();
  CHECK(text.find("the disk is gone") != std::string::npos);
  CHECK(text.find("below the level") == std::string::npos);
}

}  // namespace longhaul
