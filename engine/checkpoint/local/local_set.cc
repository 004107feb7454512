#include "engine/checkpoint/local/local_set.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

#include "base/digest/hash.h"
#include "base/digest/hmac.h"
#include "base/files/files.h"
#include "base/process/fault_point.h"
#include "base/process/process.h"
#include "base/system/parallel_for.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "contracts/checkpoints/checkpoint_files.h"
#include "engine/checkpoint/global/checkpoint_reader.h"
#include "engine/checkpoint/global/checkpoint_share.h"
#include "engine/checkpoint/local/local_plan.h"
#include "engine/parallel/mesh/text_exchange.h"

namespace longhaul {

std::string local_part_path(const std::string& folder, const std::string& shard_file) {
  return join_path(folder, local_part_name(shard_file));
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

// Ranks whose folder is the same one divide its shares: this rank's place among them, and their number.
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
  std::string save;
  std::unique_ptr<ShardReader> shard;
};

Result<GoodShare> verify_share(const LocalShare& share, const std::string& key, const TimeLine& line, int threads) {
  const std::string part_path = local_part_path(share.folder, share.file), path = join_path(share.folder, share.file);
  GoodShare good;
  LH_TRY(const std::string signed_text, read_file(part_path));
  LH_TRY(const std::string text, signed_part(signed_text, key, part_path));
  LH_TRY(const Value value, parse_json(text, part_path));
  LH_TRY(good.part, checkpoint_from_value(value).with_context(part_path));
  good.save = value.get_string(local_save_key);
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

// The shares that this rank verified, by owner, and what it offers of them to the others.
struct Announced {
  std::map<int, GoodShare> shares;
  std::vector<ShareOffer> offers;
  std::vector<std::string> bad;  // why a share is none
};

// Ranks of one node divide the owners, so that a damaged copy and the other one of its share are the same rank's.
Result<Announced> announce(CollectiveGroup& group, const std::string& folder, const std::string& key,
                           const LocalStep& step, const TimeLine& line, int threads) {
  Announced mine;
  LH_TRY(const auto place, place_at_folder(group, folder));
  for (const LocalShare& share : find_shares(folder).shares) {
    if (share.step != step.step || share.owners != step.owners || mine.shares.contains(share.owner) ||
        static_cast<std::size_t>(share.owner) % place.second != place.first)
      continue;
    Result<GoodShare> good = verify_share(share, key, line, threads);
    if (good.ok()) {
      Result<ShareOffer> offer = offer_of(good->part, good->save, share.owner, share.is_own);
      if (offer.ok())
        mine.offers.push_back(std::move(*offer));
      else
        good = offer.error();
    }
    if (!good.ok())  // another rank may have it
      mine.bad.push_back(on_this_node(good.error()));
    else
      mine.shares.emplace(share.owner, std::move(*good));
  }
  return mine;
}

// One piece, from the rank that gives it to those that need it.
struct Giver {
  int rank = 0, owner = 0;
  std::size_t place = 0;  // of it in the share
  CheckpointEntry entry;  // without file and key, which are the giver's
};

struct Plan {
  SharePlan shares;
  CheckpointManifest manifest;
  std::vector<Giver> givers;
};

// Where the shares that are there make no whole state, `shares.refused` says why.
Result<Plan> plan_together(CollectiveGroup& group, const Announced& mine, const LocalStep& step,
                           std::vector<std::string>& passed_over) {
  LH_TRY(const std::vector<std::string> offered, gather_text_to_first(group, offers_to_text(mine.offers)));
  LH_TRY(const std::vector<std::string> bad, gather_text_to_first(group, join(mine.bad, "\n")));
  std::string made;
  const auto make_plan = [&]() -> Status {
    std::vector<ShareOffer> offers;
    for (std::size_t rank = 0; rank < offered.size(); ++rank) {
      LH_TRY(std::vector<ShareOffer> of_rank, offers_from_text(offered[rank], static_cast<int>(rank)));
      for (ShareOffer& offer : of_rank) offers.push_back(std::move(offer));
    }
    made = plan_to_text(plan_shares(std::move(offers), step.owners, step.step));
    return {};
  };
  LH_CHECK(group.agree(group.is_first() ? make_plan() : Status()));
  LH_TRY(const std::string all_bad, broadcast_text(group, join(bad, "\n"), 0));
  for (const std::string& why : split(all_bad, '\n'))
    if (!why.empty()) passed_over.push_back(why);
  LH_TRY(const std::string text, broadcast_text(group, made, 0));
  Plan plan;
  LH_TRY(plan.shares, plan_from_text(text));
  if (!plan.shares.refused.empty()) return plan;
  const ShareOffer& first = plan.shares.shares.front();
  const auto head = first.rank == group.rank() ? mine.shares.find(first.owner) : mine.shares.end();
  LH_TRY(const std::string head_of_all,
         broadcast_text(group, head == mine.shares.end() ? "" : head_text(head->second.part), first.rank));
  LH_TRY(plan.manifest, head_from_text(head_of_all));
  return plan;
}

// The entries of all shares, named again. ErrorCode::corrupt: they make no whole state.
Status name_entries(Plan& plan, const LocalStep& step) {
  const std::string context = format("copies of step {}", step.step);
  const auto& tensors = plan.manifest.tensors;
  for (const ShareOffer& share : plan.shares.shares)
    for (std::size_t place = 0; place < share.entries.size(); ++place) {
      const PlanEntry& compact = share.entries[place];
      CheckpointEntry entry;
      if (compact.tensor >= static_cast<std::int64_t>(tensors.size()))
        return make_error(ErrorCode::corrupt, context + " name a tensor that is not there");
      const auto& [name, shape] = tensors[static_cast<std::size_t>(compact.tensor)];
      entry.tensor = name, entry.box = compact.box;
      entry.flat_begin = compact.flat_begin, entry.flat_end = compact.flat_end;
      entry.dtype = stored_dtype(compact.is_bf16 ? DType::bf16 : DType::f32), entry.xxh3 = compact.xxh3;
      if (!box_fits(entry.box, shape) || entry.flat_end > entry.box.elements())
        return make_error(ErrorCode::corrupt, format("{}: a piece of {} lies outside of it", context, name));
      plan.manifest.entries.push_back(entry);
      plan.givers.push_back({share.rank, share.owner, place, std::move(entry)});
    }
  return check_coverage(plan.manifest).with_context(context);
}

// Of every piece the ranks that need something of it, but for the one that gives it.
Result<std::vector<std::vector<int>>> takers_of(CollectiveGroup& group, const Plan& plan, const Held& own) {
  std::vector<std::size_t> needed;
  for (std::size_t i = 0; i < plan.givers.size(); ++i)
    if (plan.givers[i].rank != group.rank() && own.needs(plan.givers[i].entry)) needed.push_back(i);
  LH_TRY(const std::vector<std::string> needs, gather_text_to_first(group, needs_to_text(needed)));
  LH_TRY(const std::string all, broadcast_text(group, join(needs, "\n"), 0));
  std::vector<std::vector<int>> takers(plan.givers.size());
  int rank = 0;
  for (const std::string& of_rank : split(all, '\n')) {
    LH_TRY(const std::vector<std::size_t> places, needs_from_text(of_rank, plan.givers.size()));
    for (const std::size_t place : places)
      if (plan.givers[place].rank == group.rank() || rank == group.rank()) takers[place].push_back(rank);
    ++rank;
  }
  return takers;
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

namespace {

// What came of a piece, held against its owner's digest.
Status check_came(std::span<const float> values, const Giver& giver) {
  const CheckpointEntry& entry = giver.entry;
  std::vector<bf16> narrow;
  std::string_view bytes(reinterpret_cast<const char*>(values.data()), values.size_bytes());
  if (entry.dtype == stored_dtype(DType::bf16)) {  // as it was sent: narrowed without loss
    narrow.reserve(values.size());
    for (const float value : values) narrow.emplace_back(value);
    bytes = {reinterpret_cast<const char*>(narrow.data()), narrow.size() * sizeof(bf16)};
  }
  if (xxh3_64(bytes) == entry.xxh3) return {};
  return make_error(ErrorCode::unavailable,
                    format("a piece of {} came from rank {} to {} with other bytes than it had there", entry.tensor,
                           giver.rank, host_name()),
                    "where it comes again, the network between the two is at fault");
}

}  // namespace

Result<LocalLoad> load_local_step(CollectiveGroup& group, const std::string& folder, const std::string& key,
                                  const LocalStep& step, TrainingState& state, int threads, const TimeLine& line) {
  LH_TRY(Announced mine, announce(group, folder, key, step, line, threads));
  LocalLoad load;
  LH_TRY(Plan plan, plan_together(group, mine, step, load.passed_over));
  load.refused = plan.shares.refused;
  if (load.refused.empty())
    if (const Status whole = name_entries(plan, step); !whole.ok()) load.refused = whole.error().message();
  if (!load.refused.empty()) return load;
  load.own_copies = plan.shares.own_copies, load.partner_copies = plan.shares.partner_copies;
  if (!(plan.manifest.shape == state.shape))
    return make_error(ErrorCode::invalid_input, folder + " has copies of a model of another shape");

  const ParallelDims& dims = state.layout->place().dims;
  const Held own(state.shape, MeshPlace{dims, coordinates_of(dims, group.rank()), state.layout->stages()});
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
  LH_TRY(const std::vector<std::vector<int>> takers, takers_of(group, plan, own));

  // The same order on every rank, so that every message is waited for on both sides.
  std::int64_t filled = 0, wanted = 0;
  for (const auto& [name, range] : own.ranges) wanted += range.end - range.begin;
  std::vector<float> coming, widened;
  Status outcome;
  for (std::size_t i = 0; i < plan.givers.size(); ++i) {
    const Giver& giver = plan.givers[i];
    const CheckpointEntry& entry = giver.entry;
    ConstView piece;
    if (giver.rank == group.rank()) {
      const GoodShare& share = mine.shares.at(giver.owner);
      LH_TRY(piece, verified_entry(*share.shard, shard_file_name(giver.owner, step.owners),
                                   share.part.entries[giver.place], false));
      const std::span<const float> message = as_floats(piece, widened);
      for (const int taker : takers[i]) LH_CHECK(group.send(message, taker));
    } else if (!takers[i].empty()) {
      coming.resize(static_cast<std::size_t>(entry.flat_end - entry.flat_begin));
      LH_CHECK(group.recv(coming, giver.rank));
      if (const auto bit = flip_here(FaultPoint::restart_piece))
        flip_bit(std::as_writable_bytes(std::span(coming)), *bit);
      if (const Status same = check_came(coming, giver); !same.ok() && outcome.ok()) outcome = same;
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
