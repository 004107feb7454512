#include "engine/data/samples/megatron_index.h"

#include <algorithm>
#include <numeric>

#include "base/text/text.h"
#include "engine/data/samples/numpy_shuffle.h"
#include "engine/data/samples/sampler.h"

namespace longhaul {
namespace {

// Whether the last of `epochs` > 1 passes gives less than 80 % of its samples.
bool last_epoch_is_short(std::int64_t epochs, std::int64_t tokens, std::int64_t s, std::int64_t samples) {
  const std::int64_t from_last = samples - ((epochs - 1) * tokens - 1) / s;
  const std::int64_t per_epoch = (tokens - 1) / s;
  return from_last < static_cast<std::int64_t>(0.80 * static_cast<double>(per_epoch));
}

void shuffle_documents(MegatronIndex& index, std::int32_t documents, NumpyRandomState& random) {
  index.documents.resize(static_cast<std::size_t>(index.epochs) * static_cast<std::size_t>(documents));
  for (std::size_t i = 0; i < index.documents.size(); ++i)
    index.documents[i] = static_cast<std::int32_t>(i % static_cast<std::size_t>(documents));
  const std::span<std::int32_t> all(index.documents);
  const std::size_t apart = index.last_epoch_apart ? static_cast<std::size_t>(documents) : 0;
  random.shuffle(all.first(all.size() - apart));
  random.shuffle(all.last(apart));
}

// Walks the stream of documents, s tokens a step, and notes where each sample begins.
void place_samples(MegatronIndex& index, std::span<const std::int32_t> lengths, std::int64_t s, std::int64_t samples) {
  const auto length_at = [&](std::size_t position) {
    return static_cast<std::int64_t>(lengths[static_cast<std::size_t>(index.documents[position])]);
  };
  index.sample_document.reserve(static_cast<std::size_t>(samples) + 1);
  index.sample_offset.reserve(static_cast<std::size_t>(samples) + 1);
  std::size_t position = 0;
  std::int64_t offset = 0;
  for (std::int64_t j = 0;; ++j) {
    index.sample_document.push_back(static_cast<std::int32_t>(position));
    index.sample_offset.push_back(offset);
    if (j == samples) return;
    // The token that ends this sample, s further on, begins the next: it is looked for as the last of s + 1, so a
    // sample never begins behind the end of a document.
    std::int64_t left = s + 1;
    while (left > length_at(position) - offset) {
      left -= length_at(position) - offset;
      offset = 0;
      ++position;
    }
    offset += left - 1;
  }
}

}  // namespace

Result<MegatronIndex> build_megatron_index(std::span<const std::int32_t> lengths, std::int64_t sequence_length,
                                           std::int64_t samples, std::uint64_t seed) {
  const std::int64_t s = sequence_length;
  const std::int64_t tokens = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  if (s < 1 || samples < 1 || tokens < s + 1)
    return make_error(ErrorCode::invalid_input,
                      format("{} samples of {} + 1 tokens cannot be taken from {} tokens", samples, s, tokens));
  if (seed > 0xFFFFFFFFU)
    return make_error(ErrorCode::unsupported, format("seed = {}: the megatron sampler takes at most 2^32 - 1", seed));
  MegatronIndex index;
  index.epochs = (samples * s + 1 + tokens - 1) / tokens;
  const auto documents = static_cast<std::int64_t>(lengths.size());
  const std::int64_t made = (index.epochs * tokens - 1) / s;
  if (documents > INT32_MAX / index.epochs || made >= 0xFFFFFFFE)
    return make_error(
        ErrorCode::unsupported,
        format("{} documents x {} epochs, {} samples: the megatron sampler counts documents in 31 bits and "
               "samples in 32",
               documents, index.epochs, made),
        "use the sampler \"shuffled\"");
  index.last_epoch_apart = index.epochs > 1 && last_epoch_is_short(index.epochs, tokens, s, samples);
  NumpyRandomState random(static_cast<std::uint32_t>(seed));
  shuffle_documents(index, static_cast<std::int32_t>(documents), random);
  place_samples(index, lengths, s, made);
  index.shuffle.resize(static_cast<std::size_t>(made));
  std::iota(index.shuffle.begin(), index.shuffle.end(), 0U);
  const std::span<std::uint32_t> all(index.shuffle);
  const auto before_last =
      static_cast<std::size_t>(index.last_epoch_apart ? ((index.epochs - 1) * tokens - 1) / s : made);
  random.shuffle(all.first(before_last));
  random.shuffle(all.subspan(before_last));
  return index;
}

Result<MegatronSampler> MegatronSampler::create(std::shared_ptr<const IndexedDataset> dataset,
                                                std::int64_t sequence_length, std::uint64_t seed, std::int64_t samples,
                                                const std::string& name) {
  LH_CHECK(check_holds_a_sample(*dataset, sequence_length, name));
  std::vector<std::int32_t> lengths(static_cast<std::size_t>(dataset->sequences()));
  for (std::int64_t i = 0; i < dataset->sequences(); ++i) {
    const IndexedDataset::Range range = dataset->sequence(i);
    lengths[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(range.end - range.begin);
  }
  MegatronSampler sampler;
  LH_TRY(sampler.index_, build_megatron_index(lengths, sequence_length, samples, seed).with_context(name));
  sampler.dataset_ = std::move(dataset);
  sampler.sequence_length_ = sequence_length;
  return sampler;
}

void MegatronSampler::for_each_piece(std::int64_t k, const Piece& use) const {
  LH_ASSERT(k >= 0 && k < size(), format("sample {} of {}", k, size()));
  const std::size_t sample = index_.shuffle[static_cast<std::size_t>(k)];
  auto position = static_cast<std::size_t>(index_.sample_document[sample]);
  std::int64_t offset = index_.sample_offset[sample];
  for (std::int64_t at = 0; at < sequence_length_ + 1; ++position) {
    const IndexedDataset::Range range = dataset_->sequence(index_.documents[position]);
    const std::int64_t here = std::min(range.end - range.begin - offset, sequence_length_ + 1 - at);
    use(at, range.begin + offset, here);
    at += here;
    offset = 0;
  }
}

void MegatronSampler::read(std::int64_t k, std::span<std::int32_t> out) const {
  LH_ASSERT(static_cast<std::int64_t>(out.size()) == sequence_length_ + 1, format("{} tokens asked for", out.size()));
  for_each_piece(k, [&](std::int64_t at, std::int64_t token, std::int64_t count) {
    dataset_->read(token, out.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(count)));
  });
}

void MegatronSampler::document_begins(std::int64_t k, std::span<std::int32_t> out) const {
  for_each_piece(k, [&](std::int64_t at, std::int64_t, std::int64_t count) {
    std::fill_n(out.begin() + at, count, static_cast<std::int32_t>(at));
  });
}

}  // namespace longhaul
