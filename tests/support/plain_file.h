// Writes a file without syncing: tests that write thousands of small files need no durability.
#pragma once

#include <fstream>
#include <string>

namespace longhaul {

inline bool write_plain(const std::string& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << bytes;
  return file.good();
}

}  // namespace longhaul
