#include "resiliency/health/left_folders.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include "base/files/files.h"
#include "contracts/records/checkpoint_format.h"
#include "contracts/records/local_copies.h"
#include "contracts/records/manifest.h"
#include "tests/support/scratch.h"

namespace longhaul {
namespace {

// A node's memory, and a shared file system with one stage.
struct Node {
  testing::Scratch scratch;
  std::string memory = scratch.file("shm"), state_dir = scratch.file("runs/r/stages/pretrain/state");

  Node() {
    REQUIRE(make_directories(memory).ok());
    REQUIRE(make_directories(state_dir).ok());
  }
  std::string path(const std::string& name) const { return join_path(memory, name); }
  HeldFolder hold(const std::string& name) const {
    auto held = HeldFolder::make(path(name));
    REQUIRE(held.ok());
    return std::move(*held);
  }
  // Left by a training that was killed.
  void leave_copies(const std::string& name, std::int64_t step) const {
    const HeldFolder held = hold(name);
    REQUIRE(write_file_atomic(join_path(path(name), copies_of_name), state_dir, 0600).ok());
    for (const char* rank : {"rank-00000", "rank-00001"}) {
      const std::string copy = join_path(join_path(path(name), rank), checkpoint_folder_name(step));
      REQUIRE(make_directories(copy).ok());
      REQUIRE(write_file_atomic(join_path(copy, "shard"), std::string(1000, 'w')).ok());
      REQUIRE(write_file_atomic(join_path(copy, "shard.json"), "{}").ok());
      REQUIRE(make_directories(join_path(join_path(path(name), rank), checkpoint_folder_name(step + 1))).ok());
    }
  }
  void save(std::int64_t step, bool whole = true) const {
    const std::string folder = join_path(state_dir + "/checkpoints", checkpoint_folder_name(step));
    REQUIRE(make_directories(folder).ok());
    if (whole) REQUIRE(write_file_atomic(join_path(folder, checkpoint_manifest_name), "{}").ok());
  }
  std::vector<std::string> reasons(const std::string& own = "") const {
    std::vector<std::string> all;
    for (const RemovedFolder& one : remove_left_folders(memory, own)) {
      CHECK(one.outcome.ok());
      CHECK_FALSE(file_exists(one.path));
      all.push_back(one.why);
    }
    return all;
  }
};

}  // namespace

TEST_CASE("pages that a killed job left are removed by who comes next, and those of a living one stay") {
  const Node node;
  const HeldFolder living = node.hold("longhaul-living");
  (void)node.hold("longhaul-killed");
  (void)node.hold("somebodys-folder");
  CHECK(node.reasons() == std::vector<std::string>{"no process uses it"});
  CHECK(file_exists(node.path("longhaul-living")));
  CHECK(file_exists(node.path("somebodys-folder")));
}

TEST_CASE("copies stay while a job may go on from them") {
  const Node node;
  node.leave_copies("longhaul-copies", 240);
  CHECK(node.reasons().empty());
  node.save(200);
  node.save(260, false);  // half written
  CHECK(node.reasons().empty());
  const std::vector<NodeFolder> seen = node_folders(node.memory);
  REQUIRE(seen.size() == 1);
  CHECK(seen[0].newest_copy == 240);
  CHECK(seen[0].bytes > 2'000);
  node.save(240);
  CHECK(node.reasons(node.state_dir).empty());  // those of one's own training are its ranks' business
  REQUIRE(node.reasons().size() == 1);
}

TEST_CASE("copies of a training that has ended or was removed are of no use") {
  const Node node;
  node.leave_copies("longhaul-copies", 240);
  const std::string out = join_path(parent_path(node.state_dir), "out");
  REQUIRE(make_directories(out).ok());
  Manifest manifest = *make_manifest(out);
  manifest.key = "key", manifest.stage = "pretrain";
  REQUIRE(write_manifest(out, manifest).ok());
  const auto ended = node.reasons();
  REQUIRE(ended.size() == 1);
  CHECK(ended[0].find("its training has ended") == 0);
  node.leave_copies("longhaul-copies", 240);
  REQUIRE(remove_tree(node.scratch.file("runs/r")).ok());
  const auto gone = node.reasons();
  REQUIRE(gone.size() == 1);
  CHECK(gone[0].find("its training is gone") == 0);
}

TEST_CASE("a shared file system that is not there says nothing about its trainings") {
  const Node node;
  node.leave_copies("longhaul-copies", 240);
  // Its mount point is not ours.
  CHECK(training_on_disk("/nowhere-at-all/runs/r/state").state == TrainingOnDisk::State::unknown);
  NodeFolder copies = node_folders(node.memory).at(0);
  CHECK(why_left(copies, TrainingOnDisk()).empty());
  copies.use = FolderUse::unknown;
  CHECK(why_left(copies, {TrainingOnDisk::State::gone, false, -1}).empty());
}

}  // namespace longhaul
