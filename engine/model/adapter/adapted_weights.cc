#include "engine/model/adapter/adapted_weights.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "engine/core/tensor/transfer.h"
#include "engine/model/adapter/prompt_encoder.h"
#include "engine/ops/linear/gemm.h"
#include "engine/ops/pointwise/elementwise.h"
#include "engine/ops/pointwise/matrix_lines.h"

namespace longhaul {

namespace {

using EncoderParameters = std::span<const FlatParameter* const>;

// Of the encoder that makes [tokens, hidden].
EncoderWeights encoder_of(const ParameterStore& trained, EncoderParameters own) {
  const std::vector<std::int64_t>& table = own[0]->spec.shape;
  EncoderWeights encoder{table[0], table[1], own[1]->spec.shape[0], {}};
  for (std::size_t i = 0; i < own.size(); ++i)
    encoder.values[i] = trained.vector(own[i]->begin, own[i]->end - own[i]->begin).span<float>();
  return encoder;
}

void project_encoded(const ComputeContext& context, const EncoderWeights& encoder, EncoderParameters own, View gradient,
                     const GradientTarget& trained, View workspace) {
  std::array<std::span<float>, 7> gradients;
  for (std::size_t i = 0; i < gradients.size(); ++i)
    gradients[i] = trained.vector(own[i]->begin, own[i]->end - own[i]->begin);
  encode_prompt_backward(context, encoder, gradient, gradients, trained.overwrite, workspace);
}

ConstView own_of(const ParameterStore& trained, const FlatParameter& p) {
  return trained.vector(p.begin, p.end - p.begin);
}

View gradient_of(const GradientTarget& trained, const FlatParameter& p) {
  return trained.matrix(p.begin, p.box.extent[0], p.box.extent[1]);
}

// sum [out, in] + s B A.
void add_low_rank(const ComputeContext& context, const AdaptedPlace& place, const ParameterStore& trained, View sum) {
  GemmShape product;
  product.m = place.out, product.n = place.in, product.k = place.of.rank;
  product.alpha = static_cast<float>(place.of.factor), product.beta = 1;
  gemm(context, product, own_of(trained, *place.b), own_of(trained, *place.a), sum);
}

// Rows of a table of tokens from `first` on, [rows, in], + those of s (B A)^T; A is [r, out].
void add_to_table(const ComputeContext& context, const AdaptedPlace& place, const ParameterStore& trained,
                  std::int64_t first, View rows) {
  const ConstView a = own_of(trained, *place.a);
  GemmShape product;
  product.m = rows.shape()[0], product.n = place.in, product.k = place.of.rank;
  product.alpha = static_cast<float>(place.of.factor), product.beta = 1;
  product.transpose_a = product.transpose_b = true, product.row_stride_a = place.out;
  gemm(context, product, a.rows(first, a.size()), own_of(trained, *place.b), rows);
}

// dA = s B^T dW [r, in], dB = s dW A^T [out, r]; of a table dA = s B^T dW^T [r, out], dB = s dW^T A^T [in, r].
void project_low_rank(const ComputeContext& context, const AdaptedPlace& place, const ParameterStore& store,
                      ConstView gradient, const GradientTarget& trained) {
  const bool table = place.of.is_table;
  GemmShape of_a, of_b;
  of_a.m = place.of.rank, of_a.n = table ? place.out : place.in, of_a.k = table ? place.in : place.out;
  of_b.m = of_a.k, of_b.n = place.of.rank, of_b.k = of_a.n;
  of_a.alpha = of_b.alpha = static_cast<float>(place.of.factor);
  of_a.beta = of_b.beta = trained.overwrite ? 0.0F : 1.0F;
  of_a.transpose_a = of_b.transpose_b = true, of_a.transpose_b = of_b.transpose_a = table;
  gemm(context, of_a, own_of(store, *place.b), gradient, gradient_of(trained, *place.a));
  gemm(context, of_b, gradient, own_of(store, *place.a), gradient_of(trained, *place.b));
}

// What is trained itself has the gradient of what it takes the place of.
void project_saved(const ComputeContext& context, const AdaptedPlace& place, View gradient,
                   const GradientTarget& trained) {
  const View out = trained.matrix(place.saved->begin, place.out, place.in);
  if (trained.overwrite)
    cast(context, gradient, out);
  else
    add(context, out, gradient, out);
}

}  // namespace

AdaptedWeights::AdaptedWeights(const ComputeContext& context, ParameterStore& base, ParameterStore& trained,
                               MemoryAccounts* memory, Mesh* mesh)
    : context_(context), base_(base), trained_(trained), mesh_(mesh), adapter_(trained.shape().adapter) {
  const auto matrices = adapted_matrices(trained.shape());
  LH_ASSERT(matrices.ok() && trained.compute_dtype() == DType::f32, "an adapter that was not checked");
  const ParameterNames own(trained.layout()), model(base.layout());
  for (const AdaptedMatrix& m : *matrices)
    if (const FlatRange here = range_of(m, model); here.size() > 0) {
      const std::vector<std::int64_t>& extent = model.find_if_held(m.first)->box.extent;
      const std::int64_t in = extent.size() > 1 ? extent[1] : 1;
      Place& place = places_.emplace_back();
      place.of = m, place.begin = here.begin, place.out = here.size() / in, place.in = in;
      place.number = &m - matrices->data();
      place.a = own.find_if_held(m.a), place.b = own.find_if_held(m.b), place.factors = own.find_if_held(m.factors);
      if (m.is_saved) place.saved = own.find_if_held(m.matrix.name);
      for (const ParameterSpec& spec : m.own)
        if (m.is_encoded) place.encoder.push_back(own.find_if_held(spec.name));
    }
  std::ranges::sort(places_, {}, &Place::begin);
  for (const ShardUnit& unit : base.layout().units()) {
    const auto first = std::ranges::lower_bound(places_, unit.flat.begin, {}, &Place::begin);
    first_place_.push_back(static_cast<std::size_t>(first - places_.begin()));
  }
  first_place_.push_back(places_.size());
  const AdapterSpace space = adapter_space(base.layout(), *matrices, adapter_);
  MemoryAccount* const weights = account_of(memory, MemoryCategory::gathered_weights);
  windows_ =
      AdapterWindows(base.layout(), space, base.compute_dtype(), [this](int unit) { return is_made(unit); }, weights);
  scratch_ = Tensor(DType::f32, Shape{space.matrix}, weights);
  gradient_ = Tensor(DType::f32, Shape{space.gradients}, account_of(memory, MemoryCategory::gradients));
  dropout_ = {adapter_.dropout, space.dropped, space.rank, space.factors};
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

std::span<const AdaptedWeights::Place> AdaptedWeights::places_in(std::int64_t begin, std::int64_t end) const {
  const auto first = std::ranges::lower_bound(places_, begin, {}, &Place::begin);
  return {first, std::ranges::lower_bound(first, places_.end(), end, {}, &Place::begin)};
}

std::span<const AdaptedWeights::Place> AdaptedWeights::places_of(int unit) const {
  const auto at = static_cast<std::size_t>(unit);
  return std::span(places_).subspan(first_place_[at], first_place_[at + 1] - first_place_[at]);
}

bool AdaptedWeights::is_made(int unit) const {
  return !places_of(unit).empty() || base_.has_codes_in(base_.layout().units()[static_cast<std::size_t>(unit)].flat);
}

std::span<const float> AdaptedWeights::factors_of(const Place& place) const {
  return trained_.vector(place.factors->begin, place.factors->end - place.factors->begin).span<float>();
}

void AdaptedWeights::connect(Mesh& mesh, bool overlap, std::function<void()> before_large) {
  status_ = {};
  base_.connect(mesh, overlap, std::move(before_large));
}

void AdaptedWeights::initialize(std::uint64_t seed) {
  initialize_parameters(context_, trained_, seed);
  if (adapter_.kind != "dora" && std::ranges::none_of(places_, [](const Place& place) { return place.saved; })) return;
  const bool connects = !base_.is_connected();  // for this alone
  if (connects) base_.connect(*mesh_, false), trained_.connect(*mesh_, false);
  begin_as_base();
  if (connects) base_.disconnect(), trained_.disconnect();
}

void AdaptedWeights::begin_as_base() {
  std::vector<float> values;
  for (const Place& place : places_) {
    if (place.saved) {
      const View widened(gradient_at(place.begin), Shape{place.elements()});  // before there are gradients
      base_.widen(context_, {place.begin, place.begin + place.elements()}, widened);
      values.resize(static_cast<std::size_t>(place.elements()));
      copy_out(context_, widened, View(values));
      trained_.put(context_, *place.saved, values);
    }
    if (adapter_.kind != "dora" || place.saved) continue;
    values.resize(static_cast<std::size_t>(place.out));
    copy_out(context_, squares_of(place, sum_of(place)), View(values));  // B is 0: W
    for (float& value : values) value = std::sqrt(value);
    trained_.put(context_, *place.factors, values);
  }
}

std::span<float> AdaptedWeights::numbers_of_rows(const Place& place, int which) {
  const std::int64_t begin = place.elements() + which * place.out;
  return scratch_.view().rows(begin, begin + place.out).span<float>();
}

std::span<const float> AdaptedWeights::squares_of(const Place& place, ConstView sum) {
  const std::span<float> squares = numbers_of_rows(place, 0);
  dots_of_lines(context_, MatrixLine::row, sum, sum, false, squares);
  if (place.of.matrix.tp_dim == 1 && mesh_ && status_.ok())
    status_ = (place.of.matrix.expert < 0 ? mesh_->tensor() : mesh_->expert_tensor()).sum_along_tree(squares);
  return squares;
}

View AdaptedWeights::sum_of(const Place& place) {
  const View values = scratch_.view().rows(0, place.elements());
  base_.widen(context_, {place.begin, place.begin + place.elements()}, values);
  const View sum = values.reshaped(Shape{place.out, place.in});
  if (place.a) add_low_rank(context_, place, trained_, sum);
  return sum;
}

std::span<const float> AdaptedWeights::lengths_over_norms(const Place& place, std::span<const float> squares) {
  const std::span<float> factors = numbers_of_rows(place, 1);
  divide_by_roots(context_, factors_of(place), squares, false, factors);
  return factors;
}

namespace {

// Whose factors ia3 trains.
MatrixLine lines_of(const AdaptedPlace& place) {
  return place.of.of_columns ? MatrixLine::column : MatrixLine::row;
}

}  // namespace

void AdaptedWeights::make(const Place& place, View out) {
  if (place.saved) return cast(context_, trained_.vector(place.saved->begin, place.elements()), out);
  if (place.of.is_table) return make_table(place, out);
  if (!place.encoder.empty())
    return cast(context_,
                encode_prompt(context_, encoder_of(trained_, place.encoder), scratch_.view()).reshaped(out.shape()),
                out);
  const View sum = sum_of(place);
  if (place.factors && place.a)
    scale_lines(context_, MatrixLine::row, lengths_over_norms(place, squares_of(place, sum)), sum);
  else if (place.factors)
    scale_lines(context_, lines_of(place), factors_of(place), sum);
  cast(context_, sum.reshaped(Shape{place.elements()}), out);
}

void AdaptedWeights::make_table(const Place& place, View out) {
  for (std::int64_t first = 0; first < place.out; first += table_rows_at_once) {
    const std::int64_t rows = std::min(table_rows_at_once, place.out - first);
    const FlatRange here{first * place.in, (first + rows) * place.in};
    const View values = scratch_.view().rows(0, here.size());
    base_.widen(context_, {place.begin + here.begin, place.begin + here.end}, values);
    add_to_table(context_, place, trained_, first, values.reshaped(Shape{rows, place.in}));
    cast(context_, values, out.rows(here.begin, here.end));
  }
}

ConstView AdaptedWeights::window_of(int unit) {
  const FlatRange flat = base_.layout().units()[static_cast<std::size_t>(unit)].flat;
  const std::int64_t version = base_.version() + trained_.version();
  AdapterWindows::Window& window = windows_.take(unit);
  if (window.unit != unit || window.version != version) {
    const View out = window.memory.view().rows(0, flat.size());
    std::int64_t from = flat.begin;  // what lies between two matrices that are adapted is as it is kept
    for (const Place& place : places_of(unit)) {
      const std::int64_t at = place.begin - flat.begin;
      if (place.begin > from) base_.widen(context_, {from, place.begin}, out.rows(from - flat.begin, at));
      make(place, out.rows(at, at + place.elements()));
      from = place.begin + place.elements();
    }
    if (flat.end > from) base_.widen(context_, {from, flat.end}, out.rows(from - flat.begin, flat.size()));
    window.unit = unit, window.version = version;
  }
  return window.memory.view().rows(0, flat.size());
}

ConstView AdaptedWeights::weights(std::int64_t begin, std::int64_t elements) {
  const int unit = unit_at(begin);
  if (!is_made(unit)) return base_.kept(begin, elements);
  const std::int64_t at = begin - base_.layout().units()[static_cast<std::size_t>(unit)].flat.begin;
  return window_of(unit).rows(at, at + elements);
}

std::vector<LowRankMatrix> AdaptedWeights::dropping(std::int64_t begin, std::int64_t end) {
  std::vector<LowRankMatrix> dropping;
  if (dropout_.rate == 0) return dropping;
  for (const Place& place : places_in(begin, end)) {
    if (!place.a || place.of.is_table) continue;
    const std::int64_t whole_in = place.of.matrix.shape[1];
    const std::int64_t first_column = place.in < whole_in ? base_.layout().place().at.tp * place.in : 0;
    dropping.push_back({place.number, place.begin, place.out, place.in, first_column, whole_in, place.of.rank,
                        static_cast<float>(place.of.factor), own_of(trained_, *place.a), own_of(trained_, *place.b)});
  }
  return dropping;
}

float* AdaptedWeights::gradient_at(std::int64_t begin) {
  const FlatRange flat = base_.layout().units()[static_cast<std::size_t>(unit_at(begin))].flat;
  return gradient_.span<float>().data() + (begin - flat.begin);
}

GradientTarget AdaptedWeights::target(GradientTarget trained) {
  GradientTarget target;
  target.overwrite = true;
  target.locate = [this](std::int64_t begin) { return gradient_at(begin); };
  target.wanted = [this](std::int64_t begin, std::int64_t end) { return !places_in(begin, end).empty(); };
  const auto inner = std::make_shared<const GradientTarget>(std::move(trained));
  if (inner->locate_batch) {
    target.locate_batch = [this](std::int64_t begin, int) { return gradient_at(begin); };
    target.batch_ready = [this, inner](std::int64_t begin, std::int64_t end, int batch) {
      GradientTarget of_batch;
      of_batch.overwrite = inner->overwrite;
      of_batch.locate = [&inner, batch](std::int64_t at) { return inner->locate_batch(at, batch); };
      project_all(begin, end, of_batch);
    };
  }
  target.ready = [this, inner](std::int64_t begin, std::int64_t end) {
    const std::span<const Place> places = places_in(begin, end);
    const bool by_batch = inner->locate_batch && !places.empty() && places.front().of.matrix.expert >= 0;
    if (!by_batch) project_all(begin, end, *inner);
    for (const Place& place : places)
      for (const FlatParameter* p : place.own()) inner->say_ready(p->begin, p->end);
  };
  return target;
}

void AdaptedWeights::project_all(std::int64_t begin, std::int64_t end, const GradientTarget& trained) {
  for (const Place& place : places_in(begin, end))
    project(place, View(gradient_at(place.begin), Shape{place.out, place.in}), trained);
}

void AdaptedWeights::project(const Place& place, View gradient, const GradientTarget& trained) {
  if (place.saved) return project_saved(context_, place, gradient, trained);
  if (!place.encoder.empty())
    return project_encoded(context_, encoder_of(trained_, place.encoder), place.encoder, gradient, trained,
                           scratch_.view());
  if (!place.a) return project_scale(place, gradient, trained);
  if (place.factors) project_magnitude(place, gradient, trained);
  project_low_rank(context_, place, trained_, gradient, trained);
}

void AdaptedWeights::project_magnitude(const Place& place, View gradient, const GradientTarget& trained) {
  const View sum = sum_of(place);
  const std::span<const float> squares = squares_of(place, sum);
  const std::span<float> dots = numbers_of_rows(place, 1);
  dots_of_lines(context_, MatrixLine::row, gradient, sum, false, dots);
  divide_by_roots(context_, dots, squares, !trained.overwrite, trained.vector(place.factors->begin, place.out));
  scale_lines(context_, MatrixLine::row, lengths_over_norms(place, squares), gradient);
}

void AdaptedWeights::project_scale(const Place& place, View gradient, const GradientTarget& trained) {
  dots_of_lines(context_, lines_of(place), gradient, sum_of(place), !trained.overwrite,
                trained.vector(place.factors->begin, place.of.of_columns ? place.in : place.out));
}

std::vector<std::pair<std::int64_t, std::int64_t>> AdaptedWeights::partial_gradients(bool of_experts) const {
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
  const ParallelDims& dims = base_.layout().place().dims;
  for (const Place& place : places_)
    for (const FlatParameter* p : place.own())
      if (has_addends(p->spec, dims) && (p->spec.expert >= 0) == of_experts) ranges.emplace_back(p->begin, p->end);
  return ranges;
}

}  // namespace longhaul
