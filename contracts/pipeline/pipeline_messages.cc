#include "contracts/pipeline/pipeline_messages.h"

#include "base/text/text.h"
#include "contracts/pipeline/pipeline_stages.h"

namespace longhaul {
namespace {
constexpr int forward_tag = 1, backward_tag = 2, chunks_of_rank_max = 512;
}  // namespace

PipelineMessages pipeline_messages(int pp, int vp, int pp_rank, const ScheduleOp& op) {
  LH_ASSERT(pp_rank >= 0 && pp_rank < pp && vp >= 1 && vp <= chunks_of_rank_max && op.chunk >= 0 && op.chunk < vp &&
                op.micro_batch >= 0,
            format("pp={} vp={} pp_rank={} op={}", pp, vp, pp_rank, to_string(op)));
  PipelineMessages messages;
  if (op.kind == ScheduleOp::Kind::backward_weight) return messages;
  const bool forward = op.kind == ScheduleOp::Kind::forward;
  const int here = stage_of_chunk(pp, pp_rank, op.chunk), step = forward ? 1 : -1;
  const int tag = forward ? forward_tag : backward_tag;
  const auto exists = [&](int stage) { return stage >= 0 && stage < pp * vp; };
  if (const int from = here - step; exists(from)) messages.receive = {from % pp, tag};
  if (const int to = here + step; exists(to)) messages.send = {to % pp, tag};
  return messages;
}

}  // namespace longhaul
