// Recipes, histories and decisions of low precision, and the products that follow from them.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "base/digest/philox.h"
#include "base/value/json.h"
#include "engine/model/precision/low_precision_linear.h"
#include "tests/support/seed.h"

using namespace longhaul;

namespace {

LowPrecisionSettings settings_of(const std::string& recipe, std::int64_t check_every = 0) {
  LowPrecisionSettings settings;
  settings.recipe = recipe, settings.check_every_steps = check_every;
  return settings;
}

Tensor random_tensor(std::int64_t rows, std::int64_t columns, std::uint64_t seed, double deviation = 1) {
  Tensor out(DType::f32, {rows, columns});
  for (std::int64_t i = 0; i < rows * columns; ++i)
    out.span<float>()[static_cast<std::size_t>(i)] =
        static_cast<float>(deviation * Philox{seed, 1}.normal(static_cast<std::uint64_t>(i)));
  return out;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return std::memcmp(a.view().data(), b.view().data(), static_cast<std::size_t>(a.bytes())) == 0;
}

LowPrecisionState state_for(const LowPrecisionSettings& settings, int layers = 3) {
  return LowPrecisionState(settings, layers, DType::f32, 64 * 128, 128 * 128, nullptr);
}

// A step that saw the same magnitude everywhere.
void step_with(LowPrecisionState& state, std::int64_t step, float amax) {
  state.begin_step(step);
  for (int layer = 0; layer < state.layers(); ++layer)
    for (int matrix = 0; matrix < layer_matrices; ++matrix)
      for (int operand = 0; operand < operands; ++operand)
        state.saw(layer, static_cast<LayerMatrix>(matrix), static_cast<Operand>(operand), amax);
  (void)state.end_step(step, state.take_seen());
}

}  // namespace

TEST_CASE("a history knows the largest of the last steps, as looking at all of them does") {
  const std::uint64_t seed = longhaul::testing::seed(3);
  CAPTURE(seed);
  PhiloxSequence random(seed, 1);
  for (const std::int64_t length : {1, 2, 7, 50}) {
    AmaxHistory history;
    std::vector<float> all;
    for (std::int64_t step = 1; step <= 200; ++step) {
      all.push_back(static_cast<float>(random.next_below(20)));
      history.add(step, all.back(), length);
      const auto begin = all.end() - std::min<std::ptrdiff_t>(length, static_cast<std::ptrdiff_t>(all.size()));
      REQUIRE(history.largest() == *std::max_element(begin, all.end()));
      REQUIRE(history.entries.size() <= static_cast<std::size_t>(length));
    }
  }
}

TEST_CASE("recipes: formats, and blocks along what each product sums over") {
  for (const char* name : {"delayed", "current"}) {
    const LowPrecisionRecipe hybrid = recipe_from(settings_of(name));
    CHECK(hybrid.of(OperandUse::input_forward).format == NumberFormat::e4m3);
    CHECK(hybrid.of(OperandUse::weight_input).format == NumberFormat::e4m3);
    CHECK(hybrid.of(OperandUse::gradient_input).format == NumberFormat::e5m2);
    CHECK(hybrid.of(OperandUse::gradient_weight).format == NumberFormat::e5m2);
  }
  const auto shape = [](const LowPrecisionRecipe& recipe, OperandUse use) {
    return std::pair(recipe.of(use).rows, recipe.of(use).columns);
  };
  using Pair = std::pair<std::int64_t, std::int64_t>;
  const LowPrecisionRecipe mx = recipe_from(settings_of("mxfp8"));
  for (const OperandUse use : {OperandUse::input_forward, OperandUse::weight_forward, OperandUse::gradient_input})
    CHECK(shape(mx, use) == Pair(1, 32));
  for (const OperandUse use : {OperandUse::weight_input, OperandUse::gradient_weight, OperandUse::input_weight})
    CHECK(shape(mx, use) == Pair(32, 1));
  const LowPrecisionRecipe blocks = recipe_from(settings_of("blockwise"));
  CHECK(shape(blocks, OperandUse::weight_forward) == Pair(128, 128));
  CHECK(shape(blocks, OperandUse::gradient_input) == Pair(1, 128));
  CHECK(shape(blocks, OperandUse::input_weight) == Pair(128, 1));
  LowPrecisionSettings six = settings_of("mxfp6");
  CHECK(recipe_from(six).of(OperandUse::gradient_input).format == NumberFormat::e2m3);
  six.mxfp6_element = "e3m2";
  CHECK(recipe_from(six).of(OperandUse::gradient_input).format == NumberFormat::e3m2);
  CHECK(recipe_from(settings_of("mxfp4")).of(OperandUse::weight_forward).format == NumberFormat::e2m1);
}

TEST_CASE(
    "the three products are those of the operands, quantised each by itself; without a state, bit for bit plain") {
  const std::uint64_t seed = longhaul::testing::seed(5);
  CAPTURE(seed);
  const ComputeContext context(1);
  const LinearShape shape{64, 128, 96};
  Tensor x = random_tensor(64, 128, seed), w = random_tensor(96, 128, seed + 1, 0.05);
  Tensor dy = random_tensor(64, 96, seed + 2, 1e-3);
  Tensor y(DType::f32, {64, 96}), dx(DType::f32, {64, 128}), dw(DType::f32, {96, 128}), db(DType::f32, {96});
  Tensor y2(DType::f32, {64, 96}), dx2(DType::f32, {64, 128}), dw2(DType::f32, {96, 128}), db2(DType::f32, {96});
  for (const char* recipe : {"none", "mxfp8", "mxfp6", "mxfp4", "blockwise", "current"}) {
    CAPTURE(recipe);
    std::optional<LowPrecisionState> state;
    if (std::string(recipe) != "none") state.emplace(settings_of(recipe), 3, DType::f32, 64 * 128, 128 * 128, nullptr);
    LowPrecisionLinear linear(state ? &*state : nullptr, 1, LayerMatrix::qkv);
    const auto operand = [&](OperandUse use, std::int64_t rows, std::int64_t columns, const Tensor& from) {
      Tensor out(DType::f32, {rows, columns});
      if (!state) {
        std::memcpy(out.view().data(), from.view().data(), static_cast<std::size_t>(from.bytes()));
      } else if (state->recipe().scales == ScaleKind::block) {
        quantize_blocks(context, rows, columns, state->recipe().of(use), from, out);
      } else {
        const NumberFormat format = state->recipe().of(use).format;
        quantize_tensor(context, format, tensor_scale(format, largest_magnitude(context, from), 0), from, out);
      }
      return out;
    };
    linear.begin_forward(context, shape, x, w);
    linear.forward(context, shape, x, y);
    linear_forward(context, shape, operand(OperandUse::input_forward, 64, 128, x),
                   operand(OperandUse::weight_forward, 96, 128, w), y2);
    CHECK(same_bits(y, y2));
    linear.begin_backward_input(context, shape, dy, w);
    linear.backward_input(context, shape, dy, dx);
    linear_backward_input(context, shape, operand(OperandUse::gradient_input, 64, 96, dy),
                          operand(OperandUse::weight_input, 96, 128, w), dx2);
    CHECK(same_bits(dx, dx2));
    linear.backward_weight(context, shape, dy, x, dw, db, false);
    linear_backward_weight(context, shape, operand(OperandUse::gradient_weight, 64, 96, dy),
                           operand(OperandUse::input_weight, 64, 128, x), dw2, {}, false);
    CHECK(same_bits(dw, dw2));
    linear_backward_bias(context, shape, dy, db2, false);
    CHECK(same_bits(db, db2));  // of dy as it is
  }
}

TEST_CASE("delayed: a step's scales come from the steps before; the first computes as it is and looks") {
  const ComputeContext context(1);
  const LinearShape shape{64, 128, 96};
  Tensor x = random_tensor(64, 128, 1), w = random_tensor(96, 128, 2), y(DType::f32, {64, 96}),
         plain(DType::f32, {64, 96});
  LowPrecisionSettings settings = settings_of("delayed");
  settings.amax_history = 2;
  LowPrecisionState state = state_for(settings);
  LowPrecisionLinear linear(&state, 0, LayerMatrix::qkv);
  const auto forward = [&](std::int64_t step) {
    state.begin_step(step);
    linear.begin_forward(context, shape, x, w);
    linear.forward(context, shape, x, y);
    (void)state.end_step(step, state.take_seen());
  };
  linear_forward(context, shape, x, w, plain);
  forward(1);
  CHECK(same_bits(y, plain));
  CHECK(state.scale(0, LayerMatrix::qkv, Operand::input) ==
        tensor_scale(NumberFormat::e4m3, largest_magnitude(context, x), 0));
  forward(2);
  CHECK(!same_bits(y, plain));
  // What is judged leaves no trace; a large step counts for as many steps as the history is long.
  state.evaluates = true;
  state.begin_step(3);
  x.span<float>()[0] = 1e4F;
  linear.begin_forward(context, shape, x, w);
  state.evaluates = false;
  (void)state.end_step(3, state.take_seen());
  CHECK(state.scale(0, LayerMatrix::qkv, Operand::input) < 1.0F);
  step_with(state, 4, 896.0F);
  CHECK(state.scale(0, LayerMatrix::qkv, Operand::input) == 2.0F);
  step_with(state, 5, 448.0F);
  CHECK(state.scale(0, LayerMatrix::qkv, Operand::input) == 2.0F);
  step_with(state, 6, 448.0F);
  CHECK(state.scale(0, LayerMatrix::qkv, Operand::input) == 1.0F);
}

TEST_CASE("a layer is judged by what was measured, with the reason; nothing is quantised before") {
  const ComputeContext context(1);
  const LinearShape shape{64, 128, 96};
  Tensor w = random_tensor(96, 128, 2), y(DType::f32, {64, 96});
  struct Case {
    const char* what;
    double flushed_max, saturated_max, snr_min_db;
    bool low;
    const char* reason;
  };
  for (const Case& c : {Case{"nothing passed", 1, 1, 10, true, ""}, Case{"noise", 1, 1, 40, false, "snr_min_db = 40"},
                        Case{"flushed", 0.001, 1, 0, false, "flushed_max = 0.001"},
                        Case{"saturated", 1, 0.001, 0, false, "saturated_max = 0.001"}}) {
    CAPTURE(c.what);
    LowPrecisionSettings settings = settings_of("mxfp4", 10);
    settings.scale_rounding = "floor";  // saturates
    settings.flushed_max = c.flushed_max, settings.saturated_max = c.saturated_max, settings.snr_min_db = c.snr_min_db;
    settings.first_layers_bf16 = 1;
    LowPrecisionState state = state_for(settings);
    CHECK(!state.uses_low(1));
    state.begin_step(1);
    REQUIRE(state.measures());
    Tensor x = random_tensor(64, 128, 1);
    LowPrecisionLinear linear(&state, 1, LayerMatrix::mlp_output), kept(&state, 0, LayerMatrix::mlp_output);
    Tensor y(DType::f32, {shape.tokens, shape.out}), plain(DType::f32, {shape.tokens, shape.out});
    linear_forward(context, shape, x, w, plain);
    for (LowPrecisionLinear* one : {&linear, &kept}) {
      one->begin_forward(context, shape, x, w);
      one->forward(context, shape, x, y);
      CHECK(same_bits(y, plain));  // measured, and computed as it is
    }
    const auto verdicts = state.end_step(1, state.take_seen());
    REQUIRE(verdicts.size() == 2);  // the first layer is not asked
    CHECK(verdicts[0].layer == 1);
    CHECK(verdicts[0].changed);
    CHECK(verdicts[0].low == c.low);
    CHECK(state.uses_low(1) == c.low);
    CHECK(state.uses_low(2));  // of which nothing was seen
    CHECK(!state.uses_low(0));
    CHECK(verdicts[0].reason.find(c.reason) != std::string::npos);
    if (!c.low) CHECK(verdicts[0].reason.find("the feed-forward's output") != std::string::npos);
    CHECK(verdicts[0].snr_db > 10);
    CHECK(verdicts[0].snr_db < 20);
    state.begin_step(2);
    CHECK(!state.measures());
    state.begin_step(10);
    CHECK(state.measures());
    linear.begin_forward(context, shape, x, w);
    linear.forward(context, shape, x, y);
    CHECK(same_bits(y, plain) == !c.low);
    const auto again = state.end_step(10, state.take_seen());
    CHECK(!again[0].changed);
    CHECK(again[0].snr_db == verdicts[0].snr_db);  // measured whether it is used or not
  }
}

TEST_CASE("what ranks saw, merged: largest magnitudes, sums of counts, through messages") {
  LowPrecisionState a = state_for(settings_of("delayed", 1)), b = state_for(settings_of("delayed", 1));
  for (LowPrecisionState* state : {&a, &b}) step_with(*state, 1, 1.0F), state->begin_step(2);
  REQUIRE(a.measures());
  a.saw(0, LayerMatrix::qkv, Operand::input, 3), b.saw(0, LayerMatrix::qkv, Operand::input, 5);
  a.saw(1, LayerMatrix::qkv, Operand::input, 7), b.saw(2, LayerMatrix::qkv, Operand::gradient, NAN);
  *a.sums(0, LayerMatrix::qkv, OperandUse::input_weight) = {1, 2, 3, 4, 5};
  *b.sums(0, LayerMatrix::qkv, OperandUse::input_weight) = {10, 20, 30, 40, 50};
  LowPrecisionSeen merged = LowPrecisionSeen::from_packed(a.take_seen().packed(), 3, true);
  merged.merge(LowPrecisionSeen::from_packed(b.take_seen().packed(), 3, true));
  CHECK(merged.amax[0] == 5);
  CHECK(merged.amax[layer_matrices * operands] == 7);
  CHECK(std::isnan(merged.amax[2 * layer_matrices * operands + 2]));
  CHECK(merged.measured[5].saturated == 55);
}

TEST_CASE("what steps to come rest on goes through a checkpoint's text; damage is refused") {
  LowPrecisionState state = state_for(settings_of("delayed", 10));
  const std::uint64_t seed = longhaul::testing::seed(9);
  CAPTURE(seed);
  PhiloxSequence random(seed, 2);
  for (std::int64_t step = 1; step < 30; ++step) step_with(state, step, static_cast<float>(random.next_uniform()));
  const Value saved = parse_json(to_json(state.state()), "state").value();
  LowPrecisionState again = state_for(settings_of("delayed", 10));
  REQUIRE(again.restore(saved).ok());
  for (int layer = 0; layer < 3; ++layer) {
    CHECK(again.uses_low(layer) == state.uses_low(layer));
    CHECK(again.scale(layer, LayerMatrix::qkv, Operand::gradient) ==
          state.scale(layer, LayerMatrix::qkv, Operand::gradient));
  }
  CHECK(to_json(again.state()) == to_json(state.state()));
  // Another recipe begins anew; what is damaged is no recipe's.
  LowPrecisionState other = state_for(settings_of("mxfp8", 10));
  CHECK(other.restore(saved).ok());
  CHECK(!other.uses_low(1));
  Value damaged = saved;
  damaged.set("history", Value::make_array());
  CHECK(again.restore(damaged).error().code == ErrorCode::corrupt);
  CHECK(state_for(settings_of("delayed", 10), 4).restore(saved).error().code == ErrorCode::corrupt);
  CHECK(again.restore(Value::make_table()).error().code == ErrorCode::corrupt);
}
