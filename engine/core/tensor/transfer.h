// Bytes between the host and the memory that a context's operations work in: a device's, or the host's own, where each
// of these is a plain copy. Both views are of one type and size.
#pragma once

#include "engine/core/tensor/compute_context.h"

namespace longhaul {

// The host may change `from` when this comes back.
void copy_in(const ComputeContext& context, ConstView from, View to);
// Waits: the host has the values when this comes back.
void copy_out(const ComputeContext& context, ConstView from, View to);
// Within that memory.
void copy_within(const ComputeContext& context, ConstView from, View to);
// The host's values in new memory where the account says: null, or of no device: the host's.
Tensor placed_copy(ConstView from, MemoryAccount* memory);

}  // namespace longhaul
