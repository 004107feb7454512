// Room resiliency/goodput
// Where the time of a training went: every millisecond in exactly one class.
// goodput_ledger.h folds facts, fault_costs.h says what each fault cost; goodput_events.h takes them from events.jsonl.
// It does not know who asks: status, report, lead and simulator use the same ledger.
//
// Where the time of a training went: every millisecond of it belongs to exactly one class. Pure: folded from facts,
// each with its time; the simulator feeds the same ledger.
//
// Between two facts time belongs to what was going on, except for what the later one says about its past: a fault that
// was noticed late, a checkpoint that was loaded, a save that held the training up. Such a part is cut from the end of
// the stretch before its fact, and never more than that stretch has, so the classes always add up to the whole.
//
// A step counts as training when it is done for the first time, and as recomputation when it was done before; of a
// stretch with both, by their share of its steps. The step that a fault cut short counts as training: at most one per
// fault. Effective training time is training / total, as in "The Llama 3 herd of models" (2024), section 3.3.4, and
// MegaScale (NSDI'24), section 6.3: useful time over elapsed time.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "resiliency/goodput/fault_costs.h"

namespace longhaul {

struct GoodputFact {
  enum class Kind {
    submitted,    // a job is asked for; nothing if one is running
    job_started,  // its lead is there
    launched,     // ranks are being started
    preparing,    // they have started, and compute what the first step needs
    ready,        // loaded, about to take step + 1; the last `part_ms` were the loading
    step,         // `step` is done
    stalled,      // a save held the training up for part_ms
    fault,        // verdict; part_ms ago it happened; step: the newest done, -1 if not known
    stopped,      // saved as it was asked to, after `step`: its ranks end
    ranks_ended,  //
    job_ended,    //
  };
  std::int64_t at_ms = 0;
  Kind kind = Kind::step;
  std::int64_t step = -1;
  std::int64_t part_ms = 0;
  // Of a fault:
  std::string fault, tier;
  bool processes_stay = false;   // skip and in-process: no ranks_ended follows
  bool goes_on = false;          // a step was left out, and nothing was interrupted
  bool waits_for_cores = false;  // of submitted: to this machine, not to the queue of a cluster
};

class GoodputLedger {
 public:
  explicit GoodputLedger(std::int64_t begin_ms, bool keep_faults = true);

  // In the order of their times; one that lies before the fact before it counts as of that time.
  void add(const GoodputFact& fact);
  // What is still going on lasts until then; more facts may follow.
  void advance_to(std::int64_t at_ms);

  std::int64_t ms(TimeClass time) const { return ms_[static_cast<std::size_t>(time)]; }
  std::int64_t total_ms() const { return at_ms_ - begin_ms_; }
  double share(TimeClass time) const;
  double effective() const { return share(TimeClass::training); }  // 0 where no time has passed
  bool trained() const { return trained_; }                        // a step was ever done
  std::int64_t faults() const { return costs_.faults(); }
  std::int64_t lost_steps() const { return costs_.lost_steps(); }
  const std::vector<FaultCost>& costs() const { return costs_.each(); }  // empty without keep_faults

 private:
  void put(TimeClass time, std::int64_t ms);
  // Time from now to `at_ms`, of which the last `part_ms` are of class `part`.
  void close(std::int64_t at_ms, TimeClass part, std::int64_t part_ms);
  // Work from now to `at_ms`, in which the steps up to `step` were done.
  void work_until(std::int64_t at_ms, std::int64_t step);
  void begin_fault(const GoodputFact& fact);
  void begin_work(std::int64_t step);

  std::int64_t begin_ms_, at_ms_;
  bool working_ = false, trained_ = false;
  bool successor_ = false;                // the next job is in the queue already
  TimeClass now_ = TimeClass::idle;       // while not working
  TimeClass waiting_ = TimeClass::queue;  // what the newest submission waits for
  std::int64_t step_ = 0;                 // newest done by this launch
  std::int64_t furthest_ = 0;             // newest ever done
  std::int64_t owed_stall_ms_ = 0;        // reported for a save whose stretch had been closed already
  std::array<std::int64_t, time_classes> ms_{};
  FaultCosts costs_;
};

}  // namespace longhaul
