// What serving a model has beside training it (autotune/inference). Section [serving] of the constants.
#pragma once

namespace longhaul {

struct ServingConstants {
  double message_latency = 0;  // s: a sum over a tp group of a few tokens, within a domain
  double step_cost = 0;        // s: the host chooses who is next, starts a step and takes its tokens
  double sequence_cost = 0;    // s: and for each answer of the step: sampling, text, a piece of a stream
  double spread_seen = 0;      // relative standard error of tokens/s and latencies on a device that was measured
  double spread_new = 0;       // and on another
  double unpack_share = 0;     // of the rate of bf16 products, by those that unpack int8 or int4 weights first
};

}  // namespace longhaul
