#include "engine/data/samples/sampler.h"

#include <algorithm>

#include "base/text/text.h"
#include "engine/data/samples/permutation.h"

namespace longhaul {

Status check_holds_a_sample(const IndexedDataset& dataset, std::int64_t sequence_length, const std::string& name) {
  if (sequence_length < 1)
    return make_error(ErrorCode::invalid_input, format("sequence_length = {} is not positive", sequence_length));
  if (dataset.tokens() >= sequence_length + 1) return {};
  return make_error(ErrorCode::invalid_input,
                    format("{} has {} tokens, less than one sample of sequence_length + 1 = {}", name, dataset.tokens(),
                           sequence_length + 1),
                    dataset.tokens() < 2
                        ? "bring more text"
                        : format("bring more text, or use a sequence_length of at most {}", dataset.tokens() - 1));
}

Result<Sampler> Sampler::create(std::shared_ptr<const IndexedDataset> dataset, std::int64_t sequence_length,
                                std::uint64_t seed, SampleOrder order, const std::string& name) {
  LH_CHECK(check_holds_a_sample(*dataset, sequence_length, name));
  Sampler sampler;
  sampler.windows_ = (dataset->tokens() - 1) / sequence_length;
  sampler.dataset_ = std::move(dataset);
  sampler.sequence_length_ = sequence_length;
  sampler.seed_ = seed;
  sampler.order_ = order;
  return sampler;
}

std::int64_t Sampler::window_begin(std::int64_t k) const {
  const std::int64_t epoch = k / windows_;
  std::int64_t window = k % windows_;
  if (order_ == SampleOrder::shuffled) {
    const Permutation order(static_cast<std::uint64_t>(windows_), seed_, data_order_stream(epoch));
    window = static_cast<std::int64_t>(order(static_cast<std::uint64_t>(window)));
  }
  return window * sequence_length_;
}

void Sampler::read(std::int64_t k, std::span<std::int32_t> out) const {
  LH_ASSERT(static_cast<std::int64_t>(out.size()) == sequence_length_ + 1, format("{} tokens asked for", out.size()));
  dataset_->read(window_begin(k), out);
}

void Sampler::document_begins(std::int64_t k, std::span<std::int32_t> out) const {
  const std::int64_t begin = window_begin(k), end = begin + static_cast<std::int64_t>(out.size());
  IndexedDataset::Range document{begin, begin};
  for (std::int64_t token = begin; token < end; ++token) {
    if (token >= document.end) document = dataset_->document(dataset_->document_at(token));
    out[static_cast<std::size_t>(token - begin)] = static_cast<std::int32_t>(std::max(document.begin, begin) - begin);
  }
}

}  // namespace longhaul
