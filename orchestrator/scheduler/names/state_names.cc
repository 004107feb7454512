#include "orchestrator/scheduler/names/state_names.h"

#include <charconv>

namespace longhaul {
namespace {

constexpr SlurmStateName state_table[] = {
    {"PENDING", "PENDING"},
    {"RUNNING", "RUNNING"},
    {"SUSPENDED", "SUSPENDED"},
    {"COMPLETED", "COMPLETED"},
    {"CANCELLED", "CANCELLED"},
    {"FAILED", "FAILED"},
    {"TIMEOUT", "TIMEOUT"},
    {"NODE_FAIL", "NODE_FAIL"},
    {"PREEMPTED", "PREEMPTED"},
    {"BOOT_FAIL", "BOOT_FAIL"},
    {"DEADLINE", "DEADLINE"},
    {"OUT_OF_MEMORY", "OUT_OF_MEMORY"},
    // Flags above a base state, shown in its place.
    {"COMPLETING", "RUNNING"},
    {"CONFIGURING", "PENDING"},
    {"STAGE_OUT", "RUNNING"},
    {"SIGNALING", "RUNNING"},
    {"RESIZING", "RUNNING"},
    {"STOPPED", "SUSPENDED"},
    {"REQUEUED", "PENDING"},
    {"REQUEUE_FED", "PENDING"},
    {"REQUEUE_HOLD", "PENDING"},
    {"SPECIAL_EXIT", "PENDING"},
    {"RESV_DEL_HOLD", "PENDING"},
    {"EXPEDITING", "PENDING"},  // since 25.11: queued again, before others
    {"REVOKED", "CANCELLED"},   // of a federation: it runs on another cluster
    {"NODE_FAILURE", "NODE_FAIL"},
};

constexpr const char* ended[] = {"COMPLETED", "CANCELLED", "FAILED",   "TIMEOUT",      "NODE_FAIL",
                                 "PREEMPTED", "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY"};

// sacct cuts what is longer than its column: "OUT_OF_ME+".
bool is_cut_from(const std::string& cut, const std::string& whole) {
  return cut.size() >= 5 && whole.starts_with(cut);
}

}  // namespace

std::span<const SlurmStateName> slurm_state_names() {
  return state_table;
}

std::string read_slurm_state(const std::string& text) {
  const std::size_t end = text.find_first_of(" +");
  const std::string name = text.substr(0, end);
  for (const SlurmStateName& one : state_table)
    if (name == one.name) return one.base;
  if (end != std::string::npos && text[end] == '+')
    for (const SlurmStateName& one : state_table)
      if (is_cut_from(name, one.name)) return one.base;
  return unknown_slurm_state;
}

bool is_ended_state(const std::string& base) {
  for (const char* state : ended)
    if (base == state) return true;
  return false;
}

long long canceller_of(const std::string& text) {
  constexpr std::string_view by = "CANCELLED by ";
  if (!text.starts_with(by)) return -1;
  long long uid = -1;
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data() + by.size(), end, uid);
  return read.ec == std::errc() && read.ptr == end ? uid : -1;
}

}  // namespace longhaul
