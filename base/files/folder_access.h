// Who may read and change what is made below a folder, whatever the umask of whoever makes it. The kernel gives it to
// each new file and folder there (a default ACL, of POSIX.1e), so nothing else that a program or a script writes
// elsewhere is opened by it: the umask of the process stays the user's.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "base/error/result.h"

namespace longhaul {

struct FolderAccess {
  std::string group = {};    // Unix group that may change everything below; "": none
  std::string readers = {};  // Unix group that may read it; "": none
  bool closed = false;       // to everybody but the owner

  // Says anything else than that the umask decides.
  bool any() const { return closed || !group.empty() || !readers.empty(); }
};

// Makes the folder, which must not be there (conflict), with this access from the first moment: others never see what
// is put into it. Where nothing is said the umask decides, but nobody else may write. not_found: no such group; io: not
// one's own group; unsupported: the file system has no ACLs and the umask takes away what the access is to give, or
// both groups are named.
Status make_folder_with(const std::string& path, const FolderAccess& access);

// The same where the folder may be there. Then only rights of the group and the readers are added, and only to one's
// own: somebody else's folder is as they want it. `below`: also for what will be made in it.
Status share_folder(const std::string& path, const FolderAccess& access, bool below);

// Who can read what is made in a folder of this access, for people: "everybody (umask 022)".
std::string readers_text(const FolderAccess& access, mode_t umask);
mode_t present_umask();

// May what this process makes below `path` be changed by the folder's group, as the folder says? False only where the
// folder is shared for writing, no ACL carries that on, and the umask takes it away.
bool keeps_group_access(const std::string& path);

}  // namespace longhaul
