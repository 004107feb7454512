#include "base/files/folder_access.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "base/files/files.h"
#include "base/system/user_names.h"
#include "base/text/text.h"

namespace longhaul {
namespace {

// An ACL as the kernel reads it (acl_ea_header and acl_ea_entry of linux/posix_acl_xattr.h): little-endian.
enum AclTag : std::uint16_t { of_owner = 1, of_group = 4, of_named_group = 8, mask = 16, of_others = 32 };
constexpr std::uint32_t acl_version = 2, no_id = 0xffffffff;
constexpr const char* access_acl = "system.posix_acl_access";
constexpr const char* default_acl = "system.posix_acl_default";

void put(std::string& out, std::uint32_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
}

// What the access comes to on this machine.
struct Rights {
  std::optional<gid_t> owner_group, named_group;  // named: readers beside a group that may write
  mode_t group_bits = 0;                          // rwx of the owning group, in the last three bits

  mode_t folder_mode() const { return 0700 | (group_bits << 3) | (owner_group ? S_ISGID : 0); }
  std::string acl() const {
    std::string out;
    const auto entry = [&](AclTag tag, std::uint32_t bits, std::uint32_t id = no_id) {
      put(out, tag, 2), put(out, bits, 2), put(out, id, 4);
    };
    put(out, acl_version, 4);
    entry(of_owner, 7);
    entry(of_group, group_bits);
    if (named_group) entry(of_named_group, 5, *named_group), entry(mask, 7);
    entry(of_others, 0);
    return out;
  }
};

Result<Rights> rights_of(const FolderAccess& access) {
  Rights rights;
  if (!access.group.empty()) {
    LH_TRY(rights.owner_group, group_id(access.group));
    rights.group_bits = 7;
  }
  if (access.readers.empty()) return rights;
  LH_TRY(const gid_t readers, group_id(access.readers));
  if (rights.owner_group) {
    rights.named_group = readers;
  } else {
    rights.owner_group = readers;
    rights.group_bits = 5;
  }
  return rights;
}

bool has_no_acls(int error_number) {
  return error_number == ENOTSUP || error_number == ENOSYS || error_number == EINVAL;
}

// Without ACLs the umask has to give what the access promises: it is the user's, and is not changed behind their back.
Status check_umask(const std::string& path, const Rights& rights) {
  if (rights.named_group)
    return make_error(ErrorCode::unsupported, "the file system of " + path + " has no ACLs, which two groups need",
                      "name group or readers, not both");
  const mode_t lost = present_umask() & (rights.group_bits << 3);
  if (lost == 0) return {};
  const char* wanted = rights.group_bits == 7 ? "007" : "027";
  return make_error(ErrorCode::unsupported,
                    format("the file system of {} has no ACLs, and the umask {:03o} takes from the group what it is to "
                           "have",
                           path, static_cast<unsigned>(present_umask())),
                    format("say `umask {}` first, in this shell and in the scripts of the jobs", wanted));
}

Status set_acl(int fd, const char* name, const Rights& rights, const std::string& path) {
  const std::string acl = rights.acl();
  if (::fsetxattr(fd, name, acl.data(), acl.size(), 0) == 0) return {};
  if (has_no_acls(errno)) return check_umask(path, rights);
  return errno_error(ErrorCode::io, "cannot say who may read " + path, errno);
}

Status give(int fd, const Rights& rights, mode_t mode, bool below, const std::string& path) {
  if (rights.owner_group && ::fchown(fd, static_cast<uid_t>(-1), *rights.owner_group) != 0)
    return errno_error(ErrorCode::io, "cannot give " + path + " to " + group_text(*rights.owner_group), errno);
  if (::fchmod(fd, mode) != 0) return errno_error(ErrorCode::io, "cannot set who may read " + path, errno);
  if (rights.named_group) LH_CHECK(set_acl(fd, access_acl, rights, path));
  return below ? set_acl(fd, default_acl, rights, path) : Status();
}

Result<FileDescriptor> open_folder(const std::string& path) {
  FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd.valid()) return errno_error(ErrorCode::io, "cannot open the folder " + path, errno);
  return fd;
}

}  // namespace

mode_t present_umask() {
  const auto status = read_file("/proc/self/status", 1 << 20);  // umask(2) cannot be asked without being set
  const std::size_t at = status.ok() ? status->find("\nUmask:") : std::string::npos;
  return at == std::string::npos ? 022 : static_cast<mode_t>(std::strtoul(status->c_str() + at + 7, nullptr, 8));
}

std::string readers_text(const FolderAccess& access, mode_t umask) {
  const auto both = [](const std::string& a, const std::string& b) {
    return a.empty() ? b : b.empty() ? a : a + ", " + b;
  };
  if (access.closed) return "nobody else";
  if (!access.group.empty() || !access.readers.empty())
    return both(access.group.empty() ? "" : "group " + access.group + ", which can also run anything as you",
                access.readers.empty() ? "" : "readers " + access.readers);
  const char* who = (umask & 04) == 0 ? "everybody" : (umask & 040) == 0 ? "your group" : "nobody else";
  return format("{} (umask {:03o})", who, static_cast<unsigned>(umask));
}

Status make_folder_with(const std::string& path, const FolderAccess& access) {
  LH_CHECK(make_directories(parent_path(path)));
  LH_TRY(const Rights rights, rights_of(access));
  if (::mkdir(path.c_str(), access.any() ? 0700 : 0775) != 0)
    return errno_error(errno == EEXIST ? ErrorCode::conflict : ErrorCode::io, "cannot make " + path, errno);
  if (!access.any()) return {};
  LH_TRY(const FileDescriptor fd, open_folder(path));
  return give(fd.get(), rights, rights.folder_mode(), true, path);
}

Status share_folder(const std::string& path, const FolderAccess& access, bool below) {
  FolderAccess shared = access;
  shared.closed = false;
  if (!shared.any()) return make_directories(path);
  LH_CHECK(make_directories(parent_path(path)));
  LH_TRY(const Rights rights, rights_of(shared));
  const bool made = ::mkdir(path.c_str(), 0700) == 0;
  if (!made && errno != EEXIST) return errno_error(ErrorCode::io, "cannot make " + path, errno);
  struct stat info{};
  if (!made && ::stat(path.c_str(), &info) == 0 && info.st_uid != ::geteuid()) return {};
  // A link of the user's own to a folder elsewhere is followed, but not to a folder of another.
  FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid() || ::fstat(fd.get(), &info) != 0)
    return errno_error(ErrorCode::io, "cannot open the folder " + path, errno);
  if (info.st_uid != ::geteuid()) return {};
  const mode_t kept = made ? 0 : info.st_mode & 07777;
  return give(fd.get(), rights, kept | rights.folder_mode(), below, path);
}

bool keeps_group_access(const std::string& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) return true;
  if ((info.st_mode & (S_ISGID | S_IWGRP)) != (S_ISGID | S_IWGRP)) return true;
  return ::getxattr(path.c_str(), default_acl, nullptr, 0) > 0 || (present_umask() & S_IRWXG) == 0;
}

}  // namespace longhaul
