#include "engine/checkpoint/checkpoint_store.h"

#include <algorithm>
#include <cstdlib>

#include "base/fault_point.h"
#include "base/files.h"
#include "base/json.h"
#include "base/parallel_for.h"
#include "base/text.h"
#include "engine/checkpoint/checkpoint_reader.h"
#include "engine/checkpoint/checkpoint_saver.h"

namespace longhaul {

std::string CheckpointStore::path_of(std::int64_t step) const {
  return join_path(folder_, checkpoint_folder_name(step));
}

std::vector<std::string> CheckpointStore::list() const {
  std::vector<std::string> names;
  const auto all = list_directory(folder_);
  if (!all.ok()) return names;
  for (const std::string& name : *all)
    if (starts_with(name, "step-") && file_exists(join_path(join_path(folder_, name), checkpoint_manifest_name)))
      names.push_back(name);
  std::sort(names.rbegin(), names.rend());  // numbers have leading zeros
  return names;
}

Result<std::vector<std::string>> CheckpointStore::list_together(CollectiveGroup& group) const {
  LH_TRY(const std::vector<std::string> lists, group.all_gather_text(join(list(), "\n")));
  std::vector<std::string> names = split(lists.front(), '\n');
  std::erase(names, "");
  return names;
}

bool ends_a_search(const Error& error) {
  return error.code == ErrorCode::invalid_input || error.code == ErrorCode::aborted || error.code == ErrorCode::timeout;
}

Result<std::int64_t> CheckpointStore::newest_step(CollectiveGroup& group) const {
  const std::vector<std::string> names = list();
  const double mine = names.empty() ? -1 : std::atof(names.front().substr(names.front().find('-') + 1).c_str());
  std::vector<double> all(static_cast<std::size_t>(group.size()));
  LH_CHECK(group.all_gather({&mine, 1}, all));
  return static_cast<std::int64_t>(all.front());
}

namespace {

// First the manifest: half of an old checkpoint must not look whole.
Status remove_checkpoint(const std::string& path) {
  const std::string manifest = join_path(path, checkpoint_manifest_name);
  if (file_exists(manifest)) LH_CHECK(remove_tree(manifest));
  return remove_tree(path);
}

}  // namespace

Status CheckpointStore::prepare(const std::string& path) const {
  LH_CHECK(remove_checkpoint(path));
  return make_directories(path);
}

Result<int> CheckpointStore::set_aside_after(std::int64_t step) const {
  const std::string newest_sound = checkpoint_folder_name(step);
  int moved = 0;
  for (const std::string& name : list()) {
    if (name <= newest_sound) continue;
    const std::string from = join_path(folder_, name), to = join_path(folder_, "suspect-" + name);
    LH_CHECK(remove_tree(to));
    if (std::rename(from.c_str(), to.c_str()) != 0) return errno_error(ErrorCode::io, "cannot rename " + from, errno);
    ++moved;
  }
  return moved;
}

Status CheckpointStore::retire(std::int64_t newest_step) const {
  const std::string newest = checkpoint_folder_name(newest_step);
  const std::vector<std::string> whole = list();
  std::vector<CheckpointStanding> standings;
  for (const std::string& name : whole) standings.push_back(standing_of(clock_, join_path(folder_, name), retention_));
  std::vector<std::string> removed = checkpoints_to_remove(standings, retention_);
  const auto all = list_directory(folder_);
  if (!all.ok()) return {};
  for (const std::string& name : *all)  // what was never finished
    if (starts_with(name, "step-") && std::find(whole.begin(), whole.end(), name) == whole.end())
      removed.push_back(name);
  for (const std::string& name : removed) {
    if (name >= newest) continue;
    if (auto fault = fault_here(FaultPoint::checkpoint_retiring)) return *fault;
    // Best effort: what cannot be removed now is removed after the next checkpoint.
    [[maybe_unused]] const Status gone = remove_checkpoint(join_path(folder_, name));
  }
  return {};
}

Result<std::int64_t> CheckpointStore::publish(const std::string& path, CheckpointManifest manifest,
                                              const std::vector<std::string>& votes) const {
  std::int64_t bytes = 0;
  manifest.entries.clear();
  for (const std::string& text : votes) {
    LH_TRY(std::vector<CheckpointEntry> entries, entries_from_text(text));
    for (CheckpointEntry& entry : entries) {
      bytes += entry.bytes();
      manifest.entries.push_back(std::move(entry));
    }
  }
  if (auto fault = fault_here(FaultPoint::checkpoint_after_votes)) return *fault;
  LH_CHECK(check_coverage(manifest));
  LH_CHECK(sync_tree(path));
  if (auto fault = fault_here(FaultPoint::checkpoint_before_manifest)) return *fault;
  LH_CHECK(write_file_atomic(join_path(path, checkpoint_manifest_name), to_json_pretty(checkpoint_to_value(manifest))));
  if (auto fault = fault_here(FaultPoint::checkpoint_after_manifest)) return *fault;
  Value latest = Value::make_table();
  latest.set("step", manifest.step);
  latest.set("folder", file_name(path));
  LH_CHECK(write_file_atomic(join_path(folder_, "latest.json"), to_json_pretty(latest)));
  if (auto fault = fault_here(FaultPoint::checkpoint_after_latest)) return *fault;
  LH_CHECK(retire(manifest.step));
  return bytes;
}

Result<SavedCheckpoint> CheckpointStore::save(CollectiveGroup& group, const TrainingState& state) const {
  CheckpointSaverOptions options;
  options.asynchronous = false;
  CheckpointSaver saver(clock_, *this, options);
  LH_CHECK(saver.start(group, state));
  return saver.finish(group);
}

Status CheckpointStore::load(const std::string& path, TrainingState& state, int threads) {
  LH_TRY(const std::unique_ptr<CheckpointReader> reader, CheckpointReader::open(path));
  const CheckpointManifest& manifest = reader->manifest();
  if (!(manifest.shape == state.shape))
    return make_error(ErrorCode::invalid_input, path + " was written by a model of another shape",
                      "give this training a state folder of its own");
  // What this rank holds, and which entries have something of it.
  struct Target {
    std::string tensor;
    BoxRange range;
    const StateArray* array;
    FlatRange packed;
  };
  struct Copy {
    std::size_t target, entry;
    Result<std::int64_t> copied = 0;
  };
  std::vector<Target> targets;
  std::vector<Copy> copies;
  const std::vector<StateArray> arrays = arrays_of(state);
  const auto add = [&](std::size_t array, const FlatParameter& p, FlatRange here, FlatRange packed) {
    targets.push_back({p.spec.name + state_suffixes()[array],
                       {p.box, here.begin - p.begin, here.end - p.begin},
                       &arrays[array],
                       packed});
    for (const std::size_t entry : reader->entries_of(targets.back().tensor, targets.back().range))
      copies.push_back({targets.size() - 1, entry});
  };
  for (std::size_t array = 0; array < arrays.size(); ++array)
    for (const FlatParameter& p : state.layout->parameters())
      state.layout->owned().for_each_in({p.begin, p.end},
                                        [&](FlatRange here, FlatRange packed) { add(array, p, here, packed); });
  // Those of one target follow each other.
  const auto copy_all = [&](std::span<Copy> some, const auto& values_of) {
    parallel_for(some.size(), std::max(1, threads), [&](std::size_t i) {
      const Target& target = targets[some[i].target];
      some[i].copied = reader->copy_entry(some[i].entry, target.range, values_of(target));
    });
  };
  const auto end_of_memory = std::ranges::stable_partition(copies, [&](const Copy& copy) {
                               return targets[copy.target].array->in_memory();
                             }).begin();
  copy_all({copies.begin(), end_of_memory},
           [](const Target& target) { return target.array->memory().rows(target.packed.begin, target.packed.end); });
  for (auto first = end_of_memory; first != copies.end();) {  // outside of memory: one target at a time
    const auto last = std::find_if(first, copies.end(), [&](const Copy& copy) { return copy.target != first->target; });
    const Target& target = targets[first->target];
    LH_CHECK(target.array->edit(target.packed, [&](View values) {
      copy_all({first, last}, [&](const Target&) { return values; });
      return Status();
    }));
    first = last;
  }
  std::vector<std::int64_t> filled(targets.size());
  for (const Copy& copy : copies) {
    LH_CHECK(copy.copied);
    filled[copy.target] += *copy.copied;
  }
  for (std::size_t i = 0; i < targets.size(); ++i)
    if (filled[i] != targets[i].range.end - targets[i].range.begin)
      return make_error(ErrorCode::corrupt, path + " does not hold " + targets[i].tensor);
  state.progress = {manifest.step, manifest.consumed_samples, manifest.adam_step};
  state.seed = manifest.seed;
  state.extra = manifest.extra;
  state.stored_types = stored_types(manifest);
  return {};
}

Status CheckpointStore::load_together(CollectiveGroup& group, const std::string& path, TrainingState& state,
                                      int threads) const {
  std::optional<ReadClaim> claim;
  if (group.is_first()) claim.emplace(clock_, path);
  return group.agree(load(path, state, threads));
}

Result<std::optional<LoadedCheckpoint>> CheckpointStore::load_newest(CollectiveGroup& group, TrainingState& state,
                                                                     int threads) const {
  LH_TRY(const std::vector<std::string> names, list_together(group));
  std::optional<LoadedCheckpoint> loaded(std::in_place);
  for (const std::string& name : names) {
    loaded->path = join_path(folder_, name);
    const Status status = load_together(group, loaded->path, state, threads);
    if (status.ok()) return loaded;
    if (ends_a_search(status.error())) return status.error();
    loaded->passed_over.push_back(status.error().message());
  }
  if (loaded->passed_over.empty()) return std::optional<LoadedCheckpoint>();
  return make_error(ErrorCode::corrupt,
                    format("no good checkpoint is left in {}: {}", folder_, join(loaded->passed_over, "; ")),
                    "remove the folder to start from the beginning");
}

}  // namespace longhaul
