// The heartbeat as text: what a program in any language says of itself, one line each, over a UNIX socket whose path is
// in LONGHAUL_BEAT_SOCKET. The worker turns the lines into stores to the rank's heartbeat page, so all that watches
// pages sees such a program as well as one that uses longhaul_beat.h.
//
//   step 12               the newest completed step: 0 or later; it may go back after a restart from a checkpoint
//   section forward       what it does now; at most 31 names of at most 31 bytes
//   epoch 3               of the communicators: grows with every rebuild
//   enqueued dp           one more collective of this communicator was started; at most 16 names
//   completed dp          ... and one was completed
//   waits dp              it waits for others in this communicator; `waits` alone: it does not any more
//   progress              nothing of the above changed, and yet it is at work
//   done 4                order 4 and all before it are carried out
//
// Back come, each once to every connection:
//
//   order 4 checkpoint               save one as soon as that can be done
//   order 5 stop_after 500           end well after this step
//   order 6 checkpoint_interval 50   steps between checkpoints from now on
//   order 7 lr 0.00025               the peak of the learning rate from now on
//   fault LOCK_GIL                   a test of this stage asks for it (contracts/settings/job/named_fault.h); said once
//   refused 3 REASON                 the third line of this connection meant nothing; only the first few are reported
//
// A program that never reads loses nothing but the orders. A line ends with \n and has at most 127 bytes before it;
// what is longer, unknown or malformed is refused and counted, and changes nothing.
//
// The alternative, a datagram per line, would keep lines apart by itself, but a shell has no command for it, and
// nothing would show the worker that a program has gone.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error/result.h"
#include "resiliency/beat/heartbeat_page.h"

namespace longhaul {

inline constexpr const char* beat_socket_variable = "LONGHAUL_BEAT_SOCKET";
inline constexpr std::size_t beat_line_max = 127;         // without its end
inline constexpr std::size_t beat_socket_path_max = 107;  // unix(7): sun_path without its zero

struct BeatLine {
  enum class Keyword { step, section, epoch, enqueued, completed, waits, progress, done };
  Keyword keyword = Keyword::progress;
  std::int64_t number = 0;  // step, epoch, done
  std::string name;         // section, enqueued, completed, waits
};
// invalid_input: what is wrong with it, and what there is.
Result<BeatLine> parse_beat_line(std::string_view line);
// Writes it to the page. invalid_input: no room for another name, or no such order.
Status apply_beat_line(const BeatLine& line, HeartbeatPage& page);

// Cuts what a connection brings into lines, in pieces of any size; holds at most one line.
class BeatLineCutter {
 public:
  // `too_long` says that it was, and the text is what there is of it.
  using Take = std::function<void(std::string_view line, bool too_long)>;
  void take(std::string_view bytes, const Take& each);
  // The connection has ended: what stands there without an end is a line, too.
  void end(const Take& each);

 private:
  std::string part_;
  bool skipping_ = false;  // the rest of a line that is too long
};

// What the worker has ordered so far, as the page has it.
struct BeatOrders {
  std::int64_t orders = 0, checkpoints = 0, stop_after = -1, checkpoint_interval = 0;
  double learning_rate = 0;
};
BeatOrders beat_orders(const HeartbeatPage& page);
// The lines for somebody to whom `sent` has been sent: what is new, or, where an order repeated a value, all that
// holds. Each has a number of its own, and the last is the newest order's. Empty: nothing to send.
std::vector<std::string> order_lines(const BeatOrders& sent, const BeatOrders& now);

// Where the socket of a rank lies: beside its page or, where that path would be too long for a socket, in a folder of
// this node's memory whose name is made of that path. Programs read it from beat_socket_variable.
std::string beat_socket_path(const std::string& beat_folder, int rank);

}  // namespace longhaul
