#include "resiliency/beat/longhaul_beat.h"

#include <memory>
#include <utility>

#include "resiliency/beat/heartbeat_page.h"

struct longhaul_beat {
  longhaul::HeartbeatPage page;
};

extern "C" {

longhaul_beat* longhaul_beat_open(const char* path, int rank) {
  if (!path || !*path) return nullptr;
  auto page = longhaul::HeartbeatPage::create(path, rank);
  if (!page.ok()) return nullptr;
  return new longhaul_beat{std::move(page).value()};
}
void longhaul_beat_close(longhaul_beat* beat) {
  std::unique_ptr<longhaul_beat> owner(beat);
}

int longhaul_beat_section(longhaul_beat* beat, const char* name) {
  return beat && name ? beat->page.section(name) : 0;
}
void longhaul_beat_enter(longhaul_beat* beat, int section) {
  if (beat) beat->page.enter(section);
}
void longhaul_beat_step(longhaul_beat* beat, int64_t step) {
  if (beat) beat->page.step(step);
}
void longhaul_beat_epoch(longhaul_beat* beat, int64_t epoch) {
  if (beat) beat->page.epoch(epoch);
}
int longhaul_beat_communicator(longhaul_beat* beat, const char* name) {
  return beat && name ? beat->page.communicator(name) : -1;
}
void longhaul_beat_enqueued(longhaul_beat* beat, int communicator) {
  if (beat && communicator < longhaul::beat_communicators_max) beat->page.enqueued(communicator);
}
void longhaul_beat_completed(longhaul_beat* beat, int communicator) {
  if (beat && communicator < longhaul::beat_communicators_max) beat->page.completed(communicator);
}
void longhaul_beat_waits(longhaul_beat* beat, int communicator, int peer) {
  if (beat && communicator < longhaul::beat_communicators_max)
    beat->page.waits(communicator < 0 ? -1 : communicator, peer);
}
void longhaul_beat_polled(longhaul_beat* beat) {
  if (beat) beat->page.polled();
}
int64_t longhaul_beat_checkpoint_orders(const longhaul_beat* beat) {
  return beat ? beat->page.checkpoint_orders() : 0;
}
int64_t longhaul_beat_stop_after(const longhaul_beat* beat) {
  return beat ? beat->page.stop_after_step() : -1;
}
int64_t longhaul_beat_checkpoint_interval(const longhaul_beat* beat) {
  return beat ? beat->page.checkpoint_interval() : 0;
}
double longhaul_beat_learning_rate(const longhaul_beat* beat) {
  return beat ? beat->page.learning_rate() : 0;
}
int64_t longhaul_beat_orders(const longhaul_beat* beat) {
  return beat ? beat->page.orders() : 0;
}
void longhaul_beat_obeyed(longhaul_beat* beat, int64_t orders) {
  if (beat) beat->page.obeyed(orders);
}

}  // extern "C"
