#include "orchestrator/render/plan/size_text.h"

#include "base/text/text.h"
#include "orchestrator/render/draw/text_table.h"
#include "orchestrator/render/report/tuning_svg.h"

namespace longhaul {
namespace {

constexpr const char* law_text =
    "Hoffmann et al. 2022, equation 10, with the constants of Besiroglu et al. 2024; of their corpus, not of yours";

const char* rate_name(RateSource source) {
  switch (source) {
    case RateSource::given: return "given";
    case RateSource::forecast: return "forecast";
    case RateSource::needed: return "needed";
  }
  return "";
}

std::string rate_text(const SizeAnswer& a) {
  std::string text = format("{:.0f} TFLOP/s a GPU", a.budget.tflops);
  if (a.mfu() > 0) text += format(", {:.0f} % of the peak", 100 * a.mfu());
  text += std::string(", ") + rate_name(a.rate);
  if (a.rate == RateSource::forecast && a.layout)
    text +=
        format(" (95 % of cases within a factor {:.2f}; {})", 1 + 1.96 * a.layout->time.sigma, sentence_of(a.source));
  return text;
}

std::string shape_text(const ModelShape& s) {
  return format("{} layers of width {}, feed-forward {}, {} heads of {} ({} for keys and values), vocabulary {}{}",
                s.num_hidden_layers, s.hidden_size, s.intermediate_size, s.num_attention_heads, s.head_dim,
                s.num_key_value_heads, s.vocab_size, s.tie_word_embeddings ? ", embedding tied" : "");
}

}  // namespace

std::string size_text(const SizeAnswer& a, const std::string& device, const std::vector<std::string>& notes) {
  const hyper::TrainingBudget& b = a.budget;
  std::vector<std::vector<std::string>> rows = {
      {"model", human_count(b.parameters) + " parameters: " + shape_text(a.task.shape)},
      {"tokens", format("{}, {:.1f} per parameter; {} steps of {} x {}", human_count(b.tokens), b.tokens / b.parameters,
                        a.steps, a.task.global_batch_size, a.task.sequence_length)},
      {"time", format("{:.1f} days without a pause on {:.0f} GPUs{}: {:.0f} GPU-hours", b.days, b.gpus,
                      device.empty() ? "" : " (" + device + ")", b.gpu_hours())},
      {"rate", rate_text(a)},
      {"computation", format("{:.3g} FLOP", b.flops())},
      {"loss", format("{:.3f} nats a token ({})", a.loss, law_text)},
      {"least loss", format("{:.3f} with {} parameters on {} tokens, for as much computation", a.least_loss.loss,
                            human_count(a.least_loss.parameters), human_count(a.least_loss.tokens))}};
  if (a.layout)
    rows.push_back({"layout", format("{}: {} a step, {} a GPU", layout_text(a.layout->layout),
                                     step_seconds_text(a.layout->seconds()), human_bytes(a.layout->memory.total()))});
  if (a.proxy)
    rows.push_back(
        {"proxy", format("{} parameters: {}; what is tuned on it is moved by lr x {:.3g}, weight_decay x "
                         "{:.3g}, initializer_range x {:.3g}",
                         human_count(static_cast<double>(a.proxy->shape.parameter_count())), shape_text(a.proxy->shape),
                         a.proxy->lr_factor, a.proxy->weight_decay_factor, a.proxy->initializer_factor)});
  std::string text = format("found: {}\n\n", a.found) + text_table(rows);
  if (a.proxy)
    for (const std::string& approximation : a.proxy->approximations) text += "of the proxy: " + approximation + "\n";
  for (const std::string& note : a.notes) text += note + "\n";
  for (const std::string& note : notes) text += note + "\n";
  return text;
}

Value size_value(const SizeAnswer& a, const std::string& device, const std::vector<std::string>& notes,
                 const std::string& toml) {
  const hyper::TrainingBudget& b = a.budget;
  Value value = Value::make_table();
  value.set("found", a.found);
  value.set("parameters", b.parameters), value.set("tokens", b.tokens), value.set("days", b.days);
  value.set("gpus", b.gpus), value.set("tflops", b.tflops), value.set("gpu_hours", b.gpu_hours());
  value.set("flops", b.flops());
  value.set("rate_is", rate_name(a.rate));
  if (a.mfu() > 0) value.set("mfu", a.mfu());
  if (a.forecast_tflops > 0) value.set("forecast_tflops", a.forecast_tflops);
  if (!device.empty()) value.set("device", device);
  value.set("steps", static_cast<long long>(a.steps));
  value.set("global_batch_size", static_cast<long long>(a.task.global_batch_size));
  value.set("sequence_length", static_cast<long long>(a.task.sequence_length));
  value.set("model", model_shape_fields().to_value(a.task.shape));
  value.set("loss", a.loss), value.set("loss_by", law_text);
  Value& least = value.set("least_loss", Value::make_table());
  least.set("loss", a.least_loss.loss), least.set("parameters", a.least_loss.parameters);
  least.set("tokens", a.least_loss.tokens);
  if (a.layout) {
    Value& layout = value.set("layout", Value::make_table());
    layout.set("text", layout_text(a.layout->layout));
    const double seconds = a.layout->seconds(), spread = 1 + 1.96 * a.layout->time.sigma;
    layout.set("step_seconds", seconds), layout.set("sigma", a.layout->time.sigma);
    layout.set("step_seconds_low", seconds / spread), layout.set("step_seconds_high", seconds * spread);
    layout.set("from", to_string(a.source));
    layout.set("memory_bytes", a.layout->memory.total());
  }
  if (a.proxy) {
    Value& proxy = value.set("proxy", Value::make_table());
    proxy.set("model", model_shape_fields().to_value(a.proxy->shape));
    proxy.set("lr_factor", a.proxy->lr_factor), proxy.set("weight_decay_factor", a.proxy->weight_decay_factor);
    proxy.set("initializer_factor", a.proxy->initializer_factor);
    Value& said = proxy.set("approximations", Value::make_array());
    for (const std::string& approximation : a.proxy->approximations) said.push_back(approximation);
  }
  Value& list = value.set("notes", Value::make_array());
  for (const std::string& note : a.notes) list.push_back(note);
  for (const std::string& note : notes) list.push_back(note);
  value.set("toml", toml);
  return value;
}

}  // namespace longhaul
