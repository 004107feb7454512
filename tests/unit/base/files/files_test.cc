#include "base/files/files.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/scratch.h"

namespace longhaul {
namespace {

void put(const std::string& path, std::string_view text) {
  REQUIRE(write_file_atomic(path, text).ok());
}

// Runs `attempt` in a child whose files may not grow above `bytes`; true if the child said so.
template <class F>
bool holds_with_file_limit(rlim_t bytes, const F& attempt) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);  // write(2) then fails with EFBIG, as it does with ENOSPC on a full disk
    const rlimit limit{bytes, bytes};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    ::_exit(attempt() ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace

TEST_CASE("an atomic write replaces the whole text and leaves nothing beside it") {
  const testing::Scratch scratch;
  put(scratch.file("a"), "a longer first text");
  put(scratch.file("a"), "second");
  CHECK(read_file(scratch.file("a")).value() == "second");
  CHECK(list_directory(scratch.path()).value() == std::vector<std::string>{"a"});
  REQUIRE(write_file_atomic(scratch.file("secret"), "token", 0600).ok());
  struct stat info{};
  REQUIRE(::stat(scratch.file("secret").c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0600);
  CHECK(write_file_atomic(scratch.file("none/b"), "x").error().code == ErrorCode::not_found);
}

TEST_CASE("what does not fit leaves the old text and nothing beside it") {
  const testing::Scratch scratch;
  put(scratch.file("a"), "old");
  const std::string large(100'000, 'x');
  CHECK(holds_with_file_limit(4096, [&] {
    const Status status = write_file_atomic(scratch.file("a"), large);
    return !status.ok() && status.error().code == ErrorCode::io;
  }));
  CHECK(holds_with_file_limit(4096, [&] { return !create_file_exclusive(scratch.file("b"), large).ok(); }));
  CHECK(read_file(scratch.file("a")).value() == "old");
  CHECK(list_directory(scratch.path()).value() == std::vector<std::string>{"a"});
}

TEST_CASE("a full disk is named, with a remedy") {
  const testing::Scratch scratch;
  const std::string disk = scratch.file("disk");
  REQUIRE(make_directories(disk).ok());
  if (::mount("none", disk.c_str(), "tmpfs", 0, "size=64k") != 0) {
    MESSAGE("no right to mount a tmpfs here: the file size limit of the case above stands for it");
    return;
  }
  const Status status = write_file_atomic(disk + "/a", std::string(200'000, 'x'));
  const auto left = list_directory(disk);
  const auto free = free_bytes(disk);
  ::umount(disk.c_str());
  REQUIRE_FALSE(status.ok());
  CHECK(status.error().code == ErrorCode::io);
  CHECK(status.error().hint.find("free disk space") != std::string::npos);
  CHECK(left.value().empty());
  CHECK(free.value() <= 65536);
}

TEST_CASE("a finished folder is published once") {
  const testing::Scratch scratch;
  REQUIRE(make_directories(scratch.file("staging/sub")).ok());
  put(scratch.file("staging/sub/f"), "x");
  REQUIRE(sync_tree(scratch.file("staging")).ok());
  REQUIRE(publish_directory(scratch.file("staging"), scratch.file("out")).ok());
  CHECK_FALSE(file_exists(scratch.file("staging")));
  CHECK(read_file(scratch.file("out/sub/f")).value() == "x");

  REQUIRE(make_directories(scratch.file("second")).ok());
  put(scratch.file("second/f"), "y");
  CHECK(publish_directory(scratch.file("second"), scratch.file("out")).error().code == ErrorCode::conflict);
  CHECK(read_file(scratch.file("out/sub/f")).value() == "x");
  CHECK(read_file(scratch.file("second/f")).value() == "y");
  CHECK(publish_directory(scratch.file("absent"), scratch.file("other")).error().code == ErrorCode::not_found);
}

TEST_CASE("an empty folder or a file of that name is a conflict as well") {
  // rename(2) alone replaces an empty folder without a word.
  const testing::Scratch scratch;
  REQUIRE(make_directories(scratch.file("staging")).ok());
  REQUIRE(make_directories(scratch.file("empty")).ok());
  put(scratch.file("file"), "x");
  CHECK(publish_directory(scratch.file("staging"), scratch.file("empty")).error().code == ErrorCode::conflict);
  CHECK(publish_directory(scratch.file("staging"), scratch.file("file")).error().code == ErrorCode::conflict);
  CHECK(is_directory(scratch.file("staging")));
}

TEST_CASE("reading has limits and distinguishes a folder from a file") {
  const testing::Scratch scratch;
  put(scratch.file("a"), "0123456789");
  CHECK(read_file(scratch.file("a"), 10).value().size() == 10);
  CHECK(read_file(scratch.file("a"), 9).error().code == ErrorCode::invalid_input);
  CHECK(read_file(scratch.path()).error().code == ErrorCode::invalid_input);
  CHECK(read_file(scratch.file("none")).error().code == ErrorCode::not_found);
  CHECK(file_size(scratch.file("a")).value() == 10);
  CHECK(read_file("/proc/self/stat").value().size() > 10);  // its size is said to be 0
}

TEST_CASE("appending keeps what is there") {
  const testing::Scratch scratch;
  REQUIRE(append_file_synced(scratch.file("log"), "one\n").ok());
  REQUIRE(append_file_synced(scratch.file("log"), "two\n").ok());
  CHECK(read_file(scratch.file("log")).value() == "one\ntwo\n");
}

TEST_CASE("lists are sorted, relative, and name a link by its own place") {
  const testing::Scratch scratch;
  REQUIRE(make_directories(scratch.file("t/b")).ok());
  put(scratch.file("t/b/2"), "");
  put(scratch.file("t/a"), "");
  put(scratch.file("outside"), "");
  REQUIRE(::symlink(scratch.file("outside").c_str(), scratch.file("t/link").c_str()) == 0);
  CHECK(list_tree(scratch.file("t")).value() == std::vector<std::string>{"a", "b/2", "link"});
  CHECK(list_directory(scratch.file("t")).value() == std::vector<std::string>{"a", "b", "link"});
  CHECK(list_directory(scratch.file("none")).error().code == ErrorCode::not_found);
  CHECK(list_tree(scratch.file("none")).error().code == ErrorCode::not_found);
  REQUIRE(remove_tree(scratch.file("t")).ok());
  CHECK(file_exists(scratch.file("outside")));
  CHECK(remove_tree(scratch.file("t")).ok());  // absent is fine
}

TEST_CASE("a mapped file shows its bytes, an empty one an empty view") {
  const testing::Scratch scratch;
  put(scratch.file("a"), "mapped");
  put(scratch.file("empty"), "");
  MappedFile file = MappedFile::open(scratch.file("a")).value();
  CHECK(file.view() == "mapped");
  file = MappedFile::open(scratch.file("empty")).value();
  CHECK(file.view().empty());
  CHECK_FALSE(MappedFile::open(scratch.path()).ok());
}

TEST_CASE("paths are put together and taken apart") {
  CHECK(join_path("a", "b") == "a/b");
  CHECK(join_path("a/", "b") == "a/b");
  CHECK(join_path("a", "/b") == "/b");
  CHECK(join_path("", "b") == "b");
  CHECK(join_path("a", "") == "a");
  CHECK(parent_path("a/b") == "a");
  CHECK(parent_path("b") == ".");
  CHECK(file_name("a/b.txt") == "b.txt");
  CHECK(absolute_path("/a/./b/../c") == "/a/c");
  CHECK(absolute_path("x").front() == '/');
}

}  // namespace longhaul
