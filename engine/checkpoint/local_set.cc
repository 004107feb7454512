#include "engine/checkpoint/local_set.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

#include "base/files.h"
#include "base/json.h"
#include "base/parallel_for.h"
#include "base/process.h"
#include "base/text.h"
#include "engine/checkpoint/checkpoint_reader.h"
#include "engine/checkpoint/checkpoint_share.h"

namespace longhaul {

std::string local_part_path(const std::string& folder, const std::string& shard_file) {
  return join_path(folder, shard_file.substr(0, shard_file.rfind('.')) + ".json");
}

namespace {

// One share on this node.
struct LocalShare {
  std::string folder, file;  // of the shard
  std::int64_t step = 0;
  int owner = 0, owners = 0;
};

std::vector<LocalShare> find_shares(const std::string& folder) {
  std::vector<LocalShare> shares;
  const auto files = list_tree(folder);
  if (!files.ok()) return shares;
  for (const std::string& path : *files) {
    LocalShare share;
    int rank = 0;
    long long step = 0;
    if (std::sscanf(path.c_str(), "rank-%d/step-%lld/shard-%d-of-%d.json", &rank, &step, &share.owner, &share.owners) !=
            4 ||
        !ends_with(path, ".json") || share.owner < 1 || share.owner > share.owners)
      continue;
    share.step = step;
    --share.owner;
    share.folder = join_path(folder, parent_path(path));
    share.file = shard_file_name(share.owner, share.owners);
    shares.push_back(std::move(share));
  }
  return shares;
}

// Ranks whose folder is the same one deal its shares out: this rank's place among them, and their number.
Result<std::pair<std::size_t, std::size_t>> place_at_folder(CollectiveGroup& group, const std::string& folder) {
  struct stat info{};
  const bool there = ::stat(folder.c_str(), &info) == 0;
  const std::string mine = there ? format("{} {} {}", host_name(), info.st_dev, info.st_ino) : "";
  LH_TRY(const std::vector<std::string> all, group.all_gather_text(mine));
  std::pair<std::size_t, std::size_t> place{0, 0};
  for (std::size_t r = 0; r < all.size(); ++r) {
    if (all[r] != mine) continue;
    if (static_cast<int>(r) < group.rank()) ++place.first;
    ++place.second;
  }
  return place;
}

// A share that this rank has and that has its digests.
struct GoodShare {
  CheckpointManifest part;
  std::unique_ptr<ShardReader> shard;
};

Result<GoodShare> verify_share(const LocalShare& share, int threads) {
  const std::string part_path = local_part_path(share.folder, share.file), path = join_path(share.folder, share.file);
  GoodShare good;
  LH_TRY(const std::string text, read_file(part_path));
  LH_TRY(const Value value, parse_json(text, part_path));
  LH_TRY(good.part, checkpoint_from_value(value));
  LH_TRY(ShardReader shard, ShardReader::open(path));
  good.shard = std::make_unique<ShardReader>(std::move(shard));
  const std::vector<CheckpointEntry>& entries = good.part.entries;
  std::vector<Status> outcomes(entries.size());
  parallel_for(entries.size(), std::max(1, threads), [&](std::size_t i) {
    if (const auto values = verified_entry(*good.shard, path, entries[i]); !values.ok()) outcomes[i] = values.error();
  });
  for (const Status& outcome : outcomes) LH_CHECK(outcome);
  return good;
}

// What some rank of the mesh holds of every tensor.
struct Held {
  explicit Held(const ModelShape& shape, const MeshPlace& place) : layout(shape, place) {
    for (const char* suffix : state_suffixes())
      for (const FlatParameter& p : layout.parameters())
        layout.owned().for_each_in({p.begin, p.end}, [&](FlatRange here, FlatRange) {
          ranges.emplace(p.spec.name + suffix, BoxRange{p.box, here.begin - p.begin, here.end - p.begin});
        });
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  bool needs(const CheckpointEntry& entry) const {
    const auto found = ranges.find(entry.tensor);
    return found != ranges.end() && may_overlap(entry, found->second);
  }
  ParameterLayout layout;
  std::map<std::string, BoxRange> ranges;  // of boxes in the layout
};

struct Giver {
  int rank = 0, owner = 0;
  CheckpointEntry entry;
};

// Who gives which entry, from what every rank announced ("owner\nmanifest", texts of one share each).
struct Plan {
  CheckpointManifest manifest;
  std::vector<Giver> givers;
};

Result<Plan> plan_of(const std::vector<std::string>& announced, const LocalStep& step) {
  Plan plan;
  std::set<int> known;
  for (std::size_t rank = 0; rank < announced.size(); ++rank) {
    if (announced[rank].empty()) continue;
    LH_TRY(const Value list, parse_json(announced[rank], "copies of a rank"));
    for (const Value& one : list.as_array()) {
      const int owner = static_cast<int>(one.get_integer("owner"));
      if (!known.insert(owner).second) continue;
      LH_TRY(CheckpointManifest part, checkpoint_from_value(*one.find("part")));
      for (CheckpointEntry& entry : part.entries) {
        plan.manifest.entries.push_back(entry);
        plan.givers.push_back({static_cast<int>(rank), owner, std::move(entry)});
      }
      part.entries = std::move(plan.manifest.entries);
      plan.manifest = std::move(part);
    }
  }
  for (int owner = 0; owner < step.owners; ++owner)
    if (!known.contains(owner))
      return make_error(ErrorCode::corrupt, format("copies of step {}: {} is whole on no node", step.step,
                                                   shard_file_name(owner, step.owners)));
  LH_CHECK(check_coverage(plan.manifest));
  const std::map<std::string, std::vector<std::int64_t>> shapes(plan.manifest.tensors.begin(),
                                                                plan.manifest.tensors.end());
  for (const Giver& giver : plan.givers)
    if (const auto shape = shapes.find(giver.entry.tensor);
        shape == shapes.end() || !box_fits(giver.entry.box, shape->second))
      return make_error(ErrorCode::corrupt,
                        format("copies of step {}: {} lies outside of its tensor", step.step, giver.entry.key));
  return plan;
}

// The shares that this rank verified, by owner, and what it says of them to the others.
struct Announced {
  std::map<int, GoodShare> shares;
  std::string text;
};

Result<Announced> announce(CollectiveGroup& group, const std::string& folder, const LocalStep& step, int threads) {
  Announced mine;
  Value list = Value::make_array();
  LH_TRY(const auto place, place_at_folder(group, folder));
  std::size_t count = 0;
  for (const LocalShare& share : find_shares(folder)) {
    if (share.step != step.step || share.owners != step.owners || count++ % place.second != place.first ||
        mine.shares.contains(share.owner))
      continue;
    Result<GoodShare> good = verify_share(share, threads);
    if (!good.ok()) continue;  // another rank may have it
    Value one = Value::make_table();
    one.set("owner", share.owner);
    one.set("part", checkpoint_to_value(good->part));
    list.push_back(std::move(one));
    mine.shares.emplace(share.owner, std::move(*good));
  }
  mine.text = to_json(list);
  return mine;
}

// Messages are f32: bf16 elements are widened, and narrowed again without loss.
std::span<const float> as_floats(const ConstView& values, std::vector<float>& widened) {
  if (values.dtype() == DType::f32) return values.span<float>();
  widened.clear();
  for (const bf16 value : values.span<bf16>()) widened.push_back(static_cast<float>(value));
  return widened;
}

}  // namespace

Result<std::vector<LocalStep>> complete_local_steps(CollectiveGroup& group, const std::string& folder,
                                                    std::int64_t newer_than) {
  std::string mine;
  for (const LocalShare& share : find_shares(folder))
    if (share.step > newer_than) mine += format("{} {} {}\n", share.step, share.owner, share.owners);
  LH_TRY(const std::vector<std::string> all, group.all_gather_text(mine));
  std::map<std::pair<std::int64_t, int>, std::set<int>> owners_of;
  for (const std::string& text : all)
    for (const std::string& line : split(text, '\n')) {
      long long step = 0;
      int owner = 0, owners = 0;
      if (std::sscanf(line.c_str(), "%lld %d %d", &step, &owner, &owners) == 3) owners_of[{step, owners}].insert(owner);
    }
  std::vector<LocalStep> steps;
  for (auto set = owners_of.rbegin(); set != owners_of.rend(); ++set)
    if (static_cast<int>(set->second.size()) == set->first.second)
      steps.push_back({set->first.first, set->first.second});
  return steps;
}

Status load_local_step(CollectiveGroup& group, const std::string& folder, const LocalStep& step, TrainingState& state,
                       int threads) {
  LH_TRY(Announced mine, announce(group, folder, step, threads));
  LH_TRY(const std::vector<std::string> announced, group.all_gather_text(mine.text));
  LH_TRY(const Plan plan, plan_of(announced, step));
  if (!(plan.manifest.shape == state.shape))
    return make_error(ErrorCode::invalid_input, folder + " has copies of a model of another shape");

  const ParallelDims& dims = state.layout->place().dims;
  std::vector<std::unique_ptr<Held>> held;
  for (int rank = 0; rank < group.size(); ++rank)
    held.push_back(
        std::make_unique<Held>(state.shape, MeshPlace{dims, coordinates_of(dims, rank), state.layout->stages()}));
  const Held& own = *held[static_cast<std::size_t>(group.rank())];
  struct Target {
    const StateArray* array;
    FlatRange packed;
  };
  std::map<std::string, Target> targets;
  const std::vector<StateArray> arrays = arrays_of(state);
  for (std::size_t array = 0; array < arrays.size(); ++array)
    for (const FlatParameter& p : own.layout.parameters())
      own.layout.owned().for_each_in({p.begin, p.end}, [&](FlatRange, FlatRange packed) {
        targets.emplace(p.spec.name + state_suffixes()[array], Target{&arrays[array], packed});
      });

  // The same order on every rank, so that every message is waited for on both sides.
  std::int64_t filled = 0, wanted = 0;
  for (const auto& [name, range] : own.ranges) wanted += range.end - range.begin;
  std::vector<float> coming, widened;
  Status outcome;
  for (const Giver& giver : plan.givers) {
    const CheckpointEntry& entry = giver.entry;
    ConstView piece;
    if (giver.rank == group.rank()) {
      const GoodShare& share = mine.shares.at(giver.owner);
      LH_TRY(piece, verified_entry(*share.shard, entry.file, entry, false));
      const std::span<const float> message = as_floats(piece, widened);
      for (int rank = 0; rank < group.size(); ++rank)
        if (rank != giver.rank && held[static_cast<std::size_t>(rank)]->needs(entry))
          LH_CHECK(group.send(message, rank));
    } else if (own.needs(entry)) {
      coming.resize(static_cast<std::size_t>(entry.flat_end - entry.flat_begin));
      LH_CHECK(group.recv(coming, giver.rank));
      piece = coming;
    }
    if (!own.needs(entry)) continue;
    const Target& target = targets.at(entry.tensor);
    const Status edited = target.array->edit(target.packed, [&](View values) {
      filled +=
          copy_between_boxes(piece, {entry.box, entry.flat_begin, entry.flat_end}, own.ranges.at(entry.tensor), values);
      return Status();
    });
    if (!edited.ok() && outcome.ok()) outcome = edited;  // the others go on sending
  }
  if (outcome.ok() && filled != wanted)
    outcome = make_error(ErrorCode::corrupt, format("copies of step {} lack elements", step.step));
  LH_CHECK(group.agree(outcome));
  state.progress = {plan.manifest.step, plan.manifest.consumed_samples, plan.manifest.adam_step};
  state.seed = plan.manifest.seed;
  state.extra = plan.manifest.extra;
  state.stored_types = stored_types(plan.manifest);
  return {};
}

}  // namespace longhaul
