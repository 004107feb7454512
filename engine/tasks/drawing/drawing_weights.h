// Weights of a training as generation holds them, whole on every rank, or in the layout that draws (drawing_team.h) its
// part of them, from the parts that ranks of tp, pp, ep and ZeRO 3 have. Where the store is what is drawn with, nothing
// is sent and nothing is kept. On a device they go from rank to rank as they compute there, with what an adapter makes
// of them, and lie in its memory; on a processor in f32.
#pragma once

#include <memory>

#include "contracts/plan/rollout/drawing_layout.h"
#include "engine/core/tensor/memory_accounts.h"
#include "engine/model/inference/stored_weights.h"
#include "engine/parallel/mesh/mesh.h"
#include "engine/parallel/pipeline/gather_masters.h"

namespace longhaul {

// Does a rank of such a layout need others to compute a text: for the weights, or because each computes some tokens?
bool computes_with_others(const ParallelDims& dims);

// Are weights that answers are drawn with those of the masters, on a processor? With ZeRO 3 compute weights pass by
// unit by unit, so masters are gathered, but for what an adapter makes of a unit when it is there.
bool draws_with_masters(const ParallelDims& dims, const ParameterStore& store);
// What a rank's model has of a parameter, on a processor, as it computes, in f32. Borrows both.
HeldParameter held_as_computed(const ComputeContext& context, const ParameterStore& store);

class DrawingWeights {
 public:
  // The mesh is borrowed. `place`: of this rank in the layout that draws; by default it has all. `memory`: of what is
  // gathered, where it lies on a device; null: the host's, nobody counts.
  explicit DrawingWeights(Mesh& mesh, MeshPlace place = {}, std::unique_ptr<MemoryAccounts> memory = nullptr)
      : mesh_(mesh), place_(std::move(place)), memory_(std::move(memory)) {}

  // Gathers unless it holds those of `version` of the training. Collective over the ranks that hold the model together,
  // and with ZeRO 3 over those that share it. With ZeRO 3 `store` has masters, or on a device is connected.
  Status gather(const ComputeContext& context, const ParameterStore& store, std::int64_t version);
  // Of what was gathered, where the store lies; not collective. On a device those of a store without an adapter are
  // borrowed (engine/model/inference/stored_weights.h), and `account` counts there what is not, with caches and scratch
  // memory; null: nobody does.
  Result<InferenceWeights> weights(const ComputeContext& context, const ParameterStore& store, DType dtype,
                                   MemoryAccount* account = nullptr) const;
  // Where they lie since gather().
  const ParameterStore& gathered(const ParameterStore& store) const { return gathered_ ? *gathered_ : store; }
  void release() { gathered_.reset(); }

 private:
  using Gathered = Result<std::unique_ptr<ParameterStore>>;
  Gathered gather_on_host(const ComputeContext& context, const ParameterStore& store) const;
  Gathered gather_on_device(const ComputeContext& context, const ParameterStore& store) const;

  Mesh& mesh_;
  MeshPlace place_;
  std::unique_ptr<MemoryAccounts> memory_;
  std::unique_ptr<ParameterStore> gathered_;  // as they compute; null where the store has them, or none are held
  std::int64_t version_ = -1;
};

}  // namespace longhaul
