#include "resiliency/beat/beat_folder.h"

#include <sys/stat.h>

#include "base/files.h"
#include "base/owned_folder.h"

namespace longhaul {

Status make_beat_folder(const std::string& path) {
  struct stat parent{};
  const bool shared = ::stat(parent_path(path).c_str(), &parent) == 0 && (parent.st_mode & S_IWOTH) != 0;
  return shared ? make_private_folder(path) : make_directories(path);
}

}  // namespace longhaul
