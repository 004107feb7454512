// Which layers stand where, and that a rank with several chunks holds the parameters of all of them.
#include "contracts/pipeline/pipeline_stages.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "base/digest/philox.h"
#include "contracts/model/parameter_list.h"

using namespace longhaul;

namespace {
ModelShape stages_shape(int layers, bool tied) {
  ModelShape s;
  s.vocab_size = 48, s.hidden_size = 16, s.num_attention_heads = 2, s.num_hidden_layers = layers;
  s.tie_word_embeddings = tied;
  return resolve_shape(s).value();
}

double heaviest_stage(const std::vector<int>& layers, double embedding, double loss) {
  double most = 0;
  for (std::size_t stage = 0; stage < layers.size(); ++stage)
    most = std::max(most, layers[stage] + (stage == 0 ? embedding : 0) + (stage + 1 == layers.size() ? loss : 0));
  return most;
}

// The least that any way of distributing the layers leaves on the heaviest stage.
double lightest_possible(int layers, std::size_t stages, double embedding, double loss) {
  std::vector<int> assigned(stages, 0);
  double best = 1e9;
  const auto place = [&](const auto& self, std::size_t stage, int left) -> void {
    if (stage + 1 == stages) {
      assigned[stage] = left;
      best = std::min(best, heaviest_stage(assigned, embedding, loss));
      return;
    }
    for (int count = 0; count <= left; ++count) assigned[stage] = count, self(self, stage + 1, left - count);
  };
  place(place, 0, layers);
  return best;
}
}  // namespace

TEST_CASE("without settings layers are distributed evenly, earlier stages first") {
  for (int layers = 1; layers <= 20; ++layers)
    for (int pp = 1; pp <= 4; ++pp)
      for (int vp = 1; vp <= 3 && layers >= pp * vp; ++vp) {
        const auto layout = resolve_stages(layers, pp, vp, {});
        REQUIRE(layout.ok());
        CHECK(*layout == even_stages(layers, pp, vp));
        for (int rank = 0; rank < pp; ++rank)
          for (int chunk = 0; chunk < vp; ++chunk)
            CHECK(layers_of_chunk(*layout, rank, chunk) == layers_of_stage(layers, pp * vp, chunk * pp + rank));
      }
}

TEST_CASE("embedding and loss counted as layers leave the heaviest stage as light as can be") {
  CHECK(resolve_stages(30, 4, 1, {{}, 1, 1})->layers == std::vector<int>{7, 8, 8, 7});
  CHECK(resolve_stages(6, 2, 2, {{}, 0, 2.5})->layers == std::vector<int>{2, 2, 2, 0});
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    CAPTURE(seed);
    PhiloxSequence random(seed);
    const int stages = 2 + static_cast<int>(random.next_below(3)),
              layers = stages + static_cast<int>(random.next_below(7));
    const StageLayoutSettings settings{{}, random.next_uniform() * 2, random.next_uniform() * 2};
    const auto layout = resolve_stages(layers, stages, 1, settings);
    if (!layout.ok()) {  // few layers: a stage between would have none
      CHECK(layout.error().what.find("has no layer") != std::string::npos);
      continue;
    }
    CHECK(std::accumulate(layout->layers.begin(), layout->layers.end(), 0) == layers);
    CHECK(heaviest_stage(layout->layers, settings.embedding_as_layers, settings.loss_as_layers) ==
          doctest::Approx(
              lightest_possible(layers, layout->layers.size(), settings.embedding_as_layers, settings.loss_as_layers)));
  }
}

TEST_CASE("layers, ranges and stages of a written layout agree") {
  const auto layout = resolve_stages(10, 2, 2, {{1, 4, 3, 2}, 0, 0});
  REQUIRE(layout.ok());
  CHECK(layers_of_chunk(*layout, 0, 0) == LayerRange{0, 1});
  CHECK(layers_of_chunk(*layout, 1, 0) == LayerRange{1, 5});
  CHECK(layers_of_chunk(*layout, 0, 1) == LayerRange{5, 8});
  CHECK(layers_of_chunk(*layout, 1, 1) == LayerRange{8, 10});
  for (int layer = 0; layer < 10; ++layer) {
    const int stage = stage_of_layer(*layout, layer);
    const LayerRange range = layers_of_chunk(*layout, stage % 2, stage / 2);
    CHECK((range.first <= layer && layer < range.last));
  }
  CHECK(stage_of_layer(*resolve_stages(2, 2, 2, {{0, 1, 1, 0}, 0, 0}), 0) == 1);  // over an empty stage
}

TEST_CASE("a stage layout that does not fit is refused with one that does") {
  const auto refusal = [](int layers, int pp, int vp, const StageLayoutSettings& settings) {
    const auto r = resolve_stages(layers, pp, vp, settings);
    REQUIRE(!r.ok());
    CHECK(r.error().code == ErrorCode::invalid_input);
    return r.error().message();
  };
  CHECK(refusal(8, 2, 2, {{4, 4}, 0, 0}) ==
        "stage_layers has 2 numbers, but pp(2) * vp(2) = 4 stages; use for example stage_layers = [2, 2, 2, 2]");
  CHECK(refusal(9, 2, 1, {{4, 4}, 0, 0}) ==
        "stage_layers adds up to 8 layers, but the model has 9; add 1; use for example stage_layers = [5, 4]");
  CHECK(refusal(7, 2, 1, {{4, 4}, 0, 0}) ==
        "stage_layers adds up to 8 layers, but the model has 7; take away 1; use for example stage_layers = [4, 3]");
  CHECK(refusal(4, 2, 1, {{5, -1}, 0, 0}) ==
        "stage_layers gives stage 0 5 layers; the model has 4; use for example stage_layers = [2, 2]");
  CHECK(refusal(6, 3, 1, {{3, 0, 3}, 0, 0}) ==
        "stage 1 (rank 1, chunk 0) has no layer: stage_layers = [3, 0, 3]; use for example stage_layers = [2, 2, 2]");
  CHECK(refusal(8, 4, 4, {}) == "8 layers are too few for pp(4) * vp(4) = 16 stages; use vp = 2");
  CHECK(refusal(3, 8, 1, {}) == "3 layers are too few for pp(8) * vp(1) = 8 stages; use pp = 3 and vp = 1");
  CHECK(refusal(4, 2, 1, {{}, -1, 0}).find("must lie between 0 and") != std::string::npos);
  CHECK(refusal(4, 0, 1, {}).find("must be at least 1") != std::string::npos);
  CHECK(refusal(4, 1 << 30, 1 << 30, {}).find("too few") != std::string::npos);
  CHECK(resolve_stages(2, 4, 1, {{0, 1, 1, 0}, 0, 0}).ok());  // embedding alone, two layers, loss alone
}

TEST_CASE("with chunks and uneven stages every parameter is held once, a tied embedding on both ends") {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    PhiloxSequence random(seed);
    ParallelDims dims;
    dims.pp = 2 + static_cast<int>(random.next_below(3)), dims.vp = 1 + static_cast<int>(random.next_below(3));
    dims.tp = 1 + static_cast<int>(random.next_below(2));
    const int layers = dims.pp * dims.vp + static_cast<int>(random.next_below(6));
    const bool tied = random.next_below(2) == 0;
    const ModelShape shape = stages_shape(layers, tied);
    const StageLayout layout = resolve_stages(layers, dims.pp, dims.vp, {{}, 0.5, 0.5}).value();
    for (const ParameterSpec& p : parameter_list(shape)) {
      CAPTURE(p.name);
      std::vector<std::int64_t> held(static_cast<std::size_t>(dims.pp), 0);
      for (int rank = 0; rank < dims.world_size(); ++rank) {
        const RankCoordinates at = coordinates_of(dims, rank);
        const Box box = shard_of(p, shape, dims, at, layout);
        // A tensor that tp does not split lies whole on every tp rank.
        if (p.tp_dim >= 0 || at.tp == 0) held[static_cast<std::size_t>(at.pp)] += box.elements();
      }
      const bool both_ends = tied && p.name == "model.embed_tokens.weight";
      CHECK(std::accumulate(held.begin(), held.end(), std::int64_t{0}) == (both_ends ? 2 : 1) * p.elements());
      if (p.layer >= 0) {
        const int rank = stage_of_layer(layout, p.layer) % dims.pp;
        CHECK(held[static_cast<std::size_t>(rank)] == p.elements());
        bool in_a_chunk = false;
        for (int chunk = 0; chunk < dims.vp; ++chunk) {
          const LayerRange range = layers_of_chunk(layout, rank, chunk);
          in_a_chunk |= range.first <= p.layer && p.layer < range.last;
        }
        CHECK(in_a_chunk);
      } else if (p.last_stage || both_ends) {
        CHECK(held.back() == p.elements());
      }
    }
  }
}
