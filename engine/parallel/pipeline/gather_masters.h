// Whole weights, or other parts of them, from the shards of the ranks that hold the model together: for export, and for
// generation. (Checkpoints are written by the shards' owners.)
#pragma once

#include <functional>

#include "contracts/model/parameter_layout.h"
#include "engine/core/device/device.h"
#include "engine/core/tensor/compute_context.h"
#include "engine/core/tensor/tensor.h"
#include "engine/parallel/mesh/mesh.h"

namespace longhaul {

// The masters that a rank owns, packed as `layout.owned()`: of the host, or of that device. Borrowed.
class MasterShare {
 public:
  template <class T>
  MasterShare(std::span<T> values, Device* device = nullptr)  // NOLINT: implicit on purpose
      : values_(values), device_(device) {}
  void read(FlatRange packed, std::span<float> out) const;

 private:
  std::span<const float> values_;
  Device* device_;
};

// Collective over the ranks that share an optimizer and the mesh's whole(). `target` becomes the flat array of
// `target_layout`: whole parameters, or what the rank has of each in a layout of its own, without ZeRO, which may be
// another one on every rank.
Status gather_masters(Mesh& mesh, const ModelShape& shape, const ParameterLayout& layout, const MasterShare& masters,
                      const ParameterLayout& target_layout, std::span<float> target);

// The same of what `held` says that this rank's model has of a parameter: nothing where `layout` does not have it.
// Collective over the mesh's whole() alone, as long as `held` is not more. The span is read before the next call.
using HeldParameter = std::function<Result<std::span<const float>>(const FlatParameter& parameter)>;
Status gather_parameters(Mesh& mesh, const ModelShape& shape, const ParameterLayout& layout, const HeldParameter& held,
                         const ParameterLayout& target_layout, std::span<float> target);

// The same where operations work, so on a device all of it: what `held` says and `target`, the flat array of
// `target_layout`, are of one type and lie there. Each part comes from the first rank that holds it. Beside the array
// no more is held than the largest part that is no range of it; `memory` counts it and says where it lies.
using HeldView = std::function<ConstView(const FlatParameter& parameter)>;
Status gather_parameters(const ComputeContext& context, Mesh& mesh, const ModelShape& shape,
                         const ParameterLayout& layout, const HeldView& held, const ParameterLayout& target_layout,
                         View target, MemoryAccount* memory);

// Collective over the mesh: one parameter after the other, in the order of parameter_list, is put together on the first
// rank and given to `take` there. Beside it no more is held than the largest parameter, one shard of it, and a unit. An
// error of `take` is that rank's outcome; the others do not learn of it here.
using TakeParameter = std::function<Status(const ParameterSpec& spec, std::span<const float> values)>;
Status gather_each_parameter(Mesh& mesh, const ModelShape& shape, const ParameterLayout& layout,
                             const MasterShare& masters, const TakeParameter& take);
// The same of what `held` says that this rank's model has of a parameter, which with ZeRO 3 may be collective over the
// ranks that share it.
Status gather_each_parameter(Mesh& mesh, const ModelShape& shape, const ParameterLayout& layout,
                             const HeldParameter& held, const TakeParameter& take);
// The same where operations work, so on a device all of it: what `held` says is of this type and lies there, and
// `values` may be written to. `memory` counts it and says where it lies.
using TakeView = std::function<Status(const ParameterSpec& spec, View values)>;
Status gather_each_parameter(const ComputeContext& context, Mesh& mesh, const ModelShape& shape,
                             const ParameterLayout& layout, const HeldView& held, DType dtype, MemoryAccount* memory,
                             const TakeView& take);

}  // namespace longhaul
