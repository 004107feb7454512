#pragma once

#include <string>

#include "base/error/result.h"

namespace longhaul {

// Digest of a file's content (hash.h, xxh3_128_hex): 32 hex digits. Errors as MappedFile::open has them.
Result<std::string> hash_file(const std::string& path);

}  // namespace longhaul
