// A folder of a node that is in use, as the node's kernel knows it: whoever uses it holds a shared lock (flock(2)) on
// the file `in-use` in it. The lock ends with the process, however that ends; so what a killed job has left can be
// distinguished from what a living one uses, also from within another pid namespace, and no pid has to be believed.
//
// For file systems of the node itself (/dev/shm, its disks). Where locks are not supported a folder counts as used.
#pragma once

#include <string>

#include "base/error/result.h"
#include "base/files/files.h"

namespace longhaul {

class HeldFolder {
 public:
  enum class Until { closed, children_end };  // children_end: programs that this process becomes or starts hold it, too

  HeldFolder() = default;  // holds none
  // The private folder of this path (base/files/owned_folder.h), made if it is not there, and held. Waits at most a
  // second for somebody who is removing it: unavailable.
  static Result<HeldFolder> make(const std::string& path, Until until = Until::closed);
  void leave() { lock_.reset(); }

 private:
  explicit HeldFolder(FileDescriptor lock) : lock_(std::move(lock)) {}
  FileDescriptor lock_;
};

enum class FolderUse { used, left, unknown };  // unknown: not a private folder of ours, or it was never held
FolderUse use_of_folder(const std::string& path);
// Removes it unless somebody holds it, by a rename first: nobody can come to hold what is half removed. False: used or
// unknown, and nothing was changed.
Result<bool> remove_left_folder(const std::string& path);

}  // namespace longhaul
