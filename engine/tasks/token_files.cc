#include "engine/tasks/token_files.h"

#include <algorithm>

#include "base/files.h"
#include "base/text.h"

namespace longhaul {

Result<TokenSource> TokenSource::open(const std::string& prefix, std::int64_t sequence_length, std::uint64_t seed,
                                      SampleOrder order) {
  LH_TRY(IndexedDataset dataset, IndexedDataset::open(prefix));
  LH_TRY(Sampler sampler, Sampler::create(std::make_shared<const IndexedDataset>(std::move(dataset)), sequence_length,
                                          seed, order, prefix));
  return TokenSource(std::make_shared<const Sampler>(std::move(sampler)));
}

Status TokenSource::fill(std::int64_t first, std::int64_t count, BatchStorage& out) {
  LH_TRY(Batch batch, samples_->batch(first, count));
  out.sequences = batch.samples, out.length = batch.sequence_length;
  out.ids = std::move(batch.inputs);
  out.targets = std::move(batch.targets);
  out.weights.resize(out.ids.size());
  for (std::size_t t = 0; t < out.ids.size(); ++t) {
    out.weights[t] = static_cast<float>(batch.loss_mask[t]);
    if (!batch.loss_mask[t]) out.targets[t] = -1;
  }
  return {};
}

namespace {

// Rows padded at the end: causal attention never looks there, and there is no target.
void fill_examples(std::span<const ChatTokens* const> examples, std::int64_t sequence_length, BatchStorage& out) {
  std::int64_t longest = 1;
  for (const ChatTokens* example : examples)
    longest = std::max(longest, static_cast<std::int64_t>(example->ids.size()) - 1);
  out.sequences = static_cast<std::int64_t>(examples.size());
  out.length =
      std::min(sequence_length, (longest + 31) / 32 * 32);  // few different lengths: compiled products are found again
  const auto tokens = static_cast<std::size_t>(out.sequences * out.length);
  out.ids.assign(tokens, 0), out.targets.assign(tokens, -1), out.weights.assign(tokens, 0.0F);
  for (std::size_t row = 0; row < examples.size(); ++row) {
    const ChatTokens& example = *examples[row];
    const std::size_t begin = row * static_cast<std::size_t>(out.length);
    for (std::size_t i = 0; i + 1 < example.ids.size(); ++i) {
      out.ids[begin + i] = example.ids[i];
      if (!example.loss_mask[i + 1]) continue;
      out.targets[begin + i] = example.ids[i + 1];
      out.weights[begin + i] = 1.0F;
    }
  }
}

std::int64_t index_of(std::int64_t k, std::int64_t examples, std::uint64_t seed, SampleOrder order) {
  return order == SampleOrder::sequential ? k % examples : example_of_sample(k, examples, seed);
}

}  // namespace

Status ExampleSource::fill(std::int64_t first, std::int64_t count, BatchStorage& out) {
  std::vector<const ChatTokens*> rows;
  for (std::int64_t k = first; k < first + count; ++k)
    rows.push_back(&examples_[static_cast<std::size_t>(index_of(k, samples_per_epoch(), seed_, order_))]);
  fill_examples(rows, sequence_length_, out);
  return {};
}

Status PairSource::fill(std::int64_t first, std::int64_t count, BatchStorage& out) {
  std::vector<const ChatTokens*> rows;
  out.per_sequence.clear();
  for (std::int64_t k = first; k < first + count; ++k) {
    const auto i = static_cast<std::size_t>(index_of(k, samples_per_epoch(), seed_, order_));
    rows.push_back(&pairs_[i].chosen);
    rows.push_back(&pairs_[i].rejected);
    out.per_sequence.push_back(references_[2 * i]);
    out.per_sequence.push_back(references_[2 * i + 1]);
  }
  fill_examples(rows, sequence_length_, out);
  return {};
}

Result<std::string> find_data_file(const std::string& path, const std::vector<std::string>& names) {
  if (!file_exists(path)) return make_error(ErrorCode::not_found, "there is no " + path);
  if (!is_directory(path)) return path;
  for (const std::string& name : names)
    if (file_exists(join_path(path, name))) return join_path(path, name);
  return make_error(ErrorCode::not_found, format("{} holds none of {}", path, join(names, ", ")));
}

}  // namespace longhaul
