// Log-probabilities of given tokens after given texts, many sequences at a time: answer losses, preferences, multiple
// choice, bits per byte, the reference of DPO, the divergence that KTO estimates.
#pragma once

#include <functional>
#include <vector>

#include "engine/model/llama.h"
#include "engine/train/step/batch_source.h"

namespace longhaul {

struct ScoreRequest {
  std::span<const std::int32_t> ids;   // the whole sequence, at most length_max + 1 tokens
  std::span<const std::uint8_t> mask;  // same length; 1: this token is scored, given all before it. The first never is.
  bool compare = false;                // also find whether the scored tokens are the most likely ones
};

struct SequenceScore {
  double log_probability = 0;  // natural, summed over the scored tokens
  std::int64_t tokens = 0;     // how many were scored
  bool most_likely = true;     // where it was asked: no token had a larger logit at any of them
};

// In the order of the requests. Sequences of similar length share a micro-batch of at most `tokens_max` tokens (what
// the model was made for); padding changes no score. `progress` (sequences done) may be empty.
Result<std::vector<SequenceScore>> score_sequences(const ComputeContext& context, Llama& model, std::int64_t tokens_max,
                                                   std::span<const ScoreRequest> requests,
                                                   const std::function<void(std::size_t)>& progress = {});

// A model that the ranks of a replica hold together (tp, pp, ep), or of which they have no unit for long (ZeRO 3), or
// of whose texts each computes some tokens (cp): its stages on this rank, vp of them in order, and the mesh. Borrowed.
struct ReplicaModel {
  Mesh& mesh;
  std::vector<Llama*> stages;
  std::int64_t sequences = 1, length = 0;  // of the micro-batches that it is asked for: those of its training, whole
};

// Llama::token_losses of a micro-batch which all ranks of the replica have, the same on all of them: each rank of a cp
// group computes its part of it, forward through the stages, one after the other, on slot 0, whose micro-batch is over.
// The length is one that cp can share. Refuses what Llama::check does. Collective over the ranks that hold the model
// together; with ZeRO 3, or experts over replicas, all replicas make as many calls.
Status losses_of_replica(const ComputeContext& context, const ReplicaModel& model, const BatchStorage& batch,
                         std::span<float> losses);

// The log-probabilities of score_sequences() by such a model, the same on all ranks of the replica. Micro-batches have
// one size, so that replicas with as many requests make as many calls. `compare` is left out.
Result<std::vector<double>> score_by_replica(const ComputeContext& context, const ReplicaModel& model,
                                             std::span<const ScoreRequest> requests);

}  // namespace longhaul
