// Room contracts/events
// The lines of events.jsonl: append-only facts of one attempt, written by rank 0 and by the lead.
// Start with event.h (all kinds of events); each other header is one kind with its fields.
// It does not know the fault classes whose names it carries: those are resiliency/taxonomy, which lies above.
//
// events.jsonl: append-only facts of one attempt, one JSON object a line, written by rank 0 of the engine (or by a
// `command` through its heartbeat) and by the lead. Readers skip a torn last line and kinds that they do not know.
//
//   progress     done, total, unit, rate (units/s), eta_s        long work shows progress
//   metric       step, and any of loss, lr, grad_norm, tokens_per_s, ...
//   figure       name, value, unit                               a key figure of the stage; the last one of a name
//   counts
//   preparing    what                                            before ready: what is computed for the first step
//   ready        step, load_s                                    loaded in load_s; step + 1 begins
//   checkpoint   step, path, bytes, stall_s, write_s, asynchronous, direct_io and perhaps waited_s: whole; the training
//   stood still for stall_s, of it waited_s for the one before; write_s is the first rank's shard
//   local_copy   step, path, stall_s, write_s                    a copy on the nodes, whole on all ranks
//   low_precision    step, low_precision_layers, products (fp8 or emulated), layers: what each layer's arithmetic was
//   measured to lose, and the verdict (docs/precision.md)
//   kernels      step, compute_s, communication_s, longest: of the first rank's GPU since the last such event
//   milestone    step, path, bytes, stall_s                      published while the training goes on
//   sample       prompt, text                                    a text that the report shows
//   message      level, text       (spike, phase: of a training, for people: docs/workflows.md)
//   endpoint     url, token_file, pid                            a server that was left running
//   faulted      code, what                                     by the rank: a fault that it survived; it waits for an
//   order
//   ready        step, load_s, from, epoch                       ranks go on from that step after a fault
//   launched / ranks_ended / published                           by the lead
//   taken_over       launch, epoch, host                          by a lead that has followed another
//   hang_suspected   launch, rank_of, section, idle_s, text      by the lead: nobody was ended for it
//   health           host, class, severity, scope, device, what, xid, ...: by the lead: something is wrong with a node
//   preflight        waited_s, left, unfit, slow, not_looked_at, figures: by the lead, before its first launch
//   allocation_held  held_s, gpu_minutes, gpus, gave_back_s, left: by the lead, its last:
//   contracts/records/held_allocation.h injected         fault, rank, host, step, launch, means, id     by the lead: a
//   fault of a test, before it happens fault / recovered                                            by the lead:
//   contracts/events/fault_event.h
#pragma once

#include <string>
#include <vector>

#include "base/system/clock.h"
#include "base/value/value.h"

namespace longhaul {

struct Event {
  std::int64_t wall_ms = 0;
  std::string kind;
  int rank = 0;
  Value fields;  // table
};
std::string event_line(const Event& event);  // with the newline
Result<Event> parse_event(std::string_view line);

// Appends events to one file; one writer per process, lines are short enough to be written whole. On a full disk one
// may be cut off: the next begins a line of its own, so that no more than one is lost. Not synced: a lost tail of
// progress costs nothing. Cheap no-op when the path is empty.
class EventWriter {
 public:
  EventWriter(const Clock& clock, const std::string& path, int rank);
  ~EventWriter();
  EventWriter(const EventWriter&) = delete;
  EventWriter& operator=(const EventWriter&) = delete;

  void write(const std::string& kind, Value fields);
  // At most one line per 200 ms, and always the last (done == total).
  void progress(double done, double total, const std::string& unit, double rate_per_s = 0);
  void figure(const std::string& name, double value, const std::string& unit = {});
  void message(const std::string& level, const std::string& text);

 private:
  const Clock& clock_;
  int fd_ = -1;
  int rank_;
  bool torn_ = false;  // the last line was cut off
  std::int64_t last_progress_ns_ = 0;
  std::int64_t started_ns_ = 0;
};

// A file may be hundreds of megabytes long: a lead that takes over a job of weeks has no room and no time for all of
// its events at once.
struct EventPiece {
  std::vector<Event> events;
  std::uint64_t bytes_read = 0;  // from the file
  bool more = false;             // whole lines may follow
};
// Whole lines from byte `offset` on, of about `bytes_max` bytes; moves `offset` behind the last of them. A line that is
// longer than that is read whole. What does not parse is left out. A file that is not there has no events yet.
Result<EventPiece> read_event_piece(const std::string& path, std::uint64_t& offset, std::size_t bytes_max);
// The same of the whole rest of the file.
Result<std::vector<Event>> read_events(const std::string& path, std::uint64_t& offset);

}  // namespace longhaul
