// Room orchestrator/runs
// Runs on disk: created, found, forked, deleted, and the artifacts that they share.
// run.h creates and finds; artifact_index.h finds artifacts by key and checks whose they are.
// garbage.h and trash.h delete; purge.h knows what a site itself removes in time; fork.h
// starts from a checkpoint; request_files.h reads what people ask.
// It submits nothing: jobs and rounds are above it.
//
// A run on disk: creating it, finding it, asking something of it. See docs/architecture.md, section 4.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/files/folder_access.h"
#include "base/system/clock.h"
#include "orchestrator/state/run_folder.h"
#include "orchestrator/workflow/source/run_plan.h"

namespace longhaul {

// In a run's folder: the constants of the time model as they were when it was made.
inline constexpr const char* constants_file_name = "constants.toml";
// And what had been measured at the site by then (measured_trainings.h).
inline constexpr const char* measured_file_name = "measured.json";

struct RunOrigin {
  std::string workflow_text;        // frozen as workflow.toml
  std::string workflow_path;        // where it came from, for the record
  std::string site_text;            // frozen as site.toml
  std::string constants_text = {};  // of the time model, frozen as constants.toml; "": tune stages cannot search
  std::string measured_text = {};   // frozen as measured.json; "": nothing was measured before
  std::string artifact_root;        // published artifacts of all runs of a project are found through it
  std::vector<std::string> environment = {};  // of its jobs (state/submit_environment.h); empty: of whoever submits
  std::string programs_dir;  // longhaul, longhaul-worker, longhaul-engine; the run gets copies of its own
  std::string driver = "here";
  std::string software;  // "longhaul 0.1.0 (git 1a2b3c4)"
  FolderAccess access;   // who else may read or change the run
  // Of a run below another one: its folder below runs_dir, its name, and the run that drives it. ErrorCode::conflict
  // where that folder exists already. "": a name is made.
  std::string folder_name, name, parent;
  bool jobs_alone = false;  // of FrozenRun
  // Adds to the run before it appears: `beside` is where it is made, `folder` where it will be. May change the plan.
  std::function<Status(const std::string& beside, const std::string& folder, FrozenRun&)> add = {};
};

// What a site's values (of its file, or frozen as site.toml) say of access to runs.
FolderAccess access_of(const Value& site);

// Creates runs_dir/<name>-<yyyymmdd-hhmmss>-<4 hex>/ whole (built beside, renamed) and returns its path.
Result<std::string> create_run(const std::string& runs_dir, const RunPlan& plan, const RunOrigin& origin,
                               const Clock& clock);

// A run by path, by full name or by a unique prefix below runs_dir; "" or "latest": the newest of this process's user,
// for anybody may give a folder any name. Where a prefix fits runs of several users, the user's own are meant. Errors
// list what is there.
Result<std::string> find_run(const std::string& runs_dir, const std::string& name);
Result<std::vector<std::string>> list_runs(const std::string& runs_dir);      // paths, oldest first
Result<std::vector<std::string>> list_own_runs(const std::string& runs_dir);  // those of this process's user
bool is_own(const std::string& path);  // what has this path, itself if it is a link, is of this process's user

// Leaves a request (`cancel`, `resume`, `tell`) for the controller: one file in requests/, created exclusively. Returns
// its name, which is its id in the log. Who asks is whoever owns the file (request_files.h): it does not say so itself.
Result<std::string> request(const std::string& run_dir, const std::string& what, const Value& arguments,
                            const Clock& clock);

}  // namespace longhaul
