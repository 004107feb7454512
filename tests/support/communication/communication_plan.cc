#include "tests/support/communication/communication_plan.h"

#include <algorithm>

#include "contracts/plan/collective_kind.h"
#include "contracts/plan/memory_plan.h"
#include "tests/support/communication/gather_windows.h"

namespace longhaul {

namespace {

constexpr std::int64_t float_bytes = 4, double_bytes = 8;

// Ranks that work together, and this one's number among them.
struct Group {
  int size = 1, rank = 0;
};

class Planner {
 public:
  Planner(const TrainingOutline& outline, const RankOutline& rank)
      : o_(outline),
        rank_(rank),
        experts_(expert_dims_of(outline.dims).value()),
        expert_at_(expert_coordinates_of(outline.dims, rank.at)),
        tp_{outline.dims.tp, rank.at.tp},
        cp_{outline.dims.cp, rank.at.cp},
        pp_{outline.dims.pp, rank.at.pp},
        dp_{outline.dims.dp(), rank.at.dp(outline.dims)},
        micro_batch_{outline.dims.tp * outline.dims.cp, rank.at.cp * outline.dims.tp + rank.at.tp},
        expert_ranks_{experts_.ranks, expert_at_.ep * outline.dims.etp + expert_at_.etp},
        t_(outline.tokens()),
        r_(outline.rows()),
        h_(outline.shape.hidden_size),
        w_(outline.width()) {}

  CommunicationTable plan() {
    const std::vector<ScheduleOp>& schedule = rank_.schedules.back();
    for (const ScheduleOp& op : schedule) {
      if (op.kind == ScheduleOp::Kind::forward) forward(op.chunk);
      if (op.kind == ScheduleOp::Kind::backward || op.kind == ScheduleOp::Kind::backward_input) backward(op.chunk);
      if (op.kind == ScheduleOp::Kind::backward || op.kind == ScheduleOp::Kind::backward_weight) weights(op.chunk);
    }
    sums_of_losses();
    gradients();
    replica();
    gathered_weights();
    if (o_.shape.is_moe()) {  // end_step_of_experts (engine/train/step/model_statistics.h)
      const std::int64_t totals = o_.shape.num_hidden_layers * (o_.shape.num_local_experts + 2) * float_bytes;
      all_reduce(MeshAxis::dp, dp_, totals);
      all_reduce(MeshAxis::pp, pp_, totals);
    }
    // Trainer::fill: the length of an error that nobody has.
    all_gather(MeshAxis::other, {o_.dims.tp * o_.dims.cp * o_.dims.pp * experts_.batches, 0}, double_bytes);
    return table_;
  }

 private:
  void add(MeshAxis axis, CollectiveKind kind, const Group& group, std::int64_t given, std::int64_t own = 0) {
    if (group.size < 2) return;
    table_[axis].given += given;
    table_[axis].sent += bytes_sent(kind, group.size, group.rank, given, own);
  }
  void all_reduce(MeshAxis axis, const Group& group, std::int64_t bytes) {
    add(axis, CollectiveKind::all_reduce_sum, group, bytes);
  }
  void all_gather(MeshAxis axis, const Group& group, std::int64_t bytes) {
    add(axis, CollectiveKind::all_gather, group, bytes);
  }
  void reduce_scatter(MeshAxis axis, const Group& group, std::int64_t bytes) {
    add(axis, CollectiveKind::reduce_scatter_sum, group, bytes);
  }
  void send(MeshAxis axis, const Group& group, std::int64_t bytes) { add(axis, CollectiveKind::send, group, bytes); }

  // TensorParallel::sum_rows, gather_rows, gather_parts of [t, h]
  // Sums with sequence parallelism send as much in pieces as at once.
  void sum_rows(bool cut = true) {
    if (o_.dims.sp) return reduce_scatter(MeshAxis::tp, tp_, t_ * h_ * float_bytes);
    const std::int64_t pieces =
        cut && o_.overlap_tensor ? std::clamp<std::int64_t>(t_ / o_.rows_min, 1, o_.pieces_max) : 1;
    for (std::int64_t i = 0; i < pieces; ++i)
      all_reduce(MeshAxis::tp, tp_, (t_ * (i + 1) / pieces - t_ * i / pieces) * h_ * float_bytes);
  }
  void gather_rows() {
    if (o_.dims.sp) all_gather(MeshAxis::tp, tp_, r_ * h_ * w_);
  }
  void gather_parts() { all_gather(MeshAxis::tp, tp_, t_ / o_.dims.tp * h_ * w_); }

  std::vector<Recompute> layers(int chunk) const {
    std::vector<Recompute> layers;
    for (int l = 0; l < rank_.chunks[static_cast<std::size_t>(chunk)].count(); ++l)
      layers.push_back(o_.recompute.of_layer(l));
    return layers;
  }

  // ContextAttention::forward: keys and values of the other ranks, or heads for tokens and back.
  void attention_forward() {
    const std::int64_t q = o_.shape.q_size() / o_.dims.tp, kv = 2 * o_.shape.kv_size() / o_.dims.tp;
    if (o_.dims.cp == 1) return;
    if (o_.cp_attention == "gather") return all_gather(MeshAxis::cp, cp_, t_ * kv * w_);
    if (o_.cp_attention == "a2a") {
      add(MeshAxis::cp, CollectiveKind::all_to_all, cp_, t_ * (q + kv) * w_);
      return add(MeshAxis::cp, CollectiveKind::all_to_all, cp_, t_ * q * w_);
    }
    for (int step = 1; step < o_.dims.cp; ++step) send(MeshAxis::cp, cp_, t_ * kv * w_);
  }
  void attention_backward() {
    const std::int64_t q = o_.shape.q_size() / o_.dims.tp, kv = 2 * o_.shape.kv_size() / o_.dims.tp;
    const int cp = o_.dims.cp;
    if (cp == 1) return;
    if (o_.cp_attention == "gather") {
      all_gather(MeshAxis::cp, cp_, t_ * kv * w_);
      return reduce_scatter(MeshAxis::cp, cp_, t_ * kv * cp * float_bytes);
    }
    if (o_.cp_attention == "a2a") {
      add(MeshAxis::cp, CollectiveKind::all_to_all, cp_, t_ * 2 * q * w_);
      return add(MeshAxis::cp, CollectiveKind::all_to_all, cp_, t_ * (q + kv) * w_);
    }
    for (int step = 1; step < cp; ++step) send(MeshAxis::cp, cp_, t_ * kv * w_);
    for (int step = 0; step < cp; ++step)
      send(MeshAxis::cp, cp_, t_ * kv * float_bytes);  // gradients, back to their owner
  }

  // MoeLayer, ExpertExchange
  std::int64_t routed() const { return t_ / o_.dims.tp * o_.shape.num_experts_per_tok; }
  void to_experts_and_back() {
    const int etp = o_.dims.etp;
    const std::int64_t there = routed() * etp * h_ * w_, back = routed() * etp * h_ * (etp > 1 ? float_bytes : w_);
    add(MeshAxis::ep, CollectiveKind::all_to_all_v, expert_ranks_, there, there / experts_.ranks);
    add(MeshAxis::ep, CollectiveKind::all_to_all_v, expert_ranks_, back, back / experts_.ranks);
  }
  void experts_forward() {
    const std::int64_t m = t_ / o_.dims.tp, experts = o_.shape.num_local_experts;
    if (o_.moe.balance == "sinkhorn") all_gather(MeshAxis::ep, micro_batch_, m * experts * float_bytes);  // logits
    all_reduce(MeshAxis::ep, micro_batch_, (2 * experts + 2 + experts) * float_bytes);  // statistics, counts
    if (o_.moe.capacity_factor > 0)
      for (int i = 0; i < 2; ++i) all_gather(MeshAxis::ep, micro_batch_, routed() * float_bytes);  // ids, weights
    add(MeshAxis::ep, CollectiveKind::all_to_all, expert_ranks_, experts * o_.dims.etp * 8);  // rows for each expert
    to_experts_and_back();
    if (!o_.dims.sp) gather_parts();
  }

  void forward(int chunk) {
    if (rank_.is_first(chunk)) sum_rows(false);  // embedding
    for (std::size_t l = 0; l < layers(chunk).size(); ++l) {
      gather_rows(), attention_forward(), sum_rows();
      if (o_.shape.is_moe())
        experts_forward();
      else
        gather_rows(), sum_rows();
    }
    if (!rank_.is_last(chunk)) send(MeshAxis::pp, pp_, r_ * h_ * w_);
    if (!rank_.is_last(chunk) || !o_.preference_pairs) return;
    losses();  // before the weights of the tokens are known
    all_gather(MeshAxis::cp, cp_, t_ * float_bytes);
  }

  // vocab_parallel_loss
  void losses() {
    gather_rows();
    constexpr std::int64_t chunk = 1024;
    for (std::int64_t begin = 0; begin < t_; begin += chunk) {
      const std::int64_t n = std::min(chunk, t_ - begin);
      all_reduce(MeshAxis::tp, tp_, n * float_bytes);
      all_reduce(MeshAxis::tp, tp_, 2 * n * float_bytes);
    }
  }

  // Block::restore
  void again(const Recompute& what) {
    if (what.attention) gather_rows(), attention_forward();
    if (what.block) sum_rows();
    if (what.feed_forward && !o_.shape.is_moe()) gather_rows();
    if (what.block && o_.shape.is_moe()) to_experts_and_back();
  }

  void backward(int chunk) {
    if (o_.shape.is_moe() && o_.dims.cp > 1) all_reduce(MeshAxis::ep, micro_batch_, float_bytes);  // Llama::weigh
    if (rank_.is_last(chunk)) losses(), sum_rows();
    for (const Recompute& what : layers(chunk)) {
      again(what);
      if (o_.shape.is_moe()) {
        to_experts_and_back();
        if (!o_.dims.sp) gather_parts();
      } else {
        gather_rows(), sum_rows();
      }
      gather_rows(), attention_backward(), sum_rows();
    }
    if (!rank_.is_first(chunk)) send(MeshAxis::pp, pp_, r_ * h_ * w_);
  }
  void weights(int chunk) {
    for (const Recompute& what : layers(chunk)) {
      if (rank_.split_backward) again(what);
      if (!o_.shape.is_moe()) gather_rows();
      gather_rows();
    }
    if (rank_.is_first(chunk) && !o_.adapter.on()) gather_rows();  // the embedding's gradient
  }

  // sum_over_group (engine/train/step/group_sums.h)
  void sums_of_losses() {
    const std::int64_t mine = std::int64_t{o_.micro_batches_max()} * loss_numbers * double_bytes,
                       all = mine * o_.dims.dp();
    all_gather(MeshAxis::dp, dp_, mine);
    all_gather(MeshAxis::pp, pp_, all);
    all_gather(MeshAxis::cp, cp_, all);
  }

  Group shard_of(const ShardUnit& unit) const { return {unit.shards, unit.share}; }

  // TreeGradientSum, BucketGradientSum, sum_over_replicates
  void gradients() {
    const ParameterLayout& layout = rank_.layout;
    const int times = o_.dims.zero >= 2 ? o_.micro_batches_max() : 1;
    bool experts = false;
    for (const ShardUnit& unit : layout.units()) {
      experts |= unit.experts;
      if (o_.dims.zero == 0) all_reduce(MeshAxis::dp, {unit.replicas, unit.replica}, unit.flat.size() * float_bytes);
      for (int i = 0; i < times && o_.dims.zero > 0; ++i)
        reduce_scatter(MeshAxis::dp, shard_of(unit), unit.flat.size() * float_bytes);
    }
    if (o_.dims.zero == 0) return;
    if (!experts)
      return all_reduce(MeshAxis::dp, {o_.dims.dp_replicate, rank_.at.dp_replicate},
                        layout.owned().size() * float_bytes);
    for (const ShardUnit& unit : layout.units())
      all_reduce(MeshAxis::dp, {unit.replicas, unit.replica}, unit.owned().size() * float_bytes);
  }

  // GradientReduction::sum_over_replica
  void replica() {
    const ParameterLayout& layout = rank_.layout;
    std::int64_t neighbours = 0;  // units that are summed at once
    const auto sum_neighbours = [&] {
      if (neighbours > 0) all_reduce(MeshAxis::cp, cp_, neighbours * float_bytes);
      neighbours = 0;
    };
    for (const ShardUnit& unit : layout.units()) {
      if (unit.experts)
        sum_neighbours(),
            all_reduce(MeshAxis::dp, {experts_.copies, expert_at_.copy}, unit.owned().size() * float_bytes);
      else
        neighbours += unit.owned().size();
    }
    sum_neighbours();
    const FlatParameter* embedding = layout.find_if_held(embedding_name(o_.shape));
    const bool is_end = rank_.at.pp == 0 || rank_.at.pp + 1 == o_.dims.pp;
    if (o_.shape.tie_word_embeddings && o_.dims.pp > 1 && is_end && embedding)
      layout.owned().for_each_in({embedding->begin, embedding->end}, [&](FlatRange, FlatRange packed) {
        all_reduce(MeshAxis::pp, {2, rank_.at.pp == 0 ? 0 : 1}, packed.size() * float_bytes);
      });
    const PartialGradients partial = partial_gradient_elements(o_, rank_);
    if (partial.tensor > 0) all_reduce(MeshAxis::tp, tp_, partial.tensor * float_bytes);
    if (partial.experts > 0) all_reduce(MeshAxis::ep, {o_.dims.etp, expert_at_.etp}, partial.experts * float_bytes);
  }

  // UnitGather
  void gathered_weights() {
    if (o_.dims.zero == 0) return;
    const std::vector<std::int64_t> times = gathers_per_step(o_, rank_);
    for (std::size_t i = 0; i < times.size(); ++i) {
      const ShardUnit& unit = rank_.layout.units()[i];
      for (std::int64_t k = 0; k < times[i]; ++k) all_gather(MeshAxis::dp, shard_of(unit), unit.owned().size() * w_);
    }
  }

  const TrainingOutline& o_;
  const RankOutline& rank_;
  ExpertDims experts_;
  ExpertCoordinates expert_at_;
  Group tp_, cp_, pp_, dp_, micro_batch_, expert_ranks_;
  std::int64_t t_, r_, h_, w_;
  CommunicationTable table_;
};

}  // namespace

Result<CommunicationTable> plan_communication(const TrainingOutline& outline, const RankCoordinates& at) {
  LH_TRY(const RankOutline rank, rank_outline(outline, at));
  return Planner(outline, rank).plan();
}

}  // namespace longhaul
