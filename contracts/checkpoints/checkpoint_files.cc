#include "contracts/checkpoints/checkpoint_files.h"

#include "base/text/text.h"
#include "contracts/records/checkpoint_format.h"

namespace longhaul {

std::string shard_file_name(int rank, int ranks, const std::string& tag) {
  return format("shard-{:05d}-of-{:05d}{}{}.safetensors", rank + 1, ranks, tag.empty() ? "" : ".", tag);
}

std::string local_rank_folder(int rank) {
  return format("rank-{:05d}", rank);
}

std::string local_part_name(const std::string& shard_file) {
  return shard_file.substr(0, shard_file.rfind('.')) + ".json";
}

const char* to_string(SaveActor actor) {
  switch (actor) {
    case SaveActor::training: return "the training";
    case SaveActor::writer: return "a thread of each rank";
    case SaveActor::first_rank: return "a thread of rank 0";
  }
  return "unknown";
}

std::span<const SaveStep> checkpoint_save_steps() {
  using enum SaveActor;
  static constexpr SaveStep steps[] = {
      {training, "copies its share into memory, and goes on", ""},
      {writer, "hashes the copy, writes it, syncs it", "shard"},
      {training, "votes: entries and digests go to rank 0", ""},
      {first_rank, "checks that all is covered, syncs the folder", ""},
      {first_rank, "writes the manifest: whole from now on", checkpoint_manifest_name, true},
      {first_rank, "points at the newest", checkpoint_latest_name, true},
      {writer, "reads another rank's shard back, before older ones go", ""},
      {first_rank, "says that all was read back", checkpoint_verified_name, true},
      {first_rank, "removes what the rules let go", ""},
  };
  return steps;
}

}  // namespace longhaul
