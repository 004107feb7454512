// TensorBoard event files as a test reads them: written from the descriptions of the formats, sharing nothing with the
// writer. Every checksum is verified; a field that the writer does not write fails the test.
#pragma once

#include <doctest/doctest.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "base/files/files.h"

namespace longhaul::testing {

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

inline std::uint64_t take_varint(std::string_view& bytes) {
  std::uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    const auto byte = take_raw<std::uint8_t>(bytes);
    value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) return value;
  }
}

inline std::string_view take_bytes(std::string_view& bytes) {
  const std::uint64_t length = take_varint(bytes);
  REQUIRE(bytes.size() >= length);
  const std::string_view taken = bytes.substr(0, length);
  bytes.remove_prefix(length);
  return taken;
}

inline void read_value(std::string_view bytes, ReadEvent& event) {
  while (!bytes.empty()) switch (take_varint(bytes)) {
      case 1 << 3 | 2: event.tag = take_bytes(bytes); break;
      case 2 << 3 | 5: event.value = std::bit_cast<float>(take_raw<std::uint32_t>(bytes)); break;
      default: FAIL("unknown field of Summary.Value");
    }
}

inline ReadEvent read_event_message(std::string_view bytes) {
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
inline std::uint32_t masked_crc_again(std::string_view bytes) {
  std::uint32_t crc = 0xFFFFFFFFU;
  for (const char byte : bytes) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (0x82F63B78U & (0U - (crc & 1U)));
  }
  crc = ~crc;
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8U;
}

inline std::vector<ReadEvent> read_event_file(const std::string& path) {
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

}  // namespace longhaul::testing
