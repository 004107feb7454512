#include "engine/model/inference/inference_model.h"

#include <algorithm>
#include <numeric>

#include "base/text/text.h"
#include "engine/core/tensor/transfer.h"
#include "engine/model/block.h"
#include "engine/model/layers/rope_of.h"
#include "engine/model/store/model_folder.h"
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

// What draw() is given for so many steps, and `seen_rows` that the model keeps.
Status check_draws(std::size_t steps, std::span<const SampleRow> draws, std::size_t tokens, std::size_t logprobs,
                   std::int64_t seen_rows) {
  if (draws.size() != steps || tokens != steps || (logprobs != 0 && logprobs != tokens))
    return make_error(ErrorCode::invalid_input,
                      format("{} sequences, {} draws and room for {} tokens and {} log-probabilities", steps,
                             draws.size(), tokens, logprobs));
  for (const SampleRow& row : draws)
    if (row.seen_row >= seen_rows)
      return make_error(ErrorCode::invalid_input,
                        format("row {} of {} rows of tokens that were seen", row.seen_row, seen_rows));
  return {};
}

// What score() is given for so many tokens.
Status check_targets(std::int64_t vocabulary, std::size_t tokens, std::span<const std::int32_t> targets,
                     std::size_t room) {
  if (targets.size() != tokens || room != tokens)
    return make_error(ErrorCode::invalid_input,
                      format("{} tokens, {} targets and room for {} log-probabilities", tokens, targets.size(), room));
  for (const std::int32_t id : targets)
    if (id < 0 || id >= vocabulary)
      return make_error(ErrorCode::invalid_input,
                        format("token {} is outside the model's vocabulary of {}", id, vocabulary));
  return {};
}

}  // namespace

Result<InferenceModel> InferenceModel::load(const std::string& folder, DType dtype, Device* device,
                                            MemoryAccount* whole) {
  LH_TRY(const HfConfig config, load_model_config(folder, AdapterParts::known));
  LH_TRY(InferenceWeights weights,
         load_inference_weights(folder, config.shape, dtype, device, whole).with_context(folder));
  return InferenceModel(config.shape, std::move(weights));
}

InferenceModel::InferenceModel(ModelShape shape, InferenceWeights weights)
    : shape_(std::move(shape)),
      weights_(std::move(weights)),
      rope_(shape_.is_gpt2() ? RopeTable() : rope_table_of(shape_, shape_.max_position_embeddings)),
      logits_(weights_.memory.get()),
      drawn_(weights_.memory.get()),
      logprobs_(weights_.memory.get()),
      attention_(shape_, weights_.dtype, weights_.memory.get()) {}

void InferenceModel::embed(const ComputeContext& context, const LinearWeights& table) {
  const View x = first_rows(scratch_.x, table_.tokens()), places = first_rows(scratch_.out, table_.tokens());
  table.gather_rows(context, table_.ids(), x);
  if (weights_.positions.out() == 0) return;
  weights_.positions.gather_rows(context, table_.positions(), places);
  add(context, x, places, x);
}

void InferenceModel::run_block(const ComputeContext& context, std::span<const SequenceStep> steps, int layer,
                               std::int64_t longest) {
  InferenceScratch& s = scratch_;
  const InferenceWeights::Block& block = weights_.blocks[static_cast<std::size_t>(layer)];
  const std::int64_t t = table_.tokens();
  const std::int64_t q = shape_.q_size(), kv = shape_.kv_size(), width = q + 2 * kv;
  const View x = first_rows(s.x, t), normed = first_rows(s.normed, t), out = first_rows(s.out, t),
             qkv = first_rows(s.qkv, t);

  block.qkv.apply(context, t, normed, qkv);
  if (!shape_.is_gpt2()) {
    rope_apply(context, {t, shape_.num_attention_heads, shape_.head_dim, width}, rope_, table_.positions(), 0,
               columns_of(qkv, t, 0, q));
    rope_apply(context, {t, shape_.num_key_value_heads, shape_.head_dim, width}, rope_, table_.positions(), 0,
               columns_of(qkv, t, q, kv));
  }
  attention_.attend(context, {steps, table_, longest}, layer, qkv, first_rows(s.q, t), first_rows(s.attended, t));
  block.o.apply(context, t, first_rows(s.attended, t), out);
  apply_bottleneck(context, block.attention_bottleneck, s, out, t);
  add_and_normalise_rows(context, shape_, block.post_attention_norm, out, x, normed, t);
  if (shape_.is_moe()) {
    apply_experts(context, shape_, block.experts, s.experts, t, normed, out);
  } else {
    const View gate_up = first_rows(s.gate_up, t), activated = first_rows(s.activated, t);
    block.gate_up.apply(context, t, normed, gate_up);
    if (shape_.is_gpt2())
      gelu_forward(context, gate_up, activated);
    else
      swiglu_forward(context, gate_up, activated);
    block.down.apply(context, t, activated, out);
  }
  apply_bottleneck(context, block.feed_forward_bottleneck, s, out, t);
  const bool is_last = layer + 1 == static_cast<int>(shape_.num_hidden_layers);
  const NormWeights& next =
      is_last ? weights_.final_norm : weights_.blocks[static_cast<std::size_t>(layer) + 1].input_norm;
  add_and_normalise_rows(context, shape_, next, out, x, normed, t);
}

// One after the other: no more tokens at once than a text may have.
void InferenceModel::read_prompts(const ComputeContext& context, std::span<const SequenceStep> steps) {
  if (shape_.virtual_tokens == 0) return;
  std::vector<std::int32_t> rows(static_cast<std::size_t>(shape_.virtual_tokens));
  std::iota(rows.begin(), rows.end(), 0);
  for (const SequenceStep& step : steps) {
    if (step.cache->length() > 0) continue;
    const SequenceStep before{step.cache, rows};
    begin(context, {&before, 1}, {});
    if (shape_.virtual_keys) {
      for (int layer = 0; layer < static_cast<int>(shape_.num_hidden_layers); ++layer)
        attention_.append(context, table_, layer, weights_.blocks[static_cast<std::size_t>(layer)].prefix,
                          first_rows(scratch_.q, table_.tokens()));
    } else {
      run_blocks(context, {&before, 1}, table_.longest(), weights_.prompt);
    }
    finish({&before, 1});
  }
}

void InferenceModel::run_blocks(const ComputeContext& context, std::span<const SequenceStep> steps,
                                std::int64_t longest, const LinearWeights& table) {
  const std::int64_t rows = table_.tokens();
  embed(context, table);
  normalise_rows(context, shape_, weights_.blocks.front().input_norm, first_rows(scratch_.x, rows),
                 first_rows(scratch_.normed, rows), rows);
  for (int layer = 0; layer < static_cast<int>(shape_.num_hidden_layers); ++layer)
    run_block(context, steps, layer, longest);
}

// The last rows of all sequences side by side: one product over the vocabulary.
void InferenceModel::last_logits(const ComputeContext& context, View out) {
  const std::int64_t sequences = table_.sequences();
  const View rows = first_rows(scratch_.normed, table_.tokens()), last = first_rows(scratch_.out, sequences);
  if (table_.decodes()) return weights_.output_weights().apply(context, sequences, rows, out);
  for (std::int64_t i = 0; i < sequences; ++i) {
    const std::int64_t end = table_.end(static_cast<std::size_t>(i));
    copy_within(context, rows.rows(end - 1, end), last.rows(i, i + 1));
  }
  weights_.output_weights().apply(context, sequences, last, out);
}

// On a device a piece of the rows at a time: the logits of a long text are larger than the model.
void InferenceModel::all_logits(const ComputeContext& context, std::span<float> logits) {
  const std::int64_t rows = table_.tokens(), vocab = shape_.vocab_size;
  const View to(logits.data(), Shape{rows, vocab});
  const std::int64_t piece = device() != nullptr ? std::min(rows, logits_rows_max) : rows;
  for (std::int64_t begin = 0; begin < rows; begin += piece) {
    const std::int64_t end = std::min(rows, begin + piece);
    const View part = device() != nullptr ? logits_.take(DType::f32, {end - begin, vocab}) : to.rows(begin, end);
    weights_.output_weights().apply(context, end - begin, scratch_.normed.view().rows(begin, end), part);
    if (device() != nullptr) copy_out(context, part, to.rows(begin, end));
  }
}

void InferenceModel::decode_on_device(DecodeKind kind, const std::function<void(std::int64_t longest)>& ask) {
  if (!use_graphs_) return ask(table_.longest());
  kind.sequences = table_.sequences(), kind.room = table_.room();
  graphs_->run(*device(), kind, [&] { ask(table_.room()); });
}

void InferenceModel::logits_to_host(const ComputeContext& context, std::span<const SequenceStep> steps,
                                    std::span<float> logits) {
  const View out = logits_.take(DType::f32, {table_.sequences(), shape_.vocab_size});
  const auto ask = [&](std::int64_t longest) {
    run_blocks(context, steps, longest, weights_.embedding);
    last_logits(context, out);
  };
  table_.decodes() ? decode_on_device({.pool = steps.front().cache->pool()}, ask) : ask(table_.longest());
  copy_out(context, out, View(logits.data(), out.shape()));
}

Status InferenceModel::forward(const ComputeContext& context, std::span<const SequenceStep> steps, LogitsWanted wanted,
                               std::span<float> logits) {
  LH_ASSERT(context.device() == device(), "a context of another device than the model's");
  LH_CHECK(check_steps(shape_, weights_.dtype, device(), steps, wanted, logits.size()));
  read_prompts(context, steps);
  begin(context, steps, {});
  const bool decodes = table_.decodes() && wanted != LogitsWanted::none;  // all are the last ones then
  if (device() != nullptr && (decodes || wanted == LogitsWanted::last)) {
    logits_to_host(context, steps, logits);
  } else {
    run_blocks(context, steps, table_.longest(), weights_.embedding);
    if (wanted == LogitsWanted::all) all_logits(context, logits);
    if (wanted == LogitsWanted::last)
      last_logits(context, View(logits.data(), Shape{table_.sequences(), shape_.vocab_size}));
  }
  finish(steps);
  return {};
}

Status InferenceModel::draw(const ComputeContext& context, std::span<const SequenceStep> steps,
                            std::span<const SampleRow> draws, std::span<std::int32_t> tokens,
                            std::span<double> logprobs) {
  LH_ASSERT(context.device() == device(), "a context of another device than the model's");
  if (device() == nullptr) return make_error(ErrorCode::unsupported, "tokens are drawn by the model on a device only");
  LH_CHECK(check_steps(shape_, weights_.dtype, device(), steps, LogitsWanted::none, 0));
  const std::int64_t seen_rows = seen_.view().size() / shape_.vocab_size;
  LH_CHECK(check_draws(steps.size(), draws, tokens.size(), logprobs.size(), seen_rows));
  read_prompts(context, steps);
  begin(context, steps, draws);
  const SampleShape shape{table_.sequences(), shape_.vocab_size};
  const View logits = logits_.take(DType::f32, {shape.sequences, shape.vocab});
  const View drawn = drawn_.take(DType::i32, {shape.sequences});
  const View chosen = logprobs.empty() ? View() : logprobs_.take(DType::f64, {shape.sequences});
  const std::span<std::int32_t> seen = seen_rows > 0 ? seen_.view().span<std::int32_t>() : std::span<std::int32_t>();
  const auto ask = [&](std::int64_t longest) {
    run_blocks(context, steps, longest, weights_.embedding);
    last_logits(context, logits);
    sample_tokens(context, shape, logits, table_.draws(), seen, drawn.span<std::int32_t>());
    if (!chosen.empty())
      token_logprobs(context, shape, logits, drawn.span<std::int32_t>(), 0, chosen.span<double>(), {}, {});
  };
  const DecodeKind kind{.draws = true, .logprobs = !logprobs.empty(), .pool = steps.front().cache->pool()};
  table_.decodes() ? decode_on_device(kind, ask) : ask(table_.longest());
  copy_out(context, drawn, View(tokens));
  if (!chosen.empty()) copy_out(context, chosen, View(logprobs));
  finish(steps);
  return {};
}

Status InferenceModel::score(const ComputeContext& context, const SequenceStep& step,
                             std::span<const std::int32_t> targets, std::span<double> out) {
  LH_ASSERT(context.device() == device(), "a context of another device than the model's");
  if (device() == nullptr) return make_error(ErrorCode::unsupported, "tokens are scored by the model on a device only");
  LH_CHECK(check_targets(shape_.vocab_size, step.tokens.size(), targets, out.size()));
  LH_CHECK(check_steps(shape_, weights_.dtype, device(), {&step, 1}, LogitsWanted::none, 0));
  read_prompts(context, {&step, 1});
  begin(context, {&step, 1}, {});
  run_blocks(context, {&step, 1}, table_.longest(), weights_.embedding);
  const std::int64_t rows = table_.tokens(), piece = std::min(rows, logits_rows_max);
  const View asked = drawn_.take(DType::i32, {rows}), scores = logprobs_.take(DType::f64, {rows});
  copy_in(context, ConstView(targets), asked);
  for (std::int64_t begin = 0; begin < rows; begin += piece) {
    const std::int64_t end = std::min(rows, begin + piece);
    const View part = logits_.take(DType::f32, {end - begin, shape_.vocab_size});
    weights_.output_weights().apply(context, end - begin, scratch_.normed.view().rows(begin, end), part);
    token_logprobs(context, {end - begin, shape_.vocab_size}, part, asked.rows(begin, end).span<std::int32_t>(), 0,
                   scores.rows(begin, end).span<double>(), {}, {});
  }
  copy_out(context, scores, View(out));
  finish({&step, 1});
  return {};
}

void InferenceModel::begin(const ComputeContext& context, std::span<const SequenceStep> steps,
                           std::span<const SampleRow> draws) {
  hold_room(steps);
  table_.fill(context, steps, draws, static_cast<int>(shape_.num_hidden_layers), weights_.memory.get());
  scratch_.reserve(shape_, weights_.dtype, table_.tokens(), weights_.memory.get());
}

void InferenceModel::finish(std::span<const SequenceStep> steps) {
  for (const SequenceStep& step : steps) step.cache->advance(static_cast<std::int64_t>(step.tokens.size()));
}

void InferenceModel::take_scratch(const ComputeContext& context, const InferenceLoad& load, KvPool& pool) {
  scratch_.reserve(shape_, weights_.dtype, load.tokens_max, weights_.memory.get());
  const std::int64_t rows = load.decode_rows();
  logits_.take(DType::f32, {load.logits_rows, shape_.vocab_size});
  drawn_.take(DType::i32, {rows}), logprobs_.take(DType::f64, {rows});
  table_.reserve(rows, load.tokens_max, load.context_length, static_cast<int>(shape_.num_hidden_layers),
                 weights_.memory.get());
  if (load.seen_rows > 0) keep_seen(load.seen_rows);
  attention_.take_scratch(context, rows, load.context_length, pool, scratch_.q.view().rows(0, rows),
                          scratch_.attended.view().rows(0, rows));
}

void InferenceModel::keep_seen(std::int64_t rows) {
  LH_ASSERT(device() != nullptr, "what was seen is kept on a device");
  seen_ = Tensor();
  seen_ = Tensor(DType::i32, {rows, shape_.vocab_size}, weights_.memory.get());
}

void InferenceModel::set_seen(const ComputeContext& context, std::int64_t row, std::span<const std::int32_t> counts) {
  copy_in(context, ConstView(counts), seen_.view().rows(row, row + 1));
}

}  // namespace longhaul
