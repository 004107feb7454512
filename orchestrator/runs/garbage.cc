#include "orchestrator/runs/garbage.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>

#include "base/digest/hash.h"
#include "base/files/file_query.h"
#include "base/files/files.h"
#include "base/process/process.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "contracts/events/event.h"
#include "contracts/records/checkpoint_format.h"
#include "contracts/records/milestone.h"
#include "orchestrator/runs/milestone_scanner.h"
#include "orchestrator/runs/run.h"
#include "orchestrator/runs/trash.h"
#include "orchestrator/state/epoch_log.h"
#include "orchestrator/state/run_folder.h"

namespace longhaul {
namespace {

namespace fs = std::filesystem;
constexpr std::int64_t day_ms = 86'400'000;

using Inodes = std::set<std::pair<dev_t, ino_t>>;

void add_use(const std::string& path, Inodes& seen, DiskUse& use) {
  struct stat info{};
  if (::lstat(path.c_str(), &info) != 0 || !seen.insert({info.st_dev, info.st_ino}).second) return;
  use += {static_cast<std::int64_t>(info.st_blocks) * 512, 1};
}

DiskUse use_of(const std::string& path) {
  Inodes seen;
  DiskUse use;
  add_use(path, seen, use);
  std::error_code error;
  for (fs::recursive_directory_iterator entry(path, fs::directory_options::skip_permission_denied, error), end;
       !error && entry != end; entry.increment(error))
    add_use(entry->path().string(), seen, use);
  return use;
}

// One run as it is now.
struct Known {
  std::string path;
  FrozenRun frozen;
  RunLedger ledger;
  bool ended = false, requests = false;
};

Result<Known> look_at(const std::string& path) {
  Known known;
  known.path = path;
  LH_TRY(known.frozen, read_frozen_run(path));
  LH_TRY(const EpochRead read, read_epochs(path));
  known.ledger = RunLedger(known.frozen.stage_ids());
  for (const Fact& fact : read.facts) known.ledger.apply(fact);
  known.ended = known.ledger.ended;
  if (const auto names = list_directory(join_path(path, "requests")); names.ok()) known.requests = !names->empty();
  return known;
}

std::string pin_path(const std::string& run, const std::string& stage) {
  return join_path(run, "pins/" + (stage.empty() ? std::string("run") : "stage-" + xxh3_128_hex(stage).substr(0, 16)));
}
bool is_pinned(const std::string& run, const std::string& stage) {
  return !is_surely_absent(pin_path(run, stage));
}

// A model that the run left being served: alive, or on another host where it may be.
bool serves(const Known& run) {
  for (const PlannedStage& planned : run.frozen.plan.stages) {
    const LedgerStage* stage = planned.kind == "deploy" ? run.ledger.find(planned.id()) : nullptr;
    if (!stage || !stage->newest()) continue;
    std::uint64_t offset = 0;
    const std::string attempt = attempt_folder(run.path, stage->id, stage->newest()->number);
    const auto events = read_events(join_path(attempt, "events.jsonl"), offset);
    if (!events.ok()) continue;
    for (const Event& event : *events) {
      if (event.kind != "endpoint") continue;
      const std::string host = event.fields.get_string("host", run.ledger.driver_host);
      const auto pid = static_cast<pid_t>(event.fields.get_integer("pid"));
      if (host != host_name() || (pid > 0 && identify_process(pid).ok())) return true;
    }
  }
  return false;
}

std::string kept_because(const Known& run) {
  if (!is_own(run.path)) return "it is another user's";
  if (!run.ended) return "it has not ended";
  if (run.requests) return "something was asked of it";
  if (is_pinned(run.path, "")) return "it is pinned";
  return serves(run) ? "it serves a model" : "";
}

// Oldest first: steps have leading zeros. What is not known to be whole is not among `whole`, and nothing is deleted
// of what is not.
struct CheckpointNames {
  std::vector<std::string> all, whole;
  bool known = true;  // false: the folder could not be listed
};
CheckpointNames checkpoint_names(const std::string& folder) {
  CheckpointNames names;
  const auto listed = list_directory(folder);
  names.known = listed.ok() || listed.error().code == ErrorCode::not_found;
  if (!listed.ok()) return names;
  for (const std::string& name : *listed) {
    if (!starts_with(name, "step-")) continue;
    names.all.push_back(name);
    if (file_exists(join_path(folder, name + "/checkpoint.json"))) names.whole.push_back(name);
  }
  return names;
}

// The newest two events of a kind.
struct LastTwo {
  const Event* last = nullptr;
  const Event* before = nullptr;

  LastTwo(const std::vector<Event>& events, const char* kind) {
    for (const Event& event : events)
      if (event.kind == kind && event.fields.get_number("bytes") > 0) before = last, last = &event;
  }
  void add_pace(RunGrowth& growth) const {
    if (!before || last->wall_ms <= before->wall_ms) return;
    const double per_day = static_cast<double>(day_ms) / static_cast<double>(last->wall_ms - before->wall_ms);
    growth.bytes_per_day += last->fields.get_number("bytes") * per_day;
    growth.inodes_per_day += per_day * static_cast<double>(use_of(last->fields.get_string("path")).inodes);
  }
};

RunGrowth growth_of(const Known& run) {
  RunGrowth growth;
  for (const LedgerStage& stage : run.ledger.stages) {
    const PlannedStage* planned = run.frozen.plan.find(stage.id);
    if (stage.state != StageState::running || !planned) continue;
    std::uint64_t offset = 0;
    const auto events =
        read_events(join_path(attempt_folder(run.path, stage.id, stage.newest()->number), "events.jsonl"), offset);
    if (!events.ok()) continue;
    const Value* settings = planned->settings.find("checkpoint");
    const auto kept = [&](const LastTwo& saved, double count) {
      if (!saved.last) return;
      growth.kept_bytes += static_cast<std::int64_t>(saved.last->fields.get_number("bytes") * count);
      saved.add_pace(growth);
    };
    kept(LastTwo(*events, "checkpoint"), settings ? settings->get_number("keep_last", 2) : 2);
    kept(LastTwo(*events, "milestone"), static_cast<double>(milestone_steps(planned->settings).size()));  // all stay
  }
  return growth;
}

void add_item(RunUse& run, const std::string& stage, const std::string& path, const std::string& why) {
  if (file_exists(path)) run.items.push_back({path, stage, why, use_of(path)});
}

// What the run itself has no use for any more. Artifacts are judged elsewhere.
void list_run_garbage(const Known& known, RunUse& run) {
  add_item(run, "", join_path(known.path, trash_folder_name), "left by an earlier gc");
  for (const LedgerStage& stage : known.ledger.stages) {
    if (is_pinned(known.path, stage.id)) continue;
    const std::string folder = stage_folder(known.path, stage.id);
    for (const LedgerAttempt& attempt : stage.attempts)
      add_item(run, stage.id, join_path(attempt_folder(known.path, stage.id, attempt.number), "staging"),
               "staging of an ended attempt");
    const std::string milestones = milestones_folder(known.path, stage.id);
    if (const auto all = list_directory(milestones); all.ok())
      for (const std::string& name : *all)
        if (starts_with(name, ".")) add_item(run, stage.id, join_path(milestones, name), "a milestone half written");
    const std::string checkpoints = join_path(folder, "state/checkpoints");
    const auto [all, names, known_names] = checkpoint_names(checkpoints);
    if (!known_names) continue;
    const auto pinned = [&](const std::string& name) {
      return !is_surely_absent(join_path(join_path(checkpoints, name), checkpoint_pin_name));
    };
    const bool succeeded = stage.has_artifact();
    if (succeeded && std::none_of(all.begin(), all.end(), pinned)) {
      add_item(run, stage.id, join_path(folder, "state"), "checkpoints of a stage that succeeded");
      continue;
    }
    for (std::size_t i = 0; i + (succeeded ? 0 : 1) < names.size(); ++i)
      if (!pinned(names[i]))
        add_item(run, stage.id, join_path(checkpoints, names[i]),
                 succeeded ? "a checkpoint of a stage that succeeded"
                           : "an older checkpoint of a stage that did not succeed");
  }
}

void add_references(const Known& run, std::set<std::string>& folders) {
  for (const LedgerStage& stage : run.ledger.stages) {
    if (!stage.artifact.empty()) folders.insert(stage.artifact);
    for (const auto& [step, milestone] : stage.milestones) folders.insert(milestone.artifact);
    for (const TaskInput& input : stage.inputs)
      for (const std::string& path : input.paths) folders.insert(path);
  }
}

bool refers_to(const std::set<std::string>& folders, const std::string& artifact) {
  const auto at = folders.lower_bound(artifact);  // the folder itself, or a path within it
  return at != folders.end() && (*at == artifact || starts_with(*at, artifact + "/"));
}

// Artifacts of an older run: its stages', and the milestones on the way to them.
void list_artifacts(const Known& known, const std::set<std::string>& wanted, RunUse& run) {
  for (const LedgerStage& stage : known.ledger.stages) {
    if (is_pinned(known.path, stage.id)) continue;
    const std::string artifact = join_path(stage_folder(known.path, stage.id), "out");
    if (!refers_to(wanted, artifact))
      add_item(run, stage.id, artifact, "artifact of an older run that nobody refers to");
    const std::string milestones = milestones_folder(known.path, stage.id);
    for (const std::int64_t step : published_milestones(milestones)) {
      const std::string folder = milestone_folder(milestones, step);
      if (!refers_to(wanted, folder))
        add_item(run, stage.id, folder, "milestone of an older run that nobody refers to");
    }
  }
}

bool is_milestone(const std::string& path) {
  return file_name(parent_path(path)) == "milestones" && !starts_with(file_name(path), ".");
}
bool is_artifact(const std::string& path) {
  return file_name(path) == "out" || is_milestone(path);
}

// The key of a stage's artifact, by its folder; "" where it is not known.
std::string key_of(const LedgerStage* stage, const std::string& path) {
  if (!stage || stage->key.empty()) return {};
  return is_milestone(path) ? milestone_key(stage->key, std::atoll(file_name(path).c_str())) : stage->key;
}

// Entries of the index that name a folder without an artifact.
void list_dangling(const std::string& root, std::vector<GarbageItem>& items) {
  const auto names = list_directory(root);
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    const std::string path = join_path(root, name);
    if (!is_own(path)) continue;  // whether another's artifact is gone, or only closed to us, cannot be seen
    const auto text = ends_with(name, ".json") ? read_file(path, 1 << 20) : Result<std::string>(std::string());
    const auto entry = text.ok() && !text->empty() ? parse_json(*text, path) : Result<Value>(Value());
    const std::string folder = entry.ok() ? entry->get_string("artifact") : "";
    if (!folder.empty() && is_surely_absent(join_path(folder, "manifest.json")))
      items.push_back({path, "", "names an artifact that is gone", use_of(path)});
  }
}

// The entry of the index that names this artifact goes before the artifact does, so that nobody finds it any more.
void forget_artifact(const std::string& root, const std::string& key) {
  if (!root.empty() && !key.empty()) (void)::unlink(join_path(root, key + ".json").c_str());
}

}  // namespace

Result<GarbageReport> find_garbage(const std::string& runs_dir, const GarbageOptions& options, const Clock& clock) {
  GarbageReport report;
  LH_TRY(const auto paths, list_runs(runs_dir));
  std::vector<Known> known;
  for (const std::string& path : paths) {
    auto one = look_at(path);
    if (one.ok())
      known.push_back(std::move(one).value());
    else
      report.unreadable.push_back(path + ": " + one.error().message());
  }
  std::set<std::string> wanted, roots;  // artifacts that stay
  std::map<std::string, int> newer;     // runs of a workflow that are newer
  std::vector<bool> old(known.size());
  for (std::size_t i = known.size(); i-- > 0;) {
    const bool beyond = options.keep_last >= 0 && newer[known[i].frozen.plan.workflow]++ >= options.keep_last;
    old[i] = beyond && report.unreadable.empty() && kept_because(known[i]).empty();
    if (!old[i]) add_references(known[i], wanted);
    // What another's run says of its artifacts does not decide where this user deletes.
    if (!known[i].frozen.artifact_root.empty() && is_own(known[i].path)) roots.insert(known[i].frozen.artifact_root);
  }
  std::int64_t recent_bytes = 0;
  for (std::size_t i = 0; i < known.size(); ++i) {
    const Known& one = known[i];
    RunUse run;
    run.path = one.path;
    run.name = one.frozen.name;
    run.workflow = one.frozen.plan.workflow;
    run.created_ms = one.frozen.created_ms;
    run.ended = one.ended;
    run.state = one.ended ? to_string(one.ledger.state) : "running";
    run.pinned = is_pinned(one.path, "");
    run.kept_because = kept_because(one);
    run.use = use_of(one.path);
    run.growth = growth_of(one);
    for (const LedgerStage& stage : one.ledger.stages)
      if (is_pinned(one.path, stage.id)) run.pinned_stages.push_back(stage.id);
    if (run.kept_because.empty()) {
      list_run_garbage(one, run);
      if (old[i]) list_artifacts(one, wanted, run);
    }
    for (const GarbageItem& item : run.items) report.garbage += item.use;
    report.use += run.use;
    if (clock.wall_ms() - run.created_ms < 7 * day_ms) recent_bytes += run.use.bytes;
    report.runs.push_back(std::move(run));
  }
  for (const std::string& root : roots) list_dangling(root, report.index);
  for (const GarbageItem& item : report.index) report.garbage += item.use;
  report.bytes_per_day = static_cast<double>(recent_bytes) / 7;
  struct statvfs info{};
  if (::statvfs(absolute_path(runs_dir).c_str(), &info) == 0) {
    report.free_bytes = static_cast<std::int64_t>(info.f_bavail) * static_cast<std::int64_t>(info.f_frsize);
    report.free_inodes = static_cast<std::int64_t>(info.f_favail);
  }
  return report;
}

Result<Deleted> delete_garbage(const GarbageReport& report, const std::string& runs_dir, const GarbageOptions& options,
                               const Clock& clock) {
  Deleted deleted;
  const auto count = [&](const GarbageItem& item) { ++deleted.items, deleted.use += item.use; };
  for (const RunUse& run : report.runs) {
    if (run.items.empty()) continue;
    const auto now = look_at(run.path);
    const std::string why = now.ok() ? kept_because(*now) : now.error().message();
    if (!why.empty()) {
      deleted.left.push_back(run.name + ": " + why);
      continue;
    }
    const std::string bin = join_path(run.path, trash_folder_name);
    std::optional<GarbageReport> again;  // looked at only if an artifact is to go
    for (const GarbageItem& item : run.items) {
      if (is_artifact(item.path)) {
        forget_artifact(now->frozen.artifact_root, key_of(now->ledger.find(item.stage), item.path));
        // Somebody may have taken it just before: whoever did is a run now, and refers to it.
        if (!again) {
          LH_TRY(again, find_garbage(runs_dir, options, clock));
        }
        const bool still = std::any_of(again->runs.begin(), again->runs.end(), [&](const RunUse& one) {
          return std::any_of(one.items.begin(), one.items.end(),
                             [&](const GarbageItem& other) { return other.path == item.path; });
        });
        if (!still) {
          deleted.left.push_back(item.path + ": a run refers to it now");
          continue;
        }
      }
      if (item.path == bin) {
        count(item);
        continue;
      }
      LH_TRY(const bool was_there, put_away(item.path, bin));
      if (was_there) count(item);
    }
    LH_CHECK(remove_tree(bin));
  }
  for (const GarbageItem& item : report.index)
    if (::unlink(item.path.c_str()) == 0) count(item);
  return deleted;
}

Status set_pin(const std::string& runs_dir, const std::string& name, bool pinned) {
  std::string stage;
  auto run = find_run(runs_dir, name);
  for (std::size_t slash = name.find('/'); !run.ok() && slash != std::string::npos; slash = name.find('/', slash + 1)) {
    run = find_run(runs_dir, name.substr(0, slash));
    stage = name.substr(slash + 1);
  }
  if (!run.ok()) return run.error();
  if (!is_own(*run))
    return make_error(ErrorCode::invalid_input, *run + " is another user's run", "its owner can pin it");
  LH_TRY(const FrozenRun frozen, read_frozen_run(*run));
  if (!stage.empty() && !frozen.plan.find(stage))
    return make_error(ErrorCode::not_found, format("run {} has no stage '{}'", frozen.name, stage),
                      "its stages: " + join(frozen.stage_ids(), ", "));
  const std::string path = pin_path(*run, stage);
  if (!pinned) return remove_tree(path);
  LH_CHECK(make_directories(parent_path(path)));
  return write_file_atomic(path, (stage.empty() ? "the whole run" : stage) + "\n");
}

}  // namespace longhaul
