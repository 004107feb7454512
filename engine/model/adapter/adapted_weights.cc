#include "engine/model/adapter/adapted_weights.h"

#include <algorithm>
#include <cmath>

#include "engine/core/tensor/parallel_for.h"
#include "engine/ops/linear/gemm.h"
#include "engine/ops/pointwise/elementwise.h"

namespace longhaul {

namespace {

// For each row of a [rows, columns] matrix.
template <class Row>
void for_rows(const ComputeContext& context, std::int64_t rows, std::int64_t columns, const Row& row) {
  const std::int64_t grain = std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(1, columns));
  parallel_for(context, rows, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) row(i);
  });
}

float norm_of(const float* values, std::int64_t count) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += static_cast<double>(values[i]) * values[i];
  return static_cast<float>(std::sqrt(sum));
}

double dot(const float* a, const float* b, std::int64_t count) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

}  // namespace

AdaptedWeights::AdaptedWeights(const ComputeContext& context, ParameterStore& base, ParameterStore& trained,
                               MemoryAccounts* memory)
    : context_(context), base_(base), trained_(trained), adapter_(trained.shape().adapter) {
  const auto matrices = adapted_matrices(trained.shape());
  LH_ASSERT(matrices.ok() && trained.compute_dtype() == DType::f32, "an adapter that was not checked");
  const auto held = [&](const std::string& name) { return name.empty() ? nullptr : &trained.layout().find(name); };
  for (const AdaptedMatrix& m : *matrices)
    if (const FlatParameter* p = base.layout().find_if_held(m.matrix.name))
      places_.push_back({m, p->begin, p->box.extent[0], p->box.extent[1], held(m.a), held(m.b), held(m.factors)});
  std::ranges::sort(places_, {}, &Place::begin);
  for (const ShardUnit& unit : base.layout().units()) {
    const auto first = std::ranges::lower_bound(places_, unit.flat.begin, {}, &Place::begin);
    first_place_.push_back(static_cast<std::size_t>(first - places_.begin()));
  }
  first_place_.push_back(places_.size());
  const AdapterSpace space = adapter_space(base.layout(), *matrices);
  MemoryAccount* const weights = account_of(memory, MemoryCategory::gathered_weights);
  windows_.resize(static_cast<std::size_t>(space.windows));
  for (Window& window : windows_) window.memory = Tensor(base.compute_dtype(), Shape{space.window}, weights);
  scratch_ = Tensor(DType::f32, Shape{space.matrix}, weights);
  gradient_ = Tensor(DType::f32, Shape{space.gradients}, account_of(memory, MemoryCategory::gradients));
  base_.adapt(this);
}

AdaptedWeights::~AdaptedWeights() {
  base_.adapt(nullptr);
}

int AdaptedWeights::unit_at(std::int64_t begin) const {
  const std::vector<ShardUnit>& units = base_.layout().units();
  const auto after = std::upper_bound(units.begin(), units.end(), begin,
                                      [](std::int64_t at, const ShardUnit& unit) { return at < unit.flat.begin; });
  return static_cast<int>(after - units.begin()) - 1;
}

bool AdaptedWeights::is_adapted(std::int64_t begin) const {
  const auto place = std::ranges::lower_bound(places_, begin, {}, &Place::begin);
  return place != places_.end() && place->begin == begin;
}

std::span<const AdaptedWeights::Place> AdaptedWeights::places_of(int unit) const {
  const auto at = static_cast<std::size_t>(unit);
  return std::span(places_).subspan(first_place_[at], first_place_[at + 1] - first_place_[at]);
}

std::span<const float> AdaptedWeights::factors_of(const Place& place) const {
  return trained_.vector(place.factors->begin, place.factors->end - place.factors->begin).span<float>();
}

void AdaptedWeights::initialize(std::uint64_t seed) {
  initialize_parameters(context_, trained_, seed);
  if (adapter_.kind != "dora") return;
  std::vector<float> norms;
  for (const Place& place : places_) {
    const View sum = sum_of(place);  // B is 0: W
    norms.resize(static_cast<std::size_t>(place.out));
    const float* const rows = sum.span<float>().data();
    for_rows(context_, place.out, place.in,
             [&](std::int64_t i) { norms[static_cast<std::size_t>(i)] = norm_of(rows + i * place.in, place.in); });
    trained_.put(context_, *place.factors, norms);
  }
}

View AdaptedWeights::sum_of(const Place& place) {
  const View sum = scratch_.view().rows(0, place.elements());
  cast(context_, base_.kept(place.begin, place.elements()), sum);
  if (!place.a) return sum;
  GemmShape product;
  product.m = place.out, product.n = place.in, product.k = adapter_.rank;
  product.alpha = static_cast<float>(adapter_.factor()), product.beta = 1;
  gemm(context_, product, trained_.vector(place.b->begin, place.out * adapter_.rank),
       trained_.vector(place.a->begin, adapter_.rank * place.in), sum);
  return sum;
}

void AdaptedWeights::make(const Place& place, View out) {
  const View sum = sum_of(place);
  if (place.factors) {
    const std::span<const float> factors = factors_of(place);
    float* const rows = sum.span<float>().data();
    for_rows(context_, place.out, place.in, [&](std::int64_t i) {
      float* const row = rows + i * place.in;
      if (place.of.of_columns) {
        for (std::int64_t j = 0; j < place.in; ++j) row[j] *= factors[static_cast<std::size_t>(j)];
        return;
      }
      const float factor = factors[static_cast<std::size_t>(i)] / (place.a ? norm_of(row, place.in) : 1.0F);
      for (std::int64_t j = 0; j < place.in; ++j) row[j] *= factor;
    });
  }
  cast(context_, sum, out);
}

ConstView AdaptedWeights::window_of(int unit) {
  const FlatRange flat = base_.layout().units()[static_cast<std::size_t>(unit)].flat;
  const std::int64_t version = base_.version() + trained_.version();
  auto window = std::ranges::find_if(windows_, [&](const Window& w) { return w.unit == unit && w.version == version; });
  if (window == windows_.end()) {
    window = std::ranges::min_element(windows_, {}, &Window::last_use);
    if (auto stale = std::ranges::find(windows_, unit, &Window::unit); stale != windows_.end()) window = stale;
    const View out = window->memory.view().rows(0, flat.size());
    cast(context_, base_.kept(flat.begin, flat.size()), out);
    for (const Place& place : places_of(unit)) {
      const std::int64_t at = place.begin - flat.begin;
      make(place, out.rows(at, at + place.elements()));
    }
    window->unit = unit, window->version = version;
  }
  window->last_use = ++uses_;
  return window->memory.view().rows(0, flat.size());
}

ConstView AdaptedWeights::weights(std::int64_t begin, std::int64_t elements) {
  const int unit = unit_at(begin);
  if (places_of(unit).empty()) return base_.kept(begin, elements);
  const std::int64_t at = begin - base_.layout().units()[static_cast<std::size_t>(unit)].flat.begin;
  return window_of(unit).rows(at, at + elements);
}

GradientTarget AdaptedWeights::target(GradientTarget trained) {
  GradientTarget target;
  target.overwrite = true;
  target.locate = [this](std::int64_t begin) {
    const FlatRange flat = base_.layout().units()[static_cast<std::size_t>(unit_at(begin))].flat;
    return gradient_.span<float>().data() + (begin - flat.begin);
  };
  target.wanted = [this](std::int64_t begin) { return is_adapted(begin); };
  target.ready = [this, inner = std::move(trained)](std::int64_t begin, std::int64_t end) {
    auto place = std::ranges::lower_bound(places_, begin, {}, &Place::begin);
    for (; place != places_.end() && place->begin + place->elements() <= end; ++place) {
      const std::int64_t at =
          place->begin - base_.layout().units()[static_cast<std::size_t>(unit_at(place->begin))].flat.begin;
      project(*place, gradient_.view().rows(at, at + place->elements()), inner);
    }
  };
  return target;
}

void AdaptedWeights::project(const Place& place, View gradient, const GradientTarget& trained) {
  if (!place.a) return project_scale(place, gradient, trained);
  if (place.factors) project_magnitude(place, gradient, trained);
  project_low_rank(place, gradient, trained);
}

void AdaptedWeights::project_low_rank(const Place& place, View gradient, const GradientTarget& trained) {
  const std::int64_t r = adapter_.rank;
  const float s = static_cast<float>(adapter_.factor()), beta = trained.overwrite ? 0.0F : 1.0F;
  GemmShape of_a;  // [r, in] = B^T [r, out] dW [out, in]
  of_a.m = r, of_a.n = place.in, of_a.k = place.out, of_a.transpose_a = true, of_a.alpha = s, of_a.beta = beta;
  gemm(context_, of_a, trained_.vector(place.b->begin, place.out * r), gradient,
       trained.matrix(place.a->begin, r, place.in));
  trained.say_ready(place.a->begin, place.a->end);
  GemmShape of_b;  // [out, r] = dW [out, in] A^T [in, r]
  of_b.m = place.out, of_b.n = r, of_b.k = place.in, of_b.transpose_b = true, of_b.alpha = s, of_b.beta = beta;
  gemm(context_, of_b, gradient, trained_.vector(place.a->begin, r * place.in),
       trained.matrix(place.b->begin, place.out, r));
  trained.say_ready(place.b->begin, place.b->end);
}

void AdaptedWeights::project_magnitude(const Place& place, View gradient, const GradientTarget& trained) {
  const std::span<const float> magnitudes = factors_of(place);
  const float* const sums = sum_of(place).span<float>().data();
  float* const gradients = gradient.span<float>().data();
  const std::span<float> out = trained.vector(place.factors->begin, place.out);
  for_rows(context_, place.out, place.in, [&](std::int64_t i) {
    const float* const sum = sums + i * place.in;
    float* const row = gradients + i * place.in;
    const float norm = norm_of(sum, place.in);
    const auto at = static_cast<std::size_t>(i);
    const auto own = static_cast<float>(dot(row, sum, place.in) / norm);
    out[at] = trained.overwrite ? own : out[at] + own;
    const float factor = magnitudes[at] / norm;
    for (std::int64_t j = 0; j < place.in; ++j) row[j] *= factor;
  });
  trained.say_ready(place.factors->begin, place.factors->end);
}

void AdaptedWeights::project_scale(const Place& place, View gradient, const GradientTarget& trained) {
  const float* const weights = sum_of(place).span<float>().data();
  const float* const gradients = gradient.span<float>().data();
  const std::int64_t count = place.of.of_columns ? place.in : place.out;
  const std::span<float> out = trained.vector(place.factors->begin, count);
  const auto take = [&](std::int64_t i, double sum) {
    const auto at = static_cast<std::size_t>(i);
    out[at] = static_cast<float>(trained.overwrite ? sum : out[at] + sum);
  };
  if (place.of.of_columns) {
    for_rows(context_, place.in, place.out, [&](std::int64_t j) {
      double sum = 0;
      for (std::int64_t i = 0; i < place.out; ++i)
        sum += static_cast<double>(gradients[i * place.in + j]) * weights[i * place.in + j];
      take(j, sum);
    });
  } else {
    for_rows(context_, place.out, place.in,
             [&](std::int64_t i) { take(i, dot(gradients + i * place.in, weights + i * place.in, place.in)); });
  }
  trained.say_ready(place.factors->begin, place.factors->end);
}

std::vector<std::pair<std::int64_t, std::int64_t>> AdaptedWeights::partial_gradients() const {
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
  if (base_.layout().place().dims.tp == 1) return ranges;
  for (const Place& place : places_)
    for (const FlatParameter* p : {place.a, place.b, place.factors})
      if (p && p->spec.tp_dim < 0) ranges.emplace_back(p->begin, p->end);
  return ranges;
}

}  // namespace longhaul
