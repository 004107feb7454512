// What is left of a save when the power goes: of a name that its folder was not synced with nothing, of bytes that were
// not synced an empty file.
#include <dlfcn.h>
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <map>
#include <mutex>
#include <set>

#include "base/text/text.h"
#include "engine/checkpoint/global/checkpoint_saver.h"
#include "tests/unit/engine/checkpoint/checkpoint_tests.h"

using namespace longhaul;
using namespace longhaul::test;

namespace {
namespace power_loss {

using FileId = std::pair<dev_t, ino_t>;

// What this program has brought to the disk since a test began.
struct Disk {
  std::mutex mutex;
  bool watched = false;
  std::set<FileId> bytes;                         // files
  std::map<FileId, std::set<std::string>> names;  // folders, with what was in them when they were synced
  std::vector<std::string> early;                 // files beside a manifest that was named before they were on the disk
  std::vector<std::string> removed;               // names of files, in their order
};
Disk& disk() {
  static Disk one;
  return one;
}

FileId id_of(const std::string& path) {
  struct stat info{};
  return ::stat(path.c_str(), &info) == 0 ? FileId{info.st_dev, info.st_ino} : FileId{};
}
bool is_file(const std::string& path) {
  struct stat info{};
  return ::lstat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}
std::set<std::string> names_in(const std::string& folder) {
  const auto names = list_directory(folder);
  return names.ok() ? std::set<std::string>(names->begin(), names->end()) : std::set<std::string>{};
}

void synced(int fd) {
  const std::string path = format("/proc/self/fd/{}", fd);
  const std::lock_guard lock(disk().mutex);
  if (!disk().watched) return;
  if (is_directory(path))
    disk().names[id_of(path)] = names_in(path + "/");
  else
    disk().bytes.insert(id_of(path));
}

void is_named(const std::string& from, const std::string& to) {
  const std::lock_guard lock(disk().mutex);
  if (!disk().watched || !to.ends_with("/checkpoint.json")) return;
  const std::string folder = parent_path(to);
  for (const std::string& name : names_in(folder)) {
    const std::string path = join_path(folder, name);
    if (path == from || !is_file(path)) continue;
    if (!disk().names[id_of(folder)].contains(name) || !disk().bytes.contains(id_of(path)))
      disk().early.push_back(name);
  }
}

void is_removed(const std::string& path) {
  const std::lock_guard lock(disk().mutex);
  if (disk().watched) disk().removed.push_back(file_name(path));
}

// The test's own life on the disk.
struct Watched {
  Watched() {
    disk().bytes.clear(), disk().names.clear(), disk().early.clear(), disk().removed.clear();
    disk().watched = true;
  }
  ~Watched() { disk().watched = false; }
  // Names of files that were lost or emptied.
  static std::vector<std::string> lose_power(const std::string& folder) {
    std::vector<std::string> lost;
    const auto files = list_tree(folder);
    for (const std::string& name : *files) {
      const std::string path = join_path(folder, name);
      if (!is_file(path)) continue;
      const bool is_named = disk().names[id_of(parent_path(path))].contains(file_name(path));
      if (is_named && disk().bytes.contains(id_of(path))) continue;
      CHECK((is_named ? ::truncate(path.c_str(), 0) : ::unlink(path.c_str())) == 0);
      lost.push_back(file_name(path));
    }
    return lost;
  }
};

template <class F>
F next_of(const char* name) {
  return reinterpret_cast<F>(::dlsym(RTLD_NEXT, name));
}

}  // namespace power_loss
}  // namespace

// These stand before the C library's in this program.
extern "C" int fsync(int fd) {
  const int done = power_loss::next_of<int (*)(int)>("fsync")(fd);
  if (done == 0) power_loss::synced(fd);
  return done;
}
extern "C" int rename(const char* from, const char* to) noexcept {
  power_loss::is_named(from, to);
  return power_loss::next_of<int (*)(const char*, const char*)>("rename")(from, to);
}
extern "C" int remove(const char* path) noexcept {
  power_loss::is_removed(path);
  return power_loss::next_of<int (*)(const char*)>("remove")(path);
}
extern "C" int unlinkat(int folder, const char* name, int flags) noexcept {
  power_loss::is_removed(name);
  return power_loss::next_of<int (*)(int, const char*, int)>("unlinkat")(folder, name, flags);
}

TEST_CASE("power loss: what was published as a checkpoint is found again whole, what was not may be gone") {
  CheckpointFolder folder;
  const SystemClock clock;
  const std::string root = folder.path + "/state";
  const CheckpointStore checkpoints(clock, root, 3);
  TrainingSetup setup(8, 20);
  const power_loss::Watched watched;
  for (int i = 0; i < 2; ++i) {
    train(setup, 1);
    REQUIRE(checkpoints.save(setup.mesh.world(), state_of(setup.trainer)).ok());
  }
  CHECK(power_loss::disk().early == std::vector<std::string>{});
  const std::vector<float> weights = weights_of(setup);
  const std::string unfinished = checkpoints.path_of(3);
  REQUIRE(make_directories(unfinished).ok());
  REQUIRE(write_file_renamed(join_path(unfinished, checkpoints.shard_name(0, 1)), "the beginning of a shard").ok());
  CHECK(power_loss::Watched::lose_power(root) == std::vector<std::string>{checkpoints.shard_name(0, 1)});
  TrainingSetup again(8, 20);
  TrainingState state = state_of(again.trainer);
  const auto loaded = checkpoints.load_newest(again.mesh.world(), state);
  REQUIRE(loaded.ok());
  REQUIRE(loaded->has_value());
  CHECK((*loaded)->passed_over.empty());
  CHECK(state.progress.step == 2);
  CHECK(weights_of(again) == weights);
}

TEST_CASE("power loss: whatever lies beside the shards is on the disk before the manifest is named") {
  CheckpointFolder folder;
  const SystemClock clock;
  const CheckpointStore checkpoints(clock, folder.path + "/state", 3);
  TrainingSetup setup(8, 20);
  const power_loss::Watched watched;
  train(setup, 1);
  CheckpointSaver saver(clock, checkpoints, {});
  REQUIRE(saver.start(setup.mesh.world(), state_of(setup.trainer)).ok());
  while (!saver.ready()) ::usleep(1'000);
  // As another rank writes its shard, or one that does not sync.
  REQUIRE(write_file_renamed(join_path(checkpoints.path_of(1), "beside.safetensors"), "its bytes").ok());
  const auto saved = saver.finish(setup.mesh.world());
  REQUIRE(saved.ok());
  CHECK(power_loss::disk().early == std::vector<std::string>{});
  CHECK(power_loss::Watched::lose_power(saved->path) == std::vector<std::string>{});
}

TEST_CASE("power loss: of a checkpoint that is removed the manifest goes first: half of one never looks whole") {
  const CheckpointFolder folder;
  const SystemClock clock;
  const CheckpointStore checkpoints(clock, folder.path + "/state", 3);
  const std::string old = checkpoints.path_of(3);
  REQUIRE(make_directories(old).ok());
  for (int rank = 0; rank < 20; ++rank)
    REQUIRE(write_file_renamed(join_path(old, checkpoints.shard_name(rank, 20)), "a shard").ok());
  REQUIRE(write_file_renamed(join_path(old, checkpoint_manifest_name), "{}").ok());
  const power_loss::Watched watched;
  REQUIRE(checkpoints.prepare(old).ok());
  REQUIRE(power_loss::disk().removed.size() > 20);
  CHECK(power_loss::disk().removed.front() == checkpoint_manifest_name);
}
