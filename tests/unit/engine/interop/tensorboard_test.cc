// What is written reads back record by record with a reader of its own; that TensorBoard
// itself reads it is tried by hand (tests/parity/check_tensorboard.py).
#include "engine/interop/tensorboard.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "tests/support/scratch.h"
#include "tests/support/tensorboard_reader.h"

using namespace longhaul;
using longhaul::testing::read_event_file;
using longhaul::testing::ReadEvent;

TEST_CASE("CRC-32C of the standard's examples") {
  CHECK(crc32c("123456789") == 0xE3069283U);
  CHECK(crc32c(std::string(32, '\0')) == 0x8A9136AAU);
  CHECK(crc32c(std::string(32, '\xFF')) == 0x62A8AB43U);
  CHECK(crc32c("") == 0);
}

TEST_CASE("an event file begins with its version and holds every scalar, whole, from the moment it is written") {
  const testing::Scratch scratch;
  ManualClock clock(1'700'000'000'250);
  TensorBoardWriter writer = TensorBoardWriter::create(scratch.file("curves/run"), clock).value();
  CHECK(file_name(writer.path()).starts_with("events.out.tfevents.1700000000."));
  std::vector<ReadEvent> events = read_event_file(writer.path());
  REQUIRE(events.size() == 1);
  CHECK(events[0].file_version == "brain.Event:2");
  CHECK(events[0].wall_time == 1'700'000'000.25);

  clock.advance_ms(1500);
  REQUIRE(writer.scalar("loss", 1, 2.5).ok());
  REQUIRE(writer.scalar("loss", 1LL << 40, 1.0 / 3).ok());
  REQUIRE(writer.scalar(std::string(300, 't'), 0, std::numeric_limits<double>::infinity()).ok());
  REQUIRE(writer.scalar("loss", 5, std::nan("")).ok());
  events = read_event_file(writer.path());
  REQUIRE(events.size() == 5);
  CHECK(events[1].tag == "loss");
  CHECK(events[1].step == 1);
  CHECK(events[1].value == 2.5F);
  CHECK(events[1].wall_time == 1'700'000'001.75);
  CHECK(events[1].file_version.empty());
  CHECK(events[2].step == 1LL << 40);
  CHECK(events[2].value == static_cast<float>(1.0 / 3));
  CHECK(events[3].tag == std::string(300, 't'));
  CHECK(std::isinf(*events[3].value));
  CHECK(std::isnan(*events[4].value));
}

TEST_CASE("a training that goes on has a file of its own, which says from where") {
  const testing::Scratch scratch;
  const ManualClock clock;
  TensorBoardWriter first = TensorBoardWriter::create(scratch.path(), clock).value();
  REQUIRE(first.scalar("loss", 1, 1).ok());
  const std::string before = read_file(first.path()).value();
  TensorBoardWriter second = TensorBoardWriter::create(scratch.path(), clock).value();
  CHECK(second.path() != first.path());
  REQUIRE(second.resumed_after(7).ok());
  const std::vector<ReadEvent> events = read_event_file(second.path());
  REQUIRE(events.size() == 2);
  CHECK(events[1].session_status == 1);
  CHECK(events[1].step == 8);
  CHECK(read_file(first.path()).value() == before);
}

TEST_CASE("a folder that cannot be made is an error with its path") {
  const testing::Scratch scratch;
  const ManualClock clock;
  REQUIRE(write_file_atomic(scratch.file("file"), "").ok());
  const auto refused = TensorBoardWriter::create(scratch.file("file/under"), clock);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().message().find(scratch.file("file")) != std::string::npos);
}
