// How the parameters of contracts/model/parameter_list.h stand in a Hugging Face model file. Of the Llama family one by
// one, as they are. GPT-2's file (transformers' GPT2LMHeadModel) differs: matrices of its Conv1D layers are [in, out],
// and q, k, v are one, [in, 3 hidden]:
//   transformer.h.3.attn.{q,k,v}_proj.weight [out, in], .bias [out]
//     <-> transformer.h.3.attn.c_attn.weight [in, 3 out], .bias [3 out]: columns of q, then k, then v
//   transformer.h.3.{attn.c_proj,mlp.c_fc,mlp.c_proj}.weight [out, in] <-> the same name [in, out]
// Both ways are moves of elements: nothing is rounded. Files whose names lack "transformer." are read as well.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "contracts/model/parameter_list.h"
#include "engine/interop/safetensors.h"

namespace longhaul {

struct StoredTensor {
  std::string name;
  std::vector<std::int64_t> shape;   // in the file
  std::vector<ParameterSpec> parts;  // the parameters in it, from its first columns (vectors: elements) to its last
  bool transposed = false;           // in the file [in, sum of out]
  // Neither moved nor put together.
  bool is_plain() const { return parts.size() == 1 && !transposed; }
};

// In the order of parameter_list.
std::vector<StoredTensor> stored_tensors(const ModelShape& shape);

// Places the elements of one part of a tensor, in C order of its own shape, where they stand in the file's tensor.
void put_part(const StoredTensor& tensor, std::size_t part, std::span<const float> values, std::span<float> stored);

// Where output and embedding are one matrix, a file may hold it under either name; one that holds two different ones is
// refused.
Status tie_embeddings(SafetensorsModel& file, const ModelShape& shape);

// Under its name or, of GPT-2, without "transformer.".
Result<SafetensorView> find_stored(const SafetensorsModel& file, const StoredTensor& tensor);

}  // namespace longhaul
