#include "worker/lead/last_rounds.h"

#include <algorithm>

#include "base/files/files.h"
#include "base/process/process.h"
#include "base/text/text.h"
#include "contracts/events/event.h"
#include "contracts/records/held_allocation.h"
#include "worker/lead/failover/stop_signal.h"

namespace longhaul {
namespace {

constexpr int killed_max = 3;
constexpr std::int64_t pause_ms_min = 1'000, pause_ms_max = 60'000;
constexpr std::int64_t usual_round_ms = 10'000;  // most rounds are made within it; before more, nodes are given back
constexpr std::int64_t round_margin_ms = 1'000;  // in which a round that may wait no longer ends by itself
constexpr std::int64_t give_back_deadline_ms = 3'000;
constexpr std::int64_t after_give_back_ms = 60'000;

void wait_for(NextRound& rounds, const Deadline& deadline) {
  while (rounds.running() && !deadline.passed()) (void)wait_for_stop_signal(100);
}

// Slurm 22.05 leaves scripts beside whoever shrinks a job: variables for its steps, of which there are none any more.
Status give_back(const std::string& job, const std::string& node, const std::string& folder) {
  SpawnSpec spec;
  spec.argv = give_back_arguments(job, node);
  spec.working_directory = folder;
  const auto output = run_captured(std::move(spec), give_back_deadline_ms);
  for (const char* end : {"sh", "csh"})
    (void)remove_tree(join_path(folder, format("slurm_job_{}_resize.{}", job, end))).ok();
  if (!output.ok()) return output.error();
  if (output->status.success()) return {};
  const Error refused =
      make_error(ErrorCode::unavailable, trim(output->err.empty() ? output->status.text() : output->err));
  if (!node.empty() && give_back(job, "", folder).ok()) return {};  // the node was not the one that has to stay
  return refused;
}

class LastRounds {
 public:
  LastRounds(const Attempt& attempt, const HeldNodes& nodes, NextRound& rounds, Clock& clock, Logger& log)
      : attempt_(attempt),
        job_(nodes.scheduler_job),
        node_(nodes.node),
        rounds_(rounds),
        clock_(clock),
        log_(log),
        cost_(nodes.nodes, attempt.gpus_per_node, nodes.since_ns > 0 ? nodes.since_ns : clock.monotonic_ns()) {
    held_.gpus = cost_.gpus();
    run_dir_ = attempt.doorbell.empty() ? std::string() : parent_path(parent_path(attempt.doorbell));
  }

  void make(const JobRecord& record, bool written) {
    std::int64_t pause_ms = pause_ms_min;
    held_.left = "alone";
    for (int killed = 0; killed < killed_max;) {
      if (left_ms() < usual_round_ms && !followed()) return_nodes();
      if (left_ms() <= 0) break;
      rounds_.start_last(written ? std::string() : record_text(record),
                         std::max<std::int64_t>(1, left_ms() - round_margin_ms));
      wait_for(rounds_, Deadline(clock_, std::min(left_ms(), usual_round_ms)));
      if (rounds_.running() && !followed()) return_nodes();
      wait_for(rounds_, Deadline(clock_, left_ms()));
      if (rounds_.running()) break;
      if (rounds_.was_killed()) {
        ++killed;
        continue;
      }
      if (!rounds_.may_be_repeated()) {
        held_.left = "done";
        break;
      }
      if (followed()) break;
      const std::int64_t most_ms = std::min(pause_ms, left_ms());
      for (const Deadline pause(clock_, most_ms); !pause.passed();) (void)wait_for_stop_signal(100);
      pause_ms = std::min(2 * pause_ms, pause_ms_max);
      written = written || write_record(attempt_.record_path(record.restarts), record).ok();
    }
    rounds_.end();
    if (held_.left != "done" && followed()) held_.left = "followed";
    report_held();
  }

 private:
  bool followed() const {
    if (run_dir_.empty() || job_.empty()) return false;
    const Follower follower = read_follower(run_dir_);
    return std::find(follower.behind.begin(), follower.behind.end(), job_) != follower.behind.end();
  }
  std::int64_t left_ms() const { return cost_.left_ms(followed(), clock_.monotonic_ns()); }

  void return_nodes() {
    if (job_.empty() || cost_.nodes() < 2 || tried_to_return_) return;
    tried_to_return_ = true;
    const Status given = give_back(job_, node_, attempt_.attempt_dir);
    if (!given.ok()) return log_.warn("event=nodes_not_given_back error='" + given.error().message() + "'");
    const std::int64_t now = clock_.monotonic_ns();
    held_.gave_back_s = cost_.held_s(now);
    log_.info(format("event=nodes_given_back nodes={} after={:.1f}s", cost_.nodes() - 1, held_.gave_back_s));
    cost_.gave_back(1, now);
  }

  void report_held() {
    const std::int64_t now = clock_.monotonic_ns();
    held_.held_s = cost_.held_s(now);
    held_.gpu_minutes = cost_.gpu_minutes(now);
    EventWriter(clock_, attempt_.events_path(), -1).write(allocation_held_event_kind, allocation_held_to_value(held_));
    const std::string event = format("event=allocation_held held_s={:.1f} gpu_minutes={:.2f} left={}", held_.held_s,
                                     held_.gpu_minutes, held_.left);
    if (held_.left == "alone")
      log_.warn(event + " next='nobody goes on with the run: longhaul tick " + run_dir_ + " --until-quiet'");
    else
      log_.info(event);
  }

  const Attempt& attempt_;
  std::string job_, node_, run_dir_;
  NextRound& rounds_;
  Clock& clock_;
  Logger& log_;
  HeldCost cost_;
  AllocationHeld held_;
  bool tried_to_return_ = false;
};

}  // namespace

HeldCost::HeldCost(int nodes, int gpus_per_node, std::int64_t since_ns)
    : nodes_(std::max(1, nodes)),
      gpus_per_node_(std::max(1, gpus_per_node)),
      gpus_(nodes_ * gpus_per_node_),
      since_ns_(since_ns),
      counted_ns_(since_ns) {}

double HeldCost::gpu_minutes(std::int64_t now_ns) const {
  return spent_gpu_minutes_ + gpus_ * static_cast<double>(now_ns - counted_ns_) / 60e9;
}

void HeldCost::gave_back(int nodes_left, std::int64_t now_ns) {
  spent_gpu_minutes_ = gpu_minutes(now_ns);
  counted_ns_ = now_ns;
  nodes_ = nodes_left;
  gpus_ = nodes_ * gpus_per_node_;
  at_least_until_ns_ = now_ns + after_give_back_ms * 1'000'000;
}

std::int64_t HeldCost::left_ms(bool followed, std::int64_t now_ns) const {
  const std::int64_t held_ms = (now_ns - since_ns_) / 1'000'000;
  const double by_cost = (held_gpu_minutes_max - gpu_minutes(now_ns)) * 60'000 / gpus_;
  const std::int64_t by_time = (followed ? held_followed_ms_max : held_ms_max) - held_ms;
  const std::int64_t at_least = followed ? 0 : (at_least_until_ns_ - now_ns) / 1'000'000;
  return std::max({std::int64_t{0}, at_least, std::min(by_time, static_cast<std::int64_t>(by_cost))});
}

std::vector<std::string> give_back_arguments(const std::string& job, const std::string& node) {
  return {"scontrol", "update", "JobId=" + job, node.empty() ? "NumNodes=1" : "NodeList=" + node};
}

void make_last_rounds(const Attempt& attempt, const JobRecord& record, bool written, const HeldNodes& nodes,
                      NextRound& rounds, Clock& clock, Logger& log) {
  if (attempt.at_end.empty()) return;
  LastRounds(attempt, nodes, rounds, clock, log).make(record, written);
}

}  // namespace longhaul
