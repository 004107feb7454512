// What a stage has saved, as files: for a controller that asks whether a job got further, and for runs that go on from
// the checkpoints of another one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error/result.h"
#include "contracts/records/record.h"
#include "orchestrator/state/run_ledger.h"
#include "resiliency/saved_progress.h"

namespace longhaul {

std::string checkpoints_folder(const std::string& run_dir, const std::string& stage);
// Of the whole ones in such a folder, ascending; none where there is no such folder. Errors: it cannot be known.
Result<std::vector<std::int64_t>> checkpoint_steps(const std::string& folder);
// A digest of names, sizes and times below a stage's state folder: two that differ say that something has changed
// there. "" for an empty folder or none. For programs that are not ours; checkpoint_steps() says what ours save.
Result<std::string> digest_saved_state(const std::string& state_dir);
// What a stage keeps when its job has ended: of which checkpoint its record speaks, else the newest whole one that lies
// there. `own_program`: the engine.
Result<SavedState> observe_saved(const std::string& run_dir, const std::string& stage,
                                 const std::optional<JobRecord>& record, bool own_program);
// Below which an attempt must not begin: the newest whole checkpoint as the ledger has it from the attempt before,
// which may be earlier than the furthest ever; of the first one what lies there. 0: nothing. Of one that is queued
// while another runs nothing is said: its lead reads that one's record (worker/lead/recovery/saved_before.h).
Result<std::int64_t> at_least_step(const std::string& run_dir, const LedgerStage& stage, const LedgerAttempt& attempt);
// Hard links cost nothing and survive the removal of what they were made from; a copy where they cannot be made.
Status link_tree(const std::string& from, const std::string& to);
Status link_file(const std::string& source, const std::string& target);

}  // namespace longhaul
