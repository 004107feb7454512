// The text of a first workflow for what lies in a folder, with a comment beside each choice. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error/result.h"
#include "orchestrator/cli/init/folder_look.h"

namespace longhaul {

// The machine on which it is to run first.
struct MachineLook {
  std::string host;
  int cores = 0;
  std::int64_t memory_bytes = 0;
  bool gpus = false;   // the engine here computes on GPUs, and this host has one
  bool slurm = false;  // sbatch is on PATH
};

struct FirstWorkflow {
  std::string text;
  std::string made_of;             // "10 texts (84.2 KiB)": what it begins with
  std::vector<std::string> notes;  // what was seen and is not used, and why: sentences
};

inline constexpr std::uint64_t first_text_bytes_min = 1000;  // of all documents: less leaves nothing to train on

// `context`: tokens that the first of look.models reads at once; 0: there is none. Texts become a model of their own;
// rows tune that one, or the one that lies there; a model alone is served, and measured on texts beside it; a script
// without rows or model is a command. not_found: the folder is empty, or holds nothing of these (images, say);
// invalid_input: a workflow lies there, it is a model's own folder, or what is there is not enough.
Result<FirstWorkflow> first_workflow(const FolderLook& look, std::int64_t context, const MachineLook& machine);

}  // namespace longhaul
