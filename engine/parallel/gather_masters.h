// All weights on one rank, from the shards of the ranks that hold the model together: for export. (Checkpoints are
// written by the shards' owners.)
#pragma once

#include "engine/parallel/mesh.h"
#include "engine/parallel/parameter_layout.h"

namespace longhaul {

// Collective over the ranks that share an optimizer and the mesh's whole(). `masters` is packed as `layout.owned()`;
// `whole` becomes the flat array of `whole_layout`, in which every parameter is whole, on every rank.
Status gather_masters(Mesh& mesh, const ModelShape& shape, const ParameterLayout& layout,
                      std::span<const float> masters, const ParameterLayout& whole_layout, std::span<float> whole);

}  // namespace longhaul
