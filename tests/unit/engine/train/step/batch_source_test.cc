#include "engine/train/step/batch_source.h"

#include <doctest/doctest.h>

using namespace longhaul;

TEST_CASE("a rank of a context group gets its two pieces of each sequence, padded to a length that can be assigned") {
  using Numbers = std::vector<std::int32_t>;
  const auto kept_by = [](int rank) {
    BatchStorage batch;
    batch.sequences = 2, batch.length = 5;
    for (std::int32_t i = 1; i <= 10; ++i) batch.ids.push_back(i), batch.targets.push_back(10 + i);
    batch.weights.assign(10, 1.0F);
    keep_context_shard(ContextShard(2, rank), batch);  // eight tokens in four pieces
    CHECK(batch.sequences == 4);
    CHECK(batch.length == 2);
    return batch;
  };
  constexpr std::int32_t none = padding_target;
  const BatchStorage outer = kept_by(0), inner = kept_by(1);
  CHECK(outer.ids == Numbers{1, 2, 6, 7, 0, 0, 0, 0});
  CHECK(inner.ids == Numbers{3, 4, 8, 9, 5, 0, 10, 0});
  CHECK(outer.targets == Numbers{11, 12, 16, 17, none, none, none, none});
  CHECK(inner.targets == Numbers{13, 14, 18, 19, 15, none, 20, none});
  CHECK(inner.weights == std::vector<float>{1, 1, 1, 1, 1, 0, 1, 0});
  CHECK(inner.real == std::vector<std::uint8_t>{1, 1, 1, 1, 1, 0, 1, 0});
  CHECK(outer.positions == Numbers{0, 1, 0, 1, 4, 4, 4, 4});
  CHECK(inner.positions == Numbers{2, 3, 2, 3, 4, 4, 4, 4});
}
