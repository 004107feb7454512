#include "engine/comm/rendezvous.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files/files.h"
#include "contracts/control/rendezvous_folder.h"
#include "tests/support/scratch.h"

namespace longhaul {

TEST_CASE("rendezvous: what is no name, or too long for a value, is refused before it is put") {
  const testing::Scratch folder;
  FileRendezvous store(folder.file("store"));
  for (const Status& refused : {store.put("../id", "a"), store.put("", "a"), store.put("id", std::string(4097, 'a'))}) {
    REQUIRE(!refused.ok());
    CHECK(refused.error().code == ErrorCode::invalid_input);
  }
  CHECK(!file_exists(folder.file("store")));
}

TEST_CASE("rendezvous: one of files asks whoever carries entries, and reads what was brought or refused") {
  const testing::Scratch folder;
  const std::string store = folder.file("store");
  FileRendezvous rank(store);
  CHECK(!rank.look("id").value());  // nobody carries yet
  CHECK(!file_exists(wanted_entries_folder(store)));
  for (const std::string& one :
       {carried_entries_folder(store), wanted_entries_folder(store), refused_entries_folder(store)})
    REQUIRE(make_directories(one).ok());
  CHECK(!rank.look("id").value());
  CHECK(list_directory(wanted_entries_folder(store)).value() == std::vector<std::string>{"id"});
  REQUIRE(write_file_renamed(join_path(carried_entries_folder(store), "id"), "w").ok());
  CHECK(rank.look("id").value() == "w");
  REQUIRE(rank.put("own", "v").ok());
  CHECK(rank.look("own").value() == "v");
  REQUIRE(write_file_renamed(join_path(refused_entries_folder(store), "own"), "n1 and n2").ok());
  const auto refused = rank.look("own");
  REQUIRE(!refused.ok());
  CHECK(refused.error().message().find("n1 and n2") != std::string::npos);
  CHECK(list_directory(wanted_entries_folder(store))->size() == 1);

  Launch launch;
  launch.launch_dir = join_path(store, "logs");
  CHECK(!rendezvous_of(launch)->look("id").value());  // beside the logs, where nobody has put it
  launch.store_dir = store;
  CHECK(rendezvous_of(launch)->look("id").value() == "w");
}

TEST_CASE("trust: an entry is a file of the ranks' owner that others could not write, no link and no FIFO") {
  const testing::Scratch folder;
  const std::string store = folder.file("store");
  FileRendezvous rank(store);
  for (const std::string& one :
       {carried_entries_folder(store), wanted_entries_folder(store), refused_entries_folder(store)})
    REQUIRE(make_directories(one).ok());
  REQUIRE(write_file_atomic(folder.file("forged"), "somebody's address").ok());
  REQUIRE(::symlink(folder.file("forged").c_str(), join_path(carried_entries_folder(store), "id").c_str()) == 0);
  REQUIRE(::mkfifo(join_path(store, "fifo").c_str(), 0666) == 0);
  REQUIRE(write_file_atomic(join_path(carried_entries_folder(store), "open"), "w").ok());
  REQUIRE(::chmod(join_path(carried_entries_folder(store), "open").c_str(), 0666) == 0);
  for (const char* name : {"id", "fifo", "open"}) {
    const auto looked = rank.look(name);
    REQUIRE_FALSE(looked.ok());
    CHECK(looked.error().code == ErrorCode::invalid_input);
    CHECK(looked.error().message().find("uid ") != std::string::npos);
  }
  // Asking makes a file, and follows no link for it.
  REQUIRE(::symlink(folder.file("made").c_str(), join_path(wanted_entries_folder(store), "asked").c_str()) == 0);
  CHECK_FALSE(rank.look("asked").ok());
  CHECK_FALSE(file_exists(folder.file("made")));
}

}  // namespace longhaul
