// The files of a stage's raw inputs, one by one, as they were when the stage was made ready: kept beside the stage so
// that a later plan can say which of them has changed. Nothing is decided from them; the key of a stage takes the
// digest of the whole input (prepare.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error/result.h"

namespace longhaul {

struct InputFile {
  std::string path;  // "texts/000.txt": the name of the folder that was given, and what lies below it
  std::uint64_t bytes = 0;
  std::string digest;  // of the content, or of what stands for it in the input's own digest
};
struct InputFiles {
  std::string input;                  // name
  std::vector<InputFile> files = {};  // in the order in which they were read
  bool complete = true;               // false: there are more than are kept, and none is

  static constexpr std::size_t kept_max = 20'000;
  void add(InputFile file);
};

// stages/<id>/inputs.json of a run. Not synced: only a sentence depends on it.
Status write_input_files(const std::string& stage_dir, const std::vector<InputFiles>& inputs);
// Empty where there is none that can be read.
std::vector<InputFiles> read_input_files(const std::string& stage_dir);

}  // namespace longhaul
