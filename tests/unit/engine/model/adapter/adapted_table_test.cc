// A table of tokens that an adapter changes, of which some rows are made at a time.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "engine/model/adapter/adapted_weights.h"
#include "tests/unit/engine/train/training_setup.h"

using namespace longhaul;
using namespace longhaul::test;

TEST_CASE("a table of more rows than are made at once is made whole") {
  SetupOptions options(training_shape(2, false));
  options.shape.vocab_size = table_rows_at_once + 40;
  options.adapter.kind = "lora", options.adapter.rank = 4, options.adapter.targets = {"embed_tokens", "o_proj"};
  TrainingSetup setup(4, 1, 2, nullptr, DType::f32, 8, options);
  float next = 0;
  for (float& value : setup.store.masters()) value += 0.05F * std::sin(next += 1);  // B begins as 0
  setup.store.shares_changed();
  const ParameterLayout &model = setup.frozen->layout(), &own = setup.store.layout();
  const auto matrices = adapted_matrices(setup.store.shape());
  REQUIRE(matrices.ok());
  const auto table = std::ranges::find(*matrices, true, &AdaptedMatrix::is_table);
  REQUIRE(table != matrices->end());
  const FlatParameter& weights = model.find(table->first);
  const std::int64_t rows = weights.box.extent[0], width = weights.box.extent[1], rank = table->rank;
  const std::span<const float> kept = setup.frozen->kept(weights.begin, rows * width).span<float>();
  const std::span<const float> made = setup.adapted->weights(weights.begin, rows * width).span<float>();
  const std::span<const float> a = setup.store.vector(own.find(table->a).begin, rank * rows).span<float>();
  const std::span<const float> b = setup.store.vector(own.find(table->b).begin, width * rank).span<float>();
  const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
  for (const std::int64_t row : {std::int64_t{0}, table_rows_at_once - 1, table_rows_at_once, rows - 1}) {
    CAPTURE(row);
    double largest = 0;
    for (std::int64_t column = 0; column < width; ++column) {
      double sum = static_cast<double>(kept[at(row * width + column)]);
      for (std::int64_t r = 0; r < rank; ++r)
        sum +=
            table->factor * static_cast<double>(b[at(column * rank + r)]) * static_cast<double>(a[at(r * rows + row)]);
      largest = std::max(largest, std::abs(sum - static_cast<double>(made[at(row * width + column)])));
    }
    CHECK(largest < 1e-6);
    CHECK(!std::ranges::equal(kept.subspan(at(row * width), at(width)), made.subspan(at(row * width), at(width))));
  }
}
