#include "engine/checkpoint/checkpoint_store.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "base/fault_point.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/text.h"
#include "engine/checkpoint/shard_file.h"
#include "engine/parallel/box_copy.h"

namespace longhaul {

namespace {

constexpr const char* kManifestName = "checkpoint.json";

// The three arrays of a training under their names in the checkpoint.
struct NamedArray {
  const char* suffix;
  std::span<float> values;  // packed as layout.owned()
};
std::vector<NamedArray> arrays_of(const TrainingState& state) {
  return {{"", state.masters}, {"#exp_avg", state.exp_avg}, {"#exp_avg_sq", state.exp_avg_sq}};
}

// A rank's share: of what it holds, the same slice of the flat arrays for weights and moments; its replicas have the
// others. What several ranks of a replica hold, the first of them writes.
struct Share {
  std::vector<CheckpointEntry> entries;
  std::vector<ShardTensor> tensors;
  std::uint64_t bytes = 0;
};

Share share_of(const TrainingState& state, const std::string& file) {
  Share share;
  const PackedRanges written(state.layout->written());
  for (const NamedArray& array : arrays_of(state)) {
    const auto add = [&](const FlatParameter& p, FlatRange here, FlatRange packed) {
      const std::string name = p.spec.name + array.suffix;
      const bool whole = p.is_whole() && here.begin == p.begin && here.end == p.end;
      const std::span<float> values = part_of(array.values, packed);
      const std::string_view bytes(reinterpret_cast<const char*>(values.data()), values.size_bytes());
      CheckpointEntry entry;
      entry.tensor = name;
      entry.box = p.box;
      entry.flat_begin = here.begin - p.begin, entry.flat_end = here.end - p.begin;
      entry.file = file;
      entry.key = whole ? name : format("{}@{}", name, entry.flat_begin);  // one box of a tensor in each file
      entry.dtype = "F32";
      entry.xxh3 = xxh3_64(bytes);
      share.tensors.push_back(
          {entry.key, entry.dtype, whole ? p.spec.shape : std::vector<std::int64_t>{here.size()}, bytes});
      share.bytes += bytes.size();
      share.entries.push_back(std::move(entry));
    };
    for (const FlatParameter& p : state.layout->parameters()) {
      if (!state.layout->is_counted(p)) continue;
      written.for_each_in({p.begin, p.end}, [&](FlatRange mine, FlatRange) {
        state.layout->owned().for_each_in(mine, [&](FlatRange here, FlatRange packed) { add(p, here, packed); });
      });
    }
  }
  return share;
}

// Writes and syncs this rank's shard.
Status write_share(const std::string& path, const Share& share, const std::string& file) {
  if (auto fault = fault_here(FaultPoint::checkpoint_before_shard)) return *fault;
  LH_CHECK(write_shard(join_path(path, file), share.tensors));
  if (auto fault = fault_here(FaultPoint::checkpoint_after_shard)) return *fault;
  return {};
}

CheckpointManifest manifest_of(const TrainingState& state) {
  CheckpointManifest manifest;
  manifest.step = state.progress.step;
  manifest.consumed_samples = state.progress.consumed_samples;
  manifest.adam_step = state.progress.adam_step;
  manifest.seed = state.seed;
  manifest.shape = state.shape;
  manifest.written_by = state.layout->place().dims;
  manifest.extra = state.extra;
  for (const NamedArray& array : arrays_of(state))
    for (const ParameterSpec& spec : parameter_list(state.shape))
      manifest.tensors.emplace_back(spec.name + array.suffix, spec.shape);
  return manifest;
}

Result<CheckpointManifest> read_manifest_of(const std::string& path) {
  const std::string file = join_path(path, kManifestName);
  LH_TRY(const std::string text, read_file(file));
  auto value = parse_json(text, file);
  if (!value.ok()) return make_error(ErrorCode::corrupt, value.error().message());
  return checkpoint_from_value(*value).with_context(file);
}

bool box_fits(const Box& box, const std::vector<std::int64_t>& shape) {
  if (box.extent.size() != shape.size()) return false;
  for (std::size_t dim = 0; dim < shape.size(); ++dim)
    if (box.offset[dim] < 0 || box.extent[dim] < 0 || box.offset[dim] + box.extent[dim] > shape[dim]) return false;
  return true;
}

}  // namespace

std::vector<std::string> CheckpointStore::list() const {
  std::vector<std::string> names;
  const auto all = list_directory(folder_);
  if (!all.ok()) return names;
  for (const std::string& name : *all)
    if (starts_with(name, "step-") && file_exists(join_path(join_path(folder_, name), kManifestName)))
      names.push_back(name);
  std::sort(names.rbegin(), names.rend());  // numbers have leading zeros
  return names;
}

Status CheckpointStore::prepare(const std::string& path) const {
  // What lies there was never finished, or was found damaged by the run that is now writing it again. First the
  // manifest: half of an old checkpoint must not look whole.
  const std::string manifest = join_path(path, kManifestName);
  if (file_exists(manifest)) LH_CHECK(remove_tree(manifest));
  LH_CHECK(remove_tree(path));
  return make_directories(path);
}

void CheckpointStore::retire(std::int64_t newest_step) const {
  const std::vector<std::string> whole = list();
  const auto all = list_directory(folder_);
  if (!all.ok()) return;
  const std::string newest = checkpoint_folder_name(newest_step);
  for (const std::string& name : *all) {
    if (!starts_with(name, "step-") || name >= newest) continue;
    const auto found = std::find(whole.begin(), whole.end(), name);
    const bool keep = found != whole.end() && found - whole.begin() < keep_last_;
    // Best effort: what cannot be removed now is removed after the next checkpoint.
    if (!keep) [[maybe_unused]]
      const Status removed = remove_tree(join_path(folder_, name));
  }
}

Result<SavedCheckpoint> CheckpointStore::save(CollectiveGroup& group, const TrainingState& state) {
  const std::int64_t started = clock_.monotonic_ns();
  SavedCheckpoint saved;
  saved.path = join_path(folder_, checkpoint_folder_name(state.progress.step));
  const std::string context = "checkpoint " + saved.path;
  LH_CHECK(group.agree(group.is_first() ? prepare(saved.path) : Status()).with_context(context));

  const std::string file = format("shard-{:05d}-of-{:05d}.safetensors", group.rank() + 1, group.size());
  const Share share = share_of(state, file);
  LH_CHECK(group.agree(write_share(saved.path, share, file)).with_context(context));

  // The votes: every rank's entries, read by the first.
  CheckpointManifest manifest = manifest_of(state);
  manifest.entries = share.entries;
  LH_TRY(const std::vector<std::string> all, group.all_gather_text(to_json(checkpoint_to_value(manifest))));
  const auto publish = [&]() -> Status {
    manifest.entries.clear();
    for (const std::string& text : all) {
      LH_TRY(const Value value, parse_json(text, "entries of a rank"));
      LH_TRY(CheckpointManifest of_rank, checkpoint_from_value(value));
      for (CheckpointEntry& entry : of_rank.entries) manifest.entries.push_back(std::move(entry));
    }
    LH_CHECK(check_coverage(manifest));
    LH_CHECK(sync_tree(saved.path));
    if (auto fault = fault_here(FaultPoint::checkpoint_before_manifest)) return *fault;
    LH_CHECK(write_file_atomic(join_path(saved.path, kManifestName), to_json_pretty(checkpoint_to_value(manifest))));
    if (auto fault = fault_here(FaultPoint::checkpoint_after_manifest)) return *fault;
    Value latest = Value::make_table();
    latest.set("step", state.progress.step);
    latest.set("folder", checkpoint_folder_name(state.progress.step));
    LH_CHECK(write_file_atomic(join_path(folder_, "latest.json"), to_json_pretty(latest)));
    retire(state.progress.step);
    return {};
  };
  LH_CHECK(group.agree(group.is_first() ? publish() : Status()).with_context(context));
  for (const CheckpointEntry& entry : manifest.entries)
    saved.bytes += static_cast<std::uint64_t>(entry.flat_end - entry.flat_begin) * sizeof(float);
  if (!group.is_first()) saved.bytes = share.bytes;
  saved.seconds = static_cast<double>(clock_.monotonic_ns() - started) * 1e-9;
  return saved;
}

Status CheckpointStore::load(const std::string& path, TrainingState& state) {
  LH_TRY(const CheckpointManifest manifest, read_manifest_of(path));
  if (!(manifest.shape == state.shape))
    return make_error(ErrorCode::invalid_input, path + " was written by a model of another shape",
                      "give this training a state folder of its own");
  LH_CHECK(check_coverage(manifest));
  const std::vector<NamedArray> arrays = arrays_of(state);
  struct Target {
    const FlatParameter* parameter;
    BoxRange range;
    std::span<float> values;
  };
  std::map<std::string, Target> targets;
  for (const NamedArray& array : arrays)
    for (const FlatParameter& p : state.layout->parameters())
      state.layout->owned().for_each_in({p.begin, p.end}, [&](FlatRange here, FlatRange packed) {
        targets.emplace(p.spec.name + array.suffix,
                        Target{&p, {p.box, here.begin - p.begin, here.end - p.begin}, part_of(array.values, packed)});
      });

  std::map<std::string, ShardReader> shards;
  std::map<std::string, std::int64_t> filled;
  for (const CheckpointEntry& entry : manifest.entries) {
    const auto target = targets.find(entry.tensor);
    if (target == targets.end()) continue;  // another rank's, or of a newer version
    const std::string file = join_path(path, entry.file);
    if (!shards.count(entry.file)) {
      LH_TRY(ShardReader reader, ShardReader::open(file));
      shards.emplace(entry.file, std::move(reader));
    }
    const ShardTensor* tensor = shards.at(entry.file).find(entry.key);
    const std::int64_t count = entry.flat_end - entry.flat_begin;
    if (!tensor) return make_error(ErrorCode::corrupt, file + " has no tensor " + entry.key);
    if (entry.dtype != "F32" || tensor->dtype != "F32" ||
        tensor->bytes.size() != static_cast<std::size_t>(count) * sizeof(float) ||
        !box_fits(entry.box, target->second.parameter->spec.shape))
      return make_error(ErrorCode::corrupt, format("{}: {} is not what {} says", file, entry.key, kManifestName));
    if (xxh3_64(tensor->bytes) != entry.xxh3)
      return make_error(ErrorCode::corrupt, format("{}: the bytes of {} do not have the digest that {} says", file,
                                                   entry.key, kManifestName));
    const std::span piece(reinterpret_cast<const float*>(tensor->bytes.data()), static_cast<std::size_t>(count));
    filled[entry.tensor] += copy_between_boxes(piece, {entry.box, entry.flat_begin, entry.flat_end},
                                               target->second.range, target->second.values);
  }
  for (const auto& [name, target] : targets)
    if (filled[name] != target.range.end - target.range.begin)
      return make_error(ErrorCode::corrupt, path + " does not hold " + name);
  state.progress = {manifest.step, manifest.consumed_samples, manifest.adam_step};
  state.seed = manifest.seed;
  state.extra = manifest.extra;
  return {};
}

Result<std::optional<LoadedCheckpoint>> CheckpointStore::load_newest(CollectiveGroup& group,
                                                                     TrainingState& state) const {
  // The first rank's list counts: a folder must not be there for one rank and not for another.
  LH_TRY(const std::vector<std::string> lists, group.all_gather_text(join(list(), "\n")));
  std::optional<LoadedCheckpoint> loaded(std::in_place);
  for (const std::string& name : split(lists.front(), '\n')) {
    if (name.empty()) continue;
    loaded->path = join_path(folder_, name);
    const Status status = group.agree(load(loaded->path, state));
    if (status.ok()) return loaded;
    if (status.error().code == ErrorCode::invalid_input || status.error().code == ErrorCode::aborted ||
        status.error().code == ErrorCode::timeout)
      return status.error();
    loaded->passed_over.push_back(status.error().message());
  }
  if (loaded->passed_over.empty()) return std::optional<LoadedCheckpoint>();
  return make_error(ErrorCode::corrupt,
                    format("no good checkpoint is left in {}: {}", folder_, join(loaded->passed_over, "; ")),
                    "remove the folder to start from the beginning");
}

}  // namespace longhaul
