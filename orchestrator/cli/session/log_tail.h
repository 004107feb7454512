// What has come to a log since somebody looked last.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "base/files/files.h"

namespace longhaul {

class LogTail {
 public:
  // From the end that the file has now.
  explicit LogTail(std::string path) : path_(std::move(path)) {
    if (const auto bytes = file_size(path_); bytes.ok()) shown_ = *bytes;
  }
  // "" where nothing came, or the file cannot be read.
  std::string news() {
    const auto text = read_file(path_, bytes_max);
    if (!text.ok() || text->size() <= shown_) return {};
    return text->substr(std::exchange(shown_, text->size()));
  }

 private:
  static constexpr std::uint64_t bytes_max = 64 << 20;
  std::string path_;
  std::uint64_t shown_ = 0;
};

}  // namespace longhaul
