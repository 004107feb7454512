#include "resiliency/beat/beat_folder.h"

#include <sys/stat.h>

#include "base/files/files.h"
#include "base/files/owned_folder.h"

namespace longhaul {

namespace {

bool in_a_shared_place(const std::string& path) {
  struct stat parent{};
  return ::stat(parent_path(path).c_str(), &parent) == 0 && (parent.st_mode & S_IWOTH) != 0;
}

}  // namespace

Status make_beat_folder(const std::string& path) {
  return in_a_shared_place(path) ? make_private_folder(path) : make_directories(path);
}

Result<HeldFolder> hold_beat_folder(const std::string& path, HeldFolder::Until until) {
  if (in_a_shared_place(path)) return HeldFolder::make(path, until);
  LH_CHECK(make_directories(path));
  return HeldFolder();
}

}  // namespace longhaul
