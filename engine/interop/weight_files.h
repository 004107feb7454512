// Which files of a folder hold a model's weights, judged by what they hold: an index may be left over from another
// save, and so may a single file. Where two sets of weights lie in one folder, and are not the same, neither is chosen.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/interop/safetensors.h"

namespace longhaul {

struct WeightFiles {
  std::vector<SafetensorsFile> files;
  std::map<std::string, std::size_t> file_of;  // tensor -> files
};

//   model.safetensors alone, or with an index that names no other file          -> it
//   an index whose files are all there, and hold what it says                   -> these, with all that they hold
//   an index of files that are not there, beside model.safetensors              -> model.safetensors: the index is old
//   both whole                                                                  -> refused, unless all bytes are equal
//   neither, but model-00001-of-0000N.safetensors to the last of N              -> these
Result<WeightFiles> find_weight_files(const std::string& folder);

}  // namespace longhaul
