// What the nodes of a doctor's job find out together, one process on each: whether they reach each other's ports, and
// whether their shared file system does what runs rely on. They meet through files of that file system; every wait has
// a deadline, and what did not come about says so in the answer.
#pragma once

#include <string>

#include "base/system/clock.h"
#include "base/value/value.h"
#include "contracts/settings/job/port_range.h"

namespace longhaul {

struct PairOrder {
  std::string folder;  // shared, empty at first
  int self = 0, count = 1;
  PortRange ports;
  std::int64_t meet_ms = 60'000;  // for the others to come, and between two checks
};

// {"met": bool, "seen_after_s": of the last other's file, "connects": [{"to", "host", "how", "ok", "why"}], "port",
//  "exclusive": won, "linked": won, "torn": reads of a renamed file that were not whole, "rounds",
//  "modes": [{"of", "mode", "ok"}], "file_clock_off_ms": the file system's clock against this node's}
Value check_pair(const PairOrder& order, Clock& clock);

}  // namespace longhaul
