// The instruction sets that operations know by name, what this processor has of them, and how a process is held down to
// one of them: for tests and measurements of what another machine would run.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error/result.h"
#include "engine/core/tensor/compute_context.h"

namespace longhaul {

// portable, avx2, avx512, avx512_bf16, amx.
const char* cpu_level_name(CpuLevel level);
Result<CpuLevel> cpu_level_named(std::string_view name);

// The highest that this processor has, whatever this build has kernels for and the process is held down to.
CpuLevel cpu_level_of_processor();

// The levels that this process can run, portable first.
std::vector<CpuLevel> cpu_levels_here();

// Of the whole process and from now on, oneDNN included: nothing above `name` runs, whatever the processor has, and
// CpuLevel::best is that level. Above what the processor has it changes nothing. Before the first operation: oneDNN
// looks at the processor once; conflict after that. An empty name is no cap; an unknown one is invalid_input.
// Not thread-safe.
Status cap_cpu_level(std::string_view name);

}  // namespace longhaul
