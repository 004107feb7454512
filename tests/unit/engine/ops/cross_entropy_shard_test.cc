#include "engine/ops/cross_entropy_shard.h"

#include <doctest/doctest.h>

#include "engine/ops/cross_entropy.h"
#include "engine/ops/embedding.h"
#include "tests/unit/engine/ops/op_check.h"

namespace longhaul {

using op_check::random_ids;
using op_check::random_values;

TEST_CASE("the loss of a vocabulary in shards is that of the whole, and so is each shard's gradient") {
  const ComputeContext context(2);
  for (const std::int64_t vocab : {37, 600}) {
    CAPTURE(vocab);
    constexpr std::int64_t tokens = 9;
    auto z = random_values(DType::f32, tokens * vocab, 3, 4.0);
    auto targets = random_ids(tokens, vocab, 4);
    targets[2] = -1;
    std::vector<float> weights(tokens, 0.25F), loss(tokens), whole_loss(tokens);
    weights[5] = 0;
    const std::int64_t cut = vocab / 3;
    struct Part {
      LogitShard shard;
      std::vector<float> logits, tops, sums;
    };
    std::vector<Part> parts = {
        {{tokens, cut, 0}, {}, std::vector<float>(tokens), std::vector<float>(2 * tokens)},
        {{tokens, vocab - cut, cut}, {}, std::vector<float>(tokens), std::vector<float>(2 * tokens)}};
    std::vector<float> tops(tokens, -1e30F), sums(2 * tokens, 0.0F);
    for (Part& part : parts) {
      for (std::int64_t t = 0; t < tokens; ++t)
        for (std::int64_t c = 0; c < part.shard.columns; ++c)
          part.logits.push_back(z.tensor.span<float>()[static_cast<std::size_t>(t * vocab + part.shard.first + c)]);
      shard_tops(context, part.shard, ConstView(part.logits), part.tops);
      for (std::size_t t = 0; t < tops.size(); ++t) tops[t] = std::max(tops[t], part.tops[t]);
    }
    for (Part& part : parts) {
      shard_sums(context, part.shard, ConstView(part.logits), tops, targets, part.sums);
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += part.sums[i];
    }
    losses_of_sums(sums, targets, loss);
    std::vector<float> whole_dz(static_cast<std::size_t>(tokens * vocab));
    cross_entropy_forward_backward(context, {tokens, vocab}, z.tensor, targets, weights, whole_loss, View(whole_dz));
    for (std::size_t t = 0; t < loss.size(); ++t) CHECK(loss[t] == doctest::Approx(whole_loss[t]).epsilon(1e-6));
    for (Part& part : parts)
      for (const DType dtype : {DType::f32, DType::bf16}) {
        std::vector<float> logits = part.logits;
        const ConstView dz = shard_gradient(context, part.shard, View(logits), tops, sums, targets, weights, dtype);
        const std::int64_t stride = dz.shape()[1];
        for (std::int64_t t = 0; t < tokens; ++t)
          for (std::int64_t c = 0; c < part.shard.columns; ++c) {
            const float expected = whole_dz[static_cast<std::size_t>(t * vocab + part.shard.first + c)];
            const float got = dtype == DType::f32 ? dz.as<float>()[t * stride + c]
                                                  : static_cast<float>(dz.as<bf16>()[t * stride + c]);
            const double bar = dtype == DType::f32 ? 1e-7 : 4e-3 * std::abs(expected) + 1e-9;
            CHECK(std::abs(got - expected) <= bar);
          }
      }
  }
}

TEST_CASE("an id of another shard gives zeros and takes no gradient") {
  const ComputeContext context(1);
  const std::vector<float> table = {1, 2, 3, 4};
  const std::vector<std::int32_t> ids = {1, -1, 0};
  std::vector<float> out(6, 9.0F), gradient(4, 0.0F);
  embedding_forward(context, {3, 2, 2}, ids, ConstView(table), View(out));
  CHECK(out == std::vector<float>{3, 4, 0, 0, 1, 2});
  embedding_backward(context, {3, 2, 2}, ids, ConstView(out), gradient);
  CHECK(gradient == std::vector<float>{1, 2, 3, 4});
}

}  // namespace longhaul
