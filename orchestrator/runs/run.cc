#include "orchestrator/runs/run.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>

#include "base/digest/hash.h"
#include "base/files/file_query.h"
#include "base/files/files.h"
#include "base/process/process.h"
#include "base/text/text.h"
#include "base/toml.h"
#include "base/value/json.h"
#include "contracts/settings/job/resumable.h"
#include "orchestrator/runs/saved_state.h"
#include "orchestrator/runs/striping.h"
#include "orchestrator/state/access/submit_environment.h"
#include "orchestrator/state/run_folder.h"

namespace longhaul {
namespace {

constexpr std::size_t stamp_length = 20;  // "20260302-041109-1a2b"

// Yes also where the file system gives an error: a run that is passed over has its artifacts taken for garbage, one
// that cannot be read is reported. What is closed to us is no run of ours.
bool is_run(const std::string& folder) {
  struct stat info{};
  if (::lstat(join_path(folder, "resolved.toml").c_str(), &info) == 0) return true;
  return errno != ENOENT && errno != ENOTDIR && errno != EACCES;
}

// A hard link keeps the program's bytes for the run although its name is replaced later; across file systems, or where
// links to others' files are forbidden, a copy does.
Status bring_program(const std::string& from, const std::string& to) {
  if (::link(from.c_str(), to.c_str()) == 0) return {};
  LH_TRY(const MappedFile program, MappedFile::open(from));  // not std::filesystem: it calls a full disk an I/O error
  return write_file_atomic(to, program.view(), 0755);
}

// What a package's programs load lies at ../lib/longhaul from them (scripts/package), so it does for the run's own
// ones.
Status bring_libraries(const std::string& from, const std::string& to) {
  LH_CHECK(make_directories(to));
  LH_TRY(const std::vector<std::string> names, list_directory(from));
  for (const std::string& name : names) {
    const std::string source = join_path(from, name), target = join_path(to, name);
    LH_CHECK(is_directory(source) ? bring_libraries(source, target) : bring_program(source, target));
  }
  return {};
}

Status bring_programs(const RunPlan& plan, const std::string& from, const std::string& to) {
  LH_CHECK(make_directories(to));
  const bool engine_needed =
      std::any_of(plan.stages.begin(), plan.stages.end(), [](const PlannedStage& s) { return s.kind != "command"; });
  const std::map<std::string, bool> programs = {{"longhaul", false},
                                                {"longhaul-slurm", false},
                                                {"longhaul-worker", true},
                                                {"longhaul-rank", false},
                                                {"longhaul-engine", engine_needed}};
  for (const auto& [name, needed] : programs) {
    const std::string path = join_path(from, name);
    LH_TRY(const bool there, is_there(path));
    if (there)
      LH_CHECK(bring_program(path, join_path(to, name)));
    else if (needed)
      return make_error(ErrorCode::not_found, "no program " + path, "build or install " + name + " beside longhaul");
  }
  const std::string libraries = join_path(parent_path(from), "lib/longhaul");
  if (is_directory(libraries)) return bring_libraries(libraries, join_path(parent_path(to), "lib/longhaul"));
  return {};
}

// Files of a folder lie as the folder says when they are made, so it has to say so before the first one.
Status stripe_checkpoints(const std::string& folder, const FrozenRun& frozen, const std::string& site_text) {
  if (site_text.empty()) return {};
  LH_TRY(const Value site, parse_toml(site_text, "site.toml"));
  const Striping striping = striping_of(site);
  if (!striping.asked()) return {};
  for (const PlannedStage& stage : frozen.plan.stages)
    if (trains(stage.kind)) LH_CHECK(stripe_folder(checkpoints_folder(folder, stage.id()), striping));
  return {};
}

Status fill_run(const std::string& folder, const FrozenRun& frozen, const RunOrigin& origin) {
  for (const char* name : {"log", "requests", "stages", "report"}) LH_CHECK(make_directories(join_path(folder, name)));
  LH_CHECK(stripe_checkpoints(folder, frozen, origin.site_text));
  LH_CHECK(bring_programs(frozen.plan, origin.programs_dir, join_path(folder, "bin")));
  LH_CHECK(write_file_atomic(join_path(folder, "workflow.toml"), origin.workflow_text));
  LH_CHECK(write_file_atomic(join_path(folder, "site.toml"), origin.site_text));
  if (!origin.constants_text.empty())
    LH_CHECK(write_file_atomic(join_path(folder, constants_file_name), origin.constants_text));
  if (!origin.measured_text.empty())
    LH_CHECK(write_file_atomic(join_path(folder, measured_file_name), origin.measured_text));
  if (!origin.environment.empty())
    LH_CHECK(write_file_atomic(join_path(folder, submit_environment_file), submit_environment_text(origin.environment),
                               0600));
  return write_file_atomic(join_path(folder, "resolved.toml"), frozen_run_text(frozen));
}

// Time and random part of a name, after which runs of any workflow sort by age.
std::string age_of(const std::string& name) {
  return name.size() > stamp_length ? name.substr(name.size() - stamp_length) : name;
}

std::int64_t changed_ns(const std::string& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) return 0;
  return static_cast<std::int64_t>(info.st_mtim.tv_sec) * 1'000'000'000 + info.st_mtim.tv_nsec;
}

}  // namespace

FolderAccess access_of(const Value& site) {
  return {site.get_string("group"), site.get_string("readers"), site.get_bool("private")};
}

Result<std::string> create_run(const std::string& runs_dir, const RunPlan& plan, const RunOrigin& origin,
                               const Clock& clock) {
  const std::string root = absolute_path(runs_dir);
  LH_CHECK(make_directories(root));
  FrozenRun frozen;
  frozen.plan = plan;
  frozen.artifact_root = origin.artifact_root.empty() ? "" : absolute_path(origin.artifact_root);
  frozen.software = origin.software;
  frozen.driver = origin.driver;
  frozen.workflow_path = origin.workflow_path;
  frozen.parent = origin.parent;
  frozen.jobs_alone = origin.jobs_alone;
  for (int tries = 0; tries < 10; ++tries) {
    frozen.created_ms = clock.wall_ms();
    LH_TRY(const std::string random, random_hex(2));
    frozen.name = origin.name.empty() ? format("{}-{}-{}", plan.workflow, compact_utc_text(frozen.created_ms), random)
                                      : origin.name;
    const std::string folder = join_path(root, origin.folder_name.empty() ? frozen.name : origin.folder_name);
    const std::string beside = join_path(root, format(".new-{}.{}", frozen.name, ::getpid()));
    FrozenRun filled = frozen;
    Status made = make_folder_with(beside, origin.access);  // before anything is put in
    if (made.ok() && origin.add) made = origin.add(beside, folder, filled);
    if (made.ok()) made = fill_run(beside, filled, origin);
    if (made.ok()) made = sync_tree(beside);
    if (made.ok()) made = publish_directory(beside, folder);
    if (made.ok()) return folder;
    (void)remove_tree(beside).ok();
    if (made.error().code != ErrorCode::conflict || !origin.folder_name.empty())
      return made.error().with_context("cannot create a run in " + root);
  }
  return make_error(ErrorCode::conflict, "cannot find a free name for a run in " + root);
}

Result<std::vector<std::string>> list_runs(const std::string& runs_dir) {
  const std::string root = absolute_path(runs_dir);
  const auto names = list_directory(root);
  if (!names.ok() && names.error().code == ErrorCode::not_found) return std::vector<std::string>{};
  if (!names.ok()) return names.error();
  struct Found {
    std::string second, path;
    std::int64_t ns;
  };
  std::vector<Found> found;
  for (const std::string& name : *names) {
    const std::string path = join_path(root, name);
    if (starts_with(name, ".") || !is_run(path)) continue;
    const std::string age = age_of(name);
    found.push_back({age.substr(0, age.rfind('-')), path, changed_ns(join_path(path, "resolved.toml"))});
  }
  std::sort(found.begin(), found.end(), [](const Found& a, const Found& b) {
    return std::tie(a.second, a.ns, a.path) < std::tie(b.second, b.ns, b.path);
  });
  std::vector<std::string> paths;
  for (Found& run : found) paths.push_back(std::move(run.path));
  return paths;
}

bool is_own(const std::string& path) {
  struct stat info{};
  return ::lstat(path.c_str(), &info) == 0 && info.st_uid == ::geteuid();
}

Result<std::vector<std::string>> list_own_runs(const std::string& runs_dir) {
  LH_TRY(std::vector<std::string> runs, list_runs(runs_dir));
  std::erase_if(runs, [](const std::string& run) { return !is_own(run); });
  return runs;
}

Result<std::string> find_run(const std::string& runs_dir, const std::string& name) {
  if (!name.empty() && name != "latest") {
    if (is_run(name)) return absolute_path(name);
    if (is_run(join_path(runs_dir, name))) return absolute_path(join_path(runs_dir, name));
  }
  LH_TRY(const auto runs, list_runs(runs_dir));
  if (runs.empty())
    return make_error(ErrorCode::not_found, "there are no runs in " + absolute_path(runs_dir),
                      "start one with `longhaul run WORKFLOW.toml`");
  std::vector<std::string> matches, own, all;
  for (const std::string& path : runs) {
    all.push_back(file_name(path));
    if (!name.empty() && name != "latest" && !starts_with(all.back(), name)) continue;
    matches.push_back(path);
    if (is_own(path)) own.push_back(path);
  }
  if (name.empty() || name == "latest") {
    if (!own.empty()) return own.back();
    return make_error(ErrorCode::not_found, "none of the runs in " + absolute_path(runs_dir) + " is yours",
                      "name one of another user: " + join(all, ", "));
  }
  if (own.size() == 1) return own.front();
  if (matches.size() == 1) return matches.front();
  if (!matches.empty()) all.clear();
  for (const std::string& path : matches) all.push_back(file_name(path));
  return make_error(matches.empty() ? ErrorCode::not_found : ErrorCode::invalid_input,
                    format("{} run {} '{}'", matches.empty() ? "no" : "more than one",
                           matches.empty() ? "is named" : "begins with", name),
                    "there are: " + join(all, ", "));
}

Result<std::string> request(const std::string& run_dir, const std::string& what, const Value& arguments,
                            const Clock& clock) {
  if (what != "cancel" && what != "resume" && what != "tell")
    return make_error(ErrorCode::invalid_input, "nothing can be asked of a run with '" + what + "'",
                      "cancel, resume or tell");
  if (!is_run(run_dir)) return make_error(ErrorCode::not_found, run_dir + " is not a run");
  Value value = Value::make_table();
  value.set("what", what);
  value.set("arguments", arguments);
  value.set("asked", utc_text(clock.wall_ms()));
  value.set("host", host_name());
  for (int tries = 0;; ++tries) {
    LH_TRY(const std::string random, random_hex(3));
    // Names sort by time: requests are answered in the order in which they were made.
    const std::string file = format("{:015}-{}-{}.json", clock.wall_ms(), random, what);
    value.set("id", file);  // under another name it asks nothing: whoever may rename it cannot ask for its owner again
    const Status created = create_file_exclusive(join_path(run_dir, "requests/" + file), to_json_pretty(value));
    if (created.ok()) return file;
    if (created.error().code != ErrorCode::conflict || tries == 10) return created.error();
  }
}

}  // namespace longhaul
