#include "engine/quantize/quantize.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/files/files.h"
#include "base/text/text.h"
#include "engine/core/tensor/parallel_for.h"
#include "engine/data/files/indexed_dataset.h"
#include "engine/quantize/weight_format.h"

namespace longhaul {
namespace {

constexpr std::int64_t window_max = 2048;
constexpr std::int64_t tokens_max = 1 << 16;  // both models see the same text, so the difference needs no more
constexpr std::int64_t logits_max = 1 << 24;  // held at a time: 64 MiB

// -log softmax(row)[target], in f64.
double nats_of(std::span<const float> row, std::int32_t target) {
  const float top = *std::max_element(row.begin(), row.end());
  double sum = 0;
  for (const float logit : row) sum += std::exp(static_cast<double>(logit) - top);
  return std::log(sum) + top - row[static_cast<std::size_t>(target)];
}

Result<PerplexityResult> perplexity_of(const ComputeContext& context, const std::string& folder,
                                       std::span<const std::int32_t> tokens, double from, double to,
                                       const std::function<Status(double)>& progress) {
  LH_TRY(InferenceModel model, InferenceModel::load(folder, DType::f32));
  const std::int64_t window = std::min(window_max, model.shape().max_position_embeddings);
  return measure_perplexity(context, model, tokens, window,
                            [&](double fraction) { return progress(from + (to - from) * fraction); });
}

}  // namespace

double PerplexityResult::perplexity() const {
  return std::exp(nats / static_cast<double>(tokens));
}

Result<PerplexityResult> measure_perplexity(const ComputeContext& context, InferenceModel& model,
                                            std::span<const std::int32_t> tokens, std::int64_t window,
                                            const std::function<Status(double fraction)>& progress) {
  PerplexityResult out;
  KvCache cache = model.make_cache(window);
  const auto vocabulary = static_cast<std::size_t>(model.shape().vocab_size);
  const std::int64_t piece = std::clamp<std::int64_t>(logits_max / model.shape().vocab_size, 1, window);
  std::vector<float> logits(static_cast<std::size_t>(piece) * vocabulary);
  std::vector<double> nats(static_cast<std::size_t>(piece));
  for (std::size_t begin = 0; begin + 1 < tokens.size(); begin += static_cast<std::size_t>(window)) {
    const auto text = tokens.subspan(begin, std::min(static_cast<std::size_t>(window), tokens.size() - begin));
    cache.truncate(0);
    for (std::size_t at = 0; at + 1 < text.size(); at += static_cast<std::size_t>(piece)) {
      const auto part = text.subspan(at, std::min(static_cast<std::size_t>(piece), text.size() - 1 - at));
      const SequenceStep step{&cache, part};
      const auto rows = std::span<float>(logits).first(part.size() * vocabulary);
      LH_CHECK(model.forward(context, {&step, 1}, LogitsWanted::all, rows));
      parallel_for(context, static_cast<std::int64_t>(part.size()), 16, [&](std::int64_t first, std::int64_t last) {
        for (auto t = static_cast<std::size_t>(first); t < static_cast<std::size_t>(last); ++t)
          nats[t] = nats_of(rows.subspan(t * vocabulary, vocabulary), text[at + t + 1]);
      });
      for (std::size_t t = 0; t < part.size(); ++t) out.nats += nats[t];  // in order: the same with any thread count
      out.tokens += static_cast<std::int64_t>(part.size());
    }
    LH_CHECK(progress(static_cast<double>(begin + text.size()) / static_cast<double>(tokens.size())));
  }
  if (out.tokens == 0)
    return make_error(ErrorCode::invalid_input, "the held-out text has less than two tokens",
                      "hold out more of the corpus (heldout_bytes of its curate stage), or leave out the input tokens");
  return out;
}

Result<Value> quantize_model(const QuantizeInputs& in, const QuantizeSettings& settings, const ComputeContext& context,
                             const std::function<Status(double fraction)>& progress) {
  const bool bar = settings.perplexity_loss_max_pct > 0;
  if (bar && in.tokens_folder.empty()) {
    return make_error(ErrorCode::invalid_input, "perplexity_loss_max_pct is set, but there is no held-out text",
                      "give inputs.tokens, the artifact of the tokenize stage");
  }
  const WeightCodes codes = parse_weight_codes(settings.method);
  LH_TRY(const QuantizedBytes bytes, quantize_folder(in.model_folder, in.output_dir, codes, settings.embedding));
  LH_CHECK(progress(0.1));
  Value figures = Value::make_table();
  figures.set("bytes_before", bytes.before);
  figures.set("bytes_after", bytes.after);
  if (in.tokens_folder.empty()) return figures;

  LH_TRY(const IndexedDataset dataset, IndexedDataset::open(join_path(in.tokens_folder, "heldout")));
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(std::min(tokens_max, dataset.tokens())));
  dataset.read(0, tokens);
  LH_TRY(const PerplexityResult before, perplexity_of(context, in.model_folder, tokens, 0.1, 0.55, progress));
  LH_TRY(const PerplexityResult after, perplexity_of(context, in.output_dir, tokens, 0.55, 1.0, progress));
  const double loss_pct = 100 * (after.perplexity() / before.perplexity() - 1);
  figures.set("perplexity_before", before.perplexity());
  figures.set("perplexity_after", after.perplexity());
  figures.set("perplexity_loss_pct", loss_pct);
  figures.set("perplexity_tokens", after.tokens);
  if (bar && !(loss_pct <= settings.perplexity_loss_max_pct)) {
    return make_error(
        ErrorCode::invalid_input,
        format("{} raises the perplexity from {:.4f} to {:.4f}, by {:.3g} %; the bar is {} %", name_of(codes),
               before.perplexity(), after.perplexity(), loss_pct, settings.perplexity_loss_max_pct),
        settings.embedding ? "serve the model unquantized, or leave the embedding out"
                           : "serve the model unquantized, or take a method of more bits");
  }
  return figures;
}

}  // namespace longhaul
