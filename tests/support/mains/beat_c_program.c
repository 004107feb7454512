/* A rank written in C: whatever longhaul_beat.h offers must compile as C, and do what it says.
 * usage: beat_c_program PAGE; ends with 0 once an order to stop after step 9 has come. */
#include <time.h>

#include "resiliency/beat/longhaul_beat.h"

int main(int argc, char** argv) {
  const struct timespec pause = {0, 1000000};
  struct longhaul_beat* beat = longhaul_beat_open(argc > 1 ? argv[1] : 0, 5);
  int forward, dp, tries;
  if (!beat) return 2;
  forward = longhaul_beat_section(beat, "forward");
  dp = longhaul_beat_communicator(beat, "dp");
  longhaul_beat_epoch(beat, 2);
  longhaul_beat_enter(beat, forward);
  longhaul_beat_enqueued(beat, dp);
  longhaul_beat_waits(beat, dp, -1);
  longhaul_beat_polled(beat);
  longhaul_beat_completed(beat, dp);
  longhaul_beat_waits(beat, -1, -1);
  longhaul_beat_step(beat, 8);
  for (tries = 0; tries < 10000; ++tries) {
    const int64_t orders = longhaul_beat_orders(beat);
    longhaul_beat_progress(beat);
    if (longhaul_beat_stop_after(beat) == 9 && longhaul_beat_checkpoint_orders(beat) == 1 &&
        longhaul_beat_checkpoint_interval(beat) == 20 && longhaul_beat_learning_rate(beat) == 0.5) {
      longhaul_beat_obeyed(beat, orders);
      longhaul_beat_close(beat);
      return 0;
    }
    nanosleep(&pause, 0);
  }
  return 3;
}
