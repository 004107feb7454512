#include "engine/comm/nccl_lanes.h"

#include <algorithm>

#include "base/text/text.h"
#include "engine/comm/communicator.h"
#include "engine/comm/mesh_axes.h"

namespace longhaul {
namespace {

using Kind = NcclLane::Kind;

// Blocks of a device with as many multiprocessors as an H100. The ranks of an expert that is split (etp) have those of
// the expert's copies (number_of_group); for both there is room, as no layout has expert_data_axis beside the two of
// ZeRO that stand for it. Who carries gradients, weights and activations has many,
// who carries a few numbers one or two: what NCCL makes of them has not been measured.
struct AxisShare {
  int axis;
  int collectives;
  int exchange_tags = 0, exchanges = 0;  // lanes, and blocks of each
  int message_lanes = 0, messages = 0;
};
constexpr AxisShare shares[] = {
    {world_axis, 1},
    {tensor_axis, 10, 3, 4},  // sums of rows, rows that are needed now, and soon
    {data_axis, 8},
    {replica_axis, 1},
    {pipeline_axis, 1, 0, 0, 4, 3},  // to and from both neighbours
    {pipeline_ends_axis, 2},
    {shard_axis, 10},
    {replicate_axis, 3},
    {context_axis, 8, 2, 4},  // keys, gradients
    {whole_axis, 1},
    {micro_batch_axis, 2},
    {expert_axis, 10, 2, 4},  // rows, answers
    {expert_copy_axis, 3},
    {expert_data_axis, 3},
    {expert_shard_axis, 6},
    {expert_replicate_axis, 3},
};
constexpr int waited_for_share = 1, reserve_least = 16, reserve_part = 8;

constexpr int all_shares() {
  int sum = nccl_shared_queues * waited_for_share;
  for (const AxisShare& a : shares) sum += a.collectives + a.exchange_tags * a.exchanges + a.message_lanes * a.messages;
  return sum;
}

constexpr int share_of(const AxisShare& axis, const NcclLane& lane) {
  switch (lane.kind) {
    case Kind::collectives: return axis.collectives;
    case Kind::exchanges: return axis.exchanges;
    case Kind::messages: return lane.tag == waited_for_tag ? waited_for_share : axis.messages;
  }
  return 0;
}

}  // namespace

std::string NcclLane::name() const {
  switch (kind) {
    case Kind::collectives: return "";
    case Kind::exchanges: return format("-tag{}", tag);
    case Kind::messages: return format("-from{}-to{}-tag{}", from, to, tag);
  }
  return "";
}

NcclLane nccl_lane(CollectiveKind kind, int rank, int peer, int from, int tag) {
  if (from >= 0) return {Kind::exchanges, tag};
  if (kind == CollectiveKind::send) return {Kind::messages, tag, rank, peer};
  if (kind == CollectiveKind::recv) return {Kind::messages, tag, peer, rank};
  return {};
}

int nccl_shared_queue(const NcclLane& lane, int rank) {
  if (lane.kind != Kind::messages || lane.tag != waited_for_tag) return -1;
  return lane.from == rank ? 0 : 1;
}

int reserved_multiprocessors(int multiprocessors) {
  return std::max(reserve_least, multiprocessors / reserve_part);
}

int nccl_blocks(int axis, const NcclLane& lane, int multiprocessors) {
  const auto* const found = std::ranges::find(shares, axis, &AxisShare::axis);
  LH_ASSERT(found != std::end(shares), format("axis {}", axis));
  const int free = multiprocessors - reserved_multiprocessors(multiprocessors);
  return std::max(1, share_of(*found, lane) * free / all_shares());
}

Status check_multiprocessors(int multiprocessors) {
  if (multiprocessors >= multiprocessors_least) return {};
  return make_error(ErrorCode::unsupported,
                    format("this GPU (or the part of it that this process has) has {} multiprocessors; the "
                           "communicators of a rank may need {} at once",
                           multiprocessors, multiprocessors_least),
                    "take a whole GPU for each rank, or communicator = \"staged\"");
}

std::vector<NcclLaneUse> all_nccl_lanes() {
  std::vector<NcclLaneUse> all;
  for (const AxisShare& a : shares) {
    all.push_back({a.axis, {}});
    for (int tag = 0; tag < a.exchange_tags; ++tag) all.push_back({a.axis, {Kind::exchanges, 1 + tag}});
    for (int i = 0; i < a.message_lanes; ++i)  // from this rank (0) or to it, each in both directions
      all.push_back({a.axis, {Kind::messages, 1 + i / 2, i % 2 == 0 ? 0 : 1, i % 2 == 0 ? 1 : 0}});
  }
  all.push_back({whole_axis, {Kind::messages, waited_for_tag, 0, 1}});
  all.push_back({whole_axis, {Kind::messages, waited_for_tag, 1, 0}});
  return all;
}

}  // namespace longhaul
