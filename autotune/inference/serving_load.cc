#include "autotune/inference/serving_load.h"

#include <algorithm>
#include <cmath>

namespace longhaul {
namespace {

// The server with b answers in each step.
class SteadyState {
 public:
  SteadyState(const ModelShape& shape, const ServingTask& task, const ServingLayout& layout, const ServingPlace& place)
      : shape_(shape), task_(task), layout_(layout), place_(place), prompt_(static_cast<double>(task.prompt_tokens)) {
    decodes_ = std::max(static_cast<double>(task.answer_tokens - 1), 1e-6);  // the first token comes of the prompt
    chunk_ = layout.chunk;
  }

  // Beyond it prompts are the limit: every step has a full chunk.
  double answering_max() const { return chunk_ * decodes_ / prompt_; }

  ServingRates at(double answering) const {
    ServingRates r;
    r.answering = answering;
    const double average = answering * prompt_ / decodes_;  // tokens of prompts per step
    const double piece = std::max(average, std::min(prompt_, chunk_));
    r.prefill_share = std::min(1.0, average / piece);
    StepWork work;
    work.decodes = answering, work.context = prompt_ + decodes_ / 2;
    const ServingStepTime plain = serving_step_time(shape_, layout_, place_, work);
    work.prefill = piece, work.prefill_before = prompt_ / 2, work.ended_prompts = piece / prompt_;
    const ServingStepTime with = serving_step_time(shape_, layout_, place_, work);
    const double f = r.prefill_share, both = with.total();
    r.step = {plain.products * (1 - f) + with.products * f, plain.attention * (1 - f) + with.attention * f,
              plain.streams * (1 - f) + with.streams * f, plain.messages * (1 - f) + with.messages * f,
              plain.host * (1 - f) + with.host * f};
    r.itl_mean = r.step.total();
    r.itl = 1 - f >= task_.percentile ? plain.total() : both;
    r.request_rate = answering / (decodes_ * r.itl_mean);
    r.token_rate = r.request_rate * static_cast<double>(task_.answer_tokens);
    service_ = std::ceil(prompt_ / chunk_) * both;
    r.ttft_mean = service_, r.ttft = service_;
    return r;
  }

  // Adds what prompts wait for each other and for the step that runs, with so many requests in the server.
  void add_waiting(ServingRates& r, double requests) const {
    if (requests <= 1) return;
    const double f = std::min(r.prefill_share, 0.999), most = (requests - 1) * service_, step = r.itl_mean / 2;
    r.ttft_mean += std::min(most, f / (2 * (1 - f)) * service_) + step;
    const double above = f / (1 - task_.percentile);
    const double tail = above > 1 ? service_ / (2 * (1 - f)) * std::log(above) : 0;
    r.ttft += std::min(most, tail) + 2 * step;
  }

 private:
  const ModelShape& shape_;
  const ServingTask& task_;
  const ServingLayout& layout_;
  const ServingPlace& place_;
  double prompt_, decodes_ = 0, chunk_ = 0;
  mutable double service_ = 0;  // s of reading a prompt, of the last at()
};

// Erlang C: the share of arrivals that find all k slots taken, with a = rate / service rate of one slot, a < k.
double share_that_waits(int k, double a) {
  double b = 1;  // Erlang B, by its recursion over the slots
  for (int i = 1; i <= k; ++i) b = a * b / (i + a * b);
  return b / (1 - a / k * (1 - b));
}

}  // namespace

ServingRates rates_at_concurrency(const ModelShape& shape, const ServingTask& task, const ServingLayout& layout,
                                  const ServingPlace& place, double requests) {
  const SteadyState state(shape, task, layout, place);
  const auto there = [&](double answering) {
    ServingRates r = state.at(answering);
    state.add_waiting(r, requests);
    r.requests = answering + r.request_rate * r.ttft_mean;
    return r;
  };
  double low = 0, high = std::min(requests, state.answering_max());
  ServingRates r = there(high);
  if (r.requests <= requests) {
    // Even so not all are in the steps: the rest queues to have its prompt read.
    r.ttft_mean += (requests - r.requests) / r.request_rate, r.ttft += (requests - r.requests) / r.request_rate;
    r.requests = requests;
    return r;
  }
  for (int i = 0; i < 24; ++i) {
    const double middle = (low + high) / 2;
    (there(middle).requests > requests ? high : low) = middle;
  }
  return there(high);
}

ServingRates rates_at_load(const ModelShape& shape, const ServingTask& task, const ServingLayout& layout,
                           const ServingPlace& place, double request_rate) {
  const ServingRates full = rates_at_concurrency(shape, task, layout, place, layout.slots);
  if (full.request_rate <= request_rate) {
    ServingRates r = full;
    r.overloaded = true;
    return r;
  }
  const SteadyState state(shape, task, layout, place);
  double low = 0, high = full.answering;
  for (int i = 0; i < 24; ++i) {
    const double middle = (low + high) / 2;
    (state.at(middle).request_rate > request_rate ? high : low) = middle;
  }
  ServingRates r = state.at(high);
  state.add_waiting(r, layout.slots);
  r.requests = high + r.request_rate * r.ttft_mean;
  const double each = full.request_rate / layout.slots, spare = full.request_rate - request_rate;
  const double waits = share_that_waits(layout.slots, request_rate / each);
  const double variation = task.length_variation;
  r.wait_mean = waits / spare * (1 + variation) / 2;
  r.ttft_mean += r.wait_mean;
  const double above = waits / (1 - task.percentile);
  if (above > 1) r.ttft += std::log(above) / spare * (1 + variation) / 2;
  return r;
}

}  // namespace longhaul
