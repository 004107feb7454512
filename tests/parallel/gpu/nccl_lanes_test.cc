// Overlapped communication on GPUs ends, whichever order the hardware chooses. The order of posts is the engine's own:
// a rank of every stage of a layout trains a step over a communicator that writes it down, and simulated GPUs with the
// multiprocessors of an H100 carry it out, kernel by kernel, on the lanes of engine/comm/nccl_lanes.h.
#include "engine/comm/nccl_lanes.h"

#include <doctest/doctest.h>

#include <cstdio>
#include <map>
#include <set>
#include <tuple>

#include "base/system/clock.h"
#include "base/text/text.h"
#include "engine/comm/mesh_axes.h"
#include "engine/parallel/mesh/rehearsal.h"
#include "tests/support/emulated_gpu/recording_communicator.h"
#include "tests/support/emulated_gpu/simulated_ranks.h"
#include "tests/support/long_run.h"
#include "tests/support/seed.h"
#include "tests/unit/engine/train/training_setup.h"

using namespace longhaul;
using namespace longhaul::test;
using namespace longhaul::testing;

namespace {

struct LaneLayout {
  ParallelDims dims;
  SetupOptions what;
  std::int64_t micro_batch = 4, micro_batches = 2;
};

LaneLayout lane_layout(int tp, int ep, int cp, int pp) {
  LaneLayout layout;
  ParallelDims& d = layout.dims;
  d.tp = tp, d.sp = tp > 1, d.cp = cp, d.pp = pp, d.ep = ep;
  d.vp = pp == 2 ? 2 : 1;
  d.dp_shard = std::max(1, ep / (tp * cp));
  if (d.world_size() <= 32) d.dp_shard *= 2;
  d.zero = d.dp_shard > 1 ? 3 : 0;
  ModelShape shape = ep > 1 ? training_mixtral_shape() : training_shape();
  shape.hidden_size = 64, shape.num_attention_heads = shape.num_key_value_heads = 8, shape.head_dim = 8;
  shape.num_hidden_layers = pp * d.vp;
  layout.what.shape = shape;
  layout.what.pipeline.schedule = d.vp > 1 ? "interleaved" : "auto";
  layout.micro_batches = pp > 1 ? 4 : 2;
  return layout;
}

Result<CommunicationRecord> record_of(const LaneLayout& layout, int rank) {
  const SystemClock clock;
  CommOptions options;
  options.clock = &clock;
  CommunicationRecord record;
  const auto world = make_recording_communicator(record, rank, layout.dims.world_size(), options);
  LH_TRY(const std::unique_ptr<Mesh> mesh, Mesh::create(layout.dims, *world));
  TrainingSetup setup(layout.micro_batch * layout.micro_batches * layout.dims.dp(), 1, layout.micro_batch, mesh.get(),
                      DType::f32, 8, layout.what);
  LH_CHECK(setup.trainer.step());
  return record;
}

// The groups of a rank, without a training.
std::vector<RecordedGroup> groups_of(const ParallelDims& dims, int rank) {
  const SystemClock clock;
  CommOptions options;
  options.clock = &clock;
  CommunicationRecord record;
  const auto world = make_recording_communicator(record, rank, dims.world_size(), options);
  LH_ASSERT(Mesh::create(dims, *world).ok(), dims.to_string());
  return record.groups;
}

// How operations become kernels.
class Rules {
 public:
  virtual ~Rules() = default;
  // A receive and a send by themselves, the receive ahead.
  virtual bool splits_exchanges() const = 0;
  virtual NcclLane lane(const RecordedAction& post, int rank, int peer, int from, int number) const = 0;
  virtual int blocks(int axis, const NcclLane& lane) const = 0;
};

class RulesOfToday final : public Rules {
 public:
  explicit RulesOfToday(int multiprocessors) : multiprocessors_(multiprocessors) {}
  bool splits_exchanges() const override { return false; }
  NcclLane lane(const RecordedAction& post, int rank, int peer, int from, int) const override {
    return nccl_lane(post.kind, rank, peer, from, post.tag);
  }
  int blocks(int axis, const NcclLane& lane) const override { return nccl_blocks(axis, lane, multiprocessors_); }

 private:
  int multiprocessors_;
};

// What the engine did at 057de77b: a communicator for each sender, receiver and tag, where messages of a pipeline had
// tags of their micro-batches; receives posted ahead of the products whose results the neighbours wait for; as many
// thread blocks as NCCL takes by itself, which is up to 32 over NVLink.
class RulesBefore final : public Rules {
 public:
  bool splits_exchanges() const override { return true; }
  NcclLane lane(const RecordedAction& post, int rank, int peer, int, int number) const override {
    NcclLane lane = nccl_lane(post.kind, rank, peer, -1, post.tag);
    if (lane.kind == NcclLane::Kind::messages && post.from < 0) lane.tag += 2 * number;
    return lane;
  }
  int blocks(int, const NcclLane&) const override { return 32; }
};

// The parts of a rank's record that one kernel each comes of, in the order in which they are posted.
struct Part {
  int action = 0;                       // in the record
  bool whole = true, receives = false;  // or half of an exchange
  bool product = true;                  // asked for before it
};

bool sums_rows(const CommunicationRecord& record, const RecordedAction& a) {
  return !a.waits && a.from >= 0 && record.groups[static_cast<std::size_t>(a.group)].axis == tensor_axis && a.tag == 1;
}
bool answers(const CommunicationRecord& record, const RecordedAction& a) {
  return !a.waits && a.from >= 0 && record.groups[static_cast<std::size_t>(a.group)].axis == expert_axis && a.tag == 2;
}
bool dispatches(const CommunicationRecord& record, const RecordedAction& a) {
  return !a.waits && a.from >= 0 && record.groups[static_cast<std::size_t>(a.group)].axis == expert_axis && a.tag == 1;
}

std::vector<Part> parts_of(const CommunicationRecord& record, const Rules& rules) {
  std::vector<Part> parts;
  const auto at = [&](int action) -> const RecordedAction& { return record.actions[static_cast<std::size_t>(action)]; };
  const int count = static_cast<int>(record.actions.size());
  if (!rules.splits_exchanges()) {
    for (int i = 0; i < count; ++i) parts.push_back({i});
    return parts;
  }
  // All receives of a sum of rows stood before its first product, all of the experts' answers behind the dispatch.
  std::vector<bool> received_ahead(record.actions.size(), false);
  const auto receive_ahead = [&](int first, bool (*is_of)(const CommunicationRecord&, const RecordedAction&),
                                 int last) {
    for (int i = first; i < count && i <= last; ++i) {
      if (!is_of(record, at(i)) || received_ahead[static_cast<std::size_t>(i)]) continue;
      received_ahead[static_cast<std::size_t>(i)] = true;
      parts.push_back({i, false, true, false});
    }
  };
  // Up to the first of those waits that ends the operation.
  const auto end_of = [&](int first, bool (*is_of)(const CommunicationRecord&, const RecordedAction&)) {
    std::set<int> posts;
    int last = first;
    for (int i = first; i < count; ++i) {
      if (is_of(record, at(i))) posts.insert(at(i).post), last = i;
      if (at(i).waits && posts.contains(at(i).post)) break;
    }
    return last;
  };
  for (int i = 0; i < count; ++i) {
    const RecordedAction& a = at(i);
    if (sums_rows(record, a) && !received_ahead[static_cast<std::size_t>(i)])
      receive_ahead(i, sums_rows, end_of(i, sums_rows));
    if (a.waits || a.from < 0) {
      parts.push_back({i});
      continue;
    }
    if (!received_ahead[static_cast<std::size_t>(i)]) parts.push_back({i, false, true});
    parts.push_back({i, false, false, received_ahead[static_cast<std::size_t>(i)]});
    if (dispatches(record, a) && i + 1 < count && !dispatches(record, at(i + 1)))
      receive_ahead(i + 1, answers, end_of(i + 1, answers));
  }
  return parts;
}

// The host has to know what was computed before it starts these: counts of experts' rows, norms.
bool follows_a_look(int axis, const RecordedAction& post) {
  return post.from < 0 && (axis == micro_batch_axis || axis == expert_axis || axis == world_axis);
}

class Translation {
 public:
  explicit Translation(const Rules& rules) : rules_(rules) {}

  void add(int rank, const CommunicationRecord& record, const std::vector<RecordedGroup>& groups) {
    LH_ASSERT(groups.size() == record.groups.size(), "groups of a stage");
    SimulatedRank made;
    std::map<std::pair<int, NcclLane>, int> queues;
    std::map<int, std::vector<int>> kernels_of;  // by post
    std::map<std::tuple<int, int, int, int>, int> numbers;
    int shared_queues[nccl_shared_queues] = {};
    for (const Part& part : parts_of(record, rules_)) {
      RecordedAction a = record.actions[static_cast<std::size_t>(part.action)];
      if (a.waits) {
        for (const int k : kernels_of[a.post]) made.actions.push_back({SimulatedAction::Kind::wait, k});
        continue;
      }
      const RecordedGroup& theirs = record.groups[static_cast<std::size_t>(a.group)];
      const RecordedGroup& group = groups[static_cast<std::size_t>(a.group)];
      LH_ASSERT(group.axis == theirs.axis, "groups of a stage");
      const int n = static_cast<int>(group.members.size());
      const auto shifted = [&](int peer) { return peer < 0 ? -1 : ((peer - theirs.rank + group.rank) % n + n) % n; };
      int peer = shifted(a.peer), from = shifted(a.from);
      if (!part.whole) {  // as a receive or a send by itself
        a.kind = part.receives ? CollectiveKind::recv : CollectiveKind::send;
        if (part.receives) peer = from;
      }
      const int number = numbers[{a.group, peer, a.kind == CollectiveKind::recv, a.tag}]++;
      const NcclLane lane = rules_.lane(a, group.rank, peer, part.whole ? from : -1, number);
      SimulatedKernel k;
      std::vector<int> ranks = group.members;
      k.member = group.rank;
      if (lane.kind == NcclLane::Kind::messages) {
        ranks = {group.members[static_cast<std::size_t>(lane.from)], group.members[static_cast<std::size_t>(lane.to)]};
        k.member = a.kind == CollectiveKind::send ? 0 : 1;
        k.partners = {1 - k.member};
      } else if (lane.kind == NcclLane::Kind::exchanges) {
        k.partners = {peer, from};
      }
      k.meeting = meeting_of(group.axis, lane, ranks);
      k.number = numbers_[{k.meeting, k.member}]++;
      k.blocks = rules_.blocks(group.axis, lane);
      const int shared = rules_.splits_exchanges() ? -1 : nccl_shared_queue(lane, group.rank);
      int& queue = shared >= 0 ? shared_queues[shared] : queues[{a.group, lane}];
      if (queue == 0) queue = made.queues++;
      k.queue = queue;
      if (part.product) made.actions.push_back({SimulatedAction::Kind::product, -1});
      if (follows_a_look(group.axis, a)) made.actions.push_back({SimulatedAction::Kind::finish_products, -1});
      const int kernel = static_cast<int>(made.kernels.size());
      kernels_of[a.post].push_back(kernel);
      made.actions.push_back({SimulatedAction::Kind::start, kernel});
      made.kernels.push_back(std::move(k));
    }
    if (launch.ranks.size() <= static_cast<std::size_t>(rank)) launch.ranks.resize(static_cast<std::size_t>(rank) + 1);
    launch.ranks[static_cast<std::size_t>(rank)] = std::move(made);
  }

  SimulatedLaunch launch;

 private:
  int meeting_of(int axis, const NcclLane& lane, const std::vector<int>& ranks) {
    const auto [found, fresh] = meetings_.try_emplace({axis, lane, ranks}, static_cast<int>(launch.meetings.size()));
    if (fresh) launch.meetings.push_back({ranks});
    return found->second;
  }

  const Rules& rules_;
  std::map<std::tuple<int, NcclLane, std::vector<int>>, int> meetings_;
  std::map<std::pair<int, int>, int> numbers_;
};

// One rank of each stage trains; the others of the stage do the same, seen from their own places.
std::vector<CommunicationRecord> records_of(const LaneLayout& layout) {
  std::vector<CommunicationRecord> records;
  for (int stage = 0; stage < layout.dims.pp; ++stage) {
    RankCoordinates at;
    at.pp = stage;
    auto record = record_of(layout, global_rank_of(layout.dims, at));
    REQUIRE_MESSAGE(record.ok(), (record.ok() ? "" : record.error().message()));
    records.push_back(std::move(*record));
  }
  return records;
}

SimulatedLaunch launch_of(const ParallelDims& dims, const std::vector<CommunicationRecord>& records,
                          const std::vector<std::vector<RecordedGroup>>& groups, const Rules& rules) {
  Translation translation(rules);
  for (int rank = 0; rank < dims.world_size(); ++rank)
    translation.add(rank, records[static_cast<std::size_t>(coordinates_of(dims, rank).pp)],
                    groups[static_cast<std::size_t>(rank)]);
  return std::move(translation.launch);
}

std::vector<std::vector<RecordedGroup>> all_groups(const ParallelDims& dims) {
  std::vector<std::vector<RecordedGroup>> groups;
  for (int rank = 0; rank < dims.world_size(); ++rank) groups.push_back(groups_of(dims, rank));
  return groups;
}

// Multiprocessors that a rank's queues may hold at once, each by its largest kernel.
int blocks_at_once(const SimulatedRank& rank) {
  std::vector<int> largest(static_cast<std::size_t>(rank.queues), 0);
  for (const SimulatedKernel& k : rank.kernels)
    largest[static_cast<std::size_t>(k.queue)] = std::max(largest[static_cast<std::size_t>(k.queue)], k.blocks);
  int sum = 0;
  for (const int blocks : largest) sum += blocks;
  return sum;
}

constexpr int sizes[] = {1, 2, 4, 8};
constexpr SimulatedDevice h100{132, connections_max};

}  // namespace

TEST_CASE("all lanes of a rank together leave the products their multiprocessors, and have a connection each") {
  for (int multiprocessors = multiprocessors_least; multiprocessors <= 256; ++multiprocessors) {
    CAPTURE(multiprocessors);
    int blocks = 0;
    for (const NcclLaneUse& use : all_nccl_lanes()) blocks += nccl_blocks(use.axis, use.lane, multiprocessors);
    CHECK(blocks <= multiprocessors - reserved_multiprocessors(multiprocessors));
    CHECK(check_multiprocessors(multiprocessors).ok());
  }
  CHECK(all_nccl_lanes().size() <= nccl_queues_max);
  CHECK(nccl_queues_max + 2 <= connections_max);
  CHECK_FALSE(check_multiprocessors(multiprocessors_least - 1).ok());
}

TEST_CASE("every layout of tp, ep, cp and pp in 1, 2, 4, 8 comes to its end, in whatever order kernels come") {
  const std::uint64_t seed = testing::seed(1);
  MESSAGE("LONGHAUL_SEED=" << seed);
  // Of simulated ranks the largest layouts have the most; they are left to the tests of label `slow`.
  const int schedules = testing::long_run() ? 4 : 2, world_max = testing::long_run() ? 4096 : 128;
  const RulesOfToday today(h100.multiprocessors);
  const RulesBefore before;
  int layouts = 0, finished = 0, stopped_before = 0, layouts_stopped_before = 0, largest = 0, queues = 0;
  std::int64_t kernels = 0;
  for (const int pp : sizes)
    for (const int cp : sizes)
      for (const int ep : sizes)
        for (const int tp : sizes) {
          const LaneLayout layout = lane_layout(tp, ep, cp, pp);
          if (tp * ep * cp * pp > world_max) continue;
          const std::string name = layout.dims.to_string();
          CAPTURE(name);
          const std::vector<CommunicationRecord> records = records_of(layout);
          const auto groups = all_groups(layout.dims);
          const SimulatedLaunch launch = launch_of(layout.dims, records, groups, today);
          const SimulatedLaunch old = launch_of(layout.dims, records, groups, before);
          for (const SimulatedRank& rank : launch.ranks) {
            largest = std::max(largest, blocks_at_once(rank)), queues = std::max(queues, rank.queues - 1);
            kernels += static_cast<std::int64_t>(rank.kernels.size());
          }
          bool stopped = false;
          for (int schedule = 0; schedule < schedules; ++schedule) {
            const std::uint64_t drawn = seed + static_cast<std::uint64_t>(schedules * layouts + schedule);
            const SimulationResult result = simulate(launch, h100, drawn);
            CHECK_MESSAGE(result.finished, name << ", schedule " << drawn << ": " << result.text());
            finished += result.finished ? 1 : 0;
            // With connections for all of its lanes, which it had not.
            const SimulationResult then = simulate(old, {h100.multiprocessors, 1 << 20}, drawn);
            stopped_before += then.finished ? 0 : 1;
            stopped = stopped || !then.finished;
          }
          layouts_stopped_before += stopped ? 1 : 0;
          // Seven neighbours of a rank send at once.
          if (tp == 8) CHECK_MESSAGE(stopped, name << " should stop with the lanes of 057de77b");
          ++layouts;
        }
  CHECK(layouts == (testing::long_run() ? 256 : 190));
  CHECK(finished == layouts * schedules);
  CHECK(largest <= h100.multiprocessors - reserved_multiprocessors(h100.multiprocessors));
  CHECK(queues <= nccl_queues_max);
  std::printf(
      "%d layouts, %lld kernels of communicators: %d of %d schedules came to their end (at most %d of %d "
      "multiprocessors and %d queues for communicators); with the lanes of 057de77b %d stopped, in %d layouts\n",
      layouts, static_cast<long long>(kernels), finished, layouts * schedules, largest, h100.multiprocessors, queues,
      stopped_before, layouts_stopped_before);
}

TEST_CASE("experts that are split over ranks need no more lanes, and come to their end") {
  const std::uint64_t seed = testing::seed(1);
  MESSAGE("LONGHAUL_SEED=" << seed);
  const RulesOfToday today(h100.multiprocessors);
  for (const auto& [etp, ep] : {std::pair{2, 1}, {2, 4}, {4, 2}}) {
    LaneLayout layout = lane_layout(4, 2, 1, 2);
    layout.dims.etp = etp, layout.dims.ep = ep;
    CAPTURE(layout.dims.to_string());
    REQUIRE(expert_dims_of(layout.dims).ok());
    const SimulatedLaunch launch = launch_of(layout.dims, records_of(layout), all_groups(layout.dims), today);
    for (const SimulatedRank& rank : launch.ranks) {
      CHECK(blocks_at_once(rank) <= h100.multiprocessors - reserved_multiprocessors(h100.multiprocessors));
      CHECK(rank.queues - 1 <= nccl_queues_max);
    }
    const SimulationResult result = simulate(launch, h100, seed);
    CHECK_MESSAGE(result.finished, result.text());
  }
}

TEST_CASE("all ranks of a stage start the same operations, each seen from its own place") {
  LaneLayout layout = lane_layout(4, 2, 2, 2);
  for (int rank = 0; rank < layout.dims.world_size(); ++rank) {
    CAPTURE(rank);
    RankCoordinates first;
    first.pp = coordinates_of(layout.dims, rank).pp;
    const CommunicationRecord a = record_of(layout, global_rank_of(layout.dims, first)).value(),
                              b = record_of(layout, rank).value();
    REQUIRE(a.actions.size() == b.actions.size());
    REQUIRE(a.groups.size() == b.groups.size());
    bool alike = true;
    for (std::size_t i = 0; i < a.actions.size(); ++i) {
      const RecordedAction &x = a.actions[i], &y = b.actions[i];
      const auto place = [](const CommunicationRecord& record, const RecordedAction& action, int peer) {
        const RecordedGroup& group = record.groups[static_cast<std::size_t>(action.group)];
        const int n = static_cast<int>(group.members.size());
        return (peer - group.rank + n) % n;
      };
      alike =
          alike && x.waits == y.waits && x.post == y.post && x.group == y.group && x.kind == y.kind && x.tag == y.tag;
      const bool message = x.from >= 0 || x.kind == CollectiveKind::send || x.kind == CollectiveKind::recv;
      if (x.waits || !message) continue;
      alike = alike && place(a, x, x.peer) == place(b, y, y.peer) && (x.from < 0) == (y.from < 0);
      if (x.from >= 0) alike = alike && place(a, x, x.from) == place(b, y, y.from);
    }
    CHECK(alike);
  }
}

TEST_CASE("what a step starts between ranks was rehearsed before it") {
  // Experts of which each rank has all, with shares of the optimizer and without.
  LaneLayout all_experts = lane_layout(2, 2, 2, 2), replicas = lane_layout(1, 2, 1, 1), split = lane_layout(4, 2, 1, 1);
  all_experts.dims.ep = replicas.dims.ep = 1, replicas.dims.zero = 0, split.dims.etp = 2;
  for (const LaneLayout& layout :
       {lane_layout(4, 1, 2, 2), lane_layout(2, 4, 2, 2), lane_layout(1, 8, 1, 4), all_experts, replicas, split}) {
    CAPTURE(layout.dims.to_string());
    for (int stage = 0; stage < layout.dims.pp; ++stage) {
      RankCoordinates at;
      at.pp = stage;
      const SystemClock clock;
      CommOptions options;
      options.clock = &clock;
      CommunicationRecord record;
      const auto world =
          make_recording_communicator(record, global_rank_of(layout.dims, at), layout.dims.world_size(), options);
      const std::unique_ptr<Mesh> mesh = Mesh::create(layout.dims, *world).value();
      REQUIRE(rehearse(*mesh, layout.what.shape.is_moe()).ok());
      const std::size_t rehearsed = record.actions.size();
      TrainingSetup setup(layout.micro_batch * layout.micro_batches * layout.dims.dp(), 1, layout.micro_batch,
                          mesh.get(), DType::f32, 8, layout.what);
      REQUIRE(setup.trainer.step().ok());
      std::set<std::pair<int, NcclLane>> known;
      for (std::size_t i = 0; i < record.actions.size(); ++i) {
        const RecordedAction& a = record.actions[i];
        if (a.waits) continue;
        const RecordedGroup& group = record.groups[static_cast<std::size_t>(a.group)];
        const std::pair lane(a.group, nccl_lane(a.kind, group.rank, a.peer, a.from, a.tag));
        if (i < rehearsed)
          known.insert(lane);
        else
          CHECK_MESSAGE(known.contains(lane), "axis " << group.axis << lane.second.name());
      }
    }
  }
}

TEST_CASE("lanes come to their end as well where queues share connections, which main() sees to that they do not") {
  const LaneLayout layout = lane_layout(4, 4, 2, 4);
  const RulesOfToday today(h100.multiprocessors);
  const SimulatedLaunch launch = launch_of(layout.dims, records_of(layout), all_groups(layout.dims), today);
  for (const int connections : {1, 2, 8})
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
      const SimulationResult result = simulate(launch, {h100.multiprocessors, connections}, seed);
      CHECK_MESSAGE(result.finished, connections << " connections, seed " << seed << ": " << result.text());
    }
}
