#include "engine/train/optimizer/optimizer.h"

#include <doctest/doctest.h>

#include <map>

#include "tests/unit/engine/train/training_setup.h"

using namespace longhaul;

namespace {

// The bits of a rank's first moments after one step, by parameter and by the element's place in the whole parameter.
// Every element has the same gradient on whichever rank it lies.
std::map<std::string, std::map<std::int64_t, std::uint16_t>> moments_on(const MeshPlace& place) {
  OptimizerSettings settings;
  settings.moments = "bf16", settings.rounding = "stochastic";
  ParameterStore store(test::training_shape(1), DType::f32, nullptr, place);
  const ParameterLayout& layout = store.layout();
  Optimizer optimizer(layout, settings, 7);
  std::vector<float> gradient(static_cast<std::size_t>(layout.flat_size()));
  const auto in_whole = [](const FlatParameter& p, std::int64_t i) {
    if (p.spec.shape.size() == 1) return p.box.offset[0] + i;
    const std::int64_t columns = p.box.extent[1];
    return (p.box.offset[0] + i / columns) * p.spec.shape[1] + p.box.offset[1] + i % columns;
  };
  for (const FlatParameter& p : layout.parameters())
    for (std::int64_t i = p.begin; i < p.end; ++i)
      gradient[static_cast<std::size_t>(i)] = static_cast<float>(
          Philox{3, parameter_stream(p.spec.name)}.normal(static_cast<std::uint64_t>(in_whole(p, i - p.begin))));
  REQUIRE(optimizer.update(ComputeContext(1), store, 1e-3, 1, 1.0F, gradient).ok());
  std::vector<std::uint16_t> bits(gradient.size());
  REQUIRE(optimizer.exp_avg().read({0, layout.flat_size()}, std::as_writable_bytes(std::span(bits))).ok());
  std::map<std::string, std::map<std::int64_t, std::uint16_t>> moments;
  for (const FlatParameter& p : layout.parameters())
    for (std::int64_t i = p.begin; i < p.end; ++i)
      moments[p.spec.name][in_whole(p, i - p.begin)] = bits[static_cast<std::size_t>(i)];
  return moments;
}

}  // namespace

TEST_CASE("stochastic rounding draws for an element the same, whichever rows or columns of its matrix a rank holds") {
  const auto whole = moments_on({});
  MeshPlace place;
  place.dims.tp = 2;
  int split = 0;
  for (const int rank : {0, 1}) {
    place.at = coordinates_of(place.dims, rank);
    for (const auto& [name, elements] : moments_on(place)) {
      CAPTURE(rank);
      CAPTURE(name);
      split += elements.size() < whole.at(name).size() ? 1 : 0;
      int others = 0;
      for (const auto& [at, bits] : elements) others += whole.at(name).at(at) != bits;
      CHECK(others == 0);
    }
  }
  CHECK(split > 4);
}
