// Numbers of tokens (losses, a reward model's values) that each rank of a cp group has of its own pieces
// (context_shard.h), brought together on all of them: what is judged by whole texts needs them. Few bytes, in one
// message that nothing hides.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/error/result.h"
#include "engine/parallel/context/context_shard.h"
#include "engine/parallel/mesh/mesh.h"

namespace longhaul {

class ContextNumbers {
 public:
  // mesh: borrowed; null or with cp = 1: no rank but this one.
  explicit ContextNumbers(Mesh* mesh)
      : mesh_(mesh), shard_(mesh ? ContextShard(mesh->dims().cp, mesh->at().cp) : ContextShard()) {}

  const ContextShard& shard() const { return shard_; }

  // n numbers of each token, one behind the other: own [pieces, length of a piece, n] -> whole [pieces / 2, length of a
  // sequence, n]; a copy with one rank. Collective over the group. After a failure, which is kept in status(), `whole`
  // stays as it is.
  void gather(std::int64_t pieces, std::span<const float> own, std::span<float> whole);

  const Status& status() const { return status_; }
  std::int64_t bytes() const { return static_cast<std::int64_t>(of_ranks_.capacity() * sizeof(float)); }

 private:
  Mesh* mesh_;
  ContextShard shard_;
  std::vector<float> of_ranks_;  // one rank behind the other
  Status status_;
};

}  // namespace longhaul
