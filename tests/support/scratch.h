// A folder of its own for one test case, removed at the end. With LONGHAUL_KEEP_SCRATCH set in the environment it
// stays, and its path is printed.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/files/files.h"

namespace longhaul::testing {

class Scratch {
 public:
  Scratch() {
    const char* base = std::getenv("TMPDIR");
    path_ = join_path(base ? base : "/tmp", "longhaul-test-XXXXXX");
    if (!::mkdtemp(path_.data())) die("Scratch", "mkdtemp", path_);
  }
  ~Scratch() {
    if (std::getenv("LONGHAUL_KEEP_SCRATCH")) {
      std::fprintf(stderr, "kept %s\n", path_.c_str());
    } else {
      (void)remove_tree(path_).ok();
    }
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return join_path(path_, name); }

 private:
  std::string path_;
};

}  // namespace longhaul::testing
