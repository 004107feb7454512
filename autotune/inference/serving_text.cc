// What serving_plan.h prints.
#include <algorithm>
#include <cmath>

#include "autotune/inference/serving_plan.h"
#include "base/text/text.h"

namespace longhaul {
namespace {

std::string serving_row(const ServingTask& task, const ServingCandidate& c) {
  const ServingLayout& l = c.layout;
  return format("{:>3} {:>8} {:>7} {:>6} {:>6} {:>6} {:>12.0f} {:>12.0f} {:>8.2f} {:>9.1f} {:>9.2f}\n", l.tp,
                l.replicas, to_string(l.weights), to_string(l.cache), l.slots, l.chunk, c.token_rate, c.gpu_token_rate,
                c.rates.itl * 1e3, c.rates.ttft * 1e3, c.rates.latency(task.answer_tokens));
}

std::string serving_heading() {
  return format("{:>3} {:>8} {:>7} {:>6} {:>6} {:>6} {:>12} {:>12} {:>8} {:>9} {:>9}\n", "tp", "replicas", "weights",
                "cache", "slots", "chunk", "tokens/s", "of a GPU", "ITL ms", "TTFT ms", "answer s");
}

std::string serving_memory_text(const ServingMemory& m) {
  const auto gb = [](double bytes) { return format("{:.2f}", bytes / 1e9); };
  return format(
      "GB of each GPU: weights {}, activations {}, logits {}, program {}, left free {}, cache {} ({} blocks)\n",
      gb(m.weights), gb(m.activations), gb(m.logits), gb(m.base), gb(m.reserve), gb(m.room), m.blocks);
}

std::string serving_step_text(const ServingRates& r) {
  const ServingStepTime& s = r.step;
  return format(
      "a step of {:.2f} ms, ms: products {:.2f}, attention {:.2f}, small kernels {:.2f}, messages {:.2f}, host {:.2f}; "
      "{:.0f} answers a step, {:.0f} % of the steps carry prompts\n",
      s.total() * 1e3, s.products * 1e3, s.attention * 1e3, s.streams * 1e3, s.messages * 1e3, s.host * 1e3,
      r.answering, r.prefill_share * 100);
}

}  // namespace

std::string serving_report(const ServingPlan& plan) {
  std::string out = format("Serving on {} x {}: prompts of {}, answers of {} tokens; {} layouts, {} fit\n\n",
                           plan.task.gpus, plan.place.cluster.gpu.key, plan.task.prompt_tokens, plan.task.answer_tokens,
                           plan.considered, plan.fitting);
  out += serving_heading() + serving_row(plan.task, plan.winner) + plan.reason + "\n" +
         serving_memory_text(plan.winner.memory) + serving_step_text(plan.winner.rates);
  out += format("90 % of such servers bring {:.0f} to {:.0f} tokens/s; {}\n", plan.low_rate(), plan.high_rate(),
                sentence_of(plan.source()));
  for (const std::string& note : plan.notes) out += note + "\n";
  out += "\nWhy not\n";
  for (const ServingAlternative& a : plan.alternatives)
    out += format("  {:<16} {}{}\n", a.name, a.allowed ? "" : "(not allowed) ", a.why);
  out += "\nTokens/s against ITL: what cannot be bettered in both\n" + serving_heading();
  // At most a dozen, the first and the last among them.
  const std::size_t rows = std::min<std::size_t>(plan.pareto.size(), 12);
  for (std::size_t i = 0; i < rows; ++i)
    out += serving_row(plan.task, plan.pareto[rows == 1 ? 0 : i * (plan.pareto.size() - 1) / (rows - 1)]);
  return out;
}

std::string serving_toml(const ModelShape& shape, const ServingPlan& plan) {
  const ServingCandidate& w = plan.winner;
  const ServingLayout& l = w.layout;
  const ServingTask& task = plan.task;
  // Waiting requests that are still answered in time: what the slots serve in the longest TTFT that is accepted.
  const double patience = task.ttft_max > 0 ? task.ttft_max : 10;
  const auto queue = std::max<std::int64_t>(l.slots, std::llround(w.rates.request_rate * patience));
  const double slowest = 4 * (w.rates.ttft + static_cast<double>(task.answer_tokens) * w.rates.itl) + patience;
  std::string out = "# " + plan.reason + "\n";
  if (l.weights == WeightFormat::int8) out += "[stage.quantize]\nkind = \"quantize\"\nmethod = \"int8\"\n\n";
  out += format("[stage.deploy]\nkind = \"deploy\"\nslots = {}\nqueue_max = {}\nmax_tokens = {}\nprecision = \"{}\"\n",
                l.slots, queue, std::max<std::int64_t>(task.context() - task.prompt_tokens, task.answer_tokens),
                l.weights == WeightFormat::f32 ? "f32" : "bf16");
  out += format("request_deadline = \"{}s\"\n", static_cast<std::int64_t>(std::ceil(std::max(slowest, 10.0))));
  out += format("# Predicted: {:.0f} tokens/s, ITL {:.2f} ms, TTFT {:.0f} ms at {} of 100.\n", w.token_rate,
                w.rates.itl * 1e3, w.rates.ttft * 1e3, std::lround(task.percentile * 100));
  out += "# For a server that takes more settings:\n";
  out += format(
      "# replicas = {}\n# tp = {}\n# weights = \"{}\"\n# cache = \"{}\"\n# cache_blocks = {}\n# block_size = {}\n"
      "# prefill_tokens = {}\n# context_length = {}\n",
      l.replicas, l.tp, to_string(l.weights), to_string(l.cache), w.memory.blocks, l.block, l.chunk,
      std::min(task.context(), shape.max_position_embeddings));
  return out;
}

}  // namespace longhaul
