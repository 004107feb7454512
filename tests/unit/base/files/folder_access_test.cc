// Access to what is made below a folder: given by the file system, whatever the umask, which stays as it is.
#include "base/files/folder_access.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/files/files.h"
#include "base/system/user_names.h"
#include "base/text/text.h"
#include "tests/support/scratch.h"

namespace longhaul {
namespace {

class ScopedUmask {
 public:
  explicit ScopedUmask(mode_t mask) : before_(::umask(mask)) {}
  ~ScopedUmask() { ::umask(before_); }
  ScopedUmask(const ScopedUmask&) = delete;
  ScopedUmask& operator=(const ScopedUmask&) = delete;

 private:
  mode_t before_;
};

mode_t access_mode(const std::string& path) {
  struct stat info{};
  REQUIRE(::lstat(path.c_str(), &info) == 0);
  return info.st_mode & 07777;
}

std::string own_group() {
  const std::string text = group_text(::getegid());  // "gid 1000 (ana)"
  const std::size_t open = text.find('(');
  return open == std::string::npos ? "" : text.substr(open + 1, text.size() - open - 2);
}

bool has_acls(const std::string& folder) {
  return ::getxattr(folder.c_str(), "system.posix_acl_default", nullptr, 0) >= 0 || errno == ENODATA;
}

// A file and a folder as a script makes them, and a secret.
void fill_folder(const std::string& folder) {
  REQUIRE(make_directories(folder + "/below/deeper").ok());
  REQUIRE(write_file_atomic(folder + "/below/deeper/text", "x").ok());
  REQUIRE(write_file_atomic(folder + "/below/program", "x", 0755).ok());
  REQUIRE(write_file_atomic(folder + "/below/secret", "x", 0600).ok());
}

}  // namespace

TEST_CASE("trust: what is made below a shared folder is the group's and nobody else's, under any umask") {
  const testing::Scratch scratch;
  const std::string group = own_group();
  if (group.empty() || !has_acls(scratch.path())) {
    MESSAGE("skipped: no name of one's own group, or no ACLs here");
    return;
  }
  for (const mode_t mask : {0, 022, 027, 077}) {
    const ScopedUmask umask(mask);
    const std::string shared = scratch.file(format("shared-{:o}", static_cast<unsigned>(mask)));
    REQUIRE(make_folder_with(shared, {.group = group}).ok());
    CHECK(access_mode(shared) == 02770);
    fill_folder(shared);
    CHECK(access_mode(shared + "/below/deeper") == 02770);
    CHECK(access_mode(shared + "/below/deeper/text") == 0640);
    CHECK(access_mode(shared + "/below/program") == 0750);
    CHECK(access_mode(shared + "/below/secret") == 0600);
    CHECK(keeps_group_access(shared));

    const std::string read = scratch.file(format("read-{:o}", static_cast<unsigned>(mask)));
    REQUIRE(make_folder_with(read, {.readers = group}).ok());
    CHECK(access_mode(read) == 02750);
    fill_folder(read);
    CHECK(access_mode(read + "/below/deeper") == 02750);
    CHECK(access_mode(read + "/below/deeper/text") == 0640);

    const std::string closed = scratch.file(format("closed-{:o}", static_cast<unsigned>(mask)));
    REQUIRE(make_folder_with(closed, {.closed = true}).ok());
    CHECK(access_mode(closed) == 0700);
    fill_folder(closed);
    CHECK(access_mode(closed + "/below/deeper") == 0700);
    CHECK(access_mode(closed + "/below/deeper/text") == 0600);

    // Nothing of this opens or closes anything elsewhere.
    const std::string plain = scratch.file(format("plain-{:o}", static_cast<unsigned>(mask)));
    REQUIRE(make_folder_with(plain, {}).ok());
    CHECK(access_mode(plain) == (0775 & ~mask));
    fill_folder(plain);
    CHECK(access_mode(plain + "/below/deeper/text") == (0644 & ~mask));
    CHECK(::umask(mask) == mask);
  }
}

TEST_CASE("trust: readers beside a group that may write") {
  const testing::Scratch scratch;
  if (::geteuid() != 0 || !has_acls(scratch.path()) || !group_id("users").ok() || own_group().empty()) {
    MESSAGE("skipped: needs root, two groups and ACLs");
    return;
  }
  REQUIRE(::chmod(scratch.path().c_str(), 0755) == 0);
  const ScopedUmask umask(077);
  const std::string both = scratch.file("both");
  REQUIRE(make_folder_with(both, {.group = own_group(), .readers = "users"}).ok());
  fill_folder(both);
  CHECK(access_mode(both) == 02770);
  CHECK((access_mode(both + "/below/deeper/text") & 07) == 0);
  CHECK(::getxattr((both + "/below/deeper/text").c_str(), "system.posix_acl_access", nullptr, 0) > 0);
  CHECK(access_mode(both + "/below/secret") == 0600);
}

TEST_CASE("trust: sharing never changes a folder that is another's, follows no link, and says what is not there") {
  const testing::Scratch scratch;
  const std::string group = own_group();
  if (group.empty()) {
    MESSAGE("skipped: no name of one's own group");
    return;
  }
  CHECK(make_folder_with(scratch.file("x"), {.group = "no-such-group"}).error().code == ErrorCode::not_found);
  CHECK(!file_exists(scratch.file("x")));
  REQUIRE(make_directories(scratch.file("there")).ok());
  CHECK(make_folder_with(scratch.file("there"), {.group = group}).error().code == ErrorCode::conflict);
  REQUIRE(::symlink(scratch.file("there").c_str(), scratch.file("link").c_str()) == 0);
  CHECK(make_folder_with(scratch.file("link"), {.group = group}).error().code == ErrorCode::conflict);
  REQUIRE(::chmod(scratch.file("there").c_str(), 0755) == 0);
  REQUIRE(share_folder(scratch.file("there"), {.group = group}, false).ok());
  CHECK(access_mode(scratch.file("there")) == 02775);  // what was open stays open
  REQUIRE(make_directories(scratch.file("there/below")).ok());
  CHECK((access_mode(scratch.file("there/below")) & 020) == 0);  // only the folder itself
  if (::geteuid() == 0) {
    REQUIRE(make_directories(scratch.file("anothers")).ok());
    REQUIRE(::chown(scratch.file("anothers").c_str(), 40001, 40001) == 0);
    const mode_t before = access_mode(scratch.file("anothers"));
    CHECK(share_folder(scratch.file("anothers"), {.group = group}, true).ok());
    CHECK(access_mode(scratch.file("anothers")) == before);
  }
}

}  // namespace longhaul
