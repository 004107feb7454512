#include "base/process/program_trust.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include "base/files/files.h"
#include "tests/support/scratch.h"

namespace longhaul {

TEST_CASE("trust: folders of PATH that others may write are named, and the current one") {
  const testing::Scratch scratch;
  for (const char* name : {"own", "group", "all"}) REQUIRE(make_directories(scratch.file(name)).ok());
  REQUIRE(::chmod(scratch.file("own").c_str(), 0755) == 0);
  REQUIRE(::chmod(scratch.file("group").c_str(), 0775) == 0);
  REQUIRE(::chmod(scratch.file("all").c_str(), 0777) == 0);
  CHECK(search_path_problems(scratch.file("own") + ":" + scratch.file("none")).empty());
  const auto problems =
      search_path_problems(scratch.file("group") + ":.::" + scratch.file("all") + ":" + scratch.file("own"));
  REQUIRE(problems.size() == 4);
  CHECK(problems[0] == scratch.file("group") + " may be written by a group (mode 0775)");
  CHECK(problems[1].find("'.' is the current folder") == 0);
  CHECK(problems[2].find("'' is the current folder") == 0);
  CHECK(problems[3] == scratch.file("all") + " may be written by everybody (mode 0777)");
}

TEST_CASE("trust: a program is named with its owner and who else may change it") {
  const testing::Scratch scratch;
  const std::string path = scratch.file("tool");
  REQUIRE(write_file_atomic(path, "#!/bin/sh\n", 0755).ok());
  CHECK(find_program("tool", "/nowhere:" + scratch.path()).value() == path);
  CHECK_FALSE(find_program("other-tool", scratch.path()).ok());
  CHECK(owner_text(path).find(", mode 0755") != std::string::npos);
  CHECK(owner_text(path).find("OTHERS") == std::string::npos);
  REQUIRE(::chmod(path.c_str(), 0757) == 0);
  CHECK(owner_text(path).find("OTHERS MAY CHANGE IT: it may be written by everybody") != std::string::npos);
  CHECK(owner_text("/nowhere/tool") == "not there");
}

}  // namespace longhaul
