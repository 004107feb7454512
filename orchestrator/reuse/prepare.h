// Room orchestrator/reuse
// From a stage whose inputs are there to its task and key, and whether an earlier run has done it already.
// prepare.h digests inputs and makes the task; reuse_outline.h asks the same for `plan`, writing nothing.
// earlier_runs.h, stage_change.h and stage_reason.h say in a sentence why a stage runs again.
// It knows no job: how a stage is run has no part in whether it must run.
//
// From a planned stage whose needs are met to the task that the engine gets: inputs chosen and digested, key computed.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "contracts/tasks/task.h"
#include "orchestrator/decide/decide.h"
#include "orchestrator/decide/input_files.h"
#include "orchestrator/runs/artifact_index.h"

namespace longhaul {

// A digest of files that no path takes part in: sorted names below each given folder (the bare name for a file), sizes,
// and contents. Contents are digested whole up to 16 MiB a file and 256 MiB an input; larger files, and those after the
// budget is used up, count by size, time of change, and their first and last 64 KiB.
// `files`: gets each of them with a digest of its own.
// `read`: called after each file with the number of those read so far, for who waits.
using FilesRead = std::function<void(std::size_t files)>;
Result<std::string> digest_raw_input(const std::vector<std::string>& paths, InputFiles* files = nullptr,
                                     const FilesRead& read = {});

// `cores`: of the machine, shared by the ranks where the stage does not say how many threads it wants.
Task make_task(const PlannedStage& planned, const std::string& run_name, const LedgerStage& stage, int cores);

// What is left of the stage's own time limit for the newest attempt, in seconds; 0: no limit.
double time_left_s(const PlannedStage& planned, const LedgerStage& stage);

// Chooses sources, digests raw inputs, computes the key and looks for an artifact of that key. `deploy` is never taken
// from an earlier run: what it makes is a running server, not files.
PreparedStage prepare_stage(const PlannedStage& planned, const RunLedger& ledger, const std::string& artifact_root,
                            const ArtifactTrust& trust = artifact_trust(""), const FilesRead& read = {});

}  // namespace longhaul
