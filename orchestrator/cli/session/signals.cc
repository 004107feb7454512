#include "orchestrator/cli/session/signals.h"

#include <csignal>

namespace longhaul {
namespace {

// A signal handler reaches nothing but objects of static storage.
std::atomic<bool> signal_stop{false};
std::atomic<int> signal_count{0};
std::atomic<int> signal_last{0};
struct sigaction interrupt_before, terminate_before;

void on_signal(int number) {
  signal_last.store(number);
  signal_count.fetch_add(1);
  signal_stop.store(true);
}

}  // namespace

SignalWatch::SignalWatch() {
  signal_stop.store(false);
  signal_count.store(0);
  signal_last.store(0);
  struct sigaction action{};
  action.sa_handler = on_signal;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGINT, &action, &interrupt_before);
  ::sigaction(SIGTERM, &action, &terminate_before);
}

SignalWatch::~SignalWatch() {
  ::sigaction(SIGINT, &interrupt_before, nullptr);
  ::sigaction(SIGTERM, &terminate_before, nullptr);
}

const std::atomic<bool>& SignalWatch::stop() const {
  return signal_stop;
}
int SignalWatch::count() const {
  return signal_count.load();
}
int SignalWatch::last() const {
  return signal_last.load();
}
void SignalWatch::go_on() {
  signal_stop.store(false);
}
void SignalWatch::request_stop() {
  signal_stop.store(true);
}

}  // namespace longhaul
