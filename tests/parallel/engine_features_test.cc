// Every row of the table of features that processors run trains a step on them; every row that they refuse is refused.
#include "tests/parallel/engine_feature_walk.h"

using namespace longhaul;
using namespace longhaul::test;

TEST_CASE("processors: each feature that runs trains a step, each that is refused is refused by the table's text") {
  const auto on_ranks = [](const ParallelDims& dims, const std::function<void(int, Mesh&, Gpu*)>& body) {
    on_threads(dims, [&](int rank, Mesh& mesh) { body(rank, mesh, nullptr); });
  };
  const auto on_one = [](const std::function<void(Gpu*)>& body) { body(nullptr); };
  WalkedRows walked;
  for (const EngineFeature& row : engine_features())
    for (const ModelFamily family : row.families) walk_row(row, family, false, on_ranks, on_one, {}, walked);
  MESSAGE(walked.text("processors", "ran"));
  CHECK(walked.ran >= 90);
  CHECK(walked.refused >= 20);
}
