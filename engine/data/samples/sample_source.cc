#include "engine/data/samples/sample_source.h"

#include <algorithm>

#include "base/text/text.h"

namespace longhaul {

Result<Batch> SampleSource::batch(std::int64_t first, std::int64_t count, std::int64_t stride, bool documents) const {
  if (first < 0 || count < 0 || stride < 1)
    return make_error(ErrorCode::internal, format("samples {} + {} x {} asked for", first, count, stride));
  if (count > 0 && (first >= size() || (count - 1) > (size() - 1 - first) / stride))
    return make_error(
        ErrorCode::invalid_input,
        format("the order of data has {} samples; sample {} was asked for", size(), first + (count - 1) * stride),
        "it was built for fewer steps than this training has");
  const auto s = static_cast<std::size_t>(sequence_length());
  Batch made{count, sequence_length(), {}, {}, {}, {}};
  made.inputs.resize(static_cast<std::size_t>(count) * s);
  made.targets.resize(made.inputs.size());
  made.loss_mask.assign(made.inputs.size(), 1);
  if (documents) made.document_begin.resize(made.inputs.size());
  std::vector<std::int32_t> sample(s + 1);
  for (std::int64_t i = 0; i < count; ++i) {
    read(first + i * stride, sample);
    const auto at = static_cast<std::ptrdiff_t>(static_cast<std::size_t>(i) * s);
    std::copy(sample.begin(), sample.end() - 1, made.inputs.begin() + at);
    std::copy(sample.begin() + 1, sample.end(), made.targets.begin() + at);
    if (!documents) continue;
    document_begins(first + i * stride, sample);
    std::copy(sample.begin(), sample.end() - 1, made.document_begin.begin() + at);
    for (std::size_t t = 0; t < s; ++t)
      if (sample[t + 1] != sample[t]) made.loss_mask[static_cast<std::size_t>(i) * s + t] = 0;
  }
  return made;
}

}  // namespace longhaul
