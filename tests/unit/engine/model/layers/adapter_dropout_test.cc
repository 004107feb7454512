// What an adapter's dropout adds to products, beside the formula. That training with it follows PEFT's:
// tests/parity/training_golden_test.cc; on every layout: tests/parallel/adapter_layouts_test.cc.
#include "engine/model/layers/adapter_dropout.h"

#include <doctest/doctest.h>

#include <cmath>

#include "base/digest/philox.h"
#include "engine/ops/pointwise/elementwise.h"
#include "tests/unit/engine/train/training_setup.h"

using namespace longhaul;

namespace {

constexpr std::int64_t in = 21, out = 12, tokens = 14, sequence = 7;

std::vector<float> random_floats(std::int64_t count, std::uint64_t stream) {
  const Philox random{31, stream};
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(random.normal(i));
  return values;
}

// Of a fused matrix [12, in] that begins at 100 two parts are adapted: rows 0 to 4, and 8 to 11.
class TwoParts final : public WeightSource {
 public:
  explicit TwoParts(double rate) : rate_(rate) {
    parts_.push_back({3, 100, 5, in, 0, in, 2, 1.5F, {}, {}});
    parts_.push_back({5, 100 + 8 * in, 4, in, 0, in, 3, 0.5F, {}, {}});
    for (LowRankMatrix& part : parts_) {
      values_.push_back(random_floats(part.rank * in, static_cast<std::uint64_t>(part.number)));
      values_.push_back(random_floats(part.out * part.rank, static_cast<std::uint64_t>(part.number) + 100));
    }
    for (std::size_t i = 0; i < parts_.size(); ++i) parts_[i].a = values_[2 * i], parts_[i].b = values_[2 * i + 1];
  }
  ConstView weights(std::int64_t, std::int64_t) override { return {}; }
  LowRankDropout dropout() const override { return {rate_, in, 3, 3 * (in + 5)}; }
  std::vector<LowRankMatrix> dropping(std::int64_t, std::int64_t) override { return parts_; }

 private:
  double rate_;
  std::vector<LowRankMatrix> parts_;
  std::vector<std::vector<float>> values_;
};

MicroBatch batch_at(std::int64_t first_sequence) {
  MicroBatch batch;
  batch.sequences = tokens / sequence, batch.length = sequence, batch.first_sequence = first_sequence;
  return batch;
}

// m / (1 - p) of a part, [tokens, in].
std::vector<float> kept_of(const LowRankMatrix& part, double rate, std::int64_t first_sequence) {
  DropoutMask mask;
  mask.rate = rate, mask.seed = 9, mask.place = (1 << 15) + part.number;
  mask.sample = first_sequence, mask.length = sequence;
  std::vector<float> kept(static_cast<std::size_t>(tokens * in), 1.0F);
  dropout(ComputeContext(1), mask, tokens, in, ConstView(kept), View(kept));
  return kept;
}

float at(ConstView matrix, std::int64_t columns, std::int64_t row, std::int64_t column) {
  return matrix.span<float>()[static_cast<std::size_t>(row * columns + column)];
}

void check_close(std::span<const float> found, std::span<const double> wanted) {
  REQUIRE(found.size() == wanted.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i);
    REQUIRE(static_cast<double>(found[i]) == doctest::Approx(wanted[i]).epsilon(1e-4).scale(1));
  }
}

// s sum_r B A of a part, [its rows, in].
double change_of(const LowRankMatrix& part, std::int64_t row, std::int64_t column) {
  double sum = 0;
  for (std::int64_t r = 0; r < part.rank; ++r)
    sum += static_cast<double>(at(part.b, part.rank, row, r)) * at(part.a, in, r, column);
  return part.factor * sum;
}

}  // namespace

TEST_CASE("what is added to a product and to its gradients is what the masks change") {
  const ComputeContext context(1);
  TwoParts adapter(0.4);
  AdapterDropout dropout(adapter, 9, {}, DType::f32, tokens, nullptr);
  const AdapterAddend beside = AdapterDropout::addend(&dropout, batch_at(6), 100, out, in);
  REQUIRE(beside.drops());
  const std::vector<float> x = random_floats(tokens * in, 1), dy = random_floats(tokens * out, 2);
  std::vector<float> y(static_cast<std::size_t>(tokens * out), 1.0F), dx(x.size(), 1.0F), dw(out * in, 7.0F);
  std::vector<double> wanted_y(y.size(), 1), wanted_dx(dx.size(), 1), wanted_dw(dw.size(), 7);
  for (const LowRankMatrix& part : adapter.dropping(0, 0)) {
    const std::vector<float> kept = kept_of(part, 0.4, 6);
    const std::int64_t begin = (part.begin - 100) / in;
    for (std::int64_t row = 0; row < part.out; ++row)
      for (std::int64_t i = 0; i < in; ++i) {
        double& of_weight = wanted_dw[static_cast<std::size_t>((begin + row) * in + i)] = 0;
        for (std::int64_t t = 0; t < tokens; ++t) {
          const auto from = static_cast<std::size_t>(t * in + i), to = static_cast<std::size_t>(t * out + begin + row);
          const double m = kept[from], product = change_of(part, row, i);
          wanted_y[to] += product * (m - 1) * x[from];
          wanted_dx[from] += product * (m - 1) * dy[to];
          of_weight += m * x[from] * dy[to];
        }
      }
  }
  // In two pieces, as rows travel.
  for (const auto& [first, count] : {std::pair<std::int64_t, std::int64_t>{0, 5}, {5, 9}}) {
    beside.forward(context, first, count, ConstView(x).rows(first * in, tokens * in),
                   View(y).rows(first * out, tokens * out));
    beside.backward_input(context, first, count, ConstView(dy).rows(first * out, tokens * out),
                          View(dx).rows(first * in, tokens * in));
  }
  beside.backward_weight(context, dy, x, View(dw), false);
  check_close(y, wanted_y), check_close(dx, wanted_dx), check_close(dw, wanted_dw);
}

TEST_CASE("over many masks nothing is added in the mean, and where a model is judged nothing at all") {
  const ComputeContext context(1);
  TwoParts adapter(0.3);
  AdapterDropout dropout(adapter, 9, {}, DType::f32, tokens, nullptr);
  const std::vector<float> row = random_floats(in, 4);
  std::vector<float> x;
  for (std::int64_t t = 0; t < tokens; ++t) x.insert(x.end(), row.begin(), row.end());
  constexpr std::int64_t draws = 600;
  std::vector<double> sums(out, 0), squares(out, 0);
  for (std::int64_t draw = 0; draw < draws; ++draw) {
    std::vector<float> y(static_cast<std::size_t>(tokens * out), 0.0F);
    AdapterDropout::addend(&dropout, batch_at(2 * draw), 100, out, in).forward(context, 0, tokens, x, y);
    for (std::size_t i = 0; i < y.size(); ++i) sums[i % out] += y[i], squares[i % out] += double{y[i]} * y[i];
  }
  constexpr double n = draws * tokens;
  for (std::size_t i = 0; i < out; ++i) {
    CAPTURE(i);
    const double deviation = std::sqrt(squares[i] / n);
    if (i >= 5 && i < 8)
      CHECK(deviation == 0);
    else
      CHECK(deviation > 0.1);
    CHECK(std::abs(sums[i] / n) <= 5 * deviation / std::sqrt(n));  // 5 standard errors
  }
  CHECK(!AdapterDropout::addend(&dropout, batch_at(-1), 100, out, in).drops());
  CHECK(!AdapterDropout::addend(nullptr, batch_at(3), 100, out, in).drops());
}

TEST_CASE("in bf16 a partial sum in f32 gets what the same sum in bf16 gets") {
  const ComputeContext context(1);
  TwoParts adapter(0.4);
  AdapterDropout dropout(adapter, 9, {}, DType::bf16, tokens, nullptr);
  const AdapterAddend beside = AdapterDropout::addend(&dropout, batch_at(6), 100, out, in);
  const std::vector<float> x = random_floats(tokens * in, 1), dy = random_floats(tokens * out, 2);
  Tensor rows(DType::bf16, Shape{tokens * in}), gradient(DType::bf16, Shape{tokens * out});
  cast(context, x, rows), cast(context, dy, gradient);
  std::vector<float> y(static_cast<std::size_t>(tokens * out), 0.0F), dx(x.size(), 0.0F), again(x.size());
  beside.forward(context, 0, tokens, rows, y);
  double largest = 0;
  for (const float value : y) largest = std::max(largest, std::abs(static_cast<double>(value)));
  CHECK(largest > 1);
  beside.backward_input(context, 0, tokens, gradient, dx);
  Tensor narrow(DType::bf16, Shape{tokens * in});
  fill(context, narrow, 0.0F);
  beside.backward_input(context, 0, tokens, gradient, narrow);
  cast(context, narrow, again);
  for (std::size_t i = 0; i < dx.size(); ++i) CHECK(again[i] == doctest::Approx(dx[i]).epsilon(0.02).scale(1));
}

TEST_CASE("a model is judged as without dropout, and trained with other masks for other sequences") {
  test::SetupOptions options(test::training_shape(2, false));
  options.adapter.kind = "lora";
  const auto losses_of = [&](double rate, std::int64_t first_sequence) {
    options.adapter.dropout = rate;
    test::TrainingSetup setup(4, 1, 2, nullptr, DType::f32, 8, options);
    for (std::size_t i = 0; i < setup.store.masters().size(); ++i)
      setup.store.masters()[i] += 0.05F * random_floats(1, i).front();
    setup.store.shares_changed();
    BatchStorage batch;
    REQUIRE(setup.source.fill(0, 2, batch).ok());
    batch.first_sequence = first_sequence;
    std::vector<float> losses(batch.ids.size());
    setup.model.forward(setup.context, 0, batch.view());
    setup.model.token_losses(setup.context, 0, losses);
    return losses;
  };
  const std::vector<float> plain = losses_of(0, 4), trained = losses_of(0.3, 4);
  CHECK(losses_of(0.3, -1) == plain);
  CHECK(losses_of(0.3, 4) == trained);
  CHECK(trained != plain);
  CHECK(losses_of(0.3, 6) != trained);
}
