// Room orchestrator/cli/init
// `longhaul init`: looks at a folder and at this machine, and writes a first workflow.
// folder_look.h is what lies in the folder; first_workflow.h makes the text, pure; init_command.cc writes and checks
// it. It asks nothing and runs nothing: what it cannot know stands in the workflow as a comment.
//
// What lies in a folder, as far as a first workflow could begin with it. Bounded, for folders may be large.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error/result.h"
#include "contracts/settings/stages/tuning_row_form.h"

namespace longhaul {

struct FolderLimits {
  std::size_t entries = 20'000;       // of the folder and all below it
  std::size_t row_bytes = 64 * 1024;  // of a file of rows
  int rows = 20;
};

// A file of tuning data, by its first rows.
struct RowsFile {
  std::string name;  // relative to the folder, as all names here
  TuningRowUse use;
  std::vector<std::string> ignore;  // keys that rows have and their form does not know
};

struct FolderLook {
  std::string path;                    // absolute
  std::vector<std::string> workflows;  // TOML files with a table [workflow]
  std::vector<std::string> documents;  // files, globs and folders for `documents` of a curate stage
  std::size_t document_files = 0;
  std::uint64_t document_bytes = 0;  // as they lie there, packed or not
  std::vector<RowsFile> rows;
  std::vector<std::string> models;   // folders with config.json and weights; "." is the folder itself
  std::vector<std::string> scripts;  // .py and .sh of the folder itself, the likeliest to be started first
  std::size_t images = 0, others = 0;
  std::string an_image, an_other;  // one of each
  bool whole = true;               // false: there is more than was looked at
};

// Hidden files, folders of runs and reports, and what belongs to every project (README, LICENSE, requirements.txt) are
// left out. not_found: there is no such folder; io: it cannot be read.
Result<FolderLook> look_at_folder(const std::string& path, const FolderLimits& limits = {});

}  // namespace longhaul
