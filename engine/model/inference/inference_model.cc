#include "engine/model/inference/inference_model.h"

#include <algorithm>

#include "base/text/text.h"
#include "engine/core/tensor/transfer.h"
#include "engine/model/store/model_folder.h"

namespace longhaul {

namespace {

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

InferenceModel::InferenceModel(const ModelShape& shape, InferenceWeights weights, InferenceRanks ranks)
    : blocks_(shape, std::move(weights), std::move(ranks)),
      logits_(account()),
      drawn_(account()),
      logprobs_(account()),
      use_graphs_(!blocks_.ranks().are_several()) {}

// The last rows of all sequences side by side: one product over the vocabulary.
void InferenceModel::last_logits(const ComputeContext& context, View out) {
  const StepTable& table = blocks_.table();
  const std::int64_t sequences = table.sequences();
  const View rows = blocks_.normed();
  if (table.decodes()) return blocks_.project(context, rows, out);
  const View last = blocks_.spare().rows(0, sequences);
  for (std::int64_t i = 0; i < sequences; ++i) {
    const std::int64_t end = table.end(static_cast<std::size_t>(i));
    copy_within(context, rows.rows(end - 1, end), last.rows(i, i + 1));
  }
  blocks_.project(context, last, out);
}

// On a device a piece of the rows at a time: the logits of a long text are larger than the model.
void InferenceModel::all_logits(const ComputeContext& context, std::span<float> logits) {
  const std::int64_t rows = blocks_.table().tokens(), vocab = shape().vocab_size;
  const View to(logits.data(), Shape{rows, vocab});
  const std::int64_t piece = device() != nullptr ? std::min(rows, logits_rows_max) : rows;
  for (std::int64_t begin = 0; begin < rows; begin += piece) {
    const std::int64_t end = std::min(rows, begin + piece);
    const View part = device() != nullptr ? logits_.take(DType::f32, {end - begin, vocab}) : to.rows(begin, end);
    blocks_.project(context, blocks_.normed().rows(begin, end), part);
    if (device() != nullptr) copy_out(context, part, to.rows(begin, end));
  }
}

void InferenceModel::decode_on_device(DecodeKind kind, const std::function<void(std::int64_t longest)>& ask) {
  if (!use_graphs_) return ask(blocks_.table().longest());
  kind.sequences = blocks_.table().sequences(), kind.room = blocks_.table().room();
  graphs_->run(*device(), kind, [&] { ask(blocks_.table().room()); });
}

void InferenceModel::logits_to_host(const ComputeContext& context, std::span<const SequenceStep> steps,
                                    std::span<float> logits) {
  const View out = logits_.take(DType::f32, {blocks_.table().sequences(), shape().vocab_size});
  const auto ask = [&](std::int64_t longest) {
    blocks_.run(context, steps, longest);
    last_logits(context, out);
  };
  blocks_.table().decodes() ? decode_on_device({.pool = steps.front().cache->pool()}, ask)
                            : ask(blocks_.table().longest());
  copy_out(context, out, View(logits.data(), out.shape()));
}

Status InferenceModel::forward(const ComputeContext& context, std::span<const SequenceStep> steps, LogitsWanted wanted,
                               std::span<float> logits) {
  LH_ASSERT(context.device() == device(), "a context of another device than the model's");
  LH_CHECK(check_steps(shape(), dtype(), device(), steps, wanted, logits.size()));
  blocks_.begin(context, steps, {});
  const bool decodes = blocks_.table().decodes() && wanted != LogitsWanted::none;  // all are the last ones then
  if (device() != nullptr && (decodes || wanted == LogitsWanted::last)) {
    logits_to_host(context, steps, logits);
  } else {
    blocks_.run(context, steps, blocks_.table().longest());
    if (wanted == LogitsWanted::all) all_logits(context, logits);
    if (wanted == LogitsWanted::last)
      last_logits(context, View(logits.data(), Shape{blocks_.table().sequences(), shape().vocab_size}));
  }
  InferenceBlocks::finish(steps);
  return blocks_.ranks().status();
}

Status InferenceModel::draw(const ComputeContext& context, std::span<const SequenceStep> steps,
                            std::span<const SampleRow> draws, std::span<std::int32_t> tokens,
                            std::span<double> logprobs) {
  LH_ASSERT(context.device() == device(), "a context of another device than the model's");
  if (device() == nullptr) return make_error(ErrorCode::unsupported, "tokens are drawn by the model on a device only");
  LH_CHECK(check_steps(shape(), dtype(), device(), steps, LogitsWanted::none, 0));
  const std::int64_t seen_rows = seen_.view().size() / shape().vocab_size;
  LH_CHECK(check_draws(steps.size(), draws, tokens.size(), logprobs.size(), seen_rows));
  blocks_.begin(context, steps, draws);
  const SampleShape sample{blocks_.table().sequences(), shape().vocab_size};
  const View logits = logits_.take(DType::f32, {sample.sequences, sample.vocab});
  const View drawn = drawn_.take(DType::i32, {sample.sequences});
  const View chosen = logprobs.empty() ? View() : logprobs_.take(DType::f64, {sample.sequences});
  const std::span<std::int32_t> seen = seen_rows > 0 ? seen_.view().span<std::int32_t>() : std::span<std::int32_t>();
  const auto ask = [&](std::int64_t longest) {
    blocks_.run(context, steps, longest);
    last_logits(context, logits);
    sample_tokens(context, sample, logits, blocks_.table().draws(), seen, drawn.span<std::int32_t>());
    if (!chosen.empty())
      token_logprobs(context, sample, logits, drawn.span<std::int32_t>(), 0, chosen.span<double>(), {}, {});
  };
  const DecodeKind kind{.draws = true, .logprobs = !logprobs.empty(), .pool = steps.front().cache->pool()};
  blocks_.table().decodes() ? decode_on_device(kind, ask) : ask(blocks_.table().longest());
  copy_out(context, drawn, View(tokens));
  if (!chosen.empty()) copy_out(context, chosen, View(logprobs));
  InferenceBlocks::finish(steps);
  return blocks_.ranks().status();
}

Status InferenceModel::score(const ComputeContext& context, const SequenceStep& step,
                             std::span<const std::int32_t> targets, std::span<double> out) {
  LH_ASSERT(context.device() == device(), "a context of another device than the model's");
  if (device() == nullptr) return make_error(ErrorCode::unsupported, "tokens are scored by the model on a device only");
  LH_CHECK(check_targets(shape().vocab_size, step.tokens.size(), targets, out.size()));
  LH_CHECK(check_steps(shape(), dtype(), device(), {&step, 1}, LogitsWanted::none, 0));
  blocks_.begin(context, {&step, 1}, {});
  blocks_.run(context, {&step, 1}, blocks_.table().longest());
  const std::int64_t rows = blocks_.table().tokens(), piece = std::min(rows, logits_rows_max);
  const View asked = drawn_.take(DType::i32, {rows}), scores = logprobs_.take(DType::f64, {rows});
  copy_in(context, ConstView(targets), asked);
  for (std::int64_t begin = 0; begin < rows; begin += piece) {
    const std::int64_t end = std::min(rows, begin + piece);
    const View part = logits_.take(DType::f32, {end - begin, shape().vocab_size});
    blocks_.project(context, blocks_.normed().rows(begin, end), part);
    token_logprobs(context, {end - begin, shape().vocab_size}, part, asked.rows(begin, end).span<std::int32_t>(), 0,
                   scores.rows(begin, end).span<double>(), {}, {});
  }
  copy_out(context, scores, View(out));
  InferenceBlocks::finish({&step, 1});
  return blocks_.ranks().status();
}

void InferenceModel::take_scratch(const ComputeContext& context, const InferenceLoad& load, KvPool& pool) {
  blocks_.take_scratch(context, load, pool);
  const std::int64_t rows = load.decode_rows();
  logits_.take(DType::f32, {load.logits_rows, shape().vocab_size});
  drawn_.take(DType::i32, {rows}), logprobs_.take(DType::f64, {rows});
  if (load.seen_rows > 0) keep_seen(load.seen_rows);
}

void InferenceModel::keep_seen(std::int64_t rows) {
  LH_ASSERT(device() != nullptr, "what was seen is kept on a device");
  seen_ = Tensor();
  seen_ = Tensor(DType::i32, {rows, shape().vocab_size}, account());
}

void InferenceModel::set_seen(const ComputeContext& context, std::int64_t row, std::span<const std::int32_t> counts) {
  copy_in(context, ConstView(counts), seen_.view().rows(row, row + 1));
}

}  // namespace longhaul
