#include "base/files/held_folder.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/process/process.h"
#include "tests/support/scratch.h"

namespace longhaul {

TEST_CASE("a folder is in use while somebody holds it, and left when its last holder is gone") {
  const testing::Scratch node;
  const std::string path = node.file("folder");
  auto one = HeldFolder::make(path), another = HeldFolder::make(path);
  REQUIRE(one.ok());
  REQUIRE(another.ok());
  CHECK(use_of_folder(path) == FolderUse::used);
  one->leave();
  CHECK(use_of_folder(path) == FolderUse::used);
  CHECK_FALSE(*remove_left_folder(path));
  another->leave();
  CHECK(use_of_folder(path) == FolderUse::left);
  CHECK(*remove_left_folder(path));
  CHECK_FALSE(file_exists(path));
  CHECK(list_directory(node.path())->empty());
}

TEST_CASE("what a killed process held is left, at once") {
  const testing::Scratch node;
  const std::string path = node.file("folder");
  int reported[2];
  REQUIRE(::pipe(reported) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto held = HeldFolder::make(path);
    (void)!::write(reported[1], held.ok() ? "+" : "-", 1);
    for (;;) ::pause();
  }
  char word = 0;
  REQUIRE(::read(reported[0], &word, 1) == 1);
  REQUIRE(word == '+');
  CHECK(use_of_folder(path) == FolderUse::used);
  REQUIRE(::kill(child, SIGKILL) == 0);
  REQUIRE(::waitpid(child, nullptr, 0) == child);
  CHECK(use_of_folder(path) == FolderUse::left);
  ::close(reported[0]), ::close(reported[1]);
}

TEST_CASE("a program that a process becomes holds the folder on, if it is to") {
  const testing::Scratch node;
  for (const auto& [until, use] : {std::pair{HeldFolder::Until::children_end, FolderUse::used},
                                   std::pair{HeldFolder::Until::closed, FolderUse::left}}) {
    const std::string path = node.file(use == FolderUse::used ? "kept" : "closed");
    int reported[2], end[2];
    REQUIRE(::pipe(reported) == 0);
    REQUIRE(::pipe(end) == 0);
    const pid_t child = ::fork();
    if (child == 0) {
      const auto held = HeldFolder::make(path, until);
      ::dup2(end[0], 0), ::dup2(reported[1], 1);
      for (const int fd : {reported[0], reported[1], end[0], end[1]}) ::close(fd);
      ::execl("/bin/sh", "sh", "-c", "echo begun; read line", nullptr);
      ::_exit(1);
    }
    char word = 0;
    REQUIRE(::read(reported[0], &word, 1) == 1);
    CHECK(use_of_folder(path) == use);
    for (const int fd : {reported[0], reported[1], end[0], end[1]}) ::close(fd);
    REQUIRE(::waitpid(child, nullptr, 0) == child);
    CHECK(use_of_folder(path) == FolderUse::left);
  }
}

TEST_CASE("of a folder that nobody ever held, or that others may write, nothing is known, and it stays") {
  const testing::Scratch node;
  const std::string bare = node.file("bare"), open = node.file("open");
  REQUIRE(::mkdir(bare.c_str(), 0700) == 0);
  REQUIRE(HeldFolder::make(open).ok());
  REQUIRE(::chmod(open.c_str(), 0777) == 0);
  for (const std::string& path : {bare, open, node.file("absent")}) {
    CHECK(use_of_folder(path) == FolderUse::unknown);
    CHECK_FALSE(*remove_left_folder(path));
  }
  CHECK(file_exists(bare));
  CHECK(file_exists(open));
}

}  // namespace longhaul
