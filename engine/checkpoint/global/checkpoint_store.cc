#include "engine/checkpoint/global/checkpoint_store.h"

#include <algorithm>
#include <cstdlib>

#include "base/files/file_hash.h"
#include "base/files/files.h"
#include "base/process/fault_point.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "contracts/checkpoints/checkpoint_files.h"
#include "engine/checkpoint/global/checkpoint_load.h"
#include "engine/checkpoint/global/checkpoint_saver.h"
#include "engine/checkpoint/global/read_back.h"

namespace longhaul {

std::string CheckpointStore::path_of(std::int64_t step) const {
  return join_path(folder_, checkpoint_folder_name(step));
}

std::string CheckpointStore::shard_name(int rank, int ranks) const {
  const StateOwner& owner = fence_.owner();
  return shard_file_name(rank, ranks, owner.is_nobody() ? "" : owner.tag());
}

bool CheckpointStore::StepFolder::has(const char* file) const {
  return names.ok() && std::ranges::find(*names, file) != names->end();
}

Result<std::vector<CheckpointStore::StepFolder>> CheckpointStore::look() const {
  const auto names_of = [](const std::string& folder) -> Result<std::vector<std::string>> {
    if (auto fault = fault_here(FaultPoint::checkpoint_list)) return *fault;
    return names_if_there(folder);
  };
  LH_TRY(std::vector<std::string> all, names_of(folder_));
  std::erase_if(all, [](const std::string& name) { return !starts_with(name, "step-"); });
  std::sort(all.rbegin(), all.rend());  // numbers have leading zeros
  std::vector<StepFolder> found;
  for (const std::string& name : all) found.push_back({name, names_of(join_path(folder_, name))});
  return found;
}

Result<std::vector<std::string>> CheckpointStore::list() const {
  const auto whole = retried(retry_, [this]() -> Result<std::vector<std::string>> {
    LH_TRY(const std::vector<StepFolder> all, look());
    std::vector<std::string> names;
    for (const StepFolder& one : all) {
      LH_CHECK(one.names);
      if (one.is_whole()) names.push_back(one.name);
    }
    return names;
  });
  if (whole.ok()) return whole;
  return make_error(whole.error().code, "which checkpoints there are is not known: " + whole.error().what,
                    "a folder that stays unreadable has to be moved away by hand");
}

Result<std::vector<std::string>> CheckpointStore::list_together(CollectiveGroup& group) const {
  const auto mine = group.is_first() ? list() : std::vector<std::string>();
  LH_CHECK(group.agree(mine.ok() ? Status() : Status(mine.error())));
  LH_TRY(const std::vector<std::string> lists, group.all_gather_text(join(*mine, "\n")));
  std::vector<std::string> names = split(lists.front(), '\n');
  std::erase(names, "");
  return names;
}

bool ends_a_search(const Error& error) {
  return error.code == ErrorCode::invalid_input || error.code == ErrorCode::aborted || error.code == ErrorCode::timeout;
}

Result<std::int64_t> CheckpointStore::newest_step(CollectiveGroup& group) const {
  LH_TRY(const std::vector<std::string> names, list_together(group));
  if (names.empty()) return std::int64_t{-1};
  return static_cast<std::int64_t>(std::atoll(names.front().substr(names.front().find('-') + 1).c_str()));
}

namespace {

// First the manifest: half of an old checkpoint must not look whole.
Status remove_checkpoint(const std::string& path) {
  LH_CHECK(remove_tree(join_path(path, checkpoint_manifest_name)));
  return remove_tree(path);
}

}  // namespace

Status CheckpointStore::prepare(const std::string& path) const {
  LH_CHECK(fence_.look());
  LH_CHECK(remove_checkpoint(path));
  LH_CHECK(make_directories(path));
  return fence_.look();
}

Result<int> CheckpointStore::set_aside_after(std::int64_t step) const {
  const std::string newest_sound = checkpoint_folder_name(step);
  int moved = 0;
  LH_CHECK(fence_.look());
  LH_TRY(const std::vector<std::string> whole, list());
  for (const std::string& name : whole) {
    if (name <= newest_sound) continue;
    const std::string from = join_path(folder_, name), to = join_path(folder_, suspect_checkpoint_prefix + name);
    LH_CHECK(remove_tree(to));
    if (std::rename(from.c_str(), to.c_str()) != 0) return errno_error(ErrorCode::io, "cannot rename " + from, errno);
    ++moved;
  }
  return moved;
}

namespace {

Result<std::string> manifest_digest(const std::string& path) {
  return hash_file(join_path(path, checkpoint_manifest_name));
}

}  // namespace

bool CheckpointStore::is_verified(const std::string& path) {
  const auto verified = read_file(join_path(path, checkpoint_verified_name), 1000);
  if (!verified.ok()) return false;
  const auto digest = manifest_digest(path);
  return digest.ok() && trim(*verified) == *digest;
}

Status CheckpointStore::confirm(const std::string& path) const {
  LH_CHECK(fence_.look());
  LH_TRY(const std::string digest, manifest_digest(path));
  LH_CHECK(write_file_atomic(join_path(path, checkpoint_verified_name), digest + "\n"));
  LH_TRY([[maybe_unused]] const bool retired, retire(std::atoll(file_name(path).substr(5).c_str())));
  return {};
}

// What is removed was seen to be whole and not to be needed while a newer one is known to be good, or seen not to be
// whole. Best effort: what cannot be listed or removed now is looked at again after the next checkpoint.
Result<bool> CheckpointStore::retire(std::int64_t newest_step) const {
  const std::string newest = checkpoint_folder_name(newest_step);
  const auto all = look();
  if (!all.ok()) return true;
  std::vector<CheckpointStanding> standings;
  std::vector<std::string> unfinished;
  for (const StepFolder& one : *all) {
    if (!one.names.ok()) continue;
    if (one.is_whole())
      standings.push_back(standing_of(join_path(folder_, one.name), *one.names, retention_, claims_));
    else if (!one.has(checkpoint_pin_name))
      unfinished.push_back(one.name);
  }
  const auto is_newer = [&](const std::string& name) { return name >= newest; };
  std::vector<std::string> removed = checkpoints_to_remove(standings, retention_);
  std::erase_if(removed, is_newer);
  std::erase_if(unfinished, is_newer);
  // Newest first: older ones than a good one may go.
  const auto good = std::ranges::find_if(standings, [&](const CheckpointStanding& one) {
    return !removed.empty() && one.name > removed.back() && std::ranges::find(removed, one.name) == removed.end() &&
           is_verified(join_path(folder_, one.name));
  });
  const auto waiting =
      std::erase_if(removed, [&](const std::string& name) { return good == standings.end() || name > good->name; });
  removed.insert(removed.end(), unfinished.begin(), unfinished.end());
  for (const std::string& name : removed) {
    if (auto fault = fault_here(FaultPoint::checkpoint_retiring)) return *fault;
    LH_CHECK(fence_.look());
    [[maybe_unused]] const Status gone = remove_checkpoint(join_path(folder_, name));
  }
  return waiting == 0;
}

namespace {

// Entries are what ranks say that they have written: are the files there, under these names?
Status check_shards(const std::string& path, const CheckpointManifest& manifest, const FileRetry& retry) {
  LH_TRY(const std::vector<std::string> names, retried(retry, [&] { return names_if_there(path); }));
  for (const CheckpointEntry& entry : manifest.entries)
    if (!std::ranges::binary_search(names, entry.file))
      return make_error(ErrorCode::conflict, join_path(path, entry.file) + " is gone: something else has removed it",
                        "only one training may write into a folder of checkpoints");
  return {};
}

}  // namespace

Result<CheckpointStore::Published> CheckpointStore::publish(const std::string& path, CheckpointManifest manifest,
                                                            const std::vector<std::string>& votes) const {
  Published published;
  manifest.entries.clear();
  for (const std::string& text : votes) {
    LH_TRY(std::vector<CheckpointEntry> entries, entries_from_text(text));
    for (CheckpointEntry& entry : entries) {
      published.bytes += entry.bytes();
      manifest.entries.push_back(std::move(entry));
    }
  }
  if (auto fault = fault_here(FaultPoint::checkpoint_after_votes)) return *fault;
  LH_CHECK(check_coverage(manifest));
  LH_CHECK(fence_.look());
  LH_CHECK(check_shards(path, manifest, retry_));
  LH_CHECK(sync_tree(path));
  if (auto fault = fault_here(FaultPoint::checkpoint_before_manifest)) return *fault;
  LH_CHECK(fence_.look());
  LH_CHECK(write_file_atomic(join_path(path, checkpoint_manifest_name), to_json_pretty(checkpoint_to_value(manifest))));
  if (auto fault = fault_here(FaultPoint::checkpoint_after_manifest)) return *fault;
  LH_CHECK(fence_.look());  // a later launch that saves this step writes its own manifest over this one
  Value latest = Value::make_table();
  latest.set("step", manifest.step);
  latest.set("folder", file_name(path));
  LH_CHECK(write_file_atomic(join_path(folder_, checkpoint_latest_name), to_json_pretty(latest)));
  if (auto fault = fault_here(FaultPoint::checkpoint_after_latest)) return *fault;
  LH_TRY(const bool retired, retire(manifest.step));
  published.waits = !retired;
  return published;
}

Result<SavedCheckpoint> CheckpointStore::save(CollectiveGroup& group, const TrainingState& state) const {
  CheckpointSaverOptions options;
  options.asynchronous = false;
  CheckpointSaver saver(clock_, *this, options);
  LH_CHECK(saver.start(group, state));
  LH_TRY(const SavedCheckpoint saved, saver.finish(group));
  CheckpointReadBack read_back(clock_, *this);
  LH_CHECK(read_back.want(group, saved, saver.votes()));
  LH_TRY(const std::vector<ReadBack> read, read_back.finish(group));
  for (const ReadBack& one : read)
    if (!one.damage.empty()) return make_error(ErrorCode::corrupt, "what was saved cannot be read back: " + one.damage);
  return saved;
}

Status CheckpointStore::load_together(CollectiveGroup& group, const std::string& path, TrainingState& state,
                                      int threads) const {
  std::optional<ReadClaim> claim;
  if (group.is_first()) claim.emplace(path);
  return group.agree(load_checkpoint(path, state, threads));
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
