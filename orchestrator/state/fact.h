// One line of an epoch log: something that was seen, intended or done. Everything that a controller knows is folded
// from these; nothing else is remembered between two ticks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/value/value.h"

namespace longhaul {

// Written by name. Intents come before what they announce, outcomes after it; the rest are observations and decisions
// that need no act.
enum class FactKind {
  epoch,    // first line of a log: who drives                     host, pid, start_ticks, monotonic_ms; uid: the file's
            // owner
  adopted,  // how much of earlier logs this epoch believes        lengths = {"<epoch>": bytes}, since: of those
            // before that epoch what its own `adopted` says; without it, nothing of those that are not named
  request,  // a request was read and decided                      id, what, uid (its file's owner), answer, accepted
  ready,    // inputs are there                                    key, inputs = [{name, paths, stage, digest}], layout,
            // why: it is not taken from an earlier run
  cached,   // an artifact of the same key exists                  artifact, digest, figures, owner_uid
  submit,   // intent: this attempt with this key                  key, array, task, exclude, used_all_the_same, wall_s
  submit_next,  // intent: its successor, queued while it runs         key, after, exclude, wall_s
  submitted,    // outcome: the scheduler has it                       job; instead_of, where another one was adopted
  refused,      // outcome: the scheduler will not have it             cause
  started,      // the lead claimed it                                 started_ms, nodes
  requeued,     // the scheduler queued the same job again             restarts, cause
  release_job,  // intent: let a held job start
  released,     // outcome
  succeeded,    // record and artifact agree                           artifact, digest, figures, started_ms, ended_ms
  retry,        // ended badly, another attempt follows                fault, cause, reason, saved_step, progress, node
  go_on,        // ended, and its successor is there already           fault, cause, reason, saved_step, progress, node
  failed,       // ended badly for good                                fault, cause, reason, saved_step
  cancel_job,   // intent: end this attempt                            cause, given_up
  cancel_sent,  // outcome
  cancelled,    //                                                     cause
  skipped,      // will not run                                        cause
  reset,        // by a resume: as if it had never been tried
  run_ended,    //                                                     state
  order_ended,  // what became of an order to a stage                id, done, text
  milestone,    // a training published one, whatever becomes of it    step, artifact, digest, figures
  lift_exclusions,    // intent: a waiting job may use these hosts     exclude, used_all_the_same, why
  exclusions_lifted,  // outcome
  noticed,            // about the scheduler, once in a run          id, text
  held_up,            // refused for now, or waits for what does not come by itself     cause, by, advice
  left,               // no call of this driver is under way and it makes no more, though intents have no outcome
  kept,               // all that is believed of earlier epochs lies  file, digest, facts
  count
};
const char* to_string(FactKind kind);

struct Fact {
  FactKind kind = FactKind::count;
  std::string stage;  // id, "" for facts of the run
  int attempt = 0;
  Value fields;  // table or null
  std::int64_t wall_ms = 0;

  std::string text(std::string_view field) const { return fields.get_string(field); }
};

std::string fact_line(const Fact& fact);  // JSON with the newline
Result<Fact> parse_fact(std::string_view line);

}  // namespace longhaul
