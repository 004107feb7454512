#include "engine/ops/loss/cross_entropy_shard.h"

#include <doctest/doctest.h>

#include "engine/ops/pointwise/embedding.h"
#include "tests/unit/engine/ops/op_check.h"

namespace longhaul {

using op_check::random_ids;
using op_check::random_values;

namespace {

// Columns [first, first + columns) of rows [tokens, vocab], in a tensor of their own.
Tensor columns_of(const op_check::Values& z, std::int64_t tokens, std::int64_t vocab, const LogitShard& shard) {
  const DType dtype = z.tensor.dtype();
  Tensor part(dtype, {tokens, shard.columns});
  for (std::int64_t i = 0; i < tokens * shard.columns; ++i) {
    const auto from = static_cast<std::size_t>(i / shard.columns * vocab + shard.first + i % shard.columns);
    if (dtype == DType::f32)
      part.span<float>()[static_cast<std::size_t>(i)] = z.tensor.span<float>()[from];
    else
      part.span<bf16>()[static_cast<std::size_t>(i)] = z.tensor.span<bf16>()[from];
  }
  return part;
}

// The two shards of a vocabulary cut at `cut`, and what their ranks would send each other.
void check_shards(const op_check::Backend& on, DType dtype, std::int64_t vocab, std::int64_t cut) {
  const op_check::OpContext context(2, on);
  constexpr std::int64_t tokens = 9;
  const op_check::Values z = random_values(on.gpu ? dtype : DType::f32, tokens * vocab, 3, 4.0);
  auto targets = random_ids(tokens, vocab, 4);
  targets[2] = -1;
  std::vector<float> weights(tokens, 0.25F), loss(tokens), tops(tokens, -1e30F), sums(2 * tokens, 0.0F);
  weights[5] = 0, weights[6] = -2;
  struct Part {
    LogitShard shard;
    Tensor logits;
  };
  std::vector<Part> parts;
  for (const LogitShard& shard : {LogitShard{tokens, cut, 0}, LogitShard{tokens, vocab - cut, cut}})
    parts.push_back({shard, columns_of(z, tokens, vocab, shard)});
  for (const Part& part : parts) {
    std::vector<float> own(tokens);
    shard_tops(context, part.shard, part.logits, own);
    for (std::size_t t = 0; t < own.size(); ++t) tops[t] = std::max(tops[t], own[t]);
  }
  for (const Part& part : parts) {
    std::vector<float> own(2 * tokens);
    shard_sums(context, part.shard, part.logits, tops, targets, own);
    for (std::size_t i = 0; i < own.size(); ++i) sums[i] += own[i];
  }
  losses_of_sums(context, sums, targets, loss);
  const std::string text = op_check::case_text(format("shards of {}, cut at {}", vocab, cut), dtype, on, 3);
  op_check::check_close(text + " loss", ConstView(loss), reference::cross_entropy(vocab, z.exact, targets), 1e-6);
  const op_check::Vector want =
      reference::cross_entropy_backward(vocab, z.exact, targets, op_check::Vector(weights.begin(), weights.end()));
  for (Part& part : parts) {
    const ConstView dz = shard_gradient(context, part.shard, part.logits, tops, sums, targets, weights, dtype);
    REQUIRE(dz.dtype() == dtype);
    op_check::Vector here, got;
    const op_check::Vector all = op_check::exact_of(dz);
    for (std::int64_t t = 0; t < tokens; ++t)
      for (std::int64_t c = 0; c < part.shard.columns; ++c) {
        here.push_back(want[static_cast<std::size_t>(t * vocab + part.shard.first + c)]);
        got.push_back(all[static_cast<std::size_t>(t * dz.shape()[1] + c)]);
      }
    INFO(text, " gradient of the shard at ", part.shard.first);
    CHECK(op_check::normalised_error(got, here) <= op_check::tolerance(dtype));
  }
}

}  // namespace

TEST_CASE("the loss of a vocabulary in shards is that of the whole, and so is each shard's gradient") {
  for (const auto& [vocab, on] : op_check::with_backends({37, 600}))
    for (const DType dtype : op_check::kTypes) check_shards(on, dtype, vocab, vocab / 3);
  for (const auto& [vocab, on] : op_check::with_backends({1040}))  // rows at multiples of 16 bytes
    for (const DType dtype : op_check::kTypes) check_shards(on, dtype, vocab, 528);
}

TEST_CASE("a number that is none reaches the loss of its token from whatever shard it is in, and no other") {
  for (const op_check::Backend& on : op_check::kBackends) {
    const op_check::OpContext context(1, on);
    Tensor logits(DType::f32, {2, 70});
    logits.span<float>()[33] = NAN;
    std::vector<float> tops(2), sums(4), loss(2);
    const std::vector<std::int32_t> targets = {100, 100};  // another shard's
    const LogitShard shard{2, 70, 0};
    shard_tops(context, shard, logits, tops);
    shard_sums(context, shard, logits, tops, targets, sums);
    losses_of_sums(context, sums, targets, loss);
    CHECK(std::isnan(loss[0]));
    CHECK(std::isfinite(loss[1]));
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
