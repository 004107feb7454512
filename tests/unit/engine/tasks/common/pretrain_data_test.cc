// What a pretraining reads follows from its settings: which inputs, in which shares, in whose order.
#include "engine/tasks/common/pretrain_data.h"

#include <doctest/doctest.h>

#include <map>

#include "engine/data/samples/blend.h"
#include "engine/data/samples/megatron_index.h"
#include "tests/support/scratch.h"

using namespace longhaul;

namespace {

// Inputs whose tokens show where they come from: 1000 * (input + 1) and up, in documents of 50.
class PretrainInputs {
 public:
  void add(const std::string& name, std::int32_t tokens, const std::string& tokenizer = "{}") {
    const std::string folder = scratch_.file(name);
    REQUIRE(make_directories(folder).ok());
    REQUIRE(write_file_atomic(join_path(folder, "tokenizer.json"), tokenizer).ok());
    auto writer = IndexedDatasetWriter::create(join_path(folder, "train"), TokenType::i32).value();
    const auto first = static_cast<std::int32_t>(1000 * (task_.inputs.size() + 1));
    for (std::int32_t at = 0; at < tokens;) {
      std::vector<std::int32_t> document;
      while (document.size() < 50 && at < tokens) document.push_back(first + at++);
      REQUIRE(writer.add_document(document).ok());
    }
    REQUIRE(writer.finish().ok());
    task_.inputs.push_back({name, {folder}, "", ""});
  }
  Result<TokenSource> open(const PretrainSettings& settings) const { return open_pretrain_data(task_, settings); }
  std::string error(const PretrainSettings& settings) const {
    const auto opened = open(settings);
    return opened.ok() ? std::string() : opened.error().message();
  }
  std::string prefix(const std::string& name) const { return join_path(scratch_.file(name), "train"); }

 private:
  testing::Scratch scratch_;
  Task task_;
};

PretrainSettings small_pretraining() {
  PretrainSettings settings;
  settings.sequence_length = 10, settings.global_batch_size = 4, settings.steps = 25;  // 100 samples
  return settings;
}

// How many of the first `samples` samples come from each thousand.
std::map<std::int32_t, int> shares_of(TokenSource& source, std::int64_t samples) {
  std::map<std::int32_t, int> shares;
  for (std::int64_t k = 0; k < samples; ++k) {
    BatchStorage out;
    REQUIRE(source.fill(k, 1, out).ok());
    ++shares[out.ids[0] / 1000];
  }
  return shares;
}

}  // namespace

TEST_CASE("a blend reads its inputs in their shares, by weight or by size; without one only `tokens` is read") {
  PretrainInputs inputs;
  inputs.add("tokens", 601);
  inputs.add("code", 201);
  inputs.add("books", 201);
  PretrainSettings settings = small_pretraining();
  TokenSource alone = inputs.open(settings).value();
  CHECK(shares_of(alone, 100) == std::map<std::int32_t, int>{{1, 100}});
  CHECK(alone.samples_per_epoch() == 60);
  settings.blend = {"code", "tokens"}, settings.blend_weights = {1, 3};
  TokenSource weighed = inputs.open(settings).value();
  CHECK(shares_of(weighed, 100) == std::map<std::int32_t, int>{{1, 75}, {2, 25}});
  CHECK(weighed.samples_per_epoch() == 80);
  settings.blend = {"tokens", "code", "books"}, settings.blend_weights = {};
  TokenSource by_size = inputs.open(settings).value();
  CHECK(shares_of(by_size, 100) == std::map<std::int32_t, int>{{1, 60}, {2, 20}, {3, 20}});
}

TEST_CASE("sampler = megatron takes Megatron-LM's order for the steps of this training, alone and in a blend") {
  PretrainInputs inputs;
  inputs.add("tokens", 601);
  inputs.add("code", 201);
  PretrainSettings settings = small_pretraining();
  settings.sampler = "megatron", settings.seed = 77;
  const auto dataset_of = [&](const std::string& name) {
    return std::make_shared<const IndexedDataset>(IndexedDataset::open(inputs.prefix(name)).value());
  };
  const auto first_token = [](const SampleSource& source, std::int64_t k) {
    std::vector<std::int32_t> sample(11);
    source.read(k, sample);
    return sample[0];
  };
  TokenSource alone = inputs.open(settings).value();
  const MegatronSampler expected = MegatronSampler::create(dataset_of("tokens"), 10, 77, 100, "t").value();
  for (std::int64_t k = 0; k < 100; ++k) {
    BatchStorage out;
    REQUIRE(alone.fill(k, 1, out).ok());
    CHECK(out.ids[0] == first_token(expected, k));
  }
  settings.blend = {"tokens", "code"}, settings.blend_weights = {0.7, 0.3};
  TokenSource blend = inputs.open(settings).value();
  // 0.5 % more than their shares: 71 of 70, 31 of 30 (0.7 * 100 and 0.3 * 100 round up to 70 and 30).
  const MegatronSampler tokens = MegatronSampler::create(dataset_of("tokens"), 10, 77, 71, "t").value();
  const MegatronSampler code = MegatronSampler::create(dataset_of("code"), 10, 77, 31, "c").value();
  const BlendOrder order = BlendOrder::create({0.7, 0.3}).value();
  for (std::int64_t k = 0; k < 100; ++k) {
    BatchStorage out;
    REQUIRE(blend.fill(k, 1, out).ok());
    const BlendOrder::Choice choice = order.at(k);
    CHECK(out.ids[0] ==
          first_token(choice.source == 0 ? static_cast<const SampleSource&>(tokens) : code, choice.sample));
  }
  BatchStorage out;
  CHECK_FALSE(blend.fill(100, 1, out).ok());  // the order ends with the training
}

TEST_CASE("inputs that cannot be read as asked are refused by name") {
  PretrainInputs inputs;
  inputs.add("tokens", 601);
  inputs.add("code", 201);
  inputs.add("foreign", 201, "{\"other\": true}");
  inputs.add("tiny", 10);
  PretrainSettings settings = small_pretraining();
  settings.blend = {"tokens", "foreign"};
  CHECK(inputs.error(settings).find("input foreign was tokenized with another vocabulary") != std::string::npos);
  settings.blend = {"tokens", "tiny"};
  CHECK(inputs.error(settings).find("has 10 tokens, less than one sample") != std::string::npos);
  settings.blend = {"tokens", "nothing"};
  CHECK(inputs.error(settings).find("nothing") != std::string::npos);
  settings.blend = {"tokens", "code"}, settings.blend_weights = {1};
  CHECK(inputs.error(settings).find("1 blend_weights for 2 names") != std::string::npos);
  settings.blend_weights = {1, 1}, settings.blend_policy = "exhaust";
  CHECK(inputs.error(settings).find("code has 20 samples; a blend of 100 samples with weight 0.5 takes 50 of it") !=
        std::string::npos);
  settings.steps = 9;  // 36 samples, 18 of each
  CHECK(inputs.open(settings).ok());
  settings.blend = {}, settings.blend_weights = {}, settings.steps = 16;
  CHECK(inputs.error(settings).find("tokens has 60 samples; a blend of 64") != std::string::npos);
  settings.steps = 15;
  CHECK(inputs.open(settings).ok());
}

TEST_CASE("phases: each reads its own mix and length, and every input goes on where it was left") {
  PretrainInputs inputs;
  inputs.add("tokens", 601);
  inputs.add("code", 401);
  const auto phase = [](const std::string& name, std::int64_t steps) {
    TrainingPhase made;
    made.name = name, made.steps = steps;
    return made;
  };
  for (const char* sampler : {"shuffled", "megatron"}) {
    CAPTURE(sampler);
    PretrainSettings settings = small_pretraining();
    settings.steps = 0, settings.sampler = sampler;
    settings.phases = {phase("main", 5), phase("mixed", 5), phase("long", 4)};
    settings.phases[1].blend = {"tokens", "code"}, settings.phases[1].blend_weights = {1, 1};
    settings.phases[2].sequence_length = 20, settings.phases[2].blend = {"code"};
    const auto opened = inputs.open(settings);
    REQUIRE_MESSAGE(opened.ok(), (opened.ok() ? "" : opened.error().message()));
    TokenSource source = *opened;
    std::map<std::int32_t, int> seen;
    const auto read = [&](std::int64_t step, std::int64_t k) {
      BatchStorage out;
      source.begin_step(step, 0);
      REQUIRE(source.fill(k, 1, out).ok());
      return out;
    };
    std::map<std::int32_t, int> shares;
    for (std::int64_t k = 0; k < 40; ++k) {  // 5 steps of 4, and 5 of 4
      const BatchStorage out = read(k / 4 + 1, k);
      CHECK(out.length == 10);
      ++seen[out.ids[0]];
      if (k >= 20) ++shares[out.ids[0] / 1000];
    }
    CHECK(shares == std::map<std::int32_t, int>{{1, 10}, {2, 10}});
    CHECK(seen.size() == 40);  // no window of an epoch twice
    for (std::int64_t k = 40; k < 56; ++k) {
      const BatchStorage out = read(k / 4 + 1, k);
      CHECK(out.length == 20);
      CHECK(out.ids[0] / 1000 == 2);
    }
    // What a rollback passed over leads behind the end of an order that has one: it begins again.
    source.begin_step(14, 4);
    BatchStorage behind;
    CHECK(source.fill(57, 1, behind).ok());
    // Any phase can be gone to at once: a training that goes on reads the same.
    CHECK(read(11, 41).ids == read(11, 41).ids);
    const BatchStorage late = read(8, 30);
    TokenSource again = inputs.open(settings).value();
    again.begin_step(8, 0);
    BatchStorage out;
    REQUIRE(again.fill(30, 1, out).ok());
    CHECK(out.ids == late.ids);
  }
  // Phases that change nothing of the data read what a training without phases reads.
  PretrainSettings plain = small_pretraining(), phased = small_pretraining();
  phased.steps = 0, phased.phases = {phase("a", 10), phase("b", 15)};
  TokenSource one = inputs.open(plain).value(), two = inputs.open(phased).value();
  for (std::int64_t k = 0; k < 100; ++k) {
    BatchStorage a, b;
    two.begin_step(k / 4 + 1, 0);
    REQUIRE(one.fill(k, 1, a).ok());
    REQUIRE(two.fill(k, 1, b).ok());
    CHECK(a.ids == b.ids);
  }
  PretrainSettings refused = phased;
  refused.blend_policy = "exhaust";
  refused.phases[1].steps = 6;  // 64 samples of 60
  CHECK(inputs.error(refused).find("phase.b: tokens has 20 samples; a blend of 24") != std::string::npos);
  refused = phased, refused.phases[1].sequence_length = 700;
  CHECK(inputs.error(refused).find("less than one sample of sequence_length + 1 = 701") != std::string::npos);
}
