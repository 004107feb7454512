// How Lustre lays out the files of a folder: over how many targets each, and how much on one before the next.
#pragma once

#include <cstdint>
#include <string>

#include "base/error/result.h"
#include "base/value/value.h"

namespace longhaul {

struct Striping {
  int count = 0;                // 0: as the file system does it; -1: all targets
  std::int64_t size_bytes = 0;  // 0: as the file system does it
  std::string lfs = "lfs";      // the program
  bool asked() const { return count != 0 || size_bytes > 0; }
};
// Of a run's frozen site: paths.stripe_count, paths.stripe_size, programs.lfs.
Striping striping_of(const Value& site);

// Makes the folder and has `lfs setstripe` say what is asked for: what is made in it from then on lies so, below its
// folders as well. Errors: unsupported, with what lfs printed, where it cannot be done (no Lustre, too many targets, no
// lfs). Within 30 seconds.
Status stripe_folder(const std::string& folder, const Striping& striping);

}  // namespace longhaul
