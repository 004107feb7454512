// Files as plans of tests see them. Every pattern stands for itself, so raw inputs are taken to exist.
#pragma once

#include "base/files/files.h"
#include "orchestrator/workflow/source/file_view.h"

namespace longhaul::testing {

// Nothing can be read.
class PlainFiles : public FileView {
 public:
  Result<std::string> read(const std::string& path) const override {
    return make_error(ErrorCode::not_found, path + " does not exist");
  }
  Result<std::vector<std::string>> expand(const std::string& pattern) const override {
    return std::vector<std::string>{pattern};
  }
};

// Recipes are those of the disk.
class DiskFiles final : public PlainFiles {
 public:
  Result<std::string> read(const std::string& path) const override { return read_file(path); }
};

}  // namespace longhaul::testing
