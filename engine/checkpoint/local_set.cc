#include "engine/checkpoint/local_set.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

#include "base/files.h"
#include "base/hmac.h"
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

constexpr std::string_view signature_word = "\nhmac-sha256 ";

std::string signature_of(std::string_view part, const std::string& key) {
  std::string text(signature_word);
  for (const std::byte byte : hmac_sha256(key, part)) text += format("{:02x}", static_cast<unsigned>(byte));
  return text + "\n";
}

}  // namespace

std::string sign_part(const std::string& part, const std::string& key) {
  return part + signature_of(part, key);
}

Result<std::string> signed_part(const std::string& text, const std::string& key, const std::string& path) {
  const std::size_t end = text.rfind(signature_word);
  if (end == std::string::npos || text.substr(end) != signature_of(std::string_view(text).substr(0, end), key))
    return make_error(ErrorCode::corrupt, path + " was not signed by this training");
  return text.substr(0, end);
}

namespace {

// One share on this node.
struct LocalShare {
  std::string folder, file;  // of the shard
  std::int64_t step = 0;
  int owner = 0, owners = 0;
  bool is_own = false;  // kept by its owner, not by the partner
};

struct NodeShares {
  std::vector<LocalShare> shares;
  std::vector<std::string> unreadable;
};

std::string on_this_node(const Error& error) {
  return format("{} on {}", error.message(), host_name());
}

// What is gone meanwhile has been retired.
std::vector<std::string> names_in(const std::string& folder, std::vector<std::string>& unreadable) {
  const auto names = list_directory(folder);
  if (names.ok()) return *names;
  if (names.error().code != ErrorCode::not_found) unreadable.push_back(on_this_node(names.error()));
  return {};
}

NodeShares find_shares(const std::string& folder) {
  NodeShares found;
  for (const std::string& of_rank : names_in(folder, found.unreadable)) {
    int rank = 0;
    if (std::sscanf(of_rank.c_str(), "rank-%d", &rank) != 1) continue;
    for (const std::string& of_step : names_in(join_path(folder, of_rank), found.unreadable)) {
      long long step = 0;
      if (std::sscanf(of_step.c_str(), "step-%lld", &step) != 1) continue;
      const std::string place = join_path(join_path(folder, of_rank), of_step);
      for (const std::string& file : names_in(place, found.unreadable)) {
        LocalShare share;
        if (std::sscanf(file.c_str(), "shard-%d-of-%d.json", &share.owner, &share.owners) != 2 ||
            !ends_with(file, ".json") || share.owner < 1 || share.owner > share.owners)
          continue;
        share.step = step;
        --share.owner;
        share.is_own = share.owner == rank;
        share.folder = place;
        share.file = shard_file_name(share.owner, share.owners);
        found.shares.push_back(std::move(share));
      }
    }
  }
  // The owners' own copies are tried first.
  std::ranges::stable_partition(found.shares, [](const LocalShare& share) { return share.is_own; });
  return found;
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

Result<GoodShare> verify_share(const LocalShare& share, const std::string& key, const TimeLine& line, int threads) {
  const std::string part_path = local_part_path(share.folder, share.file), path = join_path(share.folder, share.file);
  GoodShare good;
  LH_TRY(const std::string signed_text, read_file(part_path));
  LH_TRY(const std::string text, signed_part(signed_text, key, part_path));
  LH_TRY(const Value value, parse_json(text, part_path));
  LH_TRY(good.part, checkpoint_from_value(value).with_context(part_path));
  if (good.part.step != share.step)
    return make_error(ErrorCode::corrupt, format("{} is of step {}", part_path, good.part.step));
  if (!line.holds(good.part.step, good.part.extra))
    return make_error(ErrorCode::corrupt, part_path + " was abandoned by a roll-back");
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

// A share that some rank has announced, and all have heard of.
struct Offer {
  int rank = 0, owner = 0;
  bool is_own = false;
  CheckpointManifest part;
};

// Who gives which entry.
struct Plan {
  CheckpointManifest manifest;
  std::vector<Giver> givers;
  int own_copies = 0, partner_copies = 0;
};

// {"shares": [{"owner", "own", "part"}], "bad": [why]} of every rank. Own copies come first, then lower ranks.
Result<std::vector<Offer>> offers_of(const std::vector<std::string>& announced, std::vector<std::string>& bad) {
  std::vector<Offer> offers;
  for (std::size_t rank = 0; rank < announced.size(); ++rank) {
    LH_TRY(const Value told, parse_json(announced[rank], "copies of a rank"));
    for (const Value& why : told.find("bad")->as_array()) bad.push_back(why.as_string());
    for (const Value& one : told.find("shares")->as_array()) {
      LH_TRY(CheckpointManifest part, checkpoint_from_value(*one.find("part")));
      offers.push_back(
          {static_cast<int>(rank), static_cast<int>(one.get_integer("owner")), one.get_bool("own"), std::move(part)});
    }
  }
  std::ranges::stable_partition(offers, [](const Offer& offer) { return offer.is_own; });
  return offers;
}

bool same_state(const CheckpointManifest& a, const CheckpointManifest& b) {
  return a.step == b.step && a.consumed_samples == b.consumed_samples && a.adam_step == b.adam_step &&
         a.seed == b.seed && a.shape == b.shape;
}

// ErrorCode::corrupt: the shares that are there make no whole state.
Result<Plan> plan_of(std::vector<Offer> offers, const LocalStep& step) {
  Plan plan;
  std::set<int> known;
  for (Offer& offer : offers) {
    if (!known.insert(offer.owner).second) continue;
    (offer.is_own ? plan.own_copies : plan.partner_copies) += 1;
    if (known.size() > 1 && !same_state(plan.manifest, offer.part))
      return make_error(ErrorCode::corrupt, format("copies of step {} are of different states, that of {} among them",
                                                   step.step, shard_file_name(offer.owner, step.owners)));
    for (CheckpointEntry& entry : offer.part.entries) {
      plan.manifest.entries.push_back(entry);
      plan.givers.push_back({offer.rank, offer.owner, std::move(entry)});
    }
    offer.part.entries = std::move(plan.manifest.entries);
    plan.manifest = std::move(offer.part);
  }
  for (int owner = 0; owner < step.owners; ++owner)
    if (!known.contains(owner))
      return make_error(ErrorCode::corrupt, format("copies of step {}: {} is whole on no node", step.step,
                                                   shard_file_name(owner, step.owners)));
  LH_CHECK(check_coverage(plan.manifest).with_context(format("copies of step {}", step.step)));
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

// Ranks of one node deal the owners out, so that a damaged copy and the other one of its share are the same rank's.
Result<Announced> announce(CollectiveGroup& group, const std::string& folder, const std::string& key,
                           const LocalStep& step, const TimeLine& line, int threads) {
  Announced mine;
  Value shares = Value::make_array(), bad = Value::make_array();
  LH_TRY(const auto place, place_at_folder(group, folder));
  for (const LocalShare& share : find_shares(folder).shares) {
    if (share.step != step.step || share.owners != step.owners || mine.shares.contains(share.owner) ||
        static_cast<std::size_t>(share.owner) % place.second != place.first)
      continue;
    Result<GoodShare> good = verify_share(share, key, line, threads);
    if (!good.ok()) {  // another rank may have it
      bad.push_back(on_this_node(good.error()));
      continue;
    }
    Value one = Value::make_table();
    one.set("owner", share.owner);
    one.set("own", share.is_own);
    one.set("part", checkpoint_to_value(good->part));
    shares.push_back(std::move(one));
    mine.shares.emplace(share.owner, std::move(*good));
  }
  Value told = Value::make_table();
  told.set("shares", std::move(shares));
  told.set("bad", std::move(bad));
  mine.text = to_json(told);
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

Result<LocalSteps> local_steps(CollectiveGroup& group, const std::string& folder) {
  const NodeShares here = find_shares(folder);
  std::string mine;
  for (const LocalShare& share : here.shares) mine += format("{} {} {}\n", share.step, share.owner, share.owners);
  for (const std::string& why : here.unreadable) mine += "unreadable " + why + "\n";
  LH_TRY(const std::vector<std::string> all, group.all_gather_text(mine));
  std::map<std::pair<std::int64_t, int>, std::set<int>> owners_of;
  std::set<std::string> unreadable;  // once for all ranks of a node
  for (const std::string& text : all)
    for (const std::string& line : split(text, '\n')) {
      long long step = 0;
      int owner = 0, owners = 0;
      if (starts_with(line, "unreadable "))
        unreadable.insert(line.substr(line.find(' ') + 1));
      else if (std::sscanf(line.c_str(), "%lld %d %d", &step, &owner, &owners) == 3)
        owners_of[{step, owners}].insert(owner);
    }
  LocalSteps found;
  found.unreadable.assign(unreadable.begin(), unreadable.end());
  for (auto set = owners_of.rbegin(); set != owners_of.rend(); ++set) {
    found.steps.push_back({set->first.first, set->first.second, ""});
    int owner = 0;
    while (set->second.contains(owner)) ++owner;
    if (owner < set->first.second) found.steps.back().missing = shard_file_name(owner, set->first.second);
  }
  return found;
}

Result<LocalLoad> load_local_step(CollectiveGroup& group, const std::string& folder, const std::string& key,
                                  const LocalStep& step, TrainingState& state, int threads, const TimeLine& line) {
  LH_TRY(Announced mine, announce(group, folder, key, step, line, threads));
  LH_TRY(const std::vector<std::string> announced, group.all_gather_text(mine.text));
  LocalLoad load;
  LH_TRY(std::vector<Offer> offers, offers_of(announced, load.passed_over));
  Result<Plan> made = plan_of(std::move(offers), step);
  if (!made.ok()) {
    load.refused = made.error().message();
    return load;
  }
  const Plan& plan = *made;
  load.own_copies = plan.own_copies, load.partner_copies = plan.partner_copies;
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
    outcome = make_error(ErrorCode::internal, format("copies of step {} lack elements", step.step));
  LH_CHECK(group.agree(outcome));
  state.progress = {plan.manifest.step, plan.manifest.consumed_samples, plan.manifest.adam_step};
  state.seed = plan.manifest.seed;
  state.extra = plan.manifest.extra;
  state.stored_types = stored_types(plan.manifest);
  return load;
}

}  // namespace longhaul
