// A checkpoint on disk (docs/formats/checkpoint.md): a folder `step-00000240/` of safetensors shards and one
// `checkpoint.json`, written last and renamed in; a folder without it is not a checkpoint. `latest.json` beside the
// folders names the newest whole one; it is a hint, readers fall back to the folders themselves.
//
// An entry is a piece of a tensor: the box of it that a rank holds, and of that box (flattened in C order) the range
// [flat_begin, flat_end). So a ZeRO shard of a tp slice is a first-class citizen, and any layout loads any layout.
#pragma once

#include <string>
#include <vector>

#include "base/value/value.h"
#include "contracts/layout/parallel_dims.h"
#include "contracts/model/model_shape.h"
#include "contracts/model/parameter_list.h"

namespace longhaul {

struct CheckpointEntry {
  std::string tensor;  // Hugging Face name; moments are "<name>#exp_avg" and "<name>#exp_avg_sq", masters "<name>"
  Box box;
  std::int64_t flat_begin = 0, flat_end = 0;
  std::string file;   // shard, relative to the checkpoint's folder
  std::string key;    // tensor name inside the shard
  std::string dtype;  // "F32"; moments also "BF16"
  std::uint64_t xxh3 = 0;
  std::int64_t bytes() const { return (flat_end - flat_begin) * (dtype == "BF16" ? 2 : 4); }
};

struct CheckpointManifest {
  static constexpr int format = 1;
  std::int64_t step = 0;
  std::int64_t consumed_samples = 0;  // the one global sampler state
  std::uint64_t seed = 0;
  std::int64_t adam_step = 0;
  ModelShape shape;
  ParallelDims written_by;
  Value extra;  // table: whatever a task must find again (learned timeouts, best loss, ...)
  std::vector<std::pair<std::string, std::vector<std::int64_t>>> tensors;  // name, global shape
  std::vector<CheckpointEntry> entries;
};
std::string checkpoint_folder_name(std::int64_t step);  // "step-00000240"
inline constexpr const char* checkpoint_manifest_name = "checkpoint.json";
inline constexpr const char* checkpoint_pin_name = "pinned";  // a file of this name keeps a checkpoint for ever
// Folders beside that of a training's checkpoints, for what it keeps with them, under their names.
inline constexpr const char* critic_folder_name = "critic";  // of ppo: checkpoints of the critic
inline constexpr const char* ahead_folder_name = "ahead";    // of rollout.ahead: a file of answers for each
Value checkpoint_to_value(const CheckpointManifest& manifest);
Result<CheckpointManifest> checkpoint_from_value(const Value& value);
// Every element of every tensor covered exactly once? The error names the first tensors that are not.
Status check_coverage(const CheckpointManifest& manifest);

}  // namespace longhaul
