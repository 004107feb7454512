// What a job has found out about a site (`longhaul doctor --job`), as its file keeps it:
//
//     [verified."launcher.mpi"]
//     value = "pmix"
//     on = "2026-11-27"
//     slurm = "22.05.8"
//     fact = "--mpi=pmix started 4 ranks on 2 nodes, each with its PMIX_RANK"
//
// A value that stands in a file and is the same counts as checked, though a file above names it in `unverified`; one
// that no file says is taken from here; one that a file says otherwise is the file's.
#pragma once

#include <string>
#include <vector>

#include "base/error/diagnostics.h"
#include "base/value/value.h"

namespace longhaul {

struct VerifiedValue {
  std::string key;  // "launcher.mpi"
  Value value;
  std::string on, slurm, fact;  // the day, the release of Slurm, one sentence
  std::string source() const;   // "tried on 2026-11-27 with Slurm 22.05.8: ..."
  SourcePos where = {};
};
// Of the table `verified` of a file; null where there is none. What is malformed goes to `diagnostics`.
std::vector<VerifiedValue> verified_values(const Value& table, Diagnostics& diagnostics);

// The file's text with these values: the block that is there is replaced, of which values stay that are not found anew;
// everything else in the file stays as its author wrote it. `text` may be empty: a new file. invalid_input: what it
// holds is no TOML.
Result<std::string> with_verified_values(const std::string& text, const std::vector<VerifiedValue>& found);

}  // namespace longhaul
