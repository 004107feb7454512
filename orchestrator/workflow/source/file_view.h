// What planning may see of the disk: the text of recipes, and which files a raw input names. Passed in, so that tests
// plan against a made-up disk.
#pragma once

#include <string>
#include <vector>

#include "base/error/result.h"

namespace longhaul {

class FileView {
 public:
  virtual ~FileView() = default;
  virtual Result<std::string> read(const std::string& path) const = 0;
  // `pattern` is absolute. With * ? or [ it is a glob, otherwise one file or folder. Returns sorted absolute paths, at
  // least one; not_found or io (no permission) otherwise.
  virtual Result<std::vector<std::string>> expand(const std::string& pattern) const = 0;
  // Whether this user may execute the file at an absolute path that exists; true where that is not known.
  virtual bool executable(const std::string& /*path*/) const { return true; }
};

class SystemFileView final : public FileView {
 public:
  Result<std::string> read(const std::string& path) const override;
  Result<std::vector<std::string>> expand(const std::string& pattern) const override;
  bool executable(const std::string& path) const override;
};

}  // namespace longhaul
