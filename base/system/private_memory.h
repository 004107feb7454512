// For programs that hold secrets of a job or prompts of people in memory.
#pragma once

namespace longhaul {

// This process leaves no core file, and others of the same user cannot read its memory or environment (only root can).
// What it starts is as it would be otherwise: a rank's core file is its owner's choice, so the limit that children
// would inherit (RLIMIT_CORE) stays. Best called first in main.
void keep_memory_private();

}  // namespace longhaul
