// How the frameworks of published runs keep a training in memory, and how Longhaul's own engine plans to on a GPU. Each
// number has its source in memory_profiles.cc.
#pragma once

#include <string>
#include <vector>

#include "autotune/memory/framework_memory.h"

namespace longhaul {

// The engine as contracts/plan/memory_plan.h plans it, on a GPU: nothing is ever given back to an allocator.
MemoryProfile longhaul_memory();
// Megatron-Core with its distributed optimizer (zero = 1), Transformer Engine's fused attention and f32 gradients.
MemoryProfile megatron_memory();
// The same with gradients in bf16 (grad_reduce_in_fp32 = false), as its recipes for speed have it.
MemoryProfile megatron_bf16_gradients_memory();
// PyTorch's FSDP over f32 parameters (zero = 3), as torchtitan and llm-foundry use it; with `compiled` the loss as
// Inductor fuses it.
MemoryProfile fsdp_memory(bool compiled_loss);

// "longhaul", "megatron", "megatron-bf16-gradients", "fsdp", "fsdp-compiled-loss". not_found names all of them.
Result<MemoryProfile> memory_profile(const std::string& name);
const std::vector<std::string>& memory_profile_names();

}  // namespace longhaul
