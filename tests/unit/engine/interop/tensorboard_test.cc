// What is written reads back record by record with a reader written from the formats' descriptions; that TensorBoard
// itself reads it is tried by hand (tests/parity/check_tensorboard.py).
#include "engine/interop/tensorboard.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "tests/support/scratch.h"

using namespace longhaul;

namespace {

struct ReadEvent {
  double wall_time = 0;
  std::int64_t step = 0;
  std::string file_version, tag;
  std::optional<float> value;
  std::int64_t session_status = -1;
};

template <class T>
T take_raw(std::string_view& bytes) {
  REQUIRE(bytes.size() >= sizeof(T));
  T value;
  std::memcpy(&value, bytes.data(), sizeof(T));
  bytes.remove_prefix(sizeof(T));
  return value;
}

std::uint64_t take_varint(std::string_view& bytes) {
  std::uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    const auto byte = take_raw<std::uint8_t>(bytes);
    value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) return value;
  }
}

std::string_view take_bytes(std::string_view& bytes) {
  const std::uint64_t length = take_varint(bytes);
  REQUIRE(bytes.size() >= length);
  const std::string_view taken = bytes.substr(0, length);
  bytes.remove_prefix(length);
  return taken;
}

void read_value(std::string_view bytes, ReadEvent& event) {
  while (!bytes.empty()) switch (take_varint(bytes)) {
      case 1 << 3 | 2: event.tag = take_bytes(bytes); break;
      case 2 << 3 | 5: event.value = std::bit_cast<float>(take_raw<std::uint32_t>(bytes)); break;
      default: FAIL("unknown field of Summary.Value");
    }
}

ReadEvent read_event_message(std::string_view bytes) {
  ReadEvent event;
  while (!bytes.empty()) switch (take_varint(bytes)) {
      case 1 << 3 | 1: event.wall_time = std::bit_cast<double>(take_raw<std::uint64_t>(bytes)); break;
      case 2 << 3 | 0: event.step = static_cast<std::int64_t>(take_varint(bytes)); break;
      case 3 << 3 | 2: event.file_version = take_bytes(bytes); break;
      case 5 << 3 | 2: {
        std::string_view summary = take_bytes(bytes);
        REQUIRE(take_varint(summary) == (1 << 3 | 2));
        read_value(take_bytes(summary), event);
        CHECK(summary.empty());
        break;
      }
      case 7 << 3 | 2: {
        std::string_view log = take_bytes(bytes);
        REQUIRE(take_varint(log) == (1 << 3 | 0));
        event.session_status = static_cast<std::int64_t>(take_varint(log));
        CHECK(log.empty());
        break;
      }
      default: FAIL("unknown field of Event");
    }
  return event;
}

// From the format's own words: ((crc >> 15) | (crc << 17)) + 0xa282ead8, with the polynomial bit by bit.
std::uint32_t masked_crc_again(std::string_view bytes) {
  std::uint32_t crc = 0xFFFFFFFFU;
  for (const char byte : bytes) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (0x82F63B78U & (0U - (crc & 1U)));
  }
  crc = ~crc;
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8U;
}

std::vector<ReadEvent> read_event_file(const std::string& path) {
  const std::string text = read_file(path).value();
  std::string_view rest = text;
  std::vector<ReadEvent> events;
  while (!rest.empty()) {
    const std::string_view head = rest.substr(0, 8);
    const auto length = take_raw<std::uint64_t>(rest);
    CHECK(take_raw<std::uint32_t>(rest) == masked_crc_again(head));
    REQUIRE(rest.size() >= length + 4);
    const std::string_view data = rest.substr(0, length);
    rest.remove_prefix(length);
    CHECK(take_raw<std::uint32_t>(rest) == masked_crc_again(data));
    events.push_back(read_event_message(data));
  }
  return events;
}

}  // namespace

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
