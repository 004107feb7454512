#include "engine/tasks/common/token_files.h"

#include <algorithm>

#include "base/files/file_query.h"
#include "base/files/files.h"
#include "base/text/text.h"
#include "engine/data/samples/example_packing.h"

namespace longhaul {

Result<TokenSource> TokenSource::open(const std::string& prefix, std::int64_t sequence_length, std::uint64_t seed,
                                      SampleOrder order, const DocumentRules& documents) {
  LH_TRY(IndexedDataset dataset, IndexedDataset::open(prefix));
  LH_TRY(Sampler sampler, Sampler::create(std::make_shared<const IndexedDataset>(std::move(dataset)), sequence_length,
                                          seed, order, prefix));
  return TokenSource({PhaseSamples{1, 0, std::make_shared<const Sampler>(std::move(sampler))}}, documents);
}

Status TokenSource::fill(std::int64_t first, std::int64_t count, BatchStorage& out) {
  const SampleSource& samples = *phase().samples;
  std::int64_t k = first - phase().first_sample;
  // Data that was left out leads behind the end that an order may have: its beginning is read once more, then.
  if (left_out_ > 0 && samples.size() != endless && k + count > samples.size())
    k %= std::max<std::int64_t>(1, samples.size() - count + 1);
  LH_TRY(Batch batch, samples.batch(k, count, 1, documents_.mask));
  out.sequences = batch.samples, out.length = batch.sequence_length;
  out.ids = std::move(batch.inputs);
  out.targets = std::move(batch.targets);
  out.weights.resize(out.ids.size());
  for (std::size_t t = 0; t < out.ids.size(); ++t) {
    out.weights[t] = static_cast<float>(batch.loss_mask[t]);
    if (!batch.loss_mask[t]) out.targets[t] = no_target;
  }
  out.first_key = std::move(batch.document_begin);
  out.positions.clear();
  if (!documents_.reset_positions) return {};
  out.positions.resize(out.ids.size());
  for (std::size_t t = 0; t < out.ids.size(); ++t)
    out.positions[t] = static_cast<std::int32_t>(t % static_cast<std::size_t>(out.length)) - out.first_key[t];
  return {};
}

void TokenSource::begin_step(std::int64_t step, std::int64_t left_out) {
  left_out_ = left_out;
  for (phase_ = 0; phase_ + 1 < phases_.size() && step >= phases_[phase_ + 1].first_step;) ++phase_;
}

namespace {

// Of padding alone.
void start_rows(std::int64_t rows, std::int64_t length, BatchStorage& out) {
  out.sequences = rows, out.length = length;
  const auto tokens = static_cast<std::size_t>(rows * length);
  out.ids.assign(tokens, 0), out.targets.assign(tokens, padding_target), out.weights.assign(tokens, 0.0F);
  out.positions.clear(), out.first_key.clear();
}

void put_example(const ChatTokens& example, std::size_t begin, BatchStorage& out) {
  for (std::size_t i = 0; i + 1 < example.ids.size(); ++i) {
    out.ids[begin + i] = example.ids[i];
    out.targets[begin + i] = no_target;
    if (!example.loss_mask[i + 1]) continue;
    out.targets[begin + i] = example.ids[i + 1];
    out.weights[begin + i] = 1.0F;
  }
}

// Rows padded at the end: causal attention never looks there, and there is no target.
std::int64_t index_of(std::int64_t k, std::int64_t examples, std::uint64_t seed, SampleOrder order) {
  return order == SampleOrder::sequential ? k % examples : example_of_sample(k, examples, seed);
}

}  // namespace

void fill_examples(std::span<const ChatTokens* const> examples, std::int64_t sequence_length, BatchStorage& out,
                   std::span<const std::int32_t> before) {
  std::int64_t longest = 1;
  for (const ChatTokens* example : examples) longest = std::max(longest, std::ssize(example->ids) - 1);
  longest += std::ssize(before);
  // Few different lengths: compiled products are found again.
  const std::int64_t length = std::min(sequence_length, (longest + 31) / 32 * 32);
  start_rows(static_cast<std::int64_t>(examples.size()), length, out);
  for (std::size_t row = 0; row < examples.size(); ++row) {
    const std::size_t begin = row * static_cast<std::size_t>(length);
    std::ranges::copy(before, out.ids.begin() + static_cast<std::ptrdiff_t>(begin));
    std::fill_n(out.targets.begin() + static_cast<std::ptrdiff_t>(begin), before.size(), no_target);
    put_example(*examples[row], begin + before.size(), out);
  }
}

Status ExampleSource::fill(std::int64_t first, std::int64_t count, BatchStorage& out) {
  if (!rows_.empty()) {
    fill_packed(first, count, out);
    return {};
  }
  std::vector<const ChatTokens*> rows;
  for (std::int64_t k = first; k < first + count; ++k)
    rows.push_back(&examples_[static_cast<std::size_t>(index_of(k, samples_per_epoch(), seed_, order_))]);
  fill_examples(rows, sequence_length_, out);
  return {};
}

void ExampleSource::pack() {
  std::vector<std::int64_t> lengths;  // of inputs: the last token is a target only
  for (const ChatTokens& example : examples_)
    lengths.push_back(std::max<std::int64_t>(1, static_cast<std::int64_t>(example.ids.size()) - 1));
  rows_ = pack_examples(lengths, sequence_length_, seed_);
}

void ExampleSource::fill_packed(std::int64_t first, std::int64_t count, BatchStorage& out) const {
  start_rows(count, sequence_length_, out);
  const auto length = static_cast<std::size_t>(out.length);
  out.positions.resize(out.ids.size()), out.first_key.resize(out.ids.size());
  for (std::size_t row = 0; row < static_cast<std::size_t>(count); ++row) {
    const auto k = first + static_cast<std::int64_t>(row);
    const auto& examples = rows_[static_cast<std::size_t>(index_of(k, samples_per_epoch(), seed_, order_))];
    // Documents of the row: its examples, and what is left of it.
    std::size_t at = 0;
    const auto document_until = [&](std::size_t end) {
      for (std::size_t i = at; i < end; ++i) {
        out.first_key[row * length + i] = static_cast<std::int32_t>(at);
        out.positions[row * length + i] = static_cast<std::int32_t>(i - at);
      }
      at = end;
    };
    for (const std::int32_t example : examples) {
      const ChatTokens& tokens = examples_[static_cast<std::size_t>(example)];
      put_example(tokens, row * length + at, out);
      document_until(at + std::max<std::size_t>(1, tokens.ids.size() - 1));
    }
    document_until(length);
  }
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
  fill_examples(rows, sequence_length_, out, before_);
  return {};
}

Result<std::string> find_data_file(const std::string& path, const std::vector<std::string>& names) {
  LH_TRY(const bool there, is_there(path));
  if (!there) return make_error(ErrorCode::not_found, "there is no " + path);
  if (!is_directory(path)) return path;
  for (const std::string& name : names) {
    LH_TRY(const bool held, is_there(join_path(path, name)));
    if (held) return join_path(path, name);
  }
  return make_error(ErrorCode::not_found, format("{} holds none of {}", path, join(names, ", ")));
}

}  // namespace longhaul
