// Reward models of `transformers` (golden/reward-*/, made by make_reward_golden.py) say the same here of the same
// texts, with TRL's loss and its gradient; and the folder that is written of them is theirs, bit for bit.
#include <doctest/doctest.h>

#include <cmath>

#include "base/value/json.h"
#include "engine/align/scores/score_objective.h"
#include "engine/interop/safetensors.h"
#include "engine/model/store/model_folder.h"
#include "engine/tasks/rewards/reward_pairs.h"
#include "engine/train/step/sequence_rewards.h"
#include "tests/support/scratch.h"
#include "tests/support/write_model_folder.h"

using namespace longhaul;

namespace {

constexpr const char* kRewardModels[] = {"reward-llama", "reward-gpt2"};

struct GoldenReward {
  explicit GoldenReward(const std::string& name)
      : folder(std::string(LONGHAUL_SOURCE_DIR) + "/tests/parity/golden/" + name),
        golden(parse_json(read_file(folder + "/golden.json").value(), "golden.json").value()),
        config(load_any_model_config(folder).value()),
        store(config.shape, DType::f32) {
    REQUIRE(load_model_weights(context, folder, store).ok());
    for (const Value& one : golden.find("pairs")->as_array()) {
      RewardPair pair;
      for (const auto& [key, into] : {std::pair{"chosen", &pair.chosen}, {"rejected", &pair.rejected}})
        for (const Value& id : one.find(key)->as_array()) into->push_back(static_cast<std::int32_t>(id.as_integer()));
      pair.margin = one.get_number("margin");
      pairs.push_back(std::move(pair));
    }
    LlamaOptions options;
    options.tokens_max = 8 * 16;
    model = std::make_unique<Llama>(store, options);
    RewardPairSource source(pairs, 16, 0, SampleOrder::sequential);
    REQUIRE(source.fill(0, source.samples_per_epoch(), batch).ok());
  }
  std::vector<std::span<const std::int32_t>> texts() const {
    std::vector<std::span<const std::int32_t>> all;
    for (const RewardPair& pair : pairs) all.emplace_back(pair.chosen), all.emplace_back(pair.rejected);
    return all;
  }

  ComputeContext context{1};
  std::string folder;
  Value golden;
  HfConfig config;
  ParameterStore store;
  std::vector<RewardPair> pairs;
  std::unique_ptr<Llama> model;
  BatchStorage batch;
};

}  // namespace

TEST_CASE("reward models of transformers give the same numbers, TRL's loss and the gradient of every tensor") {
  for (const std::string name : kRewardModels) {
    CAPTURE(name);
    GoldenReward m(name);
    CHECK(m.config.shape.scalar_head);
    // A batch of one, of two and of all: padding changes nothing.
    for (const std::int64_t tokens : {16, 32, 128}) {
      const std::vector<double> scores = sequence_rewards(m.context, *m.model, tokens, m.texts()).value();
      for (std::size_t i = 0; i < scores.size(); ++i)
        CHECK(std::abs(scores[i] - m.golden.find("scores")->as_array()[i].as_number()) < 1e-5);
    }
    const ParameterLayout& layout = m.store.layout();
    std::vector<float> flat(static_cast<std::size_t>(layout.flat_size()));
    GradientTarget target;
    target.flat = flat, target.overwrite = true;
    for (const Value& one : m.golden.find("losses")->as_array()) {
      RewardModelSettings settings;
      settings.center_weight = one.get_number("center_weight");
      ScoreObjective objective(settings);
      objective.forward(m.context, *m.model, 0, m.batch);
      const ObjectiveSums sums = objective.backward(m.context, *m.model, 0, m.batch, target);
      CHECK(sums.count == 4);
      CHECK(std::abs(sums.loss / sums.count - one.get_number("loss")) < 1e-6);
    }
    ParameterStore theirs(m.config.shape, DType::f32);
    REQUIRE(load_model_weights(m.context, m.folder + "/gradients", theirs).ok());
    double largest = 0;
    for (const float x : theirs.masters()) largest = std::max(largest, std::abs(static_cast<double>(x)));
    for (const FlatParameter& p : layout.parameters()) {
      CAPTURE(p.spec.name);
      double apart = 0;
      for (std::int64_t i = p.begin; i < p.end; ++i)
        apart = std::max(apart, std::abs(static_cast<double>(flat[static_cast<std::size_t>(i)]) / 4 -
                                         static_cast<double>(theirs.masters()[static_cast<std::size_t>(i)])));
      CHECK(apart < 1e-5 * largest);
    }
  }
}

TEST_CASE("the folder of a reward model is that of transformers") {
  for (const std::string name : kRewardModels) {
    CAPTURE(name);
    GoldenReward m(name);
    const testing::Scratch scratch;
    ModelFolderOptions options;
    options.config = m.config;
    REQUIRE(testing::write_model_folder(scratch.path(), m.store, options).ok());
    const SafetensorsModel theirs = SafetensorsModel::open(m.folder).value(),
                           ours = SafetensorsModel::open(scratch.path()).value();
    for (const StoredTensor& tensor : stored_tensors(m.config.shape)) {
      CAPTURE(tensor.name);
      const SafetensorView a = theirs.find(tensor.name).value(), b = ours.find(tensor.name).value();
      CHECK(a.shape == b.shape);
      CHECK(a.bytes == b.bytes);
    }
    const Value written = parse_json(read_file(scratch.path() + "/config.json").value(), "c").value(),
                given = parse_json(read_file(m.folder + "/config.json").value(), "c").value();
    for (const char* key : {"architectures", "id2label", "label2id", "pad_token_id", "model_type"}) {
      CAPTURE(key);
      REQUIRE(given.find(key));
      CHECK(*written.find(key) == *given.find(key));
    }
    CHECK(load_any_model_config(scratch.path()).value().shape == m.config.shape);
    // It writes no text.
    CHECK(load_model_config(scratch.path()).error().message().find("is a reward model") != std::string::npos);
  }
}
