#include "engine/model/precision/low_precision_state.h"

#include <algorithm>
#include <cmath>

#include "base/text/text.h"

namespace longhaul {

namespace {

constexpr const char* matrix_names[] = {"q, k and v", "the attention's output", "the feed-forward's input",
                                        "the feed-forward's output"};
constexpr const char* operand_names[] = {"inputs", "weights", "gradients"};
constexpr std::size_t fields_of_sums = 5;

double share(double part, double of) {
  return of > 0 ? part / of : 0;
}

// Infinite where nothing was added; not a number where the operands were none.
double decibels(double noise_to_signal) {
  return -10 * std::log10(noise_to_signal);
}

// Of an operand that is all zeros, as gradients of unused heads are, none.
double noise_to_signal(const QuantizationSums& sums) {
  return sums.signal > 0 || !std::isfinite(sums.signal) ? sums.noise / sums.signal : 0;
}

}  // namespace

const char* to_string(LayerMatrix matrix) {
  return matrix_names[static_cast<int>(matrix)];
}

void LowPrecisionSeen::merge(const LowPrecisionSeen& other) {
  for (std::size_t i = 0; i < amax.size(); ++i)
    if (!(amax[i] >= other.amax[i])) amax[i] = other.amax[i];  // what is no number stays
  for (std::size_t i = 0; i < measured.size(); ++i) measured[i] += other.measured[i];
}

std::vector<double> LowPrecisionSeen::packed() const {
  std::vector<double> numbers(amax.begin(), amax.end());
  for (const QuantizationSums& s : measured)
    numbers.insert(numbers.end(), {s.signal, s.noise, s.values, s.flushed, s.saturated});
  return numbers;
}

LowPrecisionSeen LowPrecisionSeen::from_packed(std::span<const double> numbers, std::size_t layers, bool measures) {
  LowPrecisionSeen seen;
  const std::size_t of_amax = layers * layer_matrices * operands, uses = layers * layer_matrices * operand_uses;
  LH_ASSERT(numbers.size() == of_amax + (measures ? uses * fields_of_sums : 0), std::to_string(numbers.size()));
  for (std::size_t i = 0; i < of_amax; ++i) seen.amax.push_back(static_cast<float>(numbers[i]));
  for (std::size_t at = of_amax; at < numbers.size(); at += fields_of_sums)
    seen.measured.push_back({numbers[at], numbers[at + 1], numbers[at + 2], numbers[at + 3], numbers[at + 4]});
  return seen;
}

LowPrecisionState::LowPrecisionState(const LowPrecisionSettings& settings, int layers, DType dtype,
                                     std::int64_t rows_max, std::int64_t weights_max, MemoryAccount* account)
    : settings_(settings),
      recipe_(recipe_from(settings)),
      low_(static_cast<std::size_t>(layers)),
      history_(recipe_.scales == ScaleKind::history ? static_cast<std::size_t>(layers) * layer_matrices * operands : 0),
      first_(dtype, Shape{rows_max}, account),
      second_(dtype, Shape{std::max(rows_max, weights_max)}, account),
      device_(settings, static_cast<std::size_t>(layers) * layer_matrices * operands, account) {
  for (int layer = 0; layer < layers; ++layer)
    low_[static_cast<std::size_t>(layer)] = settings.check_every_steps == 0 && !is_kept(layer);
  (void)take_seen();
}

bool LowPrecisionState::is_kept(int layer) const {
  return layer < settings_.first_layers_bf16 || layer >= layers() - settings_.last_layers_bf16;
}

float LowPrecisionState::scale(int layer, LayerMatrix matrix, Operand operand) const {
  const NumberFormat format =
      recipe_.of(operand == Operand::gradient ? OperandUse::gradient_input : OperandUse::input_forward).format;
  return tensor_scale(format, history_[place(layer, matrix, operand)].largest(), recipe_.margin);
}

bool LowPrecisionState::has_scale(int layer, LayerMatrix matrix, Operand operand) const {
  return recipe_.scales != ScaleKind::history || !history_[place(layer, matrix, operand)].empty();
}

bool LowPrecisionState::has_scales() const {
  return history_.empty() || !history_.front().empty();
}

void LowPrecisionState::saw(int layer, LayerMatrix matrix, Operand operand, float amax) {
  if (evaluates) return;
  float& most = seen_.amax[place(layer, matrix, operand)];
  if (!(most >= amax)) most = amax;
}

QuantizationSums* LowPrecisionState::sums(int layer, LayerMatrix matrix, OperandUse use) {
  if (!measures() || evaluates) return nullptr;
  return &seen_.measured[place(layer, matrix) * operand_uses + static_cast<std::size_t>(use)];
}

// Whenever the history has changed: a model that is judged between steps has the scales that the host would take.
void LowPrecisionState::send_scales() {
  if (!context_ || !device_.multiplies() || !has_scales() || recipe_.scales != ScaleKind::history) return;
  std::vector<float> scales;
  for (int layer = 0; layer < layers(); ++layer)
    for (int matrix = 0; matrix < layer_matrices; ++matrix)
      for (int operand = 0; operand < operands; ++operand)
        scales.push_back(scale(layer, static_cast<LayerMatrix>(matrix), static_cast<Operand>(operand)));
  device_.send_scales(*context_, scales);
}

void LowPrecisionState::begin_step(std::int64_t step, const ComputeContext* context) {
  (void)take_seen();
  context_ = context;
  if (context) device_.open(*context);
  send_scales();
  const std::int64_t every = settings_.check_every_steps;
  const bool due = every > 0 && has_scales() && (judged_step_ == 0 || step % every == 0);
  if (due) seen_.measured.resize(low_.size() * layer_matrices * operand_uses);
}

LowPrecisionSeen LowPrecisionState::take_seen() {
  if (context_ && device_.multiplies() && recipe_.scales == ScaleKind::history)
    device_.fetch_amax(*context_, seen_.amax);
  LowPrecisionSeen seen = std::move(seen_);
  seen_ = {};
  seen_.amax.assign(low_.size() * layer_matrices * operands, 0.0F);
  return seen;
}

LayerVerdict LowPrecisionState::judge(int layer, const LowPrecisionSeen& all) const {
  LayerVerdict verdict;
  verdict.layer = layer, verdict.low = true, verdict.snr_db = INFINITY;
  const auto against = [&](std::string why) {
    verdict.low = false;
    if (verdict.reason.empty()) verdict.reason = std::move(why);
  };
  for (int m = 0; m < layer_matrices; ++m) {
    const QuantizationSums* uses = &all.measured[place(layer, static_cast<LayerMatrix>(m)) * operand_uses];
    for (int product = 0; product < operand_uses / 2; ++product) {
      const double snr = decibels(noise_to_signal(uses[2 * product]) + noise_to_signal(uses[2 * product + 1]));
      // What is no number is no reason for a layer: the step's loss shows it, and on_spike decides.
      if (snr < verdict.snr_db) verdict.snr_db = snr;
      if (snr < settings_.snr_min_db)
        against(format("{}, {}: signal over noise is {:.1f} dB, below snr_min_db = {:g}", matrix_names[m],
                       product_names[product], snr, settings_.snr_min_db));
    }
    for (int use = 0; use < operand_uses; ++use) {
      const double flushed = share(uses[use].flushed, uses[use].values);
      const double saturated = share(uses[use].saturated, uses[use].values);
      const char* operand = operand_names[static_cast<int>(operand_of(static_cast<OperandUse>(use)))];
      verdict.flushed = std::max(verdict.flushed, flushed), verdict.saturated = std::max(verdict.saturated, saturated);
      if (flushed > settings_.flushed_max)
        against(format("{}, {}: {:.2f} % become zero, above flushed_max = {:g}", matrix_names[m], operand,
                       100 * flushed, settings_.flushed_max));
      if (saturated > settings_.saturated_max)
        against(format("{}, {}: {:.2f} % lie above the range, above saturated_max = {:g}", matrix_names[m], operand,
                       100 * saturated, settings_.saturated_max));
    }
  }
  return verdict;
}

std::vector<LayerVerdict> LowPrecisionState::end_step(std::int64_t step, const LowPrecisionSeen& all) {
  for (std::size_t i = 0; i < history_.size(); ++i) history_[i].add(step, all.amax[i], recipe_.history);
  send_scales();
  std::vector<LayerVerdict> verdicts;
  if (all.measured.empty()) return verdicts;
  for (int layer = 0; layer < layers(); ++layer) {
    if (is_kept(layer)) continue;
    LayerVerdict verdict = judge(layer, all);
    verdict.changed = judged_step_ == 0 || verdict.low != uses_low(layer);
    low_[static_cast<std::size_t>(layer)] = verdict.low;
    verdicts.push_back(std::move(verdict));
  }
  judged_step_ = step;
  return verdicts;
}

Value LowPrecisionState::state() const {
  Value state = Value::make_table(), low = Value::make_array(), history = Value::make_array();
  state.set("recipe", settings_.recipe);
  state.set("judged_step", judged_step_);
  for (const bool layer : low_) low.push_back(layer);
  state.set("low", std::move(low));
  for (const AmaxHistory& one : history_) {  // pairs of step and magnitude
    Value pairs = Value::make_array();
    for (const AmaxHistory::Entry& entry : one.entries)
      pairs.push_back(entry.step), pairs.push_back(static_cast<double>(entry.amax));
    history.push_back(std::move(pairs));
  }
  if (!history_.empty()) state.set("history", std::move(history));
  return state;
}

Status LowPrecisionState::restore(const Value& state) {
  const auto corrupt = [](const char* what) {
    return make_error(ErrorCode::corrupt, format("the checkpoint's state of low precision: {} is damaged", what));
  };
  if (const std::string recipe = state.get_string("recipe"); recipe != settings_.recipe) {
    if (recipe.empty()) return corrupt("recipe");
    return {};  // another recipe begins anew, with its own measurements
  }
  const Value* low = state.find("low");
  if (!low || !low->is_array() || low->as_array().size() != low_.size()) return corrupt("low");
  std::vector<bool> layers;
  for (const Value& layer : low->as_array()) {
    if (layer.kind() != Value::Kind::boolean) return corrupt("low");
    layers.push_back(layer.as_bool() && !is_kept(static_cast<int>(layers.size())));
  }
  std::vector<AmaxHistory> restored(history_.size());
  const Value* history = state.find("history");
  if (!history_.empty() && (!history || !history->is_array() || history->as_array().size() != history_.size()))
    return corrupt("history");
  for (std::size_t i = 0; i < history_.size(); ++i) {
    const Value& one = history->as_array()[i];
    if (!one.is_array() || one.as_array().size() % 2 != 0) return corrupt("history");
    const ValueArray& pairs = one.as_array();
    for (std::size_t at = 0; at < pairs.size(); at += 2) {
      if (!pairs[at].is_number() || !pairs[at + 1].is_number()) return corrupt("history");
      restored[i].add(static_cast<std::int64_t>(pairs[at].as_number()), static_cast<float>(pairs[at + 1].as_number()),
                      recipe_.history);
    }
  }
  low_ = std::move(layers), history_ = std::move(restored);
  send_scales();
  judged_step_ = state.get_integer("judged_step");
  return {};
}

}  // namespace longhaul
