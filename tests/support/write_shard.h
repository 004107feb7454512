// A whole shard file at once.
#pragma once

#include <span>
#include <string>

#include "engine/checkpoint/format/shard_file.h"

namespace longhaul::testing {

inline Status write_shard(const std::string& path, std::span<const ShardTensor> tensors) {
  LH_TRY(ShardWriter writer, ShardWriter::create(path, tensors, {}));
  for (const ShardTensor& tensor : tensors) LH_CHECK(writer.append(tensor.bytes));
  return writer.finish();
}

}  // namespace longhaul::testing
