// Room contracts/checkpoints
// The files of what a training saves: their names, and in which order a save makes them.
// checkpoint_files.h is all of it. The engine writes by these names; whoever looks for what it has left, and
// docs/figures/checkpoint.svg, has them from here as well.
// It does not know what stands in the files: contracts/records/checkpoint_format.h and docs/formats/checkpoint.md do.
#pragma once

#include <span>
#include <string>

namespace longhaul {

inline constexpr const char* checkpoints_name = "checkpoints";        // in a state folder: all of one training
inline constexpr const char* checkpoint_latest_name = "latest.json";  // in there: a hint at the newest
inline constexpr const char* checkpoint_verified_name = "verified";   // in a checkpoint: it was read back
inline constexpr const char* suspect_checkpoint_prefix = "suspect-";  // of one that may hold wrong weights
inline constexpr const char* time_line_name = "time-line.json";       // beside the checkpoints: which count

// Of what a rank writes. `tag`: of the launch that writes it, so that ranks of two launches never write the same file;
// "": none.
std::string shard_file_name(int rank, int ranks, const std::string& tag = {});

// The rank that is farthest from `rank`: it keeps a copy of rank's share (of one rank itself: there is no other).
inline int partner_of(int rank, int ranks) {
  return (rank + ranks / 2) % ranks;
}
// Whose share `rank` keeps: the other way round.
inline int owner_kept_by(int rank, int ranks) {
  return (rank - ranks / 2 + ranks) % ranks;
}

// Copies that a training keeps on its nodes (contracts/records/local_copies.h):
// FOLDER/longhaul-<32 hex>/rank-00005/step-00000240/ with a shard and its part for each share that the rank keeps.
inline constexpr const char* local_copies_prefix = "longhaul-";
inline constexpr int local_copies_kept = 2;                  // steps, by each rank
std::string local_rank_folder(int rank);                     // "rank-00005"
std::string local_part_name(const std::string& shard_file);  // "shard-00002-of-00008.json": of a manifest, written last

// How a checkpoint becomes whole, in this order. A test saves one and holds the files that appear against it.
enum class SaveActor { training, writer, first_rank };  // the training itself; a thread of each rank; of the first rank
const char* to_string(SaveActor actor);
struct SaveStep {
  SaveActor actor;
  const char* what;
  const char* file;      // that appears with it: a name, "shard" for that of each rank, or "" for none
  bool renamed = false;  // the file is written beside its place and renamed in, so it is whole from its first moment on
};
std::span<const SaveStep> checkpoint_save_steps();

}  // namespace longhaul
