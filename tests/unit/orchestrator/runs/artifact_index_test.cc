// Artifacts of other runs: who has to own them, and what is read before another's is believed.
#include "orchestrator/runs/artifact_index.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files/files.h"
#include "base/text/text.h"
#include "orchestrator/reuse/reuse_outline.h"
#include "tests/support/scratch.h"

namespace longhaul {
namespace {

constexpr uid_t maker_uid = 40001, colleague_uid = 40002;
constexpr gid_t team_gid = 50001;

// One artifact with its pointer, of this process's user.
struct ArtifactRig {
  testing::Scratch scratch;
  std::string root = scratch.file("index"), folder = scratch.file("out"), key = "0123456789abcdef";
  ArtifactTrust self = artifact_trust("");

  ArtifactRig() {
    REQUIRE(make_directories(join_path(folder, "model")).ok());
    REQUIRE(write_file_atomic(join_path(folder, "model/weights"), "good weights").ok());
    auto manifest = make_manifest(folder);
    REQUIRE(manifest.ok());
    manifest->key = key;
    REQUIRE(write_manifest(folder, *manifest).ok());
    REQUIRE(register_artifact(root, key, *read_artifact(folder, key), self).ok());
  }
  std::string pointer() const { return join_path(root, key + ".json"); }
  void give(const std::string& path, uid_t uid, gid_t gid = team_gid) const {
    REQUIRE(::lchown(path.c_str(), uid, gid) == 0);
  }
  void give_all(uid_t uid, gid_t gid = team_gid) const {
    for (const std::string& path : {pointer(), folder, join_path(folder, "manifest.json"), join_path(folder, "model"),
                                    join_path(folder, "model/weights")})
      give(path, uid, gid);
  }
  // Not taken; the reason says this.
  bool disbelieved(const ArtifactTrust& trust, const std::string& says) const {
    const auto found = find_artifact(root, key, trust);
    if (found.ok() || found.error().code != ErrorCode::invalid_input) return false;
    CHECK_MESSAGE(found.error().message().find(says) != std::string::npos, found.error().message());
    return true;
  }
};

bool can_give_away() {
  if (::geteuid() == 0) return true;
  MESSAGE("skipped: only root can give files to other users");
  return false;
}

}  // namespace

TEST_CASE("trust: one's own artifact is taken, and not what anybody may change") {
  const ArtifactRig rig;
  const auto found = find_artifact(rig.root, rig.key, rig.self);
  REQUIRE(found.ok());
  CHECK(found->folder == rig.folder);
  CHECK(found->uid == static_cast<std::int64_t>(::geteuid()));
  CHECK(found->verified);
  CHECK(cached_text("tokens", found->folder, found->uid, true) == "tokens is cached: " + rig.folder + ", yours");
  CHECK(find_artifact(rig.root, "another", rig.self).error().code == ErrorCode::not_found);
  for (const std::string& path : {rig.pointer(), rig.folder, join_path(rig.folder, "manifest.json")}) {
    struct stat info{};
    REQUIRE(::stat(path.c_str(), &info) == 0);
    REQUIRE(::chmod(path.c_str(), 0777) == 0);
    CHECK(rig.disbelieved(rig.self, path + " is"));
    CHECK(rig.disbelieved(rig.self, "anybody may change it"));
    REQUIRE(::chmod(path.c_str(), info.st_mode & 07777) == 0);
  }
  CHECK(find_artifact(rig.root, rig.key, rig.self).ok());
  // A link in the place of the pointer is no pointer.
  REQUIRE(::rename(rig.pointer().c_str(), rig.scratch.file("p").c_str()) == 0);
  REQUIRE(::symlink(rig.scratch.file("p").c_str(), rig.pointer().c_str()) == 0);
  CHECK(!find_artifact(rig.root, rig.key, rig.self).ok());
}

TEST_CASE("trust: a pointer, a manifest or a folder of a stranger is not believed, and the stranger is named") {
  if (!can_give_away()) return;
  const ArtifactRig rig;
  for (const std::string& path : {rig.pointer(), rig.folder, join_path(rig.folder, "manifest.json")}) {
    rig.give(path, maker_uid);
    CHECK(rig.disbelieved(rig.self, path + " is"));
    CHECK(rig.disbelieved(rig.self, "uid 40001"));
    CHECK(rig.disbelieved({.self = colleague_uid}, "neither yours nor of a group of this site"));
    rig.give(path, 0, 0);
  }
  CHECK(find_artifact(rig.root, rig.key, rig.self).ok());
  CHECK(artifact_trust("users").groups.empty());  // root believes root
}

TEST_CASE("trust: an artifact of the site's group is verified in depth, once, and its owner is said") {
  if (!can_give_away()) return;
  const ArtifactRig rig;
  rig.give_all(maker_uid);
  const ArtifactTrust colleague{.self = colleague_uid, .groups = {team_gid}};
  ArtifactTrust looking = colleague;
  looking.verify = false;
  CHECK(!find_artifact(rig.root, rig.key, looking)->verified);  // plan: writes nothing
  CHECK(list_directory(rig.root)->size() == 1);
  const auto found = find_artifact(rig.root, rig.key, colleague);
  REQUIRE_MESSAGE(found.ok(), (found.ok() ? "" : found.error().message()));
  CHECK(found->uid == maker_uid);
  CHECK(found->verified);
  CHECK(cached_text("tokens", "/x", maker_uid, false) == "tokens is cached: /x, of uid 40001, not verified yet");
  CHECK(find_artifact(rig.root, rig.key, looking)->verified);  // remembered

  // Of the same size, so that only the digest shows it.
  const std::string weights = join_path(rig.folder, "model/weights");
  REQUIRE(write_file_atomic(weights, "evil weights").ok());
  rig.give(weights, maker_uid);
  CHECK(find_artifact(rig.root, rig.key, colleague).ok());  // once
  const ArtifactTrust another{.self = 40004, .groups = {team_gid}};
  CHECK(find_artifact(rig.root, rig.key, another).error().code == ErrorCode::corrupt);
  CHECK(find_artifact(rig.root, rig.key, another).error().message().find(weights) != std::string::npos);

  // Behind a folder in which anybody may exchange it, it is nobody's.
  REQUIRE(::chmod(rig.scratch.path().c_str(), 0777) == 0);
  CHECK(rig.disbelieved(colleague, "anybody may exchange what lies in it"));
  REQUIRE(::chmod(rig.scratch.path().c_str(), 01777) == 0);
  CHECK(find_artifact(rig.root, rig.key, colleague).ok());
}

TEST_CASE("trust: a link among the files of another's artifact is not followed") {
  if (!can_give_away()) return;
  const ArtifactRig rig;
  const std::string weights = join_path(rig.folder, "model/weights");
  REQUIRE(::rename(weights.c_str(), rig.scratch.file("elsewhere").c_str()) == 0);
  REQUIRE(::symlink(rig.scratch.file("elsewhere").c_str(), weights.c_str()) == 0);
  rig.give_all(maker_uid);
  rig.give(rig.scratch.file("elsewhere"), maker_uid);
  CHECK(!find_artifact(rig.root, rig.key, {.self = colleague_uid, .groups = {team_gid}}).ok());
}

TEST_CASE("trust: a manifest names only what lies below it") {
  const ArtifactRig rig;
  for (const char* path : {"/etc/passwd", "../outside", "model/../../outside", "model//weights", "./model", ""}) {
    auto manifest = make_manifest(rig.folder);
    REQUIRE(manifest.ok());
    manifest->key = rig.key;
    std::erase_if(manifest->files, [](const ManifestFile& file) { return file.path == "manifest.json"; });
    manifest->files.push_back({path, 1, "0"});
    REQUIRE(write_manifest(rig.folder, *manifest).ok());
    const auto read = read_manifest(rig.folder);
    REQUIRE(!read.ok());
    CHECK(read.error().code == ErrorCode::corrupt);
    CHECK_MESSAGE(read.error().what.find("is not below its folder") != std::string::npos, read.error().what);
  }
}

}  // namespace longhaul
