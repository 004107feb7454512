// Room contracts/pipeline
// Pipeline schedules as data: for every pipeline rank the list of operations that it runs.
// schedule.h is one operation, pipeline_stages.h divides the layers, pipeline_schedule.h makes the lists.
// pipeline_messages.h says what each operation receives and sends; pipeline_timeline.h runs lists against costs.
// It knows no model, layout or setting: only numbers of stages, chunks and micro-batches.
//
// The lists of operations of every pipeline schedule, from one rule. All schedules run the same virtual micro-batches,
// (micro-batch, chunk), in the same order; they differ in how many forwards a rank runs before its first backward, and
// in when the weight gradients follow. docs/contracts.md shows them as pictures; pipeline_timeline.h runs them against
// costs; pipeline_messages.h says what each operation receives and sends.
//
//   p pipeline ranks, r this rank, m micro-batches, v chunks per rank, g micro-batches per group
//   F, B times of one chunk's forward and backward, I and W of its two halves (input and weight gradients)
//
//   kind          warm-up forwards        idle time of a rank    most activations alive on rank r, in chunks
//   1f1b          p-r-1                   (p-1)(F+B)             p-r
//   interleaved   2(p-r-1) + (v-1)g       (p-1)(F+B)             2(p-r-1) + (v-1)g + 1
//   zb-h1, v = 1  p-r-1, W late by r      (p-1)(F+I-W)           p
//   zb-h1, v > 1  p-r-1 + (v-1)g, same    (p-1)(F+I-W)           p + (v-1)g
//
// - 1f1b: Narayanan et al. 2021 (arXiv 2104.04473), section 2.2.1. With p = 1 it is plain gradient accumulation.
// - interleaved: the same paper, section 2.2.2, which has g = p; the group size as in Megatron-LM's
//   microbatch_group_size_per_vp_stage. A chunk is 1/v of a rank's layers, so the idle time is 1/v of 1f1b's.
// - zb-h1: Qi et al. 2024 (arXiv 2401.10241), section 2.1 and table 2. The input gradient goes on to the rank before
//   without waiting for the weight gradient; rank r runs its weight gradients r operations late, so that they fill the
//   end, where 1f1b idles. Every rank then holds what rank 0 holds in 1f1b: the largest rank needs no more, the later
//   ones do. Chunks run it with the warm-up of one hop per rank, because only I, not B, is on the way back.
//
// The idle times are those of equal stages, free sends, m >= p, g = p dividing m, and for zb-h1 W <= F and W <= I;
// every figure is capped by the m v forwards that there are.
#pragma once

#include <string>
#include <vector>

#include "contracts/pipeline/schedule.h"

namespace longhaul {

enum class PipelineKind { one_f_one_b, interleaved, zb_h1 };
const char* to_string(PipelineKind kind);                          // "1f1b", "interleaved", "zb-h1"
Result<PipelineKind> pipeline_kind_from(const std::string& name);  // invalid_input names all of them

struct PipelineScheduleSettings {
  PipelineKind kind = PipelineKind::one_f_one_b;
  int pp = 1;
  int vp = 1;  // interleaved needs 2 or more; zb-h1 takes any; 1f1b runs one
  int micro_batches = 1;
  // Micro-batches that pass one chunk before the next chunk has its turn; only with vp > 1. A group holds at least pp
  // of them, and so does what is left for the last (Megatron-LM's rule as well): with fewer, a chunk has its turn on
  // rank 0 before the last rank can have run the chunk before, and the pipeline waits or even stops. 0: the smallest
  // that fits. Fewer micro-batches than ranks are one group: all forwards, then all backwards.
  int group = 0;
};

// What `group` comes to be. Errors (invalid_input) name the nearest groups that fit.
Result<int> pipeline_group(const PipelineScheduleSettings& settings);

// Errors (invalid_input): a kind that does not go with vp, a group that does not fit, pp_rank outside [0, pp).
Result<std::vector<ScheduleOp>> pipeline_schedule(const PipelineScheduleSettings& settings, int pp_rank);

// Of all ranks, in order.
Result<std::vector<std::vector<ScheduleOp>>> pipeline_schedules(const PipelineScheduleSettings& settings);

}  // namespace longhaul
