// Events of a file that may be hundreds of megabytes long, a piece at a time: a lead that takes over a job of weeks has
// no room and no time for all of them at once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "contracts/events/event.h"

namespace longhaul {

struct EventPiece {
  std::vector<Event> events;
  std::uint64_t bytes_read = 0;  // from the file
  bool more = false;             // whole lines may follow
};
// Whole lines from byte `offset` on, of about `bytes_max` bytes; moves `offset` behind the last of them. A line that is
// longer than that is read whole. A file that is not there has no events yet.
Result<EventPiece> read_event_piece(const std::string& path, std::uint64_t& offset, std::size_t bytes_max);

}  // namespace longhaul
