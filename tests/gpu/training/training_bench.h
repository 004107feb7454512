// gpu_training_bench but for which GPU it is: its options, its table, its JSON. Tests run it on an emulated one.
#pragma once

#include <span>
#include <string>

#include "engine/ops/gpu.h"

namespace longhaul::gpu_bench {

// Exit codes of a program that measures.
inline constexpr int kMissed = 1, kUsage = 2;

// 0: all that was asked for was measured or said to be left out, no bar missed. 1: a bar was missed, or a part failed.
// 2: usage. `arguments` without the program's name.
int training_bench(Gpu& gpu, std::span<const std::string> arguments);

}  // namespace longhaul::gpu_bench
