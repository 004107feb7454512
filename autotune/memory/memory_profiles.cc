#include "autotune/memory/memory_profiles.h"

#include "base/text/text.h"

namespace longhaul {

namespace {

constexpr double MB = 1e6, GB = 1e9;

// CUDA's context with the code of the libraries, and what a communicator of NCCL takes: channels of 4 MiB for each
// direction (NCCL's NCCL_BUFFSIZE) on some 16 of them. Both lie beside the allocator, and no published peak contains
// them; an H100's context with PyTorch's and Transformer Engine's kernels is about 0.7 GB as nvidia-smi shows it.
void add_runtime(MemoryProfile& profile) {
  profile.runtime = 0.7 * GB;
  profile.communicator = 16 * 2 * 4 * 1.048576 * MB;
}

}  // namespace

MemoryProfile longhaul_memory() {
  MemoryProfile p;
  p.weight = 2, p.owned_weight = 2;
  p.gradient = 4, p.owned_gradient = 4, p.gradient_tree = true;
  p.gathered_units = 4, p.gathered_gradients = 4, p.gathered_gradient = 4;
  p.shared_over_cp = false;
  p.dropout_mask = 0;  // made again from a counter
  p.expert_slack = 0.125, p.whole_shared_experts = true;
  p.slot_rows = 2, p.fixed_workspace = true;
  p.logit = p.parallel_logit = 4, p.logit_tokens = 1024;
  p.fp8_input = 2;  // cast again in every product
  p.workspace = 64 * MB;
  add_runtime(p);
  p.runtime = 0.5 * GB;  // no PyTorch
  p.fragmentation = 0;   // arenas that are taken once
  return p;
}

MemoryProfile megatron_memory() {
  MemoryProfile p;
  p.owned_weight = 0;              // the optimizer updates the part of the whole copy that it owns
  p.vocab_multiple = 128;          // make_vocab_size_divisible_by
  p.keeps_qkv = true;              // "core_attn" computes from them
  p.fp8_weight = 2;                // fp8_param_gather: 8 bits, and their transpose, which Hopper's products need
  p.logit = p.parallel_logit = 6;  // bf16 logits, and their f32 copy, in which softmax and gradient take turns
  p.workspace = 100 * MB;          // cuBLAS' and Transformer Engine's (32 MiB each on Hopper), masks, rotary tables
  add_runtime(p);
  // Megatron-Bridge's study of Moonlight (skills/nemo-mbridge-perf-activation-recompute): 36.6 GB allocated, near 40 GB
  // reserved, of which about 30 are activations and what comes and goes.
  p.fragmentation = 0.1;
  return p;
}

MemoryProfile megatron_bf16_gradients_memory() {
  MemoryProfile p = megatron_memory();
  p.gradient = 2;
  p.step_gradient = 4;  // each owned part in f32
  return p;
}

MemoryProfile fsdp_memory(bool compiled_loss) {
  MemoryProfile p;
  p.weight = 2, p.owned_weight = 0;   // the owned share is the f32 master
  p.fp8_weight = 1, p.fp8_input = 2;  // gathered in 8 bits; inputs are kept in bf16 and cast again
  p.gradient = 4;
  p.gathered_units = 2, p.root_stays = true;          // a layer and the one that is fetched ahead
  p.gathered_gradients = 1, p.gathered_gradient = 6;  // bf16, and the f32 copy that is reduced
  p.resharded = false;                                // in a pipeline
  p.more_ffn = 1, p.more_q = 2;  // gate's activation; keys and values repeated for every query head
  // bf16; log-softmax in f32: its input, its output, their gradient (torch.nn.functional.cross_entropy of f32 logits).
  // Compiled, all but the logits and their gradient, in bf16, is computed again.
  p.logit = compiled_loss ? 4 : 14;
  // DTensor's loss_parallel: bf16 logits and their gradient; in f32 the log-softmax, its exponential, the gradient and
  // one more of its products.
  p.parallel_logit = 20;
  p.keeps_outputs = true;
  p.workspace = 64 * MB;
  add_runtime(p);
  p.fragmentation = 0.03;  // fitted: published is what was reserved
  return p;
}

const std::vector<std::string>& memory_profile_names() {
  static const std::vector<std::string> names = {"longhaul", "megatron", "megatron-bf16-gradients", "fsdp",
                                                 "fsdp-compiled-loss"};
  return names;
}

Result<MemoryProfile> memory_profile(const std::string& name) {
  if (name == "longhaul") return longhaul_memory();
  if (name == "megatron") return megatron_memory();
  if (name == "megatron-bf16-gradients") return megatron_bf16_gradients_memory();
  if (name == "fsdp") return fsdp_memory(false);
  if (name == "fsdp-compiled-loss") return fsdp_memory(true);
  return make_error(ErrorCode::not_found, format("no memory profile is called \"{}\"", name),
                    "use " + join(memory_profile_names(), ", "));
}

}  // namespace longhaul
