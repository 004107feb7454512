#include "engine/model/inference/inference_blocks.h"

#include <numeric>

#include "engine/model/layers/parallel_linear.h"
#include "engine/model/layers/rope_of.h"
#include "engine/ops/pointwise/elementwise.h"
#include "engine/ops/pointwise/gelu.h"
#include "engine/ops/pointwise/layernorm.h"
#include "engine/ops/pointwise/rmsnorm.h"
#include "engine/ops/pointwise/swiglu.h"

namespace longhaul {

namespace {

// y = norm(x).
void normalise_rows(const ComputeContext& context, const ModelShape& shape, const NormWeights& norm, ConstView x,
                    View y, std::int64_t rows) {
  const auto eps = static_cast<float>(shape.rms_norm_eps);
  if (shape.is_gpt2())
    layernorm_forward(context, {rows, shape.hidden_size, eps}, x, norm.weight, norm.bias, y, {});
  else
    rmsnorm_forward(context, {rows, shape.hidden_size, eps}, x, norm.weight, y, {});
}

// x += branch, and then y = norm(x).
void add_and_normalise_rows(const ComputeContext& context, const ModelShape& shape, const NormWeights& norm,
                            ConstView branch, View x, View y, std::int64_t rows) {
  const auto eps = static_cast<float>(shape.rms_norm_eps);
  if (shape.is_gpt2())
    add_layernorm_forward(context, {rows, shape.hidden_size, eps}, x, branch, {}, norm.weight, norm.bias, x, y, {});
  else
    add_rmsnorm_forward(context, {rows, shape.hidden_size, eps}, x, branch, norm.weight, x, y, {});
}

// branch [rows, hidden] becomes what its bottleneck makes of it, where there is one.
void apply_bottleneck(const ComputeContext& context, const BottleneckWeights& weights, InferenceScratch& scratch,
                      View branch, std::int64_t rows) {
  if (!weights.is_there()) return;
  const View inner = first_rows(scratch.bottleneck, rows), added = first_rows(scratch.branch, rows);
  weights.down.apply(context, rows, branch, inner);
  gelu_forward(context, inner, inner);
  weights.up.apply(context, rows, inner, added);
  add(context, added, branch, branch);
}

}  // namespace

InferenceBlocks::InferenceBlocks(const ModelShape& shape, InferenceWeights weights, InferenceRanks ranks)
    : shape_(shape),
      weights_(std::move(weights)),
      sums_(std::move(ranks), weights_.memory.get()),
      part_(part_of_model(shape_, sums_.ranks().tp(), sums_.ranks().tp_rank(), layers())),
      rope_(shape_.is_gpt2() ? RopeTable() : rope_table_of(shape_, shape_.max_position_embeddings)),
      attention_(part_, weights_.dtype, weights_.memory.get()) {}

void InferenceBlocks::embed(const ComputeContext& context, const LinearWeights& table) {
  const View x = first_rows(scratch_.x, table_.tokens()), places = first_rows(scratch_.out, table_.tokens());
  table.gather_rows(context, table_.ids(), x);
  if (&table == &weights_.embedding) sums_.add_up(context, x);
  if (weights_.positions.out() == 0) return;
  weights_.positions.gather_rows(context, table_.positions(), places);
  add(context, x, places, x);
}

void InferenceBlocks::run_block(const ComputeContext& context, std::span<const SequenceStep> steps, int layer,
                                std::int64_t longest) {
  InferenceScratch& s = scratch_;
  const InferenceWeights::Block& block = weights_.blocks[static_cast<std::size_t>(layer)];
  const std::int64_t t = table_.tokens();
  const std::int64_t q = part_.q_size(), kv = part_.kv_size(), width = q + 2 * kv;
  const View x = first_rows(s.x, t), normed = first_rows(s.normed, t), out = first_rows(s.out, t),
             qkv = first_rows(s.qkv, t);

  block.qkv.apply(context, t, normed, qkv);
  if (!shape_.is_gpt2()) {
    rope_apply(context, {t, part_.num_attention_heads, part_.head_dim, width}, rope_, table_.positions(), 0,
               columns_of(qkv, t, 0, q));
    rope_apply(context, {t, part_.num_key_value_heads, part_.head_dim, width}, rope_, table_.positions(), 0,
               columns_of(qkv, t, q, kv));
  }
  attention_.attend(context, {steps, table_, longest}, layer, qkv, first_rows(s.q, t), first_rows(s.attended, t));
  const View addend = sums_.addend_of(out);
  block.o.apply(context, t, first_rows(s.attended, t), addend);
  sums_.add_up(context, addend, out);
  apply_bottleneck(context, block.attention_bottleneck, s, out, t);
  add_and_normalise_rows(context, shape_, block.post_attention_norm, out, x, normed, t);
  if (shape_.is_moe()) {
    apply_experts(context, part_, block.experts, s.experts, t, normed, out);
    sums_.add_up(context, out);
  } else {
    const View gate_up = first_rows(s.gate_up, t), activated = first_rows(s.activated, t);
    block.gate_up.apply(context, t, normed, gate_up);
    if (shape_.is_gpt2())
      gelu_forward(context, gate_up, activated);
    else
      swiglu_forward(context, gate_up, activated);
    block.down.apply(context, t, activated, addend);
    sums_.add_up(context, addend, out);
  }
  apply_bottleneck(context, block.feed_forward_bottleneck, s, out, t);
  const bool is_last = layer + 1 == layers();
  if (is_last && !sums_.ranks().is_last_stage()) return add(context, x, out, x);
  const NormWeights& next =
      is_last ? weights_.final_norm : weights_.blocks[static_cast<std::size_t>(layer) + 1].input_norm;
  add_and_normalise_rows(context, shape_, next, out, x, normed, t);
}

// One after the other: no more tokens at once than a text may have.
void InferenceBlocks::read_prompts(const ComputeContext& context, std::span<const SequenceStep> steps) {
  if (shape_.virtual_tokens == 0) return;
  std::vector<std::int32_t> rows(static_cast<std::size_t>(shape_.virtual_tokens));
  std::iota(rows.begin(), rows.end(), 0);
  for (const SequenceStep& step : steps) {
    if (step.cache->length() > 0) continue;
    const SequenceStep before{step.cache, rows};
    lay_out(context, {&before, 1}, {}, {});
    if (shape_.virtual_keys) {
      for (int layer = 0; layer < layers(); ++layer)
        attention_.append(context, table_, layer, weights_.blocks[static_cast<std::size_t>(layer)].prefix,
                          first_rows(scratch_.q, table_.tokens()));
    } else {
      run(context, {&before, 1}, table_.longest(), weights_.prompt);
    }
    finish({&before, 1});
  }
}

void InferenceBlocks::run(const ComputeContext& context, std::span<const SequenceStep> steps, std::int64_t longest,
                          const LinearWeights& table) {
  const std::int64_t rows = table_.tokens();
  const View x = first_rows(scratch_.x, rows);
  sums_.ranks().is_first_stage() ? embed(context, table) : sums_.ranks().receive(x);
  normalise_rows(context, shape_, weights_.blocks.front().input_norm, x, first_rows(scratch_.normed, rows), rows);
  for (int layer = 0; layer < layers(); ++layer) run_block(context, steps, layer, longest);
  sums_.ranks().send(x);
}

RowsHere InferenceBlocks::rows_of_embedding() const {
  return sums_.ranks().split_matrices() ? RowsHere{weights_.first_id, weights_.embedding.out()} : RowsHere();
}

void InferenceBlocks::begin(const ComputeContext& context, std::span<const SequenceStep> steps,
                            std::span<const SampleRow> draws) {
  read_prompts(context, steps);
  lay_out(context, steps, draws, rows_of_embedding());
}

void InferenceBlocks::lay_out(const ComputeContext& context, std::span<const SequenceStep> steps,
                              std::span<const SampleRow> draws, const RowsHere& here) {
  hold_room(steps);
  table_.fill(context, steps, draws, layers(), weights_.memory.get(), here);
  scratch_.reserve(part_, weights_.dtype, table_.tokens(), weights_.memory.get());
}

void InferenceBlocks::finish(std::span<const SequenceStep> steps) {
  for (const SequenceStep& step : steps) step.cache->advance(static_cast<std::int64_t>(step.tokens.size()));
}

void InferenceBlocks::project(const ComputeContext& context, ConstView normed, View out) {
  const LinearWeights& table = weights_.output_weights();
  if (sums_.ranks().is_last_stage()) {
    table.apply(context, out.shape()[0], normed, sums_.columns_of_rank(out, table.out()));
    sums_.put_together(context, out);
  }
  sums_.ranks().spread_from_last(out);
}

void InferenceBlocks::take_scratch(const ComputeContext& context, const InferenceLoad& load, KvPool& pool) {
  scratch_.reserve(part_, weights_.dtype, load.tokens_max, weights_.memory.get());
  sums_.take(shape_, weights_.dtype, load.tokens_max, load.logits_rows);
  const std::int64_t rows = load.decode_rows();
  table_.reserve(rows, load.tokens_max, load.context_length, layers(), weights_.memory.get());
  attention_.take_scratch(context, rows, load.context_length, pool, scratch_.q.view().rows(0, rows),
                          scratch_.attended.view().rows(0, rows));
}

}  // namespace longhaul
