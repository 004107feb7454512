#include "contracts/plan/memory_plan.h"

#include <algorithm>
#include <bit>

#include "base/text/text.h"
#include "contracts/model/adapter_list.h"
#include "contracts/model/coded_weights.h"
#include "contracts/plan/memory_remedy.h"
#include "contracts/plan/units_at_once.h"

namespace longhaul {

// Llama::partial_gradients
PartialGradients partial_gradient_elements(const TrainingOutline& o, const RankOutline& rank) {
  PartialGradients elements;
  const auto owned = [&](std::int64_t begin, std::int64_t end) {
    std::int64_t sum = 0;
    rank.layout.owned().for_each_in({begin, end}, [&](FlatRange, FlatRange packed) { sum += packed.size(); });
    return sum;
  };
  const auto add = [&](std::int64_t begin, std::int64_t end) { elements.tensor += owned(begin, end); };
  const FlatParameter* before = nullptr;  // of a router with its shared experts: one range, padding included
  for (const FlatParameter& p : rank.layout.parameters()) {
    if (o.adapter.on()) {
      if (has_addends(p.spec, o.dims))
        (p.spec.expert >= 0 ? elements.experts : elements.tensor) += owned(p.begin, p.end);
      continue;
    }
    if (o.dims.sp && is_norm(p.spec)) add(p.begin, p.end);
    const bool of_router =
        o.dims.tp > 1 && p.spec.expert < 0 && p.spec.name.find(".block_sparse_moe.") != std::string::npos;
    if (of_router) add(before ? before->end : p.begin, p.end);
    before = of_router ? &p : nullptr;
  }
  return elements;
}

namespace {

constexpr std::int64_t f32 = 4, i32 = 4;

// As engine/core/tensor/tensor.h's Arena hands memory out.
std::int64_t in_arena(std::int64_t bytes) {
  return (bytes + 63) / 64 * 64;
}

// As engine/model/store/growing_memory.h: with an eighth more than was asked for.
std::int64_t grown(std::int64_t bytes) {
  return bytes + bytes / 8;
}
// Asked for one size, then for another.
std::int64_t grown(std::int64_t first, std::int64_t then) {
  return then > grown(first) ? grown(then) : grown(first);
}

// The model as far as one rank computes it. Names and formulas as in engine/model/layers/activations.h.
struct RankSizes {
  std::int64_t t, r, h, q, kv, heads, ffn, mlp, statistics, width;
  BottleneckShape bottleneck;

  explicit RankSizes(const TrainingOutline& o)
      : t(o.tokens()),
        r(o.rows()),
        h(o.shape.hidden_size),
        q(o.shape.q_size() / o.dims.tp),
        kv(o.shape.kv_size() / o.dims.tp),
        heads(o.shape.num_attention_heads / o.dims.tp),
        ffn(o.shape.is_moe() ? 0 : o.shape.intermediate_size / o.dims.tp),
        mlp(o.shape.is_moe() ? 0 : o.shape.mlp_width() / o.dims.tp),
        statistics(o.shape.norm_statistics()),
        width(o.width()),
        bottleneck(bottleneck_of(o.adapter)) {}
  std::int64_t of(std::int64_t rows, std::int64_t columns) const { return in_arena(rows * columns * width); }
};

// BlockActivations with their BottleneckActivations, without what is computed again.
std::int64_t kept_by_block(const RankSizes& z, const Recompute& again) {
  std::int64_t bytes = z.of(z.r, z.h);            // x
  if (!again.norms) bytes += 2 * z.of(z.r, z.h);  // input_norm, post_norm
  if (!again.attention)                           // qkv, attention, log_sum_exp
    bytes += z.of(z.t, z.q + 2 * z.kv) + z.of(z.t, z.q) + in_arena(z.t * z.heads * f32);
  if (!again.block) bytes += z.of(z.r, z.h);           // middle
  if (!again.feed_forward) bytes += z.of(z.t, z.mlp);  // gate_up
  if (!again.activation) bytes += z.of(z.t, z.ffn);    // activated
  const int bottlenecks = (z.bottleneck.after_attention && !again.block) + z.bottleneck.after_feed_forward;
  bytes += bottlenecks * (z.of(z.r, z.h) + 2 * z.of(z.r, z.bottleneck.size));
  return bytes + 2 * in_arena(z.r * z.statistics * f32);  // input_inv_rms, post_inv_rms
}

// One pipeline stage of a rank: ActivationSlot, BlockGradients, Workspace; llama.h's tables.
std::int64_t activations_of(const TrainingOutline& o, const RankOutline& rank, int chunk) {
  const RankSizes z(o);
  const int slots = rank.slots(chunk), layers = rank.chunks[static_cast<std::size_t>(chunk)].count();
  std::int64_t slot = 2 * z.of(z.r, z.h) + in_arena(z.r * z.statistics * f32);  // x, final_norm, final_inv_rms
  for (int layer = 0; layer < layers; ++layer) slot += kept_by_block(z, o.recompute.of_layer(layer));
  const std::int64_t prefix = o.adapter.is_prefix() ? in_arena(2 * o.adapter.virtual_tokens * z.kv * f32) : 0;
  const std::int64_t gradients = z.of(z.t, z.q + 2 * z.kv) + 2 * z.of(z.t, z.h) + z.of(z.t, z.mlp) + prefix;
  if (rank.split_backward) slot += layers * gradients + z.of(z.r, z.h);  // embedding_gradient
  std::int64_t bytes = slots * slot;
  if (!rank.split_backward) bytes += gradients;
  if (o.recompute.any()) bytes += kept_by_block(z, {}) - kept_by_block(z, o.recompute);  // of all layers
  bytes += 2 * z.of(z.r, z.h) + z.of(z.t, z.ffn) + z.of(z.t, z.q);  // branch, dx, activated, attention
  if (o.dims.tp > 1)                                                // partial, landing, full
    bytes += in_arena(z.t * z.h * f32) + in_arena((z.t - z.r) * z.h * f32) + z.of(z.t, z.h);
  if (z.bottleneck.size > 0) bytes += z.of(z.r, z.h) + z.of(z.r, z.bottleneck.size);  // before_bottleneck, bottleneck
  if (o.dropout) bytes += z.r * z.h * z.width;                                        // masked
  if (o.low_precision) {  // LowPrecisionState: two operands at a time
    const std::int64_t rows = z.t * std::max({z.h, z.q + 2 * z.kv, z.mlp, z.ffn});
    bytes += z.width * (rows + std::max(rows, z.h * std::max(z.q + 2 * z.kv, z.mlp)));
  }
  const std::int64_t places = o.rope_positions > 0 ? o.rope_positions : o.sequence_length;
  if (!o.shape.is_gpt2()) bytes += 2 * places * (o.shape.head_dim / 2) * f32;  // cosines, sines
  const bool prompt = o.adapter.is_prompt();
  if (rank.is_first(chunk) && (o.dims.tp > 1 || prompt)) bytes += z.t * i32;                            // local_ids
  if (rank.is_first(chunk) && prompt) bytes += z.t * i32;                                               // prompt_rows
  if (rank.is_first(chunk) && o.shape.is_gpt2() && !o.positions && o.dims.cp == 1) bytes += z.t * i32;  // counted
  return bytes;
}

// One pipeline stage: MoeLayer::Slot, MoeGradients, MoeState, ExpertExchange. `received`: rows that this rank's experts
// get of a micro-batch.
std::int64_t experts_of(const TrainingOutline& o, const RankOutline& rank, int chunk, std::int64_t received) {
  const ModelShape& s = o.shape;
  const std::int64_t layers = rank.chunks[static_cast<std::size_t>(chunk)].count(), slots = rank.slots(chunk);
  if (!s.is_moe() || layers == 0) return 0;
  const std::int64_t w = o.width(), h = s.hidden_size, m = o.tokens() / o.dims.tp,
                     f = s.moe_intermediate_size / o.dims.etp;
  const std::int64_t routed = m * s.num_experts_per_tok, shared = s.shared_size(),
                     logits = m * s.num_local_experts * f32;
  const bool alone = o.dims.ep * o.dims.etp == 1;
  const std::int64_t gradients = logits + grown(received * h * w) + grown(received * 2 * f * w) +
                                 (shared > 0 ? grown(m * h * w) + grown(m * 2 * shared * w) : 0);
  // ExpertActivations, without what is computed again.
  const auto kept = [&](const Recompute& again) {
    std::int64_t sum = 0;
    if (!again.block) sum += grown(received * h * w) + grown(routed * h * w);  // received, outputs
    if (!again.feed_forward) sum += grown(received * 2 * f * w) + (shared > 0 ? grown(m * 2 * shared * w) : 0);
    if (!again.activation) sum += grown(received * f * w) + (shared > 0 ? grown(m * shared * w) : 0);
    return sum;
  };
  std::int64_t slot = layers * (logits + routed * (i32 + f32) + 3 * routed * i32);  // ids, weights; the dispatch plan
  for (int layer = 0; layer < layers; ++layer) slot += kept(o.recompute.of_layer(layer));
  if (rank.split_backward) slot += layers * gradients;
  std::int64_t bytes = slots * slot + kept({}) - kept(o.recompute) + routed * f32;  // dweights
  if (!rank.split_backward) bytes += gradients;
  if (!alone) bytes += grown(routed * h * w) + grown(received * h * (o.dims.etp > 1 ? f32 : w));  // rows, answers
  bytes += shared > 0 ? grown(m * shared * w, received * f * w) : grown(received * f * w);        // activated
  if (o.bf16)
    bytes += grown(m * h * f32) + grown(s.num_local_experts * h * f32) + grown(m * h * w);  // x32, router, dlogits_x
  if (s.router_bias) bytes += grown(s.num_local_experts * f32);
  const std::int64_t micro_batch_ranks = o.dims.tp * o.dims.cp;
  if (o.moe.balance == "sinkhorn" && micro_batch_ranks > 1)  // all_logits, all_ids
    bytes += micro_batch_ranks * (logits + routed * i32);
  if (o.dims.tp > 1 && !o.dims.sp) bytes += grown(m * h * w);                                  // own
  if (o.dims.etp > 1) bytes += routed * o.dims.etp * h * (f32 + (o.overlap_experts ? 0 : w));  // outgoing, landing
  return bytes;
}

// One pipeline stage: engine/parallel/context/ring_attention.cc, gather_attention.cc, head_exchange_attention.cc.
std::int64_t context_attention_of(const TrainingOutline& o) {
  const std::int64_t cp = o.dims.cp, w = o.width();
  const RankSizes z(o);
  if (cp == 1) return 0;
  if (o.cp_attention == "gather")  // own, of_ranks, whole, gradient; gradient_sum, own_gradient
    return z.t * 2 * z.kv * ((1 + 3 * cp) * w + (cp + 1) * f32);
  if (o.cp_attention == "a2a") {  // outgoing and incoming, whole, gradient; of the heads of one rank
    const std::int64_t q = z.q / cp, qkv = q + 2 * z.kv / cp;
    return z.t * cp * w * (2 * std::max(qkv, 2 * q) + 2 * q + qkv);
  }
  const std::int64_t half = z.t / 2;
  return 2 * z.t * 2 * z.kv * w + z.t * z.q * f32 +       // keys, queries
         half * (z.q * w + z.heads * f32 + i32) +         // part, part_lse, first_keys
         half * 2 * z.kv * w + 3 * z.t * 2 * z.kv * f32;  // key_part, own_gradient, gradients
}

// engine/train/gradients/tree_gradient_sum.h, bucket_gradient_sum.h
std::int64_t gradients_of(const TrainingOutline& o, const ParameterLayout& layout) {
  std::int64_t experts = 0, largest = 0, largest_share = 0;
  for (const ShardUnit& unit : layout.units()) {
    if (unit.experts) experts += unit.flat.size();
    largest = std::max(largest, unit.flat.size()), largest_share = std::max(largest_share, unit.owned().size());
  }
  const std::int64_t owned = o.dims.zero > 0 ? layout.owned().size() : 0;
  if (o.dims.zero >= 2) {
    const std::int64_t buckets = std::min<std::int64_t>(experts > 0 ? 6 : 4, std::ssize(layout.units()));
    return f32 * (owned + buckets * (largest + largest_share));
  }
  int levels = 0;
  for (const int count : o.micro_batches)
    if (o.deterministic) levels = std::max(levels, std::countr_zero(static_cast<unsigned>(count)));
  const std::int64_t batches = o.deterministic ? expert_dims_of(o.dims)->batches : 1;
  return f32 * ((1 + levels) * (layout.flat_size() + (batches - 1) * experts) + owned);
}

// engine/train/optimizer/optimizer.h; on a disk engine/train/optimizer/moment_stream.h's buffers and
// file_state_place.h's.
std::int64_t moments_of(const TrainingOutline& o, std::int64_t owned) {
  if (!o.moments_on_disk) return owned * o.moment_bytes();
  constexpr std::int64_t block = std::int64_t{1} << 20, page = 4096, bounce = std::int64_t{1} << 20;
  const auto both = [&](std::int64_t elements) {
    const auto pages = [](std::int64_t bytes) { return (bytes + page - 1) / page * page; };
    return pages(elements * o.first_moment_bytes) + pages(elements * o.second_moment_bytes);
  };
  const std::int64_t buffers = std::min<std::int64_t>(3, (owned + block - 1) / block);
  return buffers * both(std::min(block, owned)) + std::min(bounce, both(owned));
}

// engine/model/store/unit_gather.h, with ZeRO 3: a few units, each in memory for the largest.
std::int64_t windows_of(const std::vector<ShardUnit>& units) {
  std::int64_t largest = 0;
  for (const ShardUnit& unit : units) largest = std::max(largest, unit.flat.size());
  return std::min<std::int64_t>(4, std::ssize(units)) * largest;
}

// engine/model/store/parameter_store.h (ZeRO 1, 2), unit_gather.h (3)
std::int64_t gathered_elements(const ParallelDims& dims, const ParameterLayout& layout) {
  if (dims.zero == 0) return 0;
  return dims.zero < 3 ? layout.flat_size() : windows_of(layout.units());
}

// engine/parallel/pipeline/pipeline_link.h of one stage: messages received ahead (that of an operation, and of the one
// after it), and a gradient that is sent.
std::int64_t link_messages(const TrainingOutline& o, const RankOutline& rank, int chunk) {
  const auto receives = [&](const ScheduleOp& op) {
    if (op.chunk != chunk || op.kind == ScheduleOp::Kind::backward_weight) return 0;
    return (op.kind == ScheduleOp::Kind::forward ? rank.is_first(chunk) : rank.is_last(chunk)) ? 0 : 1;
  };
  int most = 0;
  for (const std::vector<ScheduleOp>& ops : rank.schedules)
    for (std::size_t i = 0; o.overlap_pipeline && i < ops.size(); ++i)
      most = std::max(most, receives(ops[i]) + (i + 1 < ops.size() ? receives(ops[i + 1]) : 0));
  return most + (rank.is_first(chunk) ? 0 : 1);
}

std::int64_t communication_of(const TrainingOutline& o, const RankOutline& rank) {
  const RankSizes z(o);
  std::int64_t bytes = partial_gradient_elements(o, rank).largest() * f32;
  for (int chunk = 0; chunk < o.dims.vp; ++chunk) {
    bytes += link_messages(o, rank, chunk) * z.r * z.h * z.width;
  }
  return bytes;
}

// engine/comm/mpi_communicator.cc copies what goes out and what comes in. Of units that are neighbours in the layout,
// so many together.
std::int64_t neighbours_max(const std::vector<ShardUnit>& all, int units, bool with_share) {
  const auto bytes_of = [&](const ShardUnit& unit) {
    return unit.flat.size() + (with_share ? unit.owned().size() : 0);
  };
  std::int64_t most = 0, here = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    here += bytes_of(all[i]);
    if (i >= static_cast<std::size_t>(units)) here -= bytes_of(all[i - static_cast<std::size_t>(units)]);
    most = std::max(most, here);
  }
  return most;
}

// GradientReduction, sum_over_replicates: neighbours that are no experts are one message, experts one a unit.
std::int64_t joined_owned(const ParameterLayout& layout) {
  std::int64_t most = 0, here = 0;
  for (const ShardUnit& unit : layout.units()) {
    here = unit.experts ? 0 : here + unit.owned().size();
    most = std::max({most, here, unit.owned().size()});
  }
  return most;
}

// ZeRO 3: a unit's weights are gathered while gradients are on their way, a large one's beside no large one's gradient
// (contracts/plan/units_at_once.h).
std::int64_t zero3_messages(const TrainingOutline& o, const ParameterLayout& layout) {
  const std::vector<bool> large = large_units(layout.units());
  const std::vector<ShardUnit>& units = layout.units();
  std::int64_t gather[2] = {0, 0};  // the most of a unit that is not large, and of one that is
  std::int64_t sums[2] = {0, 0};    // of two neighbours of which one is large, and of others
  for (std::size_t i = 0; i < units.size(); ++i) {
    gather[large[i]] = std::max(gather[large[i]], o.width() * (units[i].flat.size() + units[i].owned().size()));
    const bool two = o.overlap_gradients && i > 0;
    const std::int64_t here = units[i].flat.size() + (two ? units[i - 1].flat.size() : 0);
    const bool any_large = large[i] || (two && large[i - 1]);
    sums[!any_large] = std::max(sums[!any_large], 2 * f32 * here);
  }
  if (!o.overlap_weights && !o.overlap_gradients) return std::max({sums[0], sums[1], gather[0], gather[1]});
  return std::max({sums[0] + gather[0], sums[1] + gather[0], sums[1] + gather[1]});
}

// ZeRO 1 and 2 start all gathers at once, behind the update.
std::int64_t gather_messages(const TrainingOutline& o, const ParameterLayout& layout) {
  return o.width() * (layout.flat_size() + layout.owned().size());
}

// What may be on its way between two steps, while a checkpoint is written.
std::int64_t messages_between_steps(const TrainingOutline& o, const ParameterLayout& layout) {
  const ParallelDims& d = o.dims;
  const bool gathers = d.zero > 0 && d.zero < 3 && d.dp_shard > 1 && o.overlap_weights;
  return gathers ? gather_messages(o, layout) : 0;
}

// What a step sums or gathers over the ranks that hold copies of the same weights.
std::int64_t replica_messages(const TrainingOutline& o, const ParameterLayout& layout) {
  const ParallelDims& d = o.dims;
  std::int64_t most = 0;
  const std::int64_t of_tree = 2 * f32 * neighbours_max(layout.units(), sums_at_once, false);
  if (d.zero == 0 && d.dp() > 1) most = of_tree;
  if (d.zero > 0 && d.dp_shard > 1) {
    // Buckets are few: one is on its way and one behind it (engine/train/gradients/bucket_gradient_sum.cc).
    const std::int64_t of_buckets =
        2 * f32 * neighbours_max(layout.units(), o.overlap_gradients ? sums_at_once : 1, false);
    const std::int64_t sums = d.zero == 1 ? of_tree : of_buckets;
    const std::int64_t gathers = o.overlap_weights && d.zero < 3 ? gather_messages(o, layout)
                                                                 : o.width() * neighbours_max(layout.units(), 1, true);
    most = d.zero == 3 ? zero3_messages(o, layout) : std::max(sums, gathers);
  }
  if (d.cp > 1 || (d.zero > 0 && d.dp_replicate > 1)) most = std::max(most, 2 * f32 * joined_owned(layout));
  return most;
}

// A tied embedding's gradient, of which the first and the last stage have an addend each.
std::int64_t tied_messages(const TrainingOutline& o, const RankOutline& rank) {
  if (!o.shape.tie_word_embeddings || o.dims.pp == 1) return 0;
  if (!rank.is_first(0) && !rank.is_last(o.dims.vp - 1)) return 0;
  std::int64_t elements = 0;
  const FlatParameter* table = rank.layout.find_if_held(embedding_name(o.shape));
  if (!table) return 0;  // before the vocabulary is known
  rank.layout.owned().for_each_in({table->begin, table->end}, [&](FlatRange, FlatRange at) { elements += at.size(); });
  return 2 * f32 * elements;
}

std::int64_t step_messages(const TrainingOutline& o, const RankOutline& rank) {
  if (o.dims.world_size() == 1) return 0;
  const RankSizes z(o);
  // Of activations: what a tp group adds up, in all of its pieces; what goes from stage to stage.
  std::int64_t most = o.dims.tp > 1 ? 2 * o.tokens() * z.h * f32 : 0;
  if (o.dims.pp > 1) most = std::max(most, z.r * z.h * z.width);
  most = std::max(most, 2 * f32 * partial_gradient_elements(o, rank).largest());
  most = std::max({most, replica_messages(o, rank.layout), tied_messages(o, rank)});
  const bool judges_whole = o.preference_pairs && o.dims.cp > 1 && rank.is_last(o.dims.vp - 1);
  return most + (judges_whole ? o.tokens() * o.dims.cp * f32 : 0);  // ContextNumbers keeps them
}

// Beyond what a checkpoint fetches: a piece of the moments is not there while a step sends its messages, nor those
// while it is, so that the two together are no more than the larger moment of them.
std::int64_t messages_of(const TrainingOutline& o, const RankOutline& rank, std::int64_t fetched) {
  return std::max(step_messages(o, rank) - fetched, messages_between_steps(o, rank.layout));
}

// engine/train/step/batch_source.h, objective.h
std::int64_t batches_of(const TrainingOutline& o) {
  const std::int64_t t = o.tokens(), cp = o.dims.cp;
  std::int64_t batch = t * (2 * i32 + f32);  // ids, targets, weights
  if (o.positions || cp > 1) batch += t * i32;
  if (o.first_key) batch += t * i32 * (cp > 1 ? 1 + cp : 1);                     // and whole_first_key
  if (o.preference_pairs) batch += o.micro_batch_size * 8;                       // per_sequence
  if (o.padding || t * cp > o.micro_batch_size * o.sequence_length) batch += t;  // which tokens are none of the data
  std::int64_t losses = t * f32 * (o.preference_pairs ? 2 : 1);
  if (o.preference_pairs && cp > 1) batch += t * cp * i32, losses += 2 * t * cp * f32;  // of whole texts as well
  return o.micro_batches_max() * batch + losses;
}

struct CheckpointMemory {
  std::int64_t lasting = 0;  // beside the steps
  std::int64_t fetched = 0;  // only while a checkpoint is written, between two steps
};

// engine/checkpoint/global/checkpoint_share.h, in whole pages, or where a share is not staged and moments are on a disk
// its longest piece of those; with copies on the nodes as much again for this rank's and its partner's (taken to be
// alike). engine/checkpoint/state/memory_snapshot.h: a copy of all that is owned, where it is in memory.
CheckpointMemory checkpoint_of(const TrainingOutline& o, const ParameterLayout& layout) {
  constexpr std::int64_t page = 4096;
  std::int64_t elements = 0, longest = 0;
  const PackedRanges written(layout.written());
  for (const FlatParameter& p : layout.parameters())
    if (layout.is_counted(p))
      written.for_each_in({p.begin, p.end}, [&](FlatRange mine, FlatRange) {
        layout.owned().for_each_in(mine, [&](FlatRange here, FlatRange) {
          elements += here.size(), longest = std::max(longest, here.size());
        });
      });
  const auto whole_pages = [](std::int64_t bytes) { return (bytes + page - 1) / page * page; };
  const std::int64_t bytes = elements * (f32 + o.moment_bytes()), pages = whole_pages(bytes);
  const bool staged = o.staged_checkpoints && (o.staging_limit == 0 || bytes <= o.staging_limit);
  std::int64_t snapshot = 0;
  if (o.memory_snapshot && !o.moments_on_disk)
    for (const std::int64_t width : {f32, std::int64_t{o.first_moment_bytes}, std::int64_t{o.second_moment_bytes}})
      snapshot += whole_pages(layout.owned().size() * width);
  CheckpointMemory memory;
  memory.lasting = (staged ? pages : 0) + (o.local_copies ? (o.dims.world_size() > 1 ? 2 : 1) * pages : 0) + snapshot;
  if (!staged && o.moments_on_disk)
    memory.fetched = whole_pages(longest * std::max<std::int64_t>(o.first_moment_bytes, o.second_moment_bytes));
  return memory;
}

// engine/ops/loss/cross_entropy.h, vocab_parallel_loss.h: LmHeadShape's chunk_tokens
std::int64_t logits_of(const TrainingOutline& o, const RankOutline& rank) {
  if (!rank.is_last(o.dims.vp - 1)) return 0;
  if (o.shape.scalar_head) return 0;
  const std::int64_t per_rank = (o.shape.vocab_size + o.dims.tp - 1) / o.dims.tp;
  const std::int64_t here = std::min(per_rank, o.shape.vocab_size - per_rank * rank.at.tp);
  return std::min<std::int64_t>(1024, o.tokens()) * here * f32;
}

std::int64_t packed_products_of(const TrainingOutline& o, const RankOutline& rank) {
  const ModelShape& s = o.shape;
  const std::int64_t widest = std::max(
      {s.hidden_size, s.intermediate_size, s.mlp_width(), s.q_size() + 2 * s.kv_size(), bottleneck_of(o.adapter).size});
  return packed_product_bytes(o.tokens(), widest, rank.is_last(o.dims.vp - 1) ? s.output_size() : 0, o.bf16);
}

// What a process of the engine takes that no account counts, as memory of its own (not of files), measured on Linux
// with glibc, Open MPI and oneDNN (tests/bench/autotune/memory_bars.py prints it beside this):
//   libraries  of a rank before it takes anything, 10 MB, and what MPI sets up, 3 MB
//   products   compiled by oneDNN, where it does: engine/ops/cpu/gemm_onednn.cc keeps 256, which a model with experts
//              fills, as their rows are others in every batch; a dense one has some twenty
//   heap       freed pieces between those that last, which glibc keeps, all small (engine/main.cc): hardly anything
std::int64_t process_of(const TrainingOutline& o, std::int64_t counted) {
  constexpr std::int64_t MB = 1'000'000, library = 10 * MB, mpi = 3 * MB, product = 64 * 1024;
  constexpr std::int64_t products_dense = 20, products_max = 256;
  const std::int64_t products = !o.compiled_products ? 0 : o.shape.is_moe() ? products_max : products_dense;
  return library + (o.dims.world_size() > 1 ? mpi : 0) + products * product + counted / 512;
}

// Where an adapter is trained: engine/model/store/parameter_store.h (frozen), engine/model/adapter/adapted_weights.h.
// Of what stays as it is ranks share bytes, with codes or without (contracts/model/coded_weights.h).
struct FrozenBytes {
  std::int64_t weights = 0, in_use = 0, gradients = 0, messages = 0;
  std::int64_t dropout = 0;  // of each stage: engine/model/layers/adapter_dropout.h
};

Result<FrozenBytes> frozen_of(const TrainingOutline& o, const RankOutline& rank) {
  MeshPlace place = rank.layout.place();
  if (place.dims.zero < 3) place.dims.zero = 0;
  const ParameterLayout model(frozen_shape(o.trained_shape()), place);
  LH_TRY(const std::vector<AdaptedMatrix> matrices, adapted_matrices(o.trained_shape()));
  LH_CHECK(check_coded_blocks(o.adapter.base_weights, model));
  const AdapterSpace space = adapter_space(model, matrices, o.adapter);
  const CodedLayout held(o.adapter.base_weights, model, o.width());
  FrozenBytes bytes{held.owned().size(), (space.windows * space.window + space.ends) * o.width() + space.matrix * f32,
                    space.gradients * f32};
  bytes.dropout = (o.tokens() * (space.dropped + space.rank) + (o.bf16 ? space.factors : 0)) * o.width();
  if (place.dims.zero == 3) {
    bytes.in_use += windows_of(held.units());
    if (place.dims.dp_shard > 1) bytes.messages = neighbours_max(held.units(), 1, true);
  }
  return bytes;
}

}  // namespace

std::int64_t packed_product_bytes(std::int64_t tokens, std::int64_t widest, std::int64_t vocabulary, bool bf16) {
  constexpr std::int64_t block = 1152, depth = 256;                         // at most, on every processor
  const auto of = [&](std::int64_t n) { return std::min(block, n + 32); };  // whole panels
  const std::int64_t columns = of(std::max(widest, vocabulary)), rows = of(std::max({tokens, widest, vocabulary}));
  return f32 * ((rows + columns) * depth + (bf16 ? of(tokens) * of(widest) : 0));
}

Result<MemoryPlan> plan_training_memory(const TrainingOutline& o, const RankCoordinates& at) {
  LH_TRY(const RankOutline rank, rank_outline(o, at));
  const ParameterLayout& layout = rank.layout;
  const std::int64_t owned = layout.owned().size();
  using Category = MemoryCategory;
  MemoryPlan plan;
  MemoryTable& bytes = plan.bytes;
  bytes[Category::master] = owned * f32;
  bytes[Category::weights] = o.bf16 ? owned * 2 : 0;
  bytes[Category::gathered_weights] = gathered_elements(o.dims, layout) * o.width();
  bytes[Category::gradients] = gradients_of(o, layout);
  bytes[Category::optimizer] = moments_of(o, owned);
  bytes[Category::communication] = communication_of(o, rank);
  if (o.adapter.on()) {
    LH_TRY(const FrozenBytes frozen, frozen_of(o, rank));
    bytes[Category::weights] = frozen.weights;
    bytes[Category::gathered_weights] = gathered_elements(o.dims, layout) * f32 + frozen.in_use;
    bytes[Category::gradients] += frozen.gradients, bytes[Category::messages] = frozen.messages;
    bytes[Category::activations] = o.dims.vp * frozen.dropout;
  }
  const CheckpointMemory checkpoint = checkpoint_of(o, layout);
  bytes[Category::messages] += messages_of(o, rank, checkpoint.fetched);
  bytes[Category::batches] = batches_of(o);
  bytes[Category::checkpoint] = checkpoint.lasting + checkpoint.fetched;
  bytes[Category::logits] = logits_of(o, rank), bytes[Category::answers] = o.answers;
  // Of the rows of all ranks that send here as many come as this rank's experts are of all, and a quarter more where
  // several ranks hold them: what a capacity factor of 1.25 allows for (Fedus et al. 2022, arXiv 2101.03961, section
  // 2.2). It is the middle: of two ranks of a router that has not learnt yet one holds memory for 1.4 times the even
  // rows and the other for hardly more than those, and nothing shows beforehand which. At most every row comes that has
  // one of them to go to.
  const std::int64_t m = o.tokens() / o.dims.tp, group = std::int64_t{o.dims.ep} * o.dims.etp;
  const std::int64_t k = o.shape.num_experts_per_tok, local = o.shape.num_local_experts / o.dims.ep;
  for (int chunk = 0; chunk < o.dims.vp; ++chunk) {
    bytes[Category::activations] += activations_of(o, rank, chunk);
    bytes[Category::attention] += context_attention_of(o);
    const std::int64_t even = o.dims.etp * m * k, all = group * m * std::min(k, local);
    bytes[Category::experts] += experts_of(o, rank, chunk, group > 1 ? std::min(even + even / 4, all) : even);
    plan.experts_max += experts_of(o, rank, chunk, all);
  }
  const std::int64_t sequence = o.sequence_length * o.micro_batch_size;
  bytes[Category::scratch] =
      2 * sequence * o.shape.kv_size() / o.dims.tp * f32;  // engine/ops/cpu/attention/attention.cc
  if (o.packed_products && !o.gpu) bytes[Category::scratch] += packed_products_of(o, rank);
  bytes[Category::process] = process_of(o, bytes.total());
  return plan;
}

Result<WorstRank> plan_worst_rank(const TrainingOutline& outline) {
  WorstRank worst;
  for (int pp = 0; pp < outline.dims.pp; ++pp) {
    RankCoordinates at;
    at.pp = pp;
    LH_TRY(const MemoryPlan plan, plan_training_memory(outline, at));
    if (pp == 0 || plan.bytes.total() > worst.plan.bytes.total()) worst = {global_rank_of(outline.dims, at), plan};
  }
  return worst;
}

Result<NodeMemory> plan_node_memory(const TrainingOutline& outline, std::span<const int> ranks_of_node) {
  NodeMemory node;
  for (const int rank : ranks_of_node) {
    LH_TRY(MemoryPlan plan, plan_training_memory(outline, coordinates_of(outline.dims, rank)));
    for (int i = 0; outline.gpu && i < memory_categories; ++i)
      if (const auto category = static_cast<MemoryCategory>(i); lies_on_device(category)) plan.bytes[category] = 0;
    node.bytes += plan.bytes.total();
    if (plan.bytes.total() > node.worst.plan.bytes.total()) node.worst = {rank, plan};
  }
  return node;
}

namespace {

// Sums over ranks have a copy of what is on its way in the memory of the device, about as large as MPI's in the host's.
bool takes_of_device(MemoryCategory category) {
  return lies_on_device(category) || category == MemoryCategory::messages;
}

}  // namespace

std::int64_t planned_on_device(const MemoryTable& planned) {
  std::int64_t bytes = gpu_allowance;
  for (int i = 0; i < memory_categories; ++i)
    if (const auto category = static_cast<MemoryCategory>(i); takes_of_device(category)) bytes += planned[category];
  return bytes;
}

Status check_gpu_memory(const TrainingOutline& outline, int rank, std::int64_t free_bytes, const std::string& gpu) {
  const auto text = [](std::int64_t bytes) { return human_bytes(static_cast<double>(bytes)); };
  LH_TRY(MemoryPlan plan, plan_training_memory(outline, coordinates_of(outline.dims, rank)));
  const std::int64_t needed = planned_on_device(plan.bytes);
  if (needed <= free_bytes) return {};
  for (int i = 0; i < memory_categories; ++i)
    if (const auto category = static_cast<MemoryCategory>(i); !takes_of_device(category)) plan.bytes[category] = 0;
  const MemoryCategory largest = plan.bytes.largest();
  return make_error(ErrorCode::unavailable,
                    format("too little memory on {}: rank {} needs {}, and {} are free; most of it for {}: {} ({}, and "
                           "{} for the driver, libraries and single operations)",
                           gpu, rank, text(needed), text(free_bytes), to_string(largest), text(plan.bytes[largest]),
                           memory_text(plan.bytes), text(gpu_allowance)),
                    memory_remedy(largest, outline) + "; if another process holds a part (nvidia-smi), end it");
}

Status check_memory(const TrainingOutline& outline, std::span<const int> ranks_of_node, std::int64_t available_bytes,
                    const std::string& available_from) {
  const auto text = [](std::int64_t bytes) { return human_bytes(static_cast<double>(bytes)); };
  LH_TRY(const NodeMemory node, plan_node_memory(outline, ranks_of_node));
  if (node.bytes <= available_bytes) return {};
  const WorstRank& worst = node.worst;
  const MemoryCategory largest = worst.plan.bytes.largest();
  return make_error(
      ErrorCode::unavailable,
      format("too little memory: the {} of a node need {} together, and there are {} ({}); rank {} needs {}, most of "
             "it for {}: {} ({})",
             ranks_of_node.size() == 1 ? "one rank" : format("{} ranks", ranks_of_node.size()), text(node.bytes),
             text(available_bytes), available_from, worst.rank, text(worst.plan.bytes.total()), to_string(largest),
             text(worst.plan.bytes[largest]), memory_text(worst.plan.bytes)),
      memory_remedy(largest, outline));
}

}  // namespace longhaul
