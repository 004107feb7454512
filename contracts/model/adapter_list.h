// Which matrices of a model an adapter changes, and the parameters that it has for each. Names are the matrix's with
// another ending ("model.layers.0.self_attn.q_proj.lora_A.weight"); each lies on the ranks of its matrix and is split
// over tp (of an expert: etp) as far as the dim that it shares with it. Matrices of experts, shared ones too, are
// adapted where a target means them, and so is the table of tokens by lora; routers never. What modules_to_save names
// is trained itself beside the adapter, under its own name: tables, the output layer, norms; and so is the output layer
// of a reward model, which nobody has trained before. A table that is the output as well cannot be named: PEFT trains a
// copy of one of the two, or, with its ensure_weight_tying, both. An adapter of the kind "prompt" is trained itself,
// too: the one parameter that frozen_shape() has more than the model; so are the keys and values of "prefix", two of
// each layer, and the layers that "bottleneck" adds; of "p-tuning" that parameter is made by the adapter's.
#pragma once

#include <string>
#include <vector>

#include "contracts/model/parameter_layout.h"

namespace longhaul {

struct AdaptedMatrix {
  // Of the model as PEFT sees it: GPT-2's q, k and v are one, "transformer.h.0.attn.c_attn.weight" [3 hidden, hidden].
  ParameterSpec matrix;
  std::string first, last;         // the model's parameters that it is, which follow each other without gaps
  std::vector<ParameterSpec> own;  // in the order of the adapter's list
  std::string a, b;                // lora, dora: names among them; else empty
  std::int64_t rank = 0;           // lora, dora: of both
  double alpha = 0, factor = 0;    // lora, dora: what s is made of, and s
  std::string factors;             // dora: m [out]; ia3: l [out] or [in]
  bool of_columns = false;         // ia3: l [in]
  bool is_table = false;           // lora: of tokens, W' = W + s (B A)^T
  bool is_saved = false;           // trained itself: own is the matrix, or a vector
  bool is_encoded = false;         // p-tuning: made of own: E, W1, b1, W2, b2, W3, b3
};

// Its elements in the flat arrays of the rank whose parameters `model` has; of size 0 where they are on other ranks.
FlatRange range_of(const AdaptedMatrix& matrix, const ParameterNames& model);

// In the order of the forward pass. `shape.adapter` is looked at, `shape` else is the model's. Errors (invalid_input)
// name targets that mean no matrix that can be adapted so, ranks and alphas that mean none that is, or one twice, and
// modules_to_save that mean nothing or a table that is the output as well, all in one that begins with the first one's
// key ("adapter.ranks: ..."); none, where the adapter's kind is "none".
Result<std::vector<AdaptedMatrix>> adapted_matrices(const ModelShape& shape);

// Does a target mean the model's table of tokens, by its name or the end of it? Patterns with * never do.
bool means_table(const AdapterShape& adapter, const ModelShape& model);

// Does each rank of a tp group (of an expert's: of an etp group) have an addend of the gradient of one of the adapter's
// parameters? Of what every rank of the group has whole beside a matrix that is split, and of norms and bottlenecks
// where each has some of a sequence's rows; without those all have the same gradient of them, and always of a scalar
// head.
bool has_addends(const ParameterSpec& own, const ParallelDims& dims);

// The layers of which some ranks of an expert-parallel group of `ep`, but not all, hold experts that are adapted.
std::vector<int> layers_adapted_in_part(const std::vector<AdaptedMatrix>& matrices, const ModelShape& shape, int ep);

// Of a table of tokens that is adapted so many rows are made at a time.
inline constexpr std::int64_t table_rows_at_once = 2048;

// What training an adapter needs beside the model's weights and the adapter, in elements: windows for the weights of
// blocks and experts that are adapted, or held in fewer bits, each as large as the largest, and one for each unit
// without a layer (a table, what follows the blocks) that is adapted, of its own size (`ends`), in the type that
// computes; one matrix that is adapted (with dora and two numbers of each of its rows), some rows of a table, or what
// an encoder computes with, and the gradients of one block, of its experts or of a table, in f32. `model` is the layout
// of the weights that stay as they are. Where an adapter's input drops (lora): columns of the widest one here, the
// largest rank, and elements of the largest A and B together; else 0.
struct AdapterSpace {
  std::int64_t windows = 0, window = 0, ends = 0, matrix = 0, gradients = 0;
  std::int64_t dropped = 0, rank = 0, factors = 0;
};
AdapterSpace adapter_space(const ParameterLayout& model, const std::vector<AdaptedMatrix>& matrices,
                           const AdapterShape& adapter);

}  // namespace longhaul
