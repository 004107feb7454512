// A file of a run with the user who owns it. Whoever may write into a folder of the run has made it: what it says is
// data, and who made it is said by the file system alone.
#pragma once

#include <cstdint>
#include <string>

#include "base/error/result.h"

namespace longhaul {

struct AuthoredFile {
  std::string text;
  std::int64_t uid = -1;
};

// Regular files only, no link at the end of the path; never waits for the other end of a FIFO. not_found;
// invalid_input: something else than a file, exchanged while it was opened, or larger than `size_max`.
Result<AuthoredFile> read_with_author(const std::string& path, std::uint64_t size_max = 1ULL << 32);

}  // namespace longhaul
