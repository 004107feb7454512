// What users of a server see, once requests come and go: tokens/s, time to first token (TTFT), time between tokens
// (ITL), at a number of requests in it or at a rate of arrival. A fluid estimate, not a simulation:
//
//   every step carries b answers and, on average, b P / (A - 1) tokens of new prompts (P tokens of prompt, A of
//   answer), as one piece of up to a chunk in a share f of the steps, so that steps have two lengths; Little's law ties
//   b, the requests that still read their prompt, and all that are there.
//
// Prompts wait for each other as in M/D/1 at utilisation f, but never for more than are there; its tail is
// P(W > t) = f exp(-2 (1 - f) t / s) (heavy traffic; Kingman 1962). At a rate, requests that find all slots taken wait
// as in M/M/k (Erlang C) corrected to M/G/k by (1 + c^2) / 2 (Allen 1990, chapter 5). Limits: lengths are means
// (prompts that differ tenfold spread TTFT more than this says), bursts beyond Poisson are not seen, nor shared
// prefixes, preemption, or answers that end early.
#pragma once

#include "autotune/inference/serving_time.h"

namespace longhaul {

struct ServingRates {
  double requests = 0;                      // in the server, waiting ones excluded
  double answering = 0;                     // of them, those past their prompt
  double request_rate = 0, token_rate = 0;  // per second of one replica; tokens of answers
  double prefill_share = 0;                 // of the steps carry a piece of a prompt; 1: prompts are the limit
  double itl_mean = 0, itl = 0;             // s; `itl` at the percentile, over steps
  double ttft_mean = 0, ttft = 0;           // s; from arrival
  double wait_mean = 0;                     // s of TTFT, for a free slot
  bool overloaded = false;                  // more come than are served: the wait grows without end
  ServingStepTime step;                     // mean
  double latency(std::int64_t answer_tokens) const {
    return ttft_mean + static_cast<double>(answer_tokens - 1) * itl_mean;
  }
};

// With always `requests` in the server: each that ends is replaced at once.
ServingRates rates_at_concurrency(const ModelShape& shape, const ServingTask& task, const ServingLayout& layout,
                                  const ServingPlace& place, double requests);
// With `request_rate` arrivals per second at this replica, at random, and layout.slots slots.
ServingRates rates_at_load(const ModelShape& shape, const ServingTask& task, const ServingLayout& layout,
                           const ServingPlace& place, double request_rate);

}  // namespace longhaul
