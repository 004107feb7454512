// Room worker/protocol/ranks
// How ranks on the own node are watched and reached, by an agent or by a lead without agents.
// beat_sockets.h takes heartbeat lines; process_watch.h asks the kernel; page_orders.h writes orders on a page.
// own_process.h makes sure that a process number from a file is ours before a signal is sent.
// It may not include protocol/wire: what goes to another node is sent by agent or lead.
//
// Where programs say in text what they do (resiliency/beat/beat_line.h): one UNIX socket for each rank of this node, of
// mode 0600, and only processes of the same user are served. Who watches the pages of a node owns this: its agent, or
// the lead where there are no agents. One thread; nothing ever blocks, however a program behaves: of each connection a
// bounded piece is read at a look, and what it does not read is not written.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/files/files.h"
#include "base/files/held_folder.h"
#include "base/process/log.h"
#include "resiliency/beat/beat_line.h"
#include "resiliency/beat/heartbeat_page.h"

namespace longhaul {

class BeatSockets {
 public:
  // What was seen since the sockets of a rank were opened.
  struct Counts {
    std::int64_t lines = 0;      // that were written to the page
    std::int64_t refused = 0;    // unknown, malformed or too long
    std::int64_t strangers = 0;  // connections of other users
  };

  explicit BeatSockets(Logger& log) : log_(log) {}
  ~BeatSockets() { close(); }
  BeatSockets(const BeatSockets&) = delete;
  BeatSockets& operator=(const BeatSockets&) = delete;

  // From now on also for these ranks, whose pages lie in `folder`; those that are open there stay as they are. A page
  // appears with the first program that connects. invalid_input: not a folder of ours; io: no socket can be made in it;
  // ranks before the one that failed are open.
  Status open(const std::string& folder, const std::vector<int>& ranks);
  // Connections end, and sockets are removed; pages stay.
  void close();
  // Takes what has come and says what was ordered. Call it before pages are looked at, ten times a second or when a
  // descriptor is readable.
  void look();
  // Nobody has connected so far, and nobody waits to.
  bool quiet() const;
  // An injected fault, to the program that connected last: "fault NAME", which longhaul_beat.py understands. False:
  // nobody is connected.
  bool say_fault(int rank, const std::string& name);
  // For poll(2). Whoever looks by a timer anyway need not wait for them: a program may write a thousand lines a second.
  std::vector<int> descriptors() const;
  Counts counts(int rank) const;

 private:
  struct Link {
    FileDescriptor socket;
    pid_t pid = 0;  // 0: in a place whose processes we do not see
    BeatLineCutter cutter;
    BeatOrders sent;
    std::int64_t lines = 0, refused = 0;
    std::string out;  // what did not go yet
    bool over = false;
  };
  struct Rank {
    std::string folder;
    int rank = 0;
    std::string socket_path;
    HeldFolder held;  // the socket's
    FileDescriptor socket;
    std::optional<HeartbeatPage> page;
    std::vector<std::unique_ptr<Link>> links;  // oldest first
    pid_t pid = 0, program = 0;                // as the page has it; what the rank was started as, if that is another
    std::int64_t checkpoints_made = 0;
    Counts counts;
    bool logged = false;
  };
  void take_new_connections(Rank& rank);
  bool serve(Rank& rank, Link& link);
  void read_lines(Rank& rank, Link& link);
  void take_line(Rank& rank, Link& link, std::string_view line, bool too_long);
  void refuse(Rank& rank, Link& link, std::string_view line, const Error& why);
  static void say_orders(Rank& rank, Link& link);
  static void send(Link& link);
  static void name_process(Rank& rank);

  Logger& log_;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

// Why a fault of a program that does not speak could not be made: not_found.
Status nobody_listens(int rank);

}  // namespace longhaul
