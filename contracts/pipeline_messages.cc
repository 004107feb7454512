#include "contracts/pipeline_messages.h"

#include "base/text.h"
#include "contracts/pipeline_stages.h"

namespace longhaul {
namespace {
constexpr int tags = 1024, directions = 2;

// `stage` sends it.
int tag_of(int pp, int vp, int stage, bool forward, int micro_batch) {
  const int window = tags / directions / vp;  // micro-batches until a tag comes again
  return directions * (micro_batch % window * vp + stage / pp) + (forward ? 0 : 1);
}
}  // namespace

PipelineMessages pipeline_messages(int pp, int vp, int pp_rank, const ScheduleOp& op) {
  LH_ASSERT(pp_rank >= 0 && pp_rank < pp && vp >= 1 && vp <= tags / directions && op.chunk >= 0 && op.chunk < vp &&
                op.micro_batch >= 0,
            format("pp={} vp={} pp_rank={} op={}", pp, vp, pp_rank, to_string(op)));
  PipelineMessages messages;
  if (op.kind == ScheduleOp::Kind::backward_weight) return messages;
  const bool forward = op.kind == ScheduleOp::Kind::forward;
  const int here = stage_of_chunk(pp, pp_rank, op.chunk), step = forward ? 1 : -1;
  const auto exists = [&](int stage) { return stage >= 0 && stage < pp * vp; };
  if (const int from = here - step; exists(from))
    messages.receive = {from % pp, tag_of(pp, vp, from, forward, op.micro_batch)};
  if (const int to = here + step; exists(to)) messages.send = {to % pp, tag_of(pp, vp, here, forward, op.micro_batch)};
  return messages;
}

}  // namespace longhaul
