#include "autotune/search/training_size.h"

#include <algorithm>
#include <cmath>

#include "base/error/diagnostics.h"
#include "base/text/text.h"

namespace longhaul {
namespace {

constexpr double seconds_of_a_day = 86'400, flops_of_token = 6;
constexpr double first_mfu = 0.4;  // where nothing is predicted yet; what comes out does not depend on it
constexpr int rounds_max = 12;
constexpr double settled = 0.01;  // of the rate, from one round to the next
constexpr double gpus_max = 1e6;

struct Unknown {
  bool parameters = false, tokens = false, days = false, gpus = false, rate = false;
  std::string text() const {
    std::vector<std::string> names;
    if (parameters) names.emplace_back("parameters");
    if (tokens) names.emplace_back("tokens");
    if (days) names.emplace_back("days");
    if (gpus) names.emplace_back("gpus");
    if (rate) names.emplace_back("tflops");
    return join(names, " and ");
  }
};

bool rate_is_given(const SizeRequest& q) {
  return q.given.tflops > 0 || q.mfu > 0;
}

double peak_of(const SizeRequest& q) {
  if (!q.where) return 0;
  const auto precision = q.where->space.precision.empty() ? Precision::bf16 : q.where->space.precision.front();
  return q.where->place.cluster.gpu.peak(precision) / 1e12;
}

void check_size_numbers(const SizeRequest& q, Diagnostics& problems) {
  const hyper::TrainingBudget& g = q.given;
  const auto check = [&](const char* name, double value) {
    if (!(value >= 0) || !std::isfinite(value)) problems.add({}, format("{} = {:g} is not positive", name, value), "");
  };
  check("parameters", g.parameters), check("tokens", g.tokens), check("days", g.days), check("gpus", g.gpus);
  check("tflops", g.tflops), check("mfu", q.mfu), check("tokens_per_parameter", g.tokens_per_parameter);
  if (g.gpus != std::floor(g.gpus)) problems.add({}, format("gpus = {:g} is no whole number", g.gpus), "");
  if (g.gpus > gpus_max) problems.add({}, format("gpus = {:g} are more than {:g}", g.gpus, gpus_max), "");
  if (q.mfu > 1) problems.add({}, format("mfu = {:g} is more than the peak", q.mfu), "0.4 is 40 % of it");
  if (q.mfu > 0 && g.tflops > 0) problems.add({}, "mfu and tflops both say the rate", "leave one of them out");
  if (q.mfu > 0 && !q.where)
    problems.add({}, "mfu is a share of a GPU's peak, and no GPU is known",
                 "name a site with GPUs or a gpu, or give tflops");
  if (g.parameters > 0 && g.tokens > 0 && g.tokens_per_parameter > 0)
    problems.add({}, "parameters, tokens and tokens_per_parameter are one too many", "leave one of the three out");
  if (q.batch_tokens < 1) problems.add({}, format("batch_tokens = {} is no batch", q.batch_tokens), "");
}

// What is to be found out. Wrong questions go to the diagnostics.
Unknown unknown_of(const SizeRequest& q, Diagnostics& problems) {
  const hyper::TrainingBudget& g = q.given;
  const bool ratio = g.tokens_per_parameter > 0;
  Unknown u;
  u.parameters = g.parameters == 0 && !(ratio && g.tokens > 0);
  u.tokens = g.tokens == 0 && !(ratio && g.parameters > 0);
  u.days = g.days == 0, u.gpus = g.gpus == 0;
  const bool both = u.parameters && u.tokens;  // a law or a ratio divides the computation between them
  const int open = (both ? 1 : (u.parameters ? 1 : 0) + (u.tokens ? 1 : 0)) + (u.days ? 1 : 0) + (u.gpus ? 1 : 0);
  if (open == 0 && rate_is_given(q))
    problems.add({}, "everything is given, there is nothing to find out",
                 "leave out one of parameters, tokens, days, gpus, and tflops or mfu");
  if (open == 0) u.rate = !rate_is_given(q);
  if (open > 1)
    problems.add({}, u.text() + " are open, and only one of them can be found out",
                 "give more; parameters and tokens together count as one");
  if (open == 1 && !rate_is_given(q) && !q.where)
    problems.add({}, "no rate is given and no GPU is known to predict one for",
                 "name a site with GPUs or a gpu, or give tflops");
  return u;
}

// At this rate; gpus as needed, not whole.
Result<hyper::TrainingBudget> solved(const SizeRequest& q, const Unknown& u, double tflops) {
  hyper::TrainingBudget b = q.given;
  b.flops_per_parameter_token = flops_of_token;
  if (!u.rate) b.tflops = tflops;
  if (!u.parameters || !u.tokens || b.tokens_per_parameter > 0) return hyper::solve_budget(b);
  const hyper::ComputeOptimal best = hyper::compute_optimal(b.days * seconds_of_a_day * b.gpus * tflops * 1e12);
  b.parameters = best.parameters, b.tokens = best.tokens;
  return b;
}

// The shape for a budget, and the best layout of it with the rate that it runs at.
struct Trained {
  hyper::ShapeFound shape;
  TrainingTask task;
  double gpus = 0;
  std::optional<RankedLayout> layout;
  double tflops = 0;
};

Result<Trained> shaped(const SizeRequest& q, const hyper::TrainingBudget& b, double gpus) {
  Trained t;
  hyper::ShapeWish wish = q.wish;
  wish.parameters = b.parameters;
  if (q.shape) {
    t.shape = {*q.shape, 0, 1};
  } else {
    LH_TRY(t.shape, hyper::shape_for_parameters(wish));
  }
  t.gpus = gpus;
  t.task.shape = t.shape.shape, t.task.sequence_length = wish.sequence_length;
  t.task.global_batch_size = batch_for(q.batch_tokens, wish.sequence_length, static_cast<std::int64_t>(gpus));
  return t;
}

Status add_layout(const SizeRequest& q, Trained& t) {
  SearchRequest search = *q.where;
  search.task = t.task, search.space.gpus = static_cast<int>(t.gpus), search.best = 1;
  auto found = search_layouts(search);
  if (!found.ok())
    return found.error().with_context(format("{} parameters on {:.0f} GPUs",
                                             human_count(static_cast<double>(t.task.shape.parameter_count())), t.gpus));
  t.layout = found->best.front();
  const double tokens = static_cast<double>(t.task.global_batch_size * t.task.sequence_length);
  t.tflops = tokens / t.layout->seconds() * flops_of_token * counted_parameters(t.task.shape) / t.gpus / 1e12;
  return {};
}

double whole_gpus(const SizeRequest& q, const Unknown& u, const hyper::TrainingBudget& b) {
  if (!u.gpus) return b.gpus;
  return static_cast<double>(usual_nodes(b.gpus / q.gpus_per_node) * q.gpus_per_node);
}

// Rate, size and GPUs that go together: each round takes the rate that was predicted for the shape of the round before.
Result<Trained> settle(const SizeRequest& q, const Unknown& u, std::vector<std::string>& notes) {
  double tflops = first_mfu * peak_of(q), most_gpus = 0;
  Trained t;
  for (int round = 0; round < rounds_max; ++round) {
    LH_TRY(const hyper::TrainingBudget b, solved(q, u, tflops));
    double gpus = whole_gpus(q, u, b);
    if (gpus > gpus_max)
      return make_error(ErrorCode::invalid_input,
                        format("{:.3g} GPUs would be needed at {:.0f} TFLOP/s each", b.gpus, tflops),
                        "give more days, or fewer parameters or tokens");
    if (u.gpus && round >= rounds_max / 2) gpus = std::max(gpus, most_gpus);  // between two numbers: the larger
    most_gpus = std::max(most_gpus, gpus);
    LH_TRY(t, shaped(q, b, gpus));
    LH_CHECK(add_layout(q, t));
    if (std::fabs(t.tflops / tflops - 1) < settled) return t;
    tflops = t.tflops;
  }
  notes.push_back(format("the rate still moved after {} rounds: sizes are good to a few per cent", rounds_max));
  return t;
}

// The narrower model to tune instead, and what its settings become for the model itself.
Status add_proxy(const SizeRequest& q, SizeAnswer& a) {
  if (q.proxy_width == 0) return {};
  SizeProxy& proxy = a.proxy.emplace();
  LH_TRY(proxy.shape, hyper::proxy_shape(a.task.shape, q.proxy_width));
  OptimizerSettings tuned;
  tuned.lr = tuned.weight_decay = 1;
  LH_TRY(hyper::EngineTransfer moved, hyper::transfer_to_engine(proxy.shape, tuned, a.task.shape));
  proxy.lr_factor = moved.optimizer.lr;
  proxy.weight_decay_factor = moved.optimizer.weight_decay;
  proxy.initializer_factor = moved.target.initializer_range / proxy.shape.initializer_range;
  proxy.approximations = std::move(moved.approximations);
  return {};
}

Status finish_answer(const SizeRequest& q, const Unknown& u, const Trained& t, double tflops, SizeAnswer& a) {
  LH_TRY(const hyper::TrainingBudget b, solved(q, u, tflops));
  a.found = u.text();
  a.shape = t.shape, a.task = t.task, a.layout = t.layout, a.forecast_tflops = t.tflops;
  hyper::TrainingBudget& made = a.budget;
  made = b, made.gpus = t.gpus, made.parameters = counted_parameters(t.task.shape);
  const double rate = made.days * seconds_of_a_day * made.gpus * made.tflops * 1e12;
  // What was open takes up that the shape has not exactly the parameters, and that GPUs are whole.
  if (u.rate)
    made.tflops = made.flops() / (made.days * seconds_of_a_day * made.gpus * 1e12);
  else if (u.tokens)
    made.tokens = rate / (flops_of_token * made.parameters);
  else
    made.days = made.flops() / (made.gpus * made.tflops * 1e12 * seconds_of_a_day);
  a.steps = static_cast<std::int64_t>(
      std::ceil(made.tokens / static_cast<double>(a.task.global_batch_size * a.task.sequence_length)));
  a.loss = hyper::chinchilla_corrected.loss(made.parameters, made.tokens);
  a.least_loss = hyper::compute_optimal(made.flops());
  return add_proxy(q, a);
}

void add_size_notes(const SizeRequest& q, const Unknown& u, SizeAnswer& a) {
  if (std::fabs(a.shape.deviation) > 0.02)
    a.notes.push_back(format("no shape has that many parameters: the nearest has {:+.1f} %", 100 * a.shape.deviation));
  if (u.gpus && a.budget.gpus > 0)
    a.notes.push_back(format("GPUs are those of {:.0f} whole nodes, a number that models can be split by",
                             a.budget.gpus / q.gpus_per_node));
  if (a.rate != RateSource::forecast && a.forecast_tflops > 0)
    a.notes.push_back(format("the forecast for this shape is {:.0f} TFLOP/s a GPU, {:.2f} times the rate {}",
                             a.forecast_tflops, a.forecast_tflops / a.budget.tflops,
                             a.rate == RateSource::given ? "given" : "needed"));
  if (a.task.shape.is_moe())
    a.notes.push_back(format("of {} parameters {} are on a token's way: these are counted",
                             human_count(static_cast<double>(a.task.shape.parameter_count())),
                             human_count(a.budget.parameters)));
  const double ratio = a.budget.tokens / a.budget.parameters;
  if (ratio < 5 && !q.shape)
    a.notes.push_back(format("{:.1f} tokens per parameter are few: a smaller model would be better", ratio));
  if (a.steps < 100)
    a.notes.push_back(format("{} steps are hardly a training: choose a smaller batch_tokens", a.steps));
}

}  // namespace

double counted_parameters(const ModelShape& shape) {
  return static_cast<double>(shape.is_moe() ? shape.active_parameter_count() : shape.parameter_count());
}

std::int64_t batch_for(std::int64_t batch_tokens, std::int64_t sequence_length, std::int64_t gpus) {
  const std::int64_t wanted = std::max<std::int64_t>(1, (batch_tokens + sequence_length / 2) / sequence_length);
  std::int64_t unit = std::max<std::int64_t>(1, gpus);
  while (unit % 2 == 0) unit /= 2;
  // As many of the powers of two as leave a choice of the batch.
  while (gpus % (2 * unit) == 0 && 8 * unit <= wanted) unit *= 2;
  return std::max<std::int64_t>(1, (wanted + unit / 2) / unit) * unit;
}

std::int64_t usual_nodes(double needed) {
  auto nodes = static_cast<std::int64_t>(std::ceil(std::max(1.0, needed) - 1e-9));
  std::int64_t unit = 1;
  while (nodes > 15 * unit) unit *= 2;
  return (nodes + unit - 1) / unit * unit;
}

Result<SizeAnswer> size_training(const SizeRequest& q) {
  Diagnostics problems;
  check_size_numbers(q, problems);
  const Unknown u = unknown_of(q, problems);
  LH_CHECK(problems.to_status("nothing was computed"));
  SizeAnswer a;
  a.peak_tflops = peak_of(q);
  if (q.where) a.source = source_of_constants(q.where->place.cluster.gpu);
  a.rate = u.rate ? RateSource::needed : rate_is_given(q) ? RateSource::given : RateSource::forecast;
  double tflops = q.mfu > 0 ? q.mfu * a.peak_tflops : q.given.tflops;
  Trained t;
  if (a.rate == RateSource::forecast) {
    LH_TRY(t, settle(q, u, a.notes));
    tflops = t.tflops;
  } else {
    LH_TRY(const hyper::TrainingBudget b, solved(q, u, tflops));
    const double gpus = whole_gpus(q, u, b);
    if (gpus > gpus_max)
      return make_error(ErrorCode::invalid_input, format("{:.3g} GPUs would be needed", b.gpus), "give more days");
    LH_TRY(t, shaped(q, b, gpus));
    if (q.where)  // the rate stands anyway; a layout is welcome
      if (const Status laid_out = add_layout(q, t); !laid_out.ok()) a.notes.push_back(laid_out.error().message());
  }
  LH_CHECK(finish_answer(q, u, t, tflops, a));
  add_size_notes(q, u, a);
  return a;
}

}  // namespace longhaul
