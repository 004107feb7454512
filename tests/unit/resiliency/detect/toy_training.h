// A training of ranks on three axes, small enough to run hundreds of: what its pages say when one rank stops. Ranks
// compute, reduce over tp after every layer, pass activations along pp, sum over dp and agree in the world; time goes
// in ticks, and faults are injected from outside.
#pragma once

#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/text/text.h"
#include "resiliency/detect/hang/rank_observation.h"

namespace longhaul::toy {

enum class Fault { stuck, stuck_inside, stopped, ended, blocked, host_silent };
inline const char* to_string(Fault fault) {
  switch (fault) {
    case Fault::stuck: return "stuck beside collectives";
    case Fault::stuck_inside: return "stuck inside a collective";
    case Fault::stopped: return "process stopped";
    case Fault::ended: return "process ended";
    case Fault::blocked: return "blocked in the kernel";
    case Fault::host_silent: return "host silent";
  }
  return "";
}

struct Layout {
  int tp = 1, pp = 1, dp = 1, ranks_per_host = 1, micro_batches = 2, layers = 2;
  bool overlap = false;     // the sum over dp is started before the last computation
  bool rendezvous = false;  // a message is away only when its receiver has taken it
  bool reports_waits = true;
  int world() const { return tp * pp * dp; }
  int hosts() const { return (world() + ranks_per_host - 1) / ranks_per_host; }
  std::string text() const {
    return format("tp={} pp={} dp={} on {} hosts{}{}", tp, pp, dp, hosts(), overlap ? ", overlap" : "",
                  rendezvous ? ", rendezvous" : "");
  }
};

class Training {
 public:
  static constexpr int tick_ms = 10;

  Training(const Layout& layout, std::uint64_t seed)
      : layout_(layout), random_(seed), ranks_(static_cast<std::size_t>(layout.world())) {
    for (int r = 0; r < layout.world(); ++r) {
      const int t = r % layout.tp, d = r / layout.tp % layout.dp, p = r / layout.tp / layout.dp;
      Rank& rank = ranks_[static_cast<std::size_t>(r)];
      rank.groups[tp] = r - t, rank.groups[dp] = t + layout.tp * layout.dp * p, rank.groups[pp] = t + layout.tp * d;
      rank.groups[world] = 0;
      rank.beat.rank = r, rank.beat.section = "load";
      const char* const names[] = {"tp", "pp", "dp"};
      for (int axis = 0; axis < 3; ++axis)
        rank.beat.communicators.push_back({format("{}@{}", names[axis], rank.groups[axis]), 0, 0});
      rank.beat.communicators.push_back({"world", 0, 0});
      if (layout.reports_waits) rank.beat.waits_in = beat_waits_nowhere;
    }
    reports_.resize(static_cast<std::size_t>(layout.hosts()));
  }

  // The rank stops where it is once it has done so many operations of that step; a silent host takes all its ranks.
  void inject(Fault fault, int rank, int step, int operation) {
    fault_ = fault, victim_ = rank, fault_step_ = step, fault_operation_ = operation;
  }
  // What is saved waits for its file system: from the first checkpoint at or after that step on all ranks that save
  // stand for so long, blocked in the kernel, and then go on.
  void stand_still(int step, std::int64_t ms) { stall_step_ = step, stall_ms_ = ms; }
  bool has_stood_still() const { return stall_begun_ms_ >= 0 && now_ms_ >= stall_begun_ms_ + stall_ms_; }
  bool injected() const { return injected_; }
  std::int64_t now_ms() const { return now_ms_; }
  std::int64_t injected_ms() const { return injected_ms_; }
  int steps() const { return ranks_[0].step; }
  std::string host_of(int rank) const { return format("n{}", rank / layout_.ranks_per_host); }

  void tick() {
    now_ms_ += tick_ms;
    for (int round = 0; round < 2; ++round)
      for (int r = 0; r < layout_.world(); ++r) advance(r, round == 0 ? tick_ms : 0);
  }

  // What a lead knows: each host's pages as of its last report, which is up to 100 ms old.
  std::vector<RankObservation> look() {
    std::vector<RankObservation> all;
    for (int h = 0; h < layout_.hosts(); ++h) {
      Report& report = reports_[static_cast<std::size_t>(h)];
      const bool dead = injected_ && fault_ == Fault::host_silent && victim_ / layout_.ranks_per_host == h;
      if (!dead && (report.at_ms == 0 || now_ms_ - report.at_ms >= 100 || random_() % 2 == 0)) report_of(h, report);
      for (RankObservation seen : report.ranks) {
        seen.silent_ms = now_ms_ - report.at_ms;
        all.push_back(std::move(seen));
      }
    }
    return all;
  }

 private:
  enum Axis { tp = 0, pp = 1, dp = 2, world = 3 };
  enum class Kind { compute, enter, collective, start, finish, send, receive };
  struct Operation {
    Kind kind;
    int axis = 0, peer = 0;
    const char* section = "";
    int ms = 0;
  };
  struct Rank {
    std::map<int, int> groups;  // axis -> lowest rank of its group
    std::vector<Operation> operations;
    std::size_t at = 0;
    int step = -1, left_ms = 0;
    bool begun = false, frozen = false;
    std::uint64_t target = 0;     // of the collective under way
    std::uint64_t given[4] = {};  // collectives whose data the others have got
    std::int64_t changed_ms = 0;
    BeatSnapshot beat;
  };
  struct Report {
    std::int64_t at_ms = 0;
    std::vector<RankObservation> ranks;
  };

  int below(int bound) { return static_cast<int>(random_() % static_cast<std::uint64_t>(bound)); }
  int stage(int r) const { return r / layout_.tp / layout_.dp; }
  int stride() const { return layout_.tp * layout_.dp; }

  void plan(int r) {
    Rank& rank = ranks_[static_cast<std::size_t>(r)];
    rank.operations.clear();
    rank.at = 0;
    auto& ops = rank.operations;
    const auto layers = [&] {
      for (int layer = 0; layer < layout_.layers; ++layer) {
        ops.push_back({Kind::compute, 0, 0, "", 10 + below(20)});
        if (layout_.tp > 1) ops.push_back({Kind::collective, tp});
      }
    };
    const int before = stage(r) > 0 ? r - stride() : -1, after = stage(r) + 1 < layout_.pp ? r + stride() : -1;
    for (int pass = 0; pass < 2; ++pass)
      for (int m = 0; m < layout_.micro_batches; ++m) {
        const int from = pass == 0 ? before : after, to = pass == 0 ? after : before;
        ops.push_back({Kind::enter, 0, 0, "micro_batch"});
        if (from >= 0) ops.push_back({Kind::receive, pp, from});
        layers();
        if (to >= 0) ops.push_back({Kind::send, pp, to});
      }
    if (layout_.dp > 1 && layout_.overlap) {
      ops.push_back({Kind::start, dp});
      ops.push_back({Kind::compute, 0, 0, "", 20});
      ops.push_back({Kind::finish, dp});
    } else if (layout_.dp > 1) {
      ops.push_back({Kind::collective, dp});
    }
    ops.push_back({Kind::compute, 0, 0, "", 10});
    if (rank.step % 3 == 2) {  // the first rank writes longer than the others
      ops.push_back({Kind::enter, 0, 0, "checkpoint"});
      ops.push_back({Kind::compute, 0, 0, "", r == 0 ? 300 : 100});
    }
    ops.push_back({Kind::collective, world});
  }

  void touch(Rank& rank) { rank.changed_ms = now_ms_; }
  bool waits_for_files(const Rank& rank) {
    if (stall_ms_ == 0 || rank.beat.section != "checkpoint" || rank.at + 2 != rank.operations.size()) return false;
    if (stall_begun_ms_ < 0 && rank.step >= stall_step_) stall_begun_ms_ = now_ms_;
    return stall_begun_ms_ >= 0 && !has_stood_still();
  }
  void wait_in(Rank& rank, int axis, int peer) {
    if (!layout_.reports_waits) return;
    rank.beat.waits_in = axis, rank.beat.waits_for = peer;
    if (axis >= 0) ++rank.beat.polls;
  }

  bool all_gave(int axis, int lowest, std::uint64_t target) {
    for (const Rank& other : ranks_)
      if (other.groups.at(axis) == lowest && other.given[axis] < target) return false;
    return true;
  }

  void start_collective(Rank& rank, int axis) {
    rank.target = ++rank.beat.communicators[static_cast<std::size_t>(axis)].enqueued;
    // One that gets stuck inside has begun, but what it owes the others is not sent.
    if (!(fault_ == Fault::stuck_inside && due(rank))) ++rank.given[axis];
  }
  bool finish_collective(Rank& rank, int axis) {
    wait_in(rank, axis, -1);
    if (fault_ == Fault::stuck_inside && due(rank)) {
      freeze(rank);
      return false;
    }
    if (!all_gave(axis, rank.groups[axis], rank.target)) return false;
    ++rank.beat.communicators[static_cast<std::size_t>(axis)].completed;
    wait_in(rank, -1, -1);
    return true;
  }

  bool due(const Rank& rank) const {
    const bool now = rank.step == fault_step_ && static_cast<int>(rank.at) >= fault_operation_;
    return rank.beat.rank == victim_ && (now || rank.step > fault_step_);
  }
  void freeze(Rank& rank) {
    rank.frozen = true;
    if (!injected_) injected_ms_ = now_ms_;
    injected_ = true;
    if (fault_ != Fault::host_silent) return;
    for (Rank& other : ranks_)
      if (host_of(other.beat.rank) == host_of(victim_)) other.frozen = true;
  }

  bool run(Rank& rank, const Operation& op, int& budget_ms) {
    const bool first = !std::exchange(rank.begun, true);
    switch (op.kind) {
      case Kind::enter:
        rank.beat.section = op.section;
        touch(rank);
        return true;
      case Kind::compute: {
        if (first) rank.left_ms = op.ms;
        const int used = std::min(budget_ms, rank.left_ms);
        rank.left_ms -= used, budget_ms -= used;
        return rank.left_ms == 0;
      }
      case Kind::start: start_collective(rank, op.axis); return true;
      case Kind::collective:
        if (first) start_collective(rank, op.axis);
        return finish_collective(rank, op.axis);
      case Kind::finish: return finish_collective(rank, op.axis);
      case Kind::send: {
        auto& [sent, taken] = mail_[{rank.beat.rank, op.peer}];
        if (first) ++sent;
        const bool done = !layout_.rendezvous || taken == sent;
        wait_in(rank, done ? -1 : op.axis, done ? -1 : op.peer);
        return done;
      }
      case Kind::receive: {
        auto& [sent, taken] = mail_[{op.peer, rank.beat.rank}];
        const bool done = sent > taken;
        if (done) ++taken;
        wait_in(rank, done ? -1 : op.axis, done ? -1 : op.peer);
        return done;
      }
    }
    return true;
  }

  void advance(int r, int budget_ms) {
    Rank& rank = ranks_[static_cast<std::size_t>(r)];
    while (!rank.frozen) {
      if (rank.at == rank.operations.size()) {
        rank.beat.step = ++rank.step;
        touch(rank);
        plan(r);
      }
      const Operation& op = rank.operations[rank.at];
      const bool inside = fault_ == Fault::stuck_inside;
      if (due(rank) && !inside) return freeze(rank);
      if (waits_for_files(rank)) return;
      if (!run(rank, op, budget_ms)) return;
      rank.begun = false;
      ++rank.at;
    }
  }

  void report_of(int host, Report& report) {
    report.at_ms = now_ms_;
    report.ranks.clear();
    for (int r = host * layout_.ranks_per_host; r < std::min((host + 1) * layout_.ranks_per_host, layout_.world());
         ++r) {
      const Rank& rank = ranks_[static_cast<std::size_t>(r)];
      RankObservation seen;
      seen.rank = r, seen.host = host_of(r), seen.seen = true;
      seen.process = ProcessState::running;
      if (rank.frozen && fault_ == Fault::stopped) seen.process = ProcessState::stopped;
      if (rank.frozen && fault_ == Fault::ended) seen.process = ProcessState::ended;
      if ((rank.frozen && fault_ == Fault::blocked) || waits_for_files(rank)) seen.process = ProcessState::blocked;
      seen.beat = rank.beat;
      seen.idle_ms = now_ms_ - rank.changed_ms;
      report.ranks.push_back(std::move(seen));
    }
  }

  Layout layout_;
  std::mt19937_64 random_;
  std::vector<Rank> ranks_;
  std::map<std::pair<int, int>, std::pair<int, int>> mail_;  // (from, to) -> sent, taken
  std::vector<Report> reports_;
  std::int64_t now_ms_ = 0, injected_ms_ = 0;
  Fault fault_ = Fault::stuck;
  int victim_ = -1, fault_step_ = 0, fault_operation_ = 0;
  int stall_step_ = 0;
  std::int64_t stall_ms_ = 0, stall_begun_ms_ = -1;
  bool injected_ = false;
};

}  // namespace longhaul::toy
