#include "contracts/events/event_piece.h"

#include <unistd.h>

#include <algorithm>

#include "base/files/files.h"
#include "base/files/owned_files.h"
#include "base/text/text.h"

namespace longhaul {

Result<EventPiece> read_event_piece(const std::string& path, std::uint64_t& offset, std::size_t bytes_max) {
  EventPiece piece;
  const auto fd = open_to_read(path);
  if (!fd.ok()) return piece;  // nothing was said yet
  std::string text;
  std::size_t end = std::string::npos;
  bool at_end = false;
  while (!at_end && (text.size() < bytes_max || end == std::string::npos)) {
    const std::size_t before = text.size();
    text.resize(before + std::clamp<std::size_t>(bytes_max, 4096, std::size_t{1} << 16));
    const ssize_t n =
        ::pread(fd->get(), text.data() + before, text.size() - before, static_cast<off_t>(offset + before));
    text.resize(before + static_cast<std::size_t>(std::max<ssize_t>(0, n)));
    at_end = n <= 0;
    if (const std::size_t last = text.rfind('\n'); last != std::string::npos) end = last;
  }
  piece.bytes_read = text.size();
  piece.more = !at_end;
  if (end == std::string::npos) return piece;
  offset += end + 1;
  for (const std::string& line : split(std::string_view(text).substr(0, end), '\n'))
    if (auto event = parse_event(line); event.ok()) piece.events.push_back(std::move(event).value());
  return piece;
}

}  // namespace longhaul
