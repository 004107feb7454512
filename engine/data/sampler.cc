#include "engine/data/sampler.h"

#include <algorithm>

#include "base/text.h"
#include "engine/data/permutation.h"

namespace longhaul {

Result<Sampler> Sampler::create(std::shared_ptr<const IndexedDataset> dataset, std::int64_t sequence_length,
                                std::uint64_t seed, SampleOrder order, const std::string& name) {
  if (sequence_length < 1)
    return make_error(ErrorCode::invalid_input, format("sequence_length = {} is not positive", sequence_length));
  if (dataset->tokens() < sequence_length + 1)
    return make_error(ErrorCode::invalid_input,
                      format("{} has {} tokens, less than one sample of sequence_length + 1 = {}", name,
                             dataset->tokens(), sequence_length + 1),
                      dataset->tokens() < 2
                          ? "bring more text"
                          : format("bring more text, or use a sequence_length of at most {}", dataset->tokens() - 1));
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

Result<Batch> Sampler::batch(std::int64_t first, std::int64_t count, std::int64_t stride) const {
  if (first < 0 || count < 0 || stride < 1)
    return make_error(ErrorCode::internal, format("samples {} + {} x {} asked for", first, count, stride));
  const auto s = static_cast<std::size_t>(sequence_length_);
  Batch made{count, sequence_length_, {}, {}, {}};
  made.inputs.resize(static_cast<std::size_t>(count) * s);
  made.targets.resize(made.inputs.size());
  made.loss_mask.assign(made.inputs.size(), 1);
  std::vector<std::int32_t> window(s + 1);
  for (std::int64_t i = 0; i < count; ++i) {
    dataset_->read(window_begin(first + i * stride), window);
    const auto at = static_cast<std::ptrdiff_t>(static_cast<std::size_t>(i) * s);
    std::copy(window.begin(), window.end() - 1, made.inputs.begin() + at);
    std::copy(window.begin() + 1, window.end(), made.targets.begin() + at);
  }
  return made;
}

}  // namespace longhaul
