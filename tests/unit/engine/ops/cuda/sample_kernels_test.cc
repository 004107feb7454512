// Where a sum of all threads leaves open what the processor would choose, the row is added up in the processor's order.
// That happens once in many thousand draws; here it happens in all of them, and the tokens have to be the same.
#include "engine/ops/cuda/loss/sample_kernels.h"

#include <doctest/doctest.h>

#include <vector>

#include "base/digest/philox.h"
#include "engine/infer/generate/sampling.h"

#ifndef __SANITIZE_ADDRESS__  // which does not know the stacks of the emulation's fibers
using namespace longhaul;

TEST_CASE("tokens do not depend on how wide the margin of a whole row's sum is") {
  const std::int64_t sequences = 60, vocab = 700;
  PhiloxSequence draw(5, 1);
  std::vector<float> logits;
  for (std::int64_t i = 0; i < sequences * vocab; ++i)
    logits.push_back(static_cast<float>(6 * draw.next_uniform() + (draw.next_below(100) == 0 ? 6 : 0)));
  for (const double top_p : {1.0, 0.2, 0.95}) {
    std::vector<SampleRow> rows(sequences);
    for (SampleRow& row : rows) row.top_p = top_p, row.seed = draw.next_u64();
    std::vector<std::int32_t> want;
    for (std::size_t s = 0; s < rows.size(); ++s) {
      SamplingParameters p;
      p.top_p = top_p, p.seed = rows[s].seed;
      const auto from = logits.begin() + static_cast<std::int64_t>(s) * vocab;
      std::vector<float> row(from, from + vocab);
      want.push_back(sample_token(row, {}, p, 0));
    }
    for (const double slack : {cuda::sample_slack(vocab), 1e-3, 1.0}) {
      std::vector<SampleRow> used = rows;
      std::vector<std::int32_t> tokens(sequences, -1);
      cuda::sample_tokens(
          nullptr, cuda::Sample<float>{sequences, vocab, logits.data(), used.data(), nullptr, 0, tokens.data(), slack});
      CAPTURE(slack);
      CAPTURE(top_p);
      CHECK(tokens == want);
    }
  }
}
#endif
