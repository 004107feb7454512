// Signals by which a lead is asked for something; they stay blocked, and are taken one by one.
#pragma once

#include <cstdint>

namespace longhaul {

void block_stop_signals();
// Waits for a child's end or a request to stop, at most `ms`. Returns SIGTERM or SIGUSR1 when that came, 0 otherwise.
int wait_for_stop_signal(std::int64_t ms);
// Whether a request to stop (SIGTERM) waits to be taken.
bool stop_signal_pending();

}  // namespace longhaul
