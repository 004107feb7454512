// The order of data is a permutation per epoch, belongs to (seed, sample) alone, and needs no other state.
#include "engine/data/samples/sampler.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <numeric>
#include <set>

#include "base/text/text.h"
#include "engine/data/samples/permutation.h"

using namespace longhaul;

namespace {

std::shared_ptr<const IndexedDataset> counting_dataset(std::int32_t tokens) {
  const auto folder = std::filesystem::temp_directory_path() / format("longhaul_sampler_test_{}", ::getpid());
  std::filesystem::create_directories(folder);
  auto writer = IndexedDatasetWriter::create((folder / "d").string(), TokenType::i32).value();
  for (std::int32_t at = 0; at < tokens;) {
    std::vector<std::int32_t> document;
    for (int i = 0; i < 7 && at < tokens; ++i) document.push_back(at++);
    REQUIRE(writer.add_document(document).ok());
  }
  REQUIRE(writer.finish().ok());
  auto dataset = std::make_shared<const IndexedDataset>(IndexedDataset::open((folder / "d").string()).value());
  std::filesystem::remove_all(folder);  // the map stays
  return dataset;
}

}  // namespace

TEST_CASE("a permutation takes every value once, for awkward sizes too") {
  for (const std::uint64_t n : {1, 2, 3, 4, 5, 16, 17, 63, 64, 65, 1000, 1025, 70000})
    for (const std::uint64_t seed : {1, 2}) {
      CAPTURE(n);
      CAPTURE(seed);
      const Permutation order(n, seed, 0);
      std::vector<bool> taken(n, false);
      for (std::uint64_t k = 0; k < n; ++k) {
        const std::uint64_t value = order(k);
        REQUIRE(value < n);
        REQUIRE_FALSE(taken[value]);
        taken[value] = true;
      }
    }
  const Permutation large(std::uint64_t{1} << 61, 3, 4);
  CHECK(large(0) != large(1));
}

TEST_CASE("a permutation looks shuffled and depends on seed and epoch") {
  const std::uint64_t n = 10000;
  const Permutation a(n, 1, 0), b(n, 2, 0), c(n, 1, 1);
  std::size_t same_b = 0, same_c = 0, rising = 0, small_steps = 0;
  for (std::uint64_t k = 0; k + 1 < n; ++k) {
    same_b += a(k) == b(k) ? 1 : 0;
    same_c += a(k) == c(k) ? 1 : 0;
    rising += a(k) < a(k + 1) ? 1 : 0;
    const auto step = static_cast<std::int64_t>(a(k + 1)) - static_cast<std::int64_t>(a(k));
    small_steps += step > -10 && step < 10 ? 1 : 0;
  }
  CHECK(same_b < 10);
  CHECK(same_c < 10);
  CHECK(rising > 4700);
  CHECK(rising < 5300);
  CHECK(small_steps < 60);  // 18 expected
}

TEST_CASE("an epoch reads every window once; targets are the next tokens") {
  const Sampler sampler = Sampler::create(counting_dataset(1003), 10, 5, SampleOrder::shuffled, "tokens").value();
  REQUIRE(sampler.samples_per_epoch() == 100);
  const Batch epoch = sampler.batch(0, 100).value();
  std::multiset<std::int32_t> seen(epoch.inputs.begin(), epoch.inputs.end());
  std::vector<std::int32_t> expected(1000);
  std::iota(expected.begin(), expected.end(), 0);
  CHECK(std::equal(seen.begin(), seen.end(), expected.begin(), expected.end()));
  for (std::size_t i = 0; i < epoch.inputs.size(); ++i) CHECK(epoch.targets[i] == epoch.inputs[i] + 1);
  CHECK(epoch.loss_mask == std::vector<std::uint8_t>(1000, 1));
  CHECK(sampler.batch(100, 100)->inputs != epoch.inputs);  // another order in the next epoch
}

TEST_CASE("samples do not depend on how they are asked for: any split over ranks gives the same ones") {
  const auto dataset = counting_dataset(5000);
  const Sampler sampler = Sampler::create(dataset, 16, 5, SampleOrder::shuffled, "tokens").value();
  const Batch whole = sampler.batch(290, 48).value();  // over the end of an epoch of 312
  for (const std::int64_t dp : {1, 2, 3, 4, 8, 16}) {
    const Sampler resumed = Sampler::create(dataset, 16, 5, SampleOrder::shuffled, "tokens").value();
    for (std::int64_t rank = 0; rank < dp; ++rank) {
      const Batch mine = resumed.batch(290 + rank, 48 / dp, dp).value();
      for (std::int64_t i = 0; i < 48 / dp; ++i) {
        const auto at = whole.inputs.begin() + (rank + i * dp) * 16;
        CHECK(std::equal(at, at + 16, mine.inputs.begin() + i * 16));
      }
    }
  }
  const Sampler other = Sampler::create(dataset, 16, 6, SampleOrder::shuffled, "tokens").value();
  CHECK(other.batch(290, 48)->inputs != whole.inputs);
}

TEST_CASE("the order of data is pinned: a change would break every run that resumes") {
  const Sampler sampler = Sampler::create(counting_dataset(1003), 10, 5, SampleOrder::shuffled, "tokens").value();
  std::vector<std::int64_t> begins;
  for (std::int64_t k = 0; k < 8; ++k) begins.push_back(sampler.window_begin(k) / 10);
  // Computed by a second implementation of Philox and of the network, written from their papers.
  CHECK(begins == std::vector<std::int64_t>{86, 99, 57, 19, 97, 18, 33, 78});
}

TEST_CASE("sequential order, and a dataset too short for one sample") {
  const auto dataset = counting_dataset(21);
  const Sampler sampler = Sampler::create(dataset, 10, 5, SampleOrder::sequential, "tokens").value();
  CHECK(sampler.samples_per_epoch() == 2);
  CHECK(sampler.window_begin(1) == 10);
  CHECK(Sampler::create(dataset, 20, 5, SampleOrder::shuffled, "tokens").ok());
  const auto refused = Sampler::create(dataset, 21, 5, SampleOrder::shuffled, "tokens/train");
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().code == ErrorCode::invalid_input);
  CHECK(refused.error().message().find("tokens/train has 21 tokens") != std::string::npos);
  CHECK(refused.error().message().find("at most 20") != std::string::npos);
}
