// Opening files that other users of the machine may have made, exchanged or linked: what lies in /dev/shm, in /tmp, in
// a folder of a project, in a run that a group shares. This is the one place where that is done. What is opened is
// looked at through its descriptor, never by its name, which can be exchanged between two looks. Nothing here follows a
// link at the end of a path (but open_to_read) or waits for the other end of a FIFO.
//
// A refusal is ErrorCode::invalid_input; it names path, owner, mode and what to do. base/files/owned_folder.h has
// folders.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/error/result.h"
#include "base/files/files.h"

namespace longhaul {

// Whose a file or folder has to be, and what others may not do with it.
struct Ownership {
  std::vector<uid_t> owners = {};  // any of them; none named: the user of this process
  mode_t forbidden = 022;          // bits of the mode that must not be set. 022: others cannot have written it
  bool one_name = true;  // of files: no second hard link, by which somebody could lend us another file of ours
};
// Of this process's user, and nobody else may even read it.
Ownership private_to_us();

// Is what is opened a regular file (a folder) of that kind? `path` is for the message.
Status check_owned_file(int fd, const std::string& path, const Ownership& wanted);
Status check_owned_folder(int fd, const std::string& path, const Ownership& wanted);
// "a link of uid 40001 (ana), mode 0777"; and of whatever has that name, itself if it is a link: "not there" if
// nothing.
std::string kind_and_owner(const struct stat& info);
std::string kind_and_owner(const std::string& path);

// A file that is there, with those flags of open(2): a regular one, and of that kind. not_found.
Result<FileDescriptor> open_owned_file(const std::string& path, const Ownership& wanted, int flags = O_RDONLY);
// The same of a name in an opened folder; `path` is for messages.
Result<FileDescriptor> open_owned_file_at(int folder, const std::string& name, const std::string& path,
                                          const Ownership& wanted);
// The same, or made with this mode if it is not there.
Result<FileDescriptor> open_or_create_owned_file(const std::string& path, const Ownership& wanted, mode_t mode);
Result<std::string> read_owned_file(const std::string& path, const Ownership& wanted, std::uint64_t size_max);
// A secret or a token: our own file that nobody else may read, at most 4 KiB, as it is. `what` names it in errors.
Result<std::string> read_secret_file(const std::string& path, const std::string& what);

// What somebody named as input, anybody's, links followed: a regular file, /dev/null, or a descriptor that this process
// holds (/dev/stdin, /dev/fd/63 of a shell's process substitution). A FIFO, a device or a socket of any other name is
// refused at once.
Result<FileDescriptor> open_to_read(const std::string& path);

// A file that was not there before: conflict if anything has that name, a link to nowhere as well. The process's umask
// counts, except where `mode` gives nothing to others: then the file has that mode exactly.
Result<FileDescriptor> create_new_file(const std::string& path, mode_t mode = 0644);
// A new file beside `path`, of a name that nobody can know before (PATH.tmp.<16 hex>), for what is renamed when it is
// whole.
struct FileBeside {
  FileDescriptor fd;
  std::string path;
};
Result<FileBeside> create_beside(const std::string& path, mode_t mode = 0644);

// To write at its end; made if it is not there. Its owner may be another (a colleague's log of the same run), but it is
// a regular file, no link, and in a folder where others may write, no second name of another file.
Result<FileDescriptor> open_to_append(const std::string& path, mode_t mode = 0644);
// The same between fork and exec, async-signal-safe: -1 and errno, ELOOP for a link, EMLINK for a second name, ENXIO
// for what is no regular file. Descriptors of this process (/proc/self/fd/5) and /dev/null are taken as they are.
int append_descriptor(const char* path, mode_t mode) noexcept;
// Makes the file if it is not there, and sets its time to now.
Status touch_file(const std::string& path, mode_t mode = 0644);

// From where it stands to its end; invalid_input above `size_max` bytes. `path` is for messages, `expected` saves
// copies.
Result<std::string> read_to_end(int fd, const std::string& path, std::uint64_t size_max, std::size_t expected = 0);
// All of it, whatever the size of the pieces that the file takes.
Status write_to(int fd, std::string_view text, const std::string& path);

}  // namespace longhaul
