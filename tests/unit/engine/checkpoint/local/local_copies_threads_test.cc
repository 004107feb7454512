// Copies on nodes, each rank a node of its own: also under ThreadSanitizer.
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <functional>
#include <set>

#include "base/process/fault_point.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "contracts/checkpoints/checkpoint_files.h"
#include "contracts/records/local_copies.h"
#include "engine/checkpoint/local/restart_source.h"
#include "tests/parallel/training_on_ranks.h"
#include "tests/support/sanitized.h"
#include "tests/support/write_shard.h"
#include "tests/unit/engine/checkpoint/checkpoint_tests.h"

using namespace longhaul;
using namespace longhaul::test;

namespace {

constexpr int node_count = 4;

std::vector<std::byte> moments_of(TrainingSetup& setup) {
  std::vector<std::byte> both;
  for (const StateArray& array : {setup.trainer.optimizer().exp_avg(), setup.trainer.optimizer().exp_avg_sq()}) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(array.size() * dtype_bytes(array.dtype())));
    if (array.read({0, array.size()}, bytes).ok()) both.insert(both.end(), bytes.begin(), bytes.end());
  }
  return both;
}

struct Nodes {
  Nodes() {
    for (int i = 0; i < node_count; ++i) REQUIRE(make_directories(node(i)).ok());
    dims.tp = 2, dims.dp_shard = 2, dims.zero = 1;
  }
  std::string node(int i) const { return format("{}/node-{}", root.path, i); }
  // What a node holds is gone, and another one is there instead.
  void replace(int i) const {
    REQUIRE(remove_tree(node(i)).ok());
    REQUIRE(make_directories(node(i)).ok());
  }
  std::string file_of(int holder, int owner) const {
    const auto files = list_tree(node(holder));
    const std::string name = format("shard-{:05d}-of-{:05d}.safetensors", owner + 1, node_count);
    for (const std::string& file : *files)
      if (ends_with(file, name)) return join_path(node(holder), file);
    return "";
  }
  Result<std::unique_ptr<LocalCopies>> open(int rank, Mesh& mesh) const {
    LocalCopiesOptions here;
    here.folder = node(rank % node_count);
    return LocalCopies::create(clock, mesh.world(), root.path + "/state", here);
  }
  // Trains `steps` steps and copies each of them.
  void train_and_copy(int steps) {
    weights.assign(node_count, {}), moments.assign(node_count, {});
    std::atomic<int> copied{0};
    on_threads(dims, [&](int rank, Mesh& mesh) {
      TrainingSetup setup(16, 20, 2, &mesh, DType::f32, 32, options);
      const auto copies = open(rank, mesh);
      if (!copies.ok()) return;
      for (int i = 0; i < steps; ++i) {
        if (!setup.trainer.step().ok() || !(*copies)->start(mesh.world(), test::state_of(setup)).ok()) return;
        weights[static_cast<std::size_t>(rank)] = weights_of(setup);
        moments[static_cast<std::size_t>(rank)] = moments_of(setup);
        copied += (*copies)->finish(mesh.world()).ok();
      }
      std::vector<float> all(static_cast<std::size_t>(ParameterLayout(training_shape()).flat_size()));
      if (gather_masters(mesh, training_shape(), setup.store.layout(), setup.store.masters(),
                         ParameterLayout(training_shape()), all)
              .ok() &&
          rank == 0)
        whole = all;
    });
    REQUIRE(copied == node_count * steps);
  }
  // Without copies: the weights after the second step.
  void remember_two_steps() {
    weights.assign(node_count, {}), moments.assign(node_count, {});
    on_threads(dims, [&](int rank, Mesh& mesh) {
      TrainingSetup setup(16, 20, 2, &mesh, DType::f32, 32, options);
      if (!setup.trainer.step().ok() || !setup.trainer.step().ok()) return;
      weights[static_cast<std::size_t>(rank)] = weights_of(setup);
      moments[static_cast<std::size_t>(rank)] = moments_of(setup);
    });
  }
  // The step that all ranks of a layout found, -1 where they found none; their weights are those that were copied.
  std::int64_t resumed_step() {
    std::atomic<std::int64_t> sum{0};
    std::vector<LoadedState> taken(node_count);
    std::atomic<int> same{0};
    on_threads(dims, [&](int rank, Mesh& mesh) {
      TrainingSetup setup(16, 20, 2, &mesh, DType::f32, 32, options);
      TrainingState state = test::state_of(setup);
      const auto copies = open(rank, mesh);
      const auto loaded = load_newest_state(mesh.world(), checkpoints, copies->get(), state, 1, line);
      if (loaded.ok()) taken[static_cast<std::size_t>(rank)] = *loaded;
      sum += loaded.ok() && !loaded->from.empty() ? state.progress.step : -1;
      same += weights_of(setup) == weights[static_cast<std::size_t>(rank)] &&
              moments_of(setup) == moments[static_cast<std::size_t>(rank)];
    });
    CHECK(sum % node_count == 0);
    for (const LoadedState& of_rank : taken) {  // all take the same
      CHECK(of_rank.from == taken[0].from);
      CHECK(of_rank.passed_over.size() == taken[0].passed_over.size());
    }
    if (sum / node_count == 2) CHECK(same == node_count);
    source = taken[0];
    return sum / node_count;
  }
  // As many steps as were trained, without copies: a checkpoint of each of `saved`.
  void save_checkpoints(const std::set<int>& saved) {
    std::atomic<int> made{0};
    on_threads(dims, [&](int, Mesh& mesh) {
      TrainingSetup setup(16, 20, 2, &mesh, DType::f32, 32, options);
      for (int step = 1; step <= *saved.rbegin(); ++step) {
        if (!setup.trainer.step().ok()) return;
        if (saved.contains(step)) made += checkpoints.save(mesh.world(), test::state_of(setup)).ok();
      }
    });
    REQUIRE(made == node_count * static_cast<int>(saved.size()));
  }
  std::string shard_of_checkpoint(int step) const {
    return format("{}/checkpoints/{}/{}", root.path, checkpoint_folder_name(step), "shard-00002-of-00004.safetensors");
  }
  bool reported(const std::string& what) const {
    return std::ranges::any_of(source.passed_over,
                               [&](const std::string& why) { return why.find(what) != std::string::npos; });
  }

  CheckpointFolder root;
  SystemClock clock;
  CheckpointStore checkpoints{clock, root.path + "/checkpoints", 9};
  LoadedState source;  // of the last resumed_step()
  TimeLine line;       // of the training that goes on
  ParallelDims dims;
  std::vector<std::vector<float>> weights;  // of each rank, after the last step
  std::vector<std::vector<std::byte>> moments;
  std::vector<float> whole;  // the weights of all
  SetupOptions options;
};

void flip_a_bit(const std::string& file) {
  std::string bytes = *read_file(file);
  bytes[bytes.size() - 9] = static_cast<char>(bytes[bytes.size() - 9] ^ 1);
  REQUIRE(write_file_atomic(file, bytes).ok());
}

}  // namespace

TEST_CASE("the state survives the loss of nodes as long as each share is whole somewhere") {
  Nodes nodes;
  nodes.train_and_copy(2);
  CHECK(nodes.resumed_step() == 2);
  CHECK(nodes.source.own_copies == 4);
  nodes.replace(1);
  CHECK(nodes.resumed_step() == 2);
  CHECK(nodes.source.own_copies == 3);
  CHECK(nodes.source.partner_copies == 1);
  nodes.replace(0);
  CHECK(nodes.resumed_step() == 2);  // ranks 2 and 3 are the partners of 0 and 1
  CHECK(nodes.source.partner_copies == 2);
  CHECK(nodes.source.passed_over.empty());
  nodes.replace(2);  // and now 0 and 2 have lost both copies
  CHECK(nodes.resumed_step() == -1);
  CHECK(nodes.source.from == "");
  CHECK(nodes.reported("copies of step 2: no node has shard-00001-of-00004.safetensors"));
}

TEST_CASE("each rank keeps its own share and that of the rank whose partner it is, of the last steps") {
  Nodes nodes;
  nodes.train_and_copy(local_copies_kept + 1);
  for (int rank = 0; rank < node_count; ++rank) {
    std::set<std::string> expected;
    for (int step = 2; step <= local_copies_kept + 1; ++step)
      for (const int owner : {rank, owner_kept_by(rank, node_count)}) {
        const std::string shard = shard_file_name(owner, node_count);
        const std::string folder = local_rank_folder(rank) + "/" + checkpoint_folder_name(step) + "/";
        expected.insert({folder + shard, folder + local_part_name(shard)});
      }
    const auto folders = list_directory(nodes.node(rank));
    REQUIRE(folders.ok());
    REQUIRE(folders->size() == 1);
    CHECK(starts_with(folders->front(), local_copies_prefix));
    const auto files = list_tree(join_path(nodes.node(rank), folders->front()));
    REQUIRE(files.ok());
    std::set<std::string> found(files->begin(), files->end());
    CHECK(found.erase(copies_of_name) == 1);
    std::erase_if(found, [](const std::string& name) { return !starts_with(name, "rank-"); });
    CHECK(found == expected);
    CHECK(partner_of(owner_kept_by(rank, node_count), node_count) == rank);
  }
}

TEST_CASE("a damaged copy is passed over for the partner's, and then for the step before") {
  Nodes nodes;
  nodes.train_and_copy(2);
  flip_a_bit(nodes.file_of(3, 3));  // of step 1: files are listed by name
  REQUIRE(remove_tree(parent_path(nodes.file_of(3, 3))).ok());
  flip_a_bit(nodes.file_of(3, 3));
  CHECK(nodes.resumed_step() == 2);
  CHECK(nodes.source.own_copies == 3);
  CHECK(nodes.source.partner_copies == 1);
  REQUIRE(nodes.source.passed_over.size() == 1);
  CHECK(nodes.reported("/node-3/"));
  CHECK(nodes.reported("do not have the digest"));
  REQUIRE(remove_tree(parent_path(nodes.file_of(1, 3))).ok());
  flip_a_bit(nodes.file_of(1, 3));
  CHECK(nodes.resumed_step() == -1);
  CHECK(nodes.reported("shard-00004-of-00004.safetensors is whole on no node"));

  Nodes others;
  others.train_and_copy(2);
  for (int holder = 0; holder < node_count; ++holder) {
    const auto files = list_tree(others.node(holder));
    for (const std::string& file : *files)
      if (file.find("step-00000002") != std::string::npos && ends_with(file, ".safetensors"))
        flip_a_bit(join_path(others.node(holder), file));
  }
  CHECK(others.resumed_step() == 1);
  CHECK(others.source.passed_over.size() == 9);  // both copies of four shares, and the step
}

TEST_CASE("trust: copies on a node are for their owner alone, and what a stranger wrote or made there is not used") {
  const auto mode_at = [](const std::string& path) {
    struct stat info{};
    return ::stat(path.c_str(), &info) == 0 ? info.st_mode & 0777 : 0;
  };
  Nodes nodes;
  nodes.train_and_copy(2);
  const std::string id = nodes.root.path + "/state/training-id";
  CHECK(mode_at(id) == 0600);
  const std::string shard = replace_all(nodes.file_of(0, 0), checkpoint_folder_name(1), checkpoint_folder_name(2));
  const std::string folder = parent_path(parent_path(parent_path(shard)));
  CHECK(mode_at(folder) == 0700);
  CHECK(mode_at(shard) == 0600);
  CHECK(folder.find(*read_file(id)) == std::string::npos);  // whoever sees the name does not know the key

  // A part that agrees with its shard, by somebody who does not know the key.
  const std::string part_path = shard.substr(0, shard.rfind('.')) + ".json";
  const std::string part = *signed_part(*read_file(part_path), *read_file(id), part_path);
  for (const std::string& forged : {part, sign_part(part, "a guess")}) {
    REQUIRE(write_file_atomic(part_path, forged).ok());
    CHECK(nodes.resumed_step() == 2);
    CHECK(nodes.source.partner_copies == 1);
    CHECK(nodes.reported(part_path + " was not signed by this training"));
  }

  // Somebody else was there first: what is in the folder is not looked at, and another one is made.
  REQUIRE(::chmod(folder.c_str(), 0777) == 0);
  CHECK(nodes.resumed_step() == 2);
  CHECK(nodes.source.own_copies == 3);
  REQUIRE(::unlink(id.c_str()) == 0);
  REQUIRE(write_file_atomic(id, "00112233445566778899aabbccddeeff", 0644).ok());  // everybody could read it
  CHECK(nodes.resumed_step() == -1);
  CHECK(mode_at(id) == 0600);
  CHECK(*read_file(id) != "00112233445566778899aabbccddeeff");
}

TEST_CASE("copies of a time line that was abandoned are refused, each by itself") {
  Nodes nodes;
  nodes.train_and_copy(2);
  nodes.line = TimeLine().rolled_back(1, 16, Value::make_array());
  CHECK(nodes.resumed_step() == 1);
  CHECK(nodes.source.from == "copies");
  CHECK(nodes.reported("was abandoned by a roll-back"));
  // Step 2 was made anew, but for what a node has that was away meanwhile: its rank's share is the partner's then.
  for (int holder = 0; holder < node_count - 1; ++holder) {
    const auto files = list_tree(nodes.node(holder));
    for (const std::string& file : *files) {
      if (file.find(checkpoint_folder_name(2)) == std::string::npos || !ends_with(file, ".json")) continue;
      const std::string path = join_path(nodes.node(holder), file);
      const std::string key = *read_file(nodes.root.path + "/state/training-id");
      Value part = parse_json(signed_part(*read_file(path), key, path).value(), path).value();
      part.find("extra")->set(time_line_key, 1);
      REQUIRE(write_file_atomic(path, sign_part(to_json(part), key)).ok());
    }
  }
  CHECK(nodes.resumed_step() == 2);
  CHECK(nodes.source.own_copies == 3);
  CHECK(nodes.source.partner_copies == 1);
  CHECK(nodes.reported("/node-3/"));
}

TEST_CASE("the newest good one of copies and checkpoints is taken, whichever is damaged") {
  struct Case {
    std::set<int> checkpoints;
    int damaged_checkpoint;  // 0: none
    bool lose_copies;        // of step 2
    int step;
    const char* from;
    std::size_t passed_over;
  };
  for (const Case& c : {Case{{2}, 0, false, 2, "copies", 0}, Case{{1, 2}, 2, false, 2, "copies", 0},
                        Case{{1, 3}, 0, false, 3, "checkpoint", 0}, Case{{1, 3}, 3, false, 2, "copies", 1},
                        Case{{1, 2}, 0, true, 2, "checkpoint", 9}, Case{{1, 2}, 2, true, 1, "copies", 10},
                        Case{{1}, 1, true, 1, "copies", 9}}) {
    CAPTURE(c.damaged_checkpoint);
    CAPTURE(c.step);
    CAPTURE(c.from);
    if (testing::sanitized && c.passed_over != 1 && c.passed_over != 10) continue;
    Nodes nodes;
    nodes.train_and_copy(2);
    nodes.save_checkpoints(c.checkpoints);
    if (c.damaged_checkpoint > 0) flip_a_bit(nodes.shard_of_checkpoint(c.damaged_checkpoint));
    for (int holder = 0; c.lose_copies && holder < node_count; ++holder) {
      const auto files = list_tree(nodes.node(holder));
      for (const std::string& file : *files)
        if (file.find("step-00000002") != std::string::npos && ends_with(file, ".safetensors"))
          flip_a_bit(join_path(nodes.node(holder), file));
    }
    CHECK(nodes.resumed_step() == c.step);
    CHECK(nodes.source.from == c.from);
    CHECK(nodes.source.passed_over.size() == c.passed_over);
  }
}

TEST_CASE(
    "copies that cannot be read cost nothing but themselves: the partner's, then the step before, then a checkpoint") {
  Nodes nodes;
  nodes.train_and_copy(2);
  nodes.save_checkpoints({1});
  // A link to itself: the system refuses to open it, also for those who may read everything.
  const auto refuse = [](const std::string& file) {
    REQUIRE(remove_tree(file).ok());
    REQUIRE(::symlink(file.c_str(), file.c_str()) == 0);
  };
  const auto of_step = [&](int holder, int step, const std::string& ending) {
    std::vector<std::string> found;
    const auto files = list_tree(nodes.node(holder));
    for (const std::string& file : *files)
      if (file.find(checkpoint_folder_name(step)) != std::string::npos && ends_with(file, ending))
        found.push_back(join_path(nodes.node(holder), file));
    return found;
  };
  for (const std::string& file : of_step(2, 2, ".safetensors")) refuse(file);
  CHECK(nodes.resumed_step() == 2);
  CHECK(nodes.source.own_copies == 3);
  CHECK(nodes.source.passed_over.size() == 2);  // its own, and that of its partner
  CHECK(nodes.reported("Too many levels of symbolic links"));
  for (const std::string& file : of_step(0, 2, ".json")) refuse(file);
  CHECK(nodes.resumed_step() == 1);
  CHECK(nodes.source.from == "copies");
  for (int holder = 0; holder < node_count; ++holder)
    for (const std::string& file : of_step(holder, 1, ".safetensors")) refuse(file);
  CHECK(nodes.resumed_step() == 1);
  CHECK(nodes.source.from == "checkpoint");
  // A whole folder that cannot be listed.
  Nodes others;
  others.train_and_copy(2);
  const auto file = others.file_of(1, 1);
  const std::string of_rank = parent_path(parent_path(file));
  REQUIRE(remove_tree(of_rank).ok());
  REQUIRE(::symlink(of_rank.c_str(), of_rank.c_str()) == 0);
  CHECK(others.resumed_step() == 2);
  CHECK(others.source.partner_copies == 1);
  CHECK(others.reported("cannot list " + of_rank));
}

TEST_CASE("copies of two launches that saved the same step are never put together") {
  Nodes nodes;
  nodes.train_and_copy(2);
  REQUIRE(std::rename(nodes.node(3).c_str(), (nodes.root.path + "/away").c_str()) == 0);
  REQUIRE(make_directories(nodes.node(3)).ok());
  nodes.train_and_copy(2);  // another launch: not the same bits, where sums have no order
  REQUIRE(remove_tree(nodes.node(3)).ok());
  REQUIRE(std::rename((nodes.root.path + "/away").c_str(), nodes.node(3).c_str()) == 0);  // the node is back
  CHECK(nodes.resumed_step() == 2);
  CHECK(nodes.source.own_copies == 3);  // its own share is taken from its partner
  CHECK(nodes.source.partner_copies == 1);
  nodes.replace(1);
  CHECK(nodes.resumed_step() == -1);
  CHECK(nodes.reported("copies of step 2 are of different states"));
}

#if !defined(__SANITIZE_THREAD__)
TEST_CASE("a bit that changes on the way to a partner costs the copy, and on the way back the load") {
  Nodes nodes;
  const std::string plan = nodes.root.path + "/plan";
  REQUIRE(write_file_atomic(plan, "partner_copy flip nth=3\n").ok());
  CHECK(in_child([&] {
          if (!load_fault_plan(plan).ok()) ::_exit(9);
          std::atomic<int> refused{0};
          on_threads(nodes.dims, [&](int rank, Mesh& mesh) {
            TrainingSetup setup(16, 20, 2, &mesh, DType::f32, 32);
            const auto copies = nodes.open(rank, mesh);
            if (!copies.ok() || !setup.trainer.step().ok() ||
                !(*copies)->start(mesh.world(), test::state_of(setup)).ok())
              return;
            const auto copied = (*copies)->finish(mesh.world());
            refused += !copied.ok() && copied.error().code == ErrorCode::io &&
                       copied.error().message().find("with other bytes than it had there") != std::string::npos;
          });
          ::_exit(refused);
        }) == node_count);
  for (int i = 0; i < node_count; ++i) {
    const auto left = list_tree(nodes.node(i));
    REQUIRE(left.ok());
    for (const std::string& name : *left) CHECK_MESSAGE(name.find("step-") == std::string::npos, name);
  }

  nodes.train_and_copy(2);
  nodes.replace(1);  // rank 1 gets its share from its partner
  REQUIRE(write_file_atomic(plan, "restart_piece flip=77\n").ok());
  CHECK(in_child([&] {
          if (!load_fault_plan(plan).ok()) ::_exit(9);
          std::atomic<int> refused{0};
          on_threads(nodes.dims, [&](int rank, Mesh& mesh) {
            TrainingSetup setup(16, 20, 2, &mesh, DType::f32, 32);
            TrainingState state = test::state_of(setup);
            const auto copies = nodes.open(rank, mesh);
            const auto loaded = load_newest_state(mesh.world(), nodes.checkpoints, copies->get(), state);
            refused += !loaded.ok() && loaded.error().code == ErrorCode::unavailable;
          });
          ::_exit(refused);
        }) == node_count);
  CHECK(nodes.resumed_step() == 2);  // the next launch has it
}
#endif

TEST_CASE("a file whose bytes go away after it was opened is an error, and not the end of the process") {
  CheckpointFolder folder;
  const std::string path = folder.path + "/shard.safetensors", bytes(1 << 20, 'x');
  const ShardTensor tensor{"one", "I8", {1 << 20}, bytes};
  REQUIRE(testing::write_shard(path, {&tensor, 1}).ok());
  const auto shard = ShardReader::open(path);
  REQUIRE(shard.ok());
  REQUIRE(read_in(shard->find("one")->bytes, path).ok());
  REQUIRE(::truncate(path.c_str(), 4096) == 0);
  CHECK(read_in(shard->find("one")->bytes, path).error().code == ErrorCode::io);
}

TEST_CASE("another layout on other nodes goes on from the copies; another training does not") {
  Nodes nodes;
  nodes.train_and_copy(2);
  std::atomic<int> good{0};
  ParallelDims two;
  two.dp_replicate = 2;
  on_threads(two, [&](int rank, Mesh& mesh) {
    TrainingSetup setup(16, 20, 2, &mesh, DType::f32, 32);
    TrainingState state = test::state_of(setup);
    const auto copies = nodes.open(rank == 0 ? 3 : 2, mesh);  // of the four nodes these two are left
    const auto loaded = load_newest_state(mesh.world(), nodes.checkpoints, copies->get(), state);
    if (!loaded.ok() || loaded->from.empty() || state.progress.step != 2) return;
    good += weights_of(setup) == nodes.whole;
  });
  CHECK(good == 2);
  REQUIRE(remove_tree(nodes.root.path + "/state").ok());  // begun anew: another id
  CHECK(nodes.resumed_step() == -1);
}

#if !defined(__SANITIZE_THREAD__)  // which knows no threads in a child process
TEST_CASE("killed anywhere in a copy, the state of the step before or of this one is there") {
  std::vector<std::string> points = fault_point_names("local_copy_");
  std::erase(points, "local_copy_removing");  // no part of a copy
  REQUIRE(points.size() == 4);
  // Shards are written as those of checkpoints are.
  points.insert(points.end(), {"checkpoint_before_shard", "checkpoint_half_shard", "checkpoint_after_shard"});
  std::size_t points_seen = 0;
  for (const std::string& point : points) {
    // Once for each rank in the first copy; of a share two are written on each.
    const int per_copy = point == "local_copy_staged" || point == "local_copy_retiring" ? node_count : 2 * node_count;
    std::vector<int> hits = {1, per_copy + 1, 2 * per_copy};
    if (testing::sanitized) hits = {hits[points_seen++ % hits.size()]};
    for (const int nth : hits) {
      CAPTURE(point);
      CAPTURE(nth);
      Nodes nodes;
      const std::string plan = nodes.root.path + "/plan";
      REQUIRE(write_file_atomic(plan, format("{} kill nth={}\n", point, nth)).ok());
      const int exit = in_child([&] {
        if (!load_fault_plan(plan).ok()) ::_exit(9);
        nodes.train_and_copy(2);
      });
      CHECK(exit == -SIGKILL);
      nodes.remember_two_steps();
      const std::int64_t step = nodes.resumed_step();  // compares the weights of step 2
      if (nth == 1)
        CHECK((step == -1 || step == 1));
      else
        CHECK((step == 1 || step == 2));
      if (point == "local_copy_retiring") CHECK(step == (nth == 1 ? 1 : 2));
      // Another training takes the folders over, whatever was left there.
      nodes.train_and_copy(2);
      CHECK(nodes.resumed_step() == 2);
    }
  }
}
#endif

TEST_CASE("copies have moments in bf16 as they are, and those that lie on a disk") {
  for (const bool offloaded : {false, true}) {
    CAPTURE(offloaded);
    Nodes nodes;
    nodes.options.moments = "bf16", nodes.options.rounding = "stochastic";
    if (offloaded) nodes.options.offload_dir = nodes.root.path;
    nodes.train_and_copy(2);
    CHECK(nodes.resumed_step() == 2);
    nodes.replace(1);  // its share comes from the partner
    CHECK(nodes.resumed_step() == 2);
  }
}
