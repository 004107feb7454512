// A line of an epoch log says how long it is, what its bytes hash to, and where it stands: in which append of its log,
// as which of how many lines. So text that was never whole is distinguished from damaged text. Pure.
//
//   {"t":"2026-03-02T04:11:09.201Z",...,"sum":"4.0.3.118.9f86d081884c7d65"}
//
// append 4 (from 0), line 0 of its 3, 118 bytes before `,"sum"`, xxh3 of these and of the four numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace longhaul {

struct LineSeal {
  std::int64_t append = 0;        // of its log; the next one is begun only when this one is synced
  std::int64_t line = 0, of = 1;  // among those of the append
  bool operator==(const LineSeal&) const = default;
};

// `line`: a JSON object, without a newline; the sealed one has its newline.
std::string seal_line(std::string_view line, const LineSeal& seal);

enum class LineCheck {
  sealed,  // as it was written
  plain,   // has no seal: of a version before there were any
  bad,
};
struct CheckedLine {
  LineCheck check = LineCheck::plain;
  LineSeal seal = {};
};
// Without its newline.
CheckedLine check_line(std::string_view line);

// Of the bad lines of a log: what the whole ones around them say.
struct LogBreak {
  std::optional<LineSeal> before;  // of the last whole line before the first bad one; nullopt: none, or it has none
  std::optional<LineSeal> after;   // of the last whole line after it
  bool plain_after = false;        // a whole line without a seal follows
  bool has_hole = false;           // the first bad line has NUL bytes: a page or a stripe that was never written
};
// True: the bad line had been whole once, for an append is begun only when the one before has been synced. False: it is
// of the last append, which nobody has acted upon.
bool was_whole_once(const LogBreak& found);

}  // namespace longhaul
