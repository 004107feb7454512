// The index is Megatron-LM's own, array by array (tests/parity/golden/data_order.json, made with its code), and samples
// are read through it.
#include "engine/data/samples/megatron_index.h"

#include <doctest/doctest.h>

#include <numeric>
#include <set>

#include "base/files/files.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "engine/data/samples/numpy_shuffle.h"
#include "tests/support/scratch.h"

using namespace longhaul;

namespace {

Value data_order_golden(const char* part) {
  const std::string path = std::string(LONGHAUL_SOURCE_DIR) + "/tests/parity/golden/data_order.json";
  return *parse_json(read_file(path).value(), path).value().find(part);
}

template <class T>
std::vector<T> integers(const Value& list) {
  std::vector<T> numbers;
  for (const Value& one : list.as_array()) numbers.push_back(static_cast<T>(one.as_integer()));
  return numbers;
}

// As `checksum` of make_data_golden.py.
template <class T>
std::string order_checksum(const std::vector<T>& values) {
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < values.size(); ++i) total += (i + 1) * (static_cast<std::uint64_t>(values[i]) + 1);
  return format("{:x}", total);
}

std::vector<std::int64_t> places_of(const MegatronIndex& index) {
  std::vector<std::int64_t> places;
  for (std::size_t i = 0; i < index.sample_document.size(); ++i)
    places.insert(places.end(), {index.sample_document[i], index.sample_offset[i]});
  return places;
}

std::shared_ptr<const IndexedDataset> dataset_of(const std::vector<std::int32_t>& lengths) {
  const testing::Scratch scratch;
  auto writer = IndexedDatasetWriter::create(scratch.file("d"), TokenType::i32).value();
  std::int32_t next = 0;
  for (const std::int32_t length : lengths) {
    std::vector<std::int32_t> document(static_cast<std::size_t>(length));
    std::iota(document.begin(), document.end(), next);
    next += length;
    REQUIRE(writer.add_document(document).ok());
  }
  REQUIRE(writer.finish().ok());
  return std::make_shared<const IndexedDataset>(IndexedDataset::open(scratch.file("d")).value());
}

}  // namespace

TEST_CASE("numpy's legacy shuffle, bit for bit") {
  const Value golden = data_order_golden("numpy");
  for (const Value& row : golden.find("shuffles")->as_array()) {
    CAPTURE(row.get_integer("seed"));
    CAPTURE(row.get_integer("n"));
    NumpyRandomState random(static_cast<std::uint32_t>(row.get_integer("seed")));
    std::vector<std::int32_t> order(static_cast<std::size_t>(row.get_integer("n")));
    for (const char* which : {"first", "second"}) {
      std::iota(order.begin(), order.end(), 0);
      random.shuffle(std::span(order));
      CHECK(order == integers<std::int32_t>(*row.find(which)));
    }
  }
  const Value& row = *golden.find("long");
  NumpyRandomState random(static_cast<std::uint32_t>(row.get_integer("seed")));
  std::vector<std::uint32_t> order(static_cast<std::size_t>(row.get_integer("n")));
  std::iota(order.begin(), order.end(), 0U);
  random.shuffle(std::span(order));
  CHECK(order_checksum(order) == row.get_string("checksum"));
  // Beyond 32 bits, where a shuffle would need an array of that size.
  NumpyRandomState wide(static_cast<std::uint32_t>(golden.get_integer("wide_seed")));
  for (const Value& draw : golden.find("wide")->as_array())
    CHECK(wide.interval(static_cast<std::uint64_t>(draw.get_integer("max"))) ==
          static_cast<std::uint64_t>(draw.get_integer("value")));
}

TEST_CASE("document, sample and shuffle index are Megatron-LM's") {
  const Value golden = data_order_golden("index");
  int apart = 0, whole = 0;
  for (const Value& row : golden.as_array()) {
    std::vector<std::int32_t> lengths = integers<std::int32_t>(*row.find("lengths"));
    if (row.get_string("name") == "large")
      for (std::int64_t i = 0; i < 20000; ++i) lengths.push_back(static_cast<std::int32_t>(17 + i * i * 7919 % 501));
    CAPTURE(row.get_string("name"));
    CAPTURE(row.get_integer("sequence_length"));
    CAPTURE(row.get_integer("samples"));
    const MegatronIndex index =
        build_megatron_index(lengths, row.get_integer("sequence_length"), row.get_integer("samples"),
                             static_cast<std::uint64_t>(row.get_integer("seed")))
            .value();
    REQUIRE(index.epochs == row.get_integer("epochs"));
    REQUIRE(index.last_epoch_apart == row.get_bool("last_epoch_apart"));
    REQUIRE(index.samples() == row.get_integer("built"));
    (index.last_epoch_apart ? apart : whole) += 1;
    if (row.find("documents")) {
      CHECK(index.documents == integers<std::int32_t>(*row.find("documents")));
      CHECK(places_of(index) == integers<std::int64_t>(*row.find("places")));
      CHECK(index.shuffle == integers<std::uint32_t>(*row.find("shuffle")));
    }
    CHECK(order_checksum(index.documents) == row.get_string("documents_checksum"));
    CHECK(order_checksum(places_of(index)) == row.get_string("places_checksum"));
    CHECK(order_checksum(index.shuffle) == row.get_string("shuffle_checksum"));
  }
  CHECK(apart > 10);
  CHECK(whole > 10);
}

TEST_CASE("samples are read across documents; neighbours of the stream share one token") {
  const std::vector<std::int32_t> lengths = {5, 0, 9, 1, 30, 2, 2, 17, 0, 8};
  const auto dataset = dataset_of(lengths);
  const std::int64_t s = 6, samples = 27;  // 74 tokens: 12 samples an epoch
  const MegatronSampler sampler = MegatronSampler::create(dataset, s, 3, samples, "tokens").value();
  REQUIRE(sampler.size() >= samples);
  std::vector<std::int32_t> stream;
  for (const std::int32_t document : sampler.index().documents) {
    const auto tokens = dataset->read_document(document);
    stream.insert(stream.end(), tokens.begin(), tokens.end());
  }
  std::set<std::size_t> seen;
  for (std::int64_t k = 0; k < sampler.size(); ++k) {
    std::vector<std::int32_t> sample(static_cast<std::size_t>(s) + 1);
    sampler.read(k, sample);
    const std::size_t j = sampler.index().shuffle[static_cast<std::size_t>(k)];
    const auto begin = stream.begin() + static_cast<std::ptrdiff_t>(j) * s;
    CHECK(std::equal(sample.begin(), sample.end(), begin));
    seen.insert(j);
  }
  CHECK(seen.size() == static_cast<std::size_t>(sampler.size()));
  const Batch batch = sampler.batch(3, 2, 5).value();
  std::vector<std::int32_t> eighth(static_cast<std::size_t>(s) + 1);
  sampler.read(8, eighth);
  CHECK(std::equal(batch.inputs.begin() + s, batch.inputs.end(), eighth.begin()));
  CHECK(std::equal(batch.targets.begin() + s, batch.targets.end(), eighth.begin() + 1));
}

TEST_CASE("the order ends, and says so; what is too short or too large is refused") {
  const auto dataset = dataset_of({20, 20});
  const MegatronSampler sampler = MegatronSampler::create(dataset, 8, 3, 9, "tokens").value();
  CHECK(sampler.batch(sampler.size() - 1, 1).ok());
  const auto beyond = sampler.batch(sampler.size() - 1, 2);
  REQUIRE_FALSE(beyond.ok());
  CHECK(beyond.error().message().find(format("has {} samples", sampler.size())) != std::string::npos);
  CHECK_FALSE(sampler.batch(0, 3, sampler.size()).ok());
  const auto shorter = MegatronSampler::create(dataset, 40, 3, 9, "tokens/train");
  REQUIRE_FALSE(shorter.ok());
  CHECK(shorter.error().message().find("tokens/train has 40 tokens, less than one sample") != std::string::npos);
  CHECK(MegatronSampler::create(dataset, 39, 3, 9, "tokens").ok());
  const auto seed = MegatronSampler::create(dataset, 8, std::uint64_t{1} << 32, 9, "tokens");
  REQUIRE_FALSE(seed.ok());
  CHECK(seed.error().code == ErrorCode::unsupported);
  const auto large = MegatronSampler::create(dataset, 8, 3, std::int64_t{1} << 33, "tokens");
  REQUIRE_FALSE(large.ok());
  CHECK(large.error().message().find("\"shuffled\"") != std::string::npos);
}
