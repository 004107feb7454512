// Room contracts/layout
// A parallel layout (tp, sp, cp, ep, etp, pp, vp, dp, zero) as one validated value, with rank and coordinates.
// Whoever needs the place of a rank in the mesh asks parallel_dims.h; nobody else computes it.
// It knows no model: whether a model can be divided so is contracts/plan/layout_check.h.
//
// A layout as one validated value, asked by everybody, recomputed by nobody.
//
// World: tp * cp * pp * dp_replicate * dp_shard ranks, tp fastest (rank order tp, cp, dp_shard, dp_replicate, pp), as
// Megatron's `tp-cp-ep-dp-pp`. ep and etp regroup ranks of cp * dp (and tp) for the expert layers; they add none.
// sp (sequence parallelism) shares tp's ranks. vp are virtual pipeline stages per pp rank. zero is the ZeRO stage over
// dp_shard: 0 nothing, 1 optimizer, 2 + gradients, 3 + parameters.
#pragma once

#include <string>

#include "contracts/schema/field_table.h"

namespace longhaul {

struct ParallelDims {
  int tp = 1;
  bool sp = false;
  int cp = 1;
  int ep = 1;
  int etp = 1;
  int pp = 1;
  int vp = 1;
  int dp_replicate = 1;
  int dp_shard = 1;
  int zero = 0;

  int dp() const { return dp_replicate * dp_shard; }
  int world_size() const { return tp * cp * pp * dp(); }
  std::string to_string() const;  // "tp=2 pp=2 dp=2": only what differs from 1, "one rank" if nothing does
  bool operator==(const ParallelDims&) const = default;
};
const FieldTable<ParallelDims>& parallel_dims_fields();

// Checks the layout against the number of ranks; dp_replicate = 0 is filled with what is left. The error names the
// product with every factor: "tp(4) * cp(1) * pp(4) * dp(3) = 48, but the job has 64 ranks".
Result<ParallelDims> resolve_dims(ParallelDims dims, int ranks);

// Where one rank stands in the mesh.
struct RankCoordinates {
  int tp = 0, cp = 0, dp_shard = 0, dp_replicate = 0, pp = 0;
  int dp(const ParallelDims& dims) const { return dp_replicate * dims.dp_shard + dp_shard; }
  bool operator==(const RankCoordinates&) const = default;
};
RankCoordinates coordinates_of(const ParallelDims& dims, int global_rank);
int global_rank_of(const ParallelDims& dims, const RankCoordinates& at);

// The same ranks as the expert layers see them (Liu et al. 2025, arXiv 2504.14960, section 3.2): those of one pipeline
// stage, in the mesh's order, are assigned to etp (fastest), then ep, so that ep * etp neighbours hold all experts
// together. Neighbours beyond the tp * cp ranks of one micro-batch bring others of their own.
struct ExpertDims {
  int ranks = 1;         // ep * etp: what holds all experts, and sends tokens to each other
  int copies = 1;        // of the experts among the tp * cp ranks of a micro-batch
  int batches = 1;       // micro-batches that meet in an expert at once
  int dp_shard = 1;      // ranks with the same experts and other micro-batches that share an optimizer,
  int dp_replicate = 1;  // and those of them that own the same share
};
struct ExpertCoordinates {
  int etp = 0, ep = 0, copy = 0, dp_shard = 0, dp_replicate = 0;
  bool operator==(const ExpertCoordinates&) const = default;
};
// invalid_input where the ranks cannot be assigned so: the error names the pair that does not divide.
Result<ExpertDims> expert_dims_of(const ParallelDims& dims);
// Of a layout that expert_dims_of accepts.
ExpertCoordinates expert_coordinates_of(const ParallelDims& dims, const RankCoordinates& at);

}  // namespace longhaul
