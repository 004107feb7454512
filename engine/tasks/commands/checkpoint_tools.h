// What can be done with a checkpoint without a training: look inside, verify, write it again as of another layout, and
// export the model. Everything streams: beside the mapped files no more is held than one piece of one tensor (per
// thread). Errors name the file.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/value/value.h"
#include "contracts/records/checkpoint_format.h"
#include "engine/checkpoint/state/training_state.h"

namespace longhaul {

// `path` itself if it holds a checkpoint.json, else the newest checkpoint below it (or below its folder `checkpoints`).
Result<std::string> find_checkpoint(const std::string& path);

struct CheckpointFile {
  std::string name;
  std::int64_t entries = 0, bytes = 0;  // of the entries; the file has a header, too
};
struct CheckpointSummary {
  std::string path;
  CheckpointManifest manifest;  // without its entries
  std::vector<CheckpointFile> files;
  std::int64_t entries = 0, bytes = 0;
  StateTypes types = all_f32;
  bool pinned = false;
};
// From the manifest alone.
Result<CheckpointSummary> inspect_checkpoint(const std::string& path);
std::string summary_text(const CheckpointSummary& summary);  // lines for people
Value summary_value(const CheckpointSummary& summary);       // for programs

// Every entry against its digest, on several threads. What is wrong, one line for each shard that is missing, cut short
// or altered (with the first tensor of it that shows it); empty: all is well. An error: the manifest itself.
struct VerifiedCheckpoint {
  std::vector<std::string> damage;
  std::int64_t entries = 0, bytes = 0;
};
Result<VerifiedCheckpoint> verify_checkpoint(const std::string& path, int threads);

// Called after each tensor or piece: bytes done of all.
using ToolProgress = std::function<void(std::int64_t done, std::int64_t total)>;

// Writes it again into `output` (absent or empty), as ranks of this layout would have: the same weights, moments and
// state.
Status reshard_checkpoint(const std::string& path, const std::string& output, const ParallelDims& dims,
                          const ToolProgress& progress = {});

struct CheckpointExport {
  std::string dtype = "f32";  // "f32" | "bf16"
  std::string tokenizer_folder;
  std::int64_t shard_bytes_max = 5'000'000'000;
  std::vector<std::int64_t> eos_token_ids;  // for config.json
  std::int64_t bos_token_id = -1, pad_token_id = -1;
};
// The weights as a Hugging Face folder (absent or empty before).
Status export_checkpoint(const std::string& path, const std::string& output, const CheckpointExport& options,
                         const ToolProgress& progress = {});
// What whoever uses the exported model has to know, a sentence or two; "": nothing.
std::string export_notice(const ModelShape& shape);

}  // namespace longhaul
