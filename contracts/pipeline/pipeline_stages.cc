#include "contracts/pipeline/pipeline_stages.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/text/text.h"

namespace longhaul {

LayerRange layers_of_stage(int layers, int stages, int stage) {
  const int base = layers / stages, extra = layers % stages;
  const int first = stage * base + std::min(stage, extra);
  return {first, first + base + (stage < extra ? 1 : 0)};
}

StageLayout even_stages(int layers, int pp, int vp) {
  StageLayout layout{pp, vp, std::vector<int>(static_cast<std::size_t>(pp * vp))};
  for (int stage = 0; stage < layout.stages(); ++stage)
    layout.layers[static_cast<std::size_t>(stage)] = layers_of_stage(layers, layout.stages(), stage).count();
  return layout;
}

namespace {
Error bad_layout(std::string what, std::string hint = {}) {
  return make_error(ErrorCode::invalid_input, std::move(what), std::move(hint));
}

std::string list_text(const std::vector<int>& layers) {
  return format("stage_layers = [{}]", fmt::join(layers, ", "));
}

StageLayout distribute(int layers, int pp, int vp, const StageLayoutSettings& settings) {
  StageLayout layout{pp, vp, std::vector<int>(static_cast<std::size_t>(pp * vp))};
  std::vector<double> load(layout.layers.size(), 0);
  load.front() += settings.embedding_as_layers;
  load.back() += settings.loss_as_layers;
  for (int layer = 0; layer < layers; ++layer) {
    const auto least = std::min_element(load.begin(), load.end()) - load.begin();
    load[static_cast<std::size_t>(least)] += 1;
    layout.layers[static_cast<std::size_t>(least)] += 1;
  }
  return layout;
}

// What to write instead.
std::string way_out(int layers, int pp, int vp) {
  if (layers >= std::int64_t{pp} * vp) return "use for example " + list_text(even_stages(layers, pp, vp).layers);
  return layers >= pp ? format("use vp = {}", layers / pp) : format("use pp = {} and vp = 1", layers);
}

Result<StageLayout> as_written(int layers, int pp, int vp, const std::vector<std::int64_t>& written) {
  if (written.size() != static_cast<std::size_t>(pp * vp))
    return bad_layout(
        format("stage_layers has {} numbers, but pp({}) * vp({}) = {} stages", written.size(), pp, vp, pp * vp),
        way_out(layers, pp, vp));
  StageLayout layout{pp, vp, {}};
  std::int64_t sum = 0;
  for (const std::int64_t count : written) {
    if (count < 0 || count > layers)
      return bad_layout(
          format("stage_layers gives stage {} {} layers; the model has {}", layout.layers.size(), count, layers),
          way_out(layers, pp, vp));
    layout.layers.push_back(static_cast<int>(count));
    sum += count;
  }
  if (sum != layers)
    return bad_layout(
        format("stage_layers adds up to {} layers, but the model has {}", sum, layers),
        format("{} {}; {}", sum < layers ? "add" : "take away", std::abs(layers - sum), way_out(layers, pp, vp)));
  return layout;
}
}  // namespace

Result<StageLayout> resolve_stages(int layers, int pp, int vp, const StageLayoutSettings& settings) {
  if (layers < 1 || pp < 1 || vp < 1)
    return bad_layout(format("layers = {}, pp = {} and vp = {} must be at least 1", layers, pp, vp));
  const auto is_share = [&](double value) { return std::isfinite(value) && value >= 0 && value <= layers; };
  if (!is_share(settings.embedding_as_layers) || !is_share(settings.loss_as_layers))
    return bad_layout(
        format("embedding_as_layers = {} and loss_as_layers = {} must lie between 0 and the model's {} layers",
               settings.embedding_as_layers, settings.loss_as_layers, layers));
  if (std::int64_t{pp} * vp > std::int64_t{layers} + 2)
    return bad_layout(
        format("{} layers are too few for pp({}) * vp({}) = {} stages", layers, pp, vp, std::int64_t{pp} * vp),
        way_out(layers, pp, vp));
  StageLayout layout;
  if (settings.stage_layers.empty()) {
    layout = distribute(layers, pp, vp, settings);
  } else {
    LH_TRY(layout, as_written(layers, pp, vp, settings.stage_layers));
  }
  for (int stage = 1; stage + 1 < layout.stages(); ++stage)
    if (layout.layers[static_cast<std::size_t>(stage)] == 0)
      return bad_layout(format("stage {} (rank {}, chunk {}) has no layer: {}", stage, stage % pp, stage / pp,
                               list_text(layout.layers)),
                        way_out(layers, pp, vp));
  return layout;
}

LayerRange layers_of_chunk(const StageLayout& layout, int pp_rank, int chunk) {
  const int stage = stage_of_chunk(layout.pp, pp_rank, chunk);
  LH_ASSERT(pp_rank >= 0 && pp_rank < layout.pp && chunk >= 0 && chunk < layout.vp,
            format("pp_rank={} chunk={} pp={} vp={}", pp_rank, chunk, layout.pp, layout.vp));
  const auto here = layout.layers.begin() + stage;
  const int first = std::accumulate(layout.layers.begin(), here, 0);
  return {first, first + *here};
}

int stage_of_layer(const StageLayout& layout, int layer) {
  int stage = 0, before = 0;
  while (stage < layout.stages() && before + layout.layers[static_cast<std::size_t>(stage)] <= layer)
    before += layout.layers[static_cast<std::size_t>(stage++)];
  LH_ASSERT(layer >= 0 && stage < layout.stages(), format("layer={} of {}", layer, before));
  return stage;
}

}  // namespace longhaul
