#include "engine/train/step/sequence_rewards.h"

#include <algorithm>
#include <numeric>

#include "base/text/text.h"

namespace longhaul {

void fill_scored_rows(std::span<const std::span<const std::int32_t>> texts, std::int64_t length, BatchStorage& out,
                      std::span<const std::int32_t> before) {
  out.sequences = static_cast<std::int64_t>(texts.size()), out.length = length;
  const std::size_t width = static_cast<std::size_t>(length), tokens = texts.size() * width;
  out.ids.assign(tokens, 0), out.targets.assign(tokens, padding_target), out.weights.assign(tokens, 0.0F);
  out.positions.clear(), out.first_key.clear();
  for (std::size_t row = 0; row < texts.size(); ++row) {
    const std::span<const std::int32_t> text = texts[row];
    const std::size_t size = before.size() + text.size();
    LH_ASSERT(!text.empty() && size <= width, format("{} tokens in a row of {}", size, width));
    const auto begin = static_cast<std::ptrdiff_t>(row * width);
    std::ranges::copy(text, std::ranges::copy(before, out.ids.begin() + begin).out);
    std::fill_n(out.targets.begin() + begin, size, no_target);
    out.targets[row * width + size - 1] = 0;
    out.weights[row * width + size - 1] = 1.0F;
  }
}

namespace {

// Those of text `asked`, which begins at token `begin` of a batch.
std::vector<double> numbers_of_row(const AskedText& asked, std::size_t begin, std::size_t labels,
                                   std::span<const float> numbers) {
  std::vector<double> found;
  for (const std::size_t place : asked.places) {
    const std::span<const float> here = numbers.subspan((begin + place) * labels, labels);
    found.insert(found.end(), here.begin(), here.end());
  }
  return found;
}

}  // namespace

Result<std::vector<std::vector<double>>> numbers_at(const ComputeContext& context, Llama& model,
                                                    std::int64_t tokens_max, std::span<const AskedText> texts,
                                                    const std::function<void(std::size_t)>& progress) {
  const auto labels = static_cast<std::size_t>(model.shape().num_labels);
  std::vector<std::vector<double>> found(texts.size());
  std::vector<std::size_t> order(texts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order,
                           [&](std::size_t a, std::size_t b) { return texts[a].ids.size() > texts[b].ids.size(); });
  const std::vector<std::int32_t> before = virtual_token_ids(model.shape());
  const std::int64_t length_max = std::min(tokens_max, model.length_max());
  BatchStorage batch;
  std::vector<float> numbers;
  for (std::size_t at = 0; at < order.size();) {
    const std::int64_t text = std::ssize(texts[order[at]].ids), longest = text + std::ssize(before);
    if (longest > length_max || texts[order.back()].ids.empty())
      return make_error(ErrorCode::invalid_input,
                        format("a text of {} tokens; the reward model judges texts of 1 to {}",
                               longest > length_max ? text : 0, length_max - std::ssize(before)));
    const std::int64_t length = std::min(length_max, (longest + 31) / 32 * 32);
    const std::size_t rows = std::min(static_cast<std::size_t>(tokens_max / length), order.size() - at);
    std::vector<std::span<const std::int32_t>> here;
    for (std::size_t row = 0; row < rows; ++row) here.push_back(texts[order[at + row]].ids);
    fill_scored_rows(here, length, batch, before);
    batch.mark_padding();
    numbers.assign(batch.ids.size() * labels, 0.0F);
    LH_CHECK(model.check(batch.view()));
    model.forward(context, 0, batch.view());
    model.token_losses(context, 0, numbers);
    for (std::size_t row = 0; row < rows; ++row)
      found[order[at + row]] = numbers_of_row(texts[order[at + row]],
                                              row * static_cast<std::size_t>(length) + before.size(), labels, numbers);
    at += rows;
    if (progress) progress(at);
  }
  return found;
}

Result<std::vector<std::vector<double>>> numbers_by_replica(const ComputeContext& context, const ReplicaModel& model,
                                                            std::span<const AskedText> texts,
                                                            const std::function<void(std::size_t)>& progress) {
  const auto labels = static_cast<std::size_t>(model.stages.front()->shape().num_labels);
  const std::vector<std::int32_t> before = virtual_token_ids(model.stages.front()->shape());
  const auto rows = static_cast<std::size_t>(model.sequences), width = static_cast<std::size_t>(model.length);
  std::vector<std::vector<double>> found;
  BatchStorage batch;
  std::vector<float> numbers;
  for (std::size_t at = 0; at < texts.size(); at += rows) {
    const std::size_t end = std::min(texts.size(), at + rows);
    std::vector<std::span<const std::int32_t>> here;
    // The last micro-batch is filled up with a text that it has.
    for (std::size_t i = at; i < at + rows; ++i) here.push_back(texts[std::min(i, end - 1)].ids);
    fill_scored_rows(here, model.length, batch, before);
    batch.mark_padding();
    numbers.assign(batch.ids.size() * labels, 0.0F);
    LH_CHECK(losses_of_replica(context, model, batch, numbers));
    for (std::size_t i = at; i < end; ++i)
      found.push_back(numbers_of_row(texts[i], (i - at) * width + before.size(), labels, numbers));
    if (progress) progress(end);
  }
  return found;
}

Result<std::vector<double>> sequence_rewards(const ComputeContext& context, Llama& model, std::int64_t tokens_max,
                                             std::span<const std::span<const std::int32_t>> texts,
                                             const std::function<void(std::size_t)>& progress) {
  std::vector<std::size_t> last;
  last.reserve(texts.size());  // places are borrowed
  std::vector<AskedText> asked;
  for (const std::span<const std::int32_t> text : texts) {
    last.push_back(text.empty() ? 0 : text.size() - 1);
    asked.push_back({text, {&last.back(), 1}});
  }
  LH_TRY(const auto found, numbers_at(context, model, tokens_max, asked, progress));
  std::vector<double> rewards;
  for (const std::vector<double>& numbers : found) rewards.push_back(numbers.front());
  return rewards;
}

}  // namespace longhaul
