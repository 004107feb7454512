// The part of a table over the vocabulary (embedding, output) that one rank of a tp group holds.
#pragma once

#include <cstdint>
#include <string>

#include "engine/model/layers/activations.h"
#include "engine/model/layers/parallel_linear.h"
#include "engine/model/store/parameter_store.h"
#include "engine/parallel/tensor/tensor_parallel.h"

namespace longhaul {

struct VocabularyPart {
  std::int64_t begin = 0;               // in the flat arrays
  std::int64_t first_id = 0, rows = 0;  // of the vocabulary

  VocabularyPart() = default;
  VocabularyPart(const ParameterStore& parameters, const std::string& name) {
    const FlatParameter& found = parameters.layout().find(name);
    begin = found.begin, first_id = found.box.offset[0], rows = found.box.extent[0];
  }
};

// All t rows of a micro-batch, of which with sequence parallelism each rank holds some: `rows` [r, hidden] itself, or
// in the workspace. Collective over tp.
inline View all_rows(TensorParallel& tensor, Activations& activations, View rows, std::int64_t tokens,
                     std::int64_t hidden) {
  if (!tensor.sequence()) return first_rows(rows, tokens);
  const View all = first_rows(activations.workspace().full, tokens);
  tensor.gather_rows(rows, tokens, hidden, all);
  return all;
}

}  // namespace longhaul
