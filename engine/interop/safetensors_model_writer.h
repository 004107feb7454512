// The weights of a model as Hugging Face lays them out: FOLDER/model.safetensors, or above a size
// model-00001-of-00003.safetensors and so on, with model.safetensors.index.json that says which tensor is where.
#pragma once

#include <memory>
#include <optional>

#include "engine/interop/safetensors.h"

namespace longhaul {

class SafetensorsModelWriter {
 public:
  // Files are filled in the order of `tensors`; a tensor is never split, so one that is larger has a file of its own.
  // shard_bytes_max 0: one file.
  static Result<SafetensorsModelWriter> create(const std::string& folder, std::vector<SafetensorInfo> tensors,
                                               std::int64_t shard_bytes_max,
                                               const std::map<std::string, std::string>& metadata = {});

  // Bytes [offset, offset + bytes.size()) of a tensor; each byte once. Written in the order of the files only one is
  // open at a time.
  Status write(const std::string& name, std::string_view bytes, std::int64_t offset = 0);
  // ErrorCode::internal if a tensor was not written whole.
  Status finish();

 private:
  struct File {
    std::string name;
    std::vector<SafetensorInfo> tensors;
    std::int64_t bytes = 0, written = 0;
    std::optional<SafetensorsWriter> writer;
  };
  SafetensorsModelWriter() = default;

  std::string folder_;
  std::map<std::string, std::string> metadata_;
  std::vector<File> files_;
  std::map<std::string, std::size_t> file_of_;
};

}  // namespace longhaul
