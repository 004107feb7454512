// A blend chooses what Megatron-LM's does (tests/parity/golden/data_order.json), whatever is asked for first, and goes
// on from a saved state as if it had never stopped.
#include "engine/data/samples/blend.h"

#include <doctest/doctest.h>

#include <thread>

#include "base/digest/philox.h"
#include "base/files/files.h"
#include "base/text/text.h"
#include "base/value/json.h"

using namespace longhaul;

namespace {

std::vector<double> numbers_of(const Value& list) {
  std::vector<double> numbers;
  for (const Value& one : list.as_array()) numbers.push_back(one.as_number());
  return numbers;
}

// Samples that say where they come from: {tag, sample, sample, ...}.
class TaggedSource final : public SampleSource {
 public:
  TaggedSource(std::int32_t tag, std::int64_t samples, std::int64_t length = 4, std::int64_t size = endless)
      : tag_(tag), samples_(samples), length_(length), size_(size) {}
  std::int64_t sequence_length() const override { return length_; }
  std::int64_t samples_per_epoch() const override { return samples_; }
  std::int64_t size() const override { return size_; }
  void read(std::int64_t k, std::span<std::int32_t> out) const override {
    std::fill(out.begin(), out.end(), static_cast<std::int32_t>(k));
    out[0] = tag_;
  }
  void document_begins(std::int64_t, std::span<std::int32_t> out) const override {
    std::fill(out.begin(), out.end(), 0);
  }

 private:
  std::int32_t tag_;
  std::int64_t samples_, length_, size_;
};

BlendPart tagged_part(std::string name, double weight, std::int32_t tag, std::int64_t samples, std::int64_t length = 4,
                      std::int64_t size = endless) {
  return {std::move(name), weight, std::make_shared<const TaggedSource>(tag, samples, length, size)};
}

}  // namespace

TEST_CASE("weights are normalized and samples chosen as in Megatron-LM, bit for bit") {
  const std::string path = std::string(LONGHAUL_SOURCE_DIR) + "/tests/parity/golden/data_order.json";
  const Value golden = *parse_json(read_file(path).value(), path).value().find("blend");
  REQUIRE(golden.size() == 10);
  for (const Value& row : golden.as_array()) {
    const BlendOrder order = BlendOrder::create(numbers_of(*row.find("weights"))).value();
    CAPTURE(order.weights().size());
    CHECK(order.weights() == numbers_of(*row.find("normalized")));
    std::uint64_t sources = 0, samples = 0;
    for (std::int64_t k = 0; k < row.get_integer("size"); ++k) {
      const BlendOrder::Choice choice = order.at(k);
      const auto at = static_cast<std::size_t>(k);
      if (const ValueArray& first = row.find("first")->as_array(); at < first.size())
        CHECK(static_cast<std::int64_t>(choice.source) == first[at].as_integer());
      sources += (at + 1) * (choice.source + 1);
      samples += (at + 1) * static_cast<std::uint64_t>(choice.sample + 1);
    }
    CHECK(format("{:x}", sources) == row.get_string("sources_checksum"));
    CHECK(format("{:x}", samples) == row.get_string("samples_checksum"));
  }
}

TEST_CASE("a choice does not depend on what was asked for before; every source is read in its own order") {
  const std::uint64_t seed = 5;
  CAPTURE(seed);
  PhiloxSequence random(seed);
  const std::vector<double> weights = {0.5, 0.2, 0.05, 0.25};
  const BlendOrder straight = BlendOrder::create(weights).value();
  const std::int64_t samples = 3 * blend_mark_every;
  std::vector<BlendOrder::Choice> choices;
  std::vector<std::int64_t> next(weights.size(), 0);
  for (std::int64_t k = 0; k < samples; ++k) {
    choices.push_back(straight.at(k));
    CHECK(choices.back().sample == next[choices.back().source]++);
  }
  for (std::size_t i = 0; i < weights.size(); ++i)
    CHECK(std::abs(static_cast<double>(next[i]) - weights[i] * static_cast<double>(samples)) < 4);
  const BlendOrder jumping = BlendOrder::create(weights).value();
  for (int i = 0; i < 300; ++i) {
    const auto k = static_cast<std::int64_t>(random.next_below(static_cast<std::uint64_t>(samples)));
    CAPTURE(k);
    const BlendOrder::Choice choice = jumping.at(k);
    CHECK(choice.source == choices[static_cast<std::size_t>(k)].source);
    CHECK(choice.sample == choices[static_cast<std::size_t>(k)].sample);
  }
  std::vector<std::thread> readers;
  std::vector<int> wrong(4, 0);
  for (std::size_t t = 0; t < wrong.size(); ++t)
    readers.emplace_back([&, t] {
      for (std::int64_t k = static_cast<std::int64_t>(t); k < samples; k += 37) {
        const BlendOrder::Choice choice = jumping.at(k);
        wrong[t] += choice.sample != choices[static_cast<std::size_t>(k)].sample ? 1 : 0;
      }
    });
  for (std::thread& reader : readers) reader.join();
  CHECK(wrong == std::vector<int>(4, 0));
}

TEST_CASE("a saved state goes on where it was; one of another blend is refused") {
  const std::vector<double> weights = {0.6, 0.3, 0.1};
  const BlendOrder order = BlendOrder::create(weights).value();
  const std::int64_t at = 10 * blend_mark_every + 123;
  const BlendState saved = order.state(at);
  BlendOrder resumed = BlendOrder::create(weights).value();
  REQUIRE(resumed.resume(saved).ok());
  for (std::int64_t k = at; k < at + 500; ++k) {
    CHECK(resumed.at(k).source == order.at(k).source);
    CHECK(resumed.at(k).sample == order.at(k).sample);
  }
  CHECK(resumed.at(17).sample == order.at(17).sample);  // before it, too
  CHECK(resumed.state(at) == saved);
  CHECK(resumed.resume(order.state(1)).ok());  // two sources have given nothing yet

  const auto refused = [&](BlendState state, const std::string& part) {
    BlendOrder fresh = BlendOrder::create(weights).value();
    const Status status = fresh.resume(state);
    REQUIRE_FALSE(status.ok());
    CHECK(status.error().code == ErrorCode::corrupt);
    CAPTURE(status.error().message());
    CHECK(status.error().message().find(part) != std::string::npos);
  };
  refused(BlendOrder::create({1, 1, 1})->state(at), "whose share is 0.6");
  refused({3, {2, 1}}, "has 2 sources, here are 3");
  BlendState one_more = saved;
  ++one_more.taken[0];
  refused(one_more, format("counts {} samples", at + 1));
}

TEST_CASE("a blend of sources reads their samples and goes on for ever when they repeat") {
  const BlendedSource blend =
      BlendedSource::create({tagged_part("web", 3, 1, 10), tagged_part("code", 1, 2, 10)}, BlendPolicy::repeat, endless)
          .value();
  CHECK(blend.size() == endless);
  CHECK(blend.samples_per_epoch() == 20);
  const Batch batch = blend.batch(0, 400).value();
  std::int64_t of_web = 0, of_code = 0;
  for (std::size_t i = 0; i < 400; ++i) {
    std::int64_t& count = batch.inputs[i * 4] == 1 ? of_web : of_code;
    CHECK(batch.inputs[i * 4 + 1] == count);
    ++count;
  }
  CHECK(of_web == 300);
  CHECK(of_code == 100);
}

TEST_CASE("under the exhaust policy no sample is taken twice: a blend that would is refused with what fits") {
  const auto parts = [] {
    return std::vector<BlendPart>{tagged_part("web", 3, 1, 300), tagged_part("code", 1, 2, 50)};
  };
  CHECK(BlendedSource::create(parts(), BlendPolicy::exhaust, 200).ok());
  const auto refused = BlendedSource::create(parts(), BlendPolicy::exhaust, 400);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().code == ErrorCode::invalid_input);
  CHECK(refused.error().message().find(
            "code has 50 samples; a blend of 400 samples with weight 0.25 takes 100 of it") != std::string::npos);
  CHECK(refused.error().message().find("train on 196 samples at most") != std::string::npos);
  CHECK(BlendedSource::create(parts(), BlendPolicy::exhaust, 196).ok());
  const BlendedSource ends = BlendedSource::create(parts(), BlendPolicy::exhaust, 200).value();
  CHECK(ends.size() == 200);
  CHECK_FALSE(ends.batch(199, 2).ok());
  CHECK_FALSE(BlendedSource::create(parts(), BlendPolicy::exhaust, endless).ok());
  // A source with an end of its own is held to it under either policy.
  CHECK_FALSE(BlendedSource::create({tagged_part("a", 1, 1, 10, 4, 25)}, BlendPolicy::repeat, 26).ok());
  CHECK(BlendedSource::create({tagged_part("a", 1, 1, 10, 4, 25)}, BlendPolicy::repeat, 25).ok());
}

TEST_CASE("a blend that cannot be is refused by the name of its source") {
  const auto message = [](std::vector<BlendPart> parts) {
    const auto blend = BlendedSource::create(std::move(parts), BlendPolicy::repeat, endless);
    return blend.ok() ? std::string() : blend.error().message();
  };
  CHECK(message({}).find("a blend of nothing") != std::string::npos);
  CHECK(message({tagged_part("a", 1, 1, 5), tagged_part("b", 0, 2, 5)}).find("weight 0") != std::string::npos);
  CHECK(
      message({tagged_part("a", 1, 1, 5), tagged_part("b", 1, 2, 5, 8)}).find("b has a sequence_length of 8, a of 4") !=
      std::string::npos);
  CHECK(message({tagged_part("a", 1, 1, 5), tagged_part("b", 1, 2, 0)}).find("b is shorter than one sample") !=
        std::string::npos);
}

namespace {

// Token t of sample k is 10 k + t; its second document begins at token k.
class TwoDocuments final : public SampleSource {
 public:
  std::int64_t sequence_length() const override { return 4; }
  std::int64_t samples_per_epoch() const override { return 4; }
  std::int64_t size() const override { return 4; }
  void read(std::int64_t k, std::span<std::int32_t> out) const override {
    for (std::size_t t = 0; t < out.size(); ++t)
      out[t] = static_cast<std::int32_t>(10 * k) + static_cast<std::int32_t>(t);
  }
  void document_begins(std::int64_t k, std::span<std::int32_t> out) const override {
    for (std::size_t t = 0; t < out.size(); ++t)
      out[t] = static_cast<std::int64_t>(t) < k ? 0 : static_cast<std::int32_t>(k);
  }
};

}  // namespace

TEST_CASE("a batch has every sample of its stride, with its own documents and no target beyond the end of one") {
  const Batch batch = TwoDocuments().batch(1, 2, 2, true).value();
  CHECK(batch.samples == 2);
  CHECK(batch.sequence_length == 4);
  CHECK(batch.inputs == std::vector<std::int32_t>{10, 11, 12, 13, 30, 31, 32, 33});
  CHECK(batch.targets == std::vector<std::int32_t>{11, 12, 13, 14, 31, 32, 33, 34});
  CHECK(batch.document_begin == std::vector<std::int32_t>{0, 1, 1, 1, 0, 0, 0, 3});
  CHECK(batch.loss_mask == std::vector<std::uint8_t>{0, 1, 1, 1, 1, 1, 0, 1});
  const Batch plain = TwoDocuments().batch(1, 2, 2).value();
  CHECK(plain.inputs == batch.inputs);
  CHECK(plain.document_begin.empty());
  CHECK(plain.loss_mask == std::vector<std::uint8_t>(8, 1));
  CHECK_FALSE(TwoDocuments().batch(2, 2, 2).ok());
}
