// What of a training one rank writes into a checkpoint, and how it gets to disk.
//
// Of what a rank holds it writes the same slice of the flat arrays for weights and moments; its replicas write the
// others. What several ranks of a replica hold, the first of them writes.
#pragma once

#include <functional>

#include "contracts/checkpoints/checkpoint_files.h"
#include "contracts/records/checkpoint_format.h"
#include "engine/checkpoint/format/shard_file.h"
#include "engine/checkpoint/state/training_state.h"
#include "engine/core/device/device_queue.h"
#include "engine/core/tensor/compute_context.h"

namespace longhaul {

// The three arrays of a training, and what follows a parameter's name in the checkpoint for each.
std::vector<StateArray> arrays_of(const TrainingState& state);
const std::vector<const char*>& state_suffixes();  // of the same arrays, in the same order

// Types in files.
const char* stored_dtype(DType dtype);                     // "F32" or "BF16"
Result<DType> dtype_of_stored(const std::string& stored);  // ErrorCode::corrupt: neither
StateTypes stored_types(const CheckpointManifest& manifest);

// One entry of a share: all but its digest, and where its elements are.
struct SharePiece {
  CheckpointEntry entry;
  std::vector<std::int64_t> shape;  // in the shard
  int array = 0;                    // of arrays_of
  FlatRange packed;                 // of that array
  std::int64_t bytes() const { return entry.bytes(); }
};
// f32 arrays come before bf16 ones, so that every element of a shard lies at a multiple of its size.
std::vector<SharePiece> pieces_of_share(const ParameterLayout& layout, const std::string& file,
                                        const StateTypes& types = all_f32);
std::int64_t bytes_of_share(std::span<const SharePiece> pieces);
std::vector<ShardTensor> shard_header(std::span<const SharePiece> pieces);  // without bytes

// Copies the pieces one behind the other, in one loop over all bytes: the threads meet once. compute null: one thread.
// What is outside of memory follows, read by this thread. With `queue`, pieces that lie on a device are only asked for
// there: they are copied when the queue is idle, and neither they nor `to` (pinned) may change before.
Status stage_pieces(const TrainingState& state, std::span<const SharePiece> pieces, const ComputeContext* compute,
                    std::byte* to, DeviceQueue* queue = nullptr);

// Of everybody, without entries.
CheckpointManifest manifest_of(const TrainingState& state);

// Writes and syncs a shard, and computes the digests of its entries on the way. `next` is called for every piece in
// order and returns its bytes; those of a piece must stay until the next call.
struct WrittenShare {
  std::vector<CheckpointEntry> entries;
  std::int64_t bytes = 0;
  bool direct = false;
};
Result<WrittenShare> write_pieces(const std::string& path, std::span<const SharePiece> pieces,
                                  const ShardWriteOptions& options,
                                  const std::function<Result<std::string_view>(const SharePiece&)>& next);
// The same from one array that holds all of them one behind the other, as staging does: large writes.
Result<WrittenShare> write_staged(const std::string& path, std::span<const SharePiece> pieces,
                                  const ShardWriteOptions& options, std::string_view staged);

// A rank's entries as text, for the first rank.
std::string entries_to_text(std::span<const CheckpointEntry> entries);
Result<std::vector<CheckpointEntry>> entries_from_text(const std::string& text);

}  // namespace longhaul
