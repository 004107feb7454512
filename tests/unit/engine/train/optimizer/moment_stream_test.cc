#include "engine/train/optimizer/moment_stream.h"

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <csignal>
#include <thread>

#include "base/text/text.h"
#include "engine/checkpoint/global/checkpoint_saver.h"
#include "tests/parallel/training_on_ranks.h"
#include "tests/unit/engine/checkpoint/checkpoint_tests.h"

using namespace longhaul;
using namespace longhaul::test;

namespace {

// In memory; fails or dawdles on demand.
class MemoryPlace final : public OptimizerStatePlace {
 public:
  explicit MemoryPlace(std::int64_t bytes) : memory(static_cast<std::size_t>(bytes)) {}
  std::int64_t bytes() const override { return static_cast<std::int64_t>(memory.size()); }
  Status fetch(std::int64_t begin, std::span<std::byte> out) override {
    if (delay_ms > 0) std::this_thread::sleep_for(std::chrono::milliseconds(delay_ms));
    std::copy_n(memory.begin() + begin, out.size(), out.begin());
    return {};
  }
  Status store(std::int64_t begin, std::span<const std::byte> from) override {
    if (stores++ == fails_at_store) return make_error(ErrorCode::io, "the disk of this test is broken");
    std::copy(from.begin(), from.end(), memory.begin() + begin);
    return {};
  }
  std::vector<std::byte> memory;
  int stores = 0, fails_at_store = -1, delay_ms = 0;
};

constexpr StateTypes mixed_types = {DType::f32, DType::bf16, DType::f32};

MomentStreamOptions small_blocks() {
  MomentStreamOptions options;
  options.block_elements = 2048;
  return options;
}

SetupOptions offloaded_to(const std::string& folder, const std::string& moments) {
  SetupOptions options;
  options.offload_dir = folder;
  options.moments = moments, options.rounding = moments == "f32" ? "nearest" : "stochastic";
  return options;
}

std::unique_ptr<TrainingSetup> offloaded_training(const std::string& folder, const std::string& moments = "f32") {
  return std::make_unique<TrainingSetup>(8, 20, 2, nullptr, DType::f32, 100, offloaded_to(folder, moments));
}

std::vector<std::byte> bytes_of(const StateArray& array) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(array.size() * dtype_bytes(array.dtype())));
  REQUIRE(array.read({0, array.size()}, bytes).ok());
  return bytes;
}

}  // namespace

TEST_CASE("a file of state keeps every byte that was stored, at any place, and has no name") {
  CheckpointFolder folder;
  MemoryAccount account;
  auto place = FileStatePlace::create(folder.path, 2'500'000, &account);
  REQUIRE(place.ok());
  CHECK(list_directory(folder.path)->empty());  // gone with the process, however that ends
  CHECK((*place)->bytes() >= 2'500'000);
  CHECK(account.bytes_now <= (1 << 20));
  constexpr std::uint64_t seed = 3;
  CAPTURE(seed);
  PhiloxSequence draw(seed);
  std::vector<std::byte> expected(2'500'000), got(expected.size());
  for (int i = 0; i < 40; ++i) {
    const std::size_t begin = draw.next_below(expected.size()),
                      size = draw.next_below(std::min<std::size_t>(expected.size() - begin, i < 10 ? 2'000'000 : 9000));
    std::vector<std::byte> values(size);
    for (std::byte& value : values) value = static_cast<std::byte>(draw.next_u64());
    REQUIRE((*place)->store(static_cast<std::int64_t>(begin), values).ok());
    std::copy(values.begin(), values.end(), expected.begin() + static_cast<std::ptrdiff_t>(begin));
  }
  REQUIRE((*place)->fetch(0, got).ok());
  CHECK(got == expected);
  REQUIRE((*place)->fetch(4097, std::span(got).first(10'000)).ok());
  CHECK(std::equal(got.begin(), got.begin() + 10'000, expected.begin() + 4097));
  CHECK(FileStatePlace::create(folder.path + "/absent", 10).error().code == ErrorCode::not_found);
}

TEST_CASE("a full disk is said before the first step, with the folder and the size") {
  CheckpointFolder folder;
  const int exit = in_child([&] {
    const rlimit limit{20'000, 20'000};  // the kernel refuses to write further, as a full disk does
    ::setrlimit(RLIMIT_FSIZE, &limit);
    ::signal(SIGXFSZ, SIG_IGN);
    const auto place = FileStatePlace::create(folder.path, 50'000'000);
    if (place.ok() || place.error().code != ErrorCode::io) ::_exit(2);
    const std::string text = place.error().message();
    ::_exit(text.find(folder.path) != std::string::npos && text.find("there is no room for ") != std::string::npos ? 5
                                                                                                                   : 6);
  });
  CHECK(exit == 5);
  CHECK(list_directory(folder.path)->empty());
}

TEST_CASE("a pass brings every element once, in order, and takes back what was made of it") {
  for (const std::int64_t elements : {std::int64_t{1}, std::int64_t{2048}, std::int64_t{5000}, std::int64_t{20'001}}) {
    CAPTURE(elements);
    MemoryPlace place(MomentStream::bytes_for(mixed_types, elements));
    MemoryAccount account;
    MomentStreamOptions options = small_blocks();
    options.account = &account;
    const auto stream = MomentStream::create(place, mixed_types, elements, options).value();
    CHECK(account.bytes_now == stream->staging_bytes());
    const std::int64_t blocks = (elements + options.block_elements - 1) / options.block_elements;
    CHECK(stream->staging_bytes() ==
          std::min(std::int64_t{3}, blocks) *
              MomentStream::bytes_for(mixed_types, std::min(options.block_elements, elements)));
    CHECK(stream->staging_bytes() <= 3 * 2048 * 6);
    for (int pass = 1; pass <= 3; ++pass) {
      std::int64_t next = 0;
      const Status done = stream->pass([&](FlatRange block, View m, View v) {
        CHECK(block.begin == next);
        CHECK(m.size() == block.size());
        CHECK(v.size() == block.size());
        next = block.end;
        for (std::int64_t i = 0; i < block.size(); ++i) {
          m.as<bf16>()[i] = bf16(static_cast<float>(m.as<bf16>()[i]) + 1.0F);
          v.as<float>()[i] += static_cast<float>(block.begin + i);
        }
      });
      REQUIRE(done.ok());
      CHECK(next == elements);
    }
    const std::vector<std::byte> m = bytes_of(stream->exp_avg()), v = bytes_of(stream->exp_avg_sq());
    int wrong = 0;
    for (std::int64_t i = 0; i < elements; ++i) {
      wrong += reinterpret_cast<const bf16*>(m.data())[i] != bf16(3.0F);
      wrong += reinterpret_cast<const float*>(v.data())[i] != 3.0F * static_cast<float>(i);
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("a place that fails or does not answer ends the pass with its error") {
  MemoryPlace broken(MomentStream::bytes_for(all_f32, 20'000));
  broken.fails_at_store = 5;
  const auto use = [](FlatRange, View, View) {};
  {
    const auto stream = MomentStream::create(broken, all_f32, 20'000, small_blocks()).value();
    const Status failed = stream->pass(use);
    REQUIRE_FALSE(failed.ok());
    CHECK(failed.error().what == "the disk of this test is broken");
  }
  broken.stores = 0, broken.fails_at_store = 19;  // the last block's second moments
  {
    const auto stream = MomentStream::create(broken, all_f32, 20'000, small_blocks()).value();
    CHECK_FALSE(stream->pass(use).ok());
  }
  MemoryPlace slow(MomentStream::bytes_for(all_f32, 20'000));
  slow.delay_ms = 200;
  MomentStreamOptions options = small_blocks();
  options.deadline_ms = 50;
  const auto stream = MomentStream::create(slow, all_f32, 20'000, options).value();
  CHECK(stream->pass(use).error().code == ErrorCode::timeout);
}

TEST_CASE("with its moments on a disk a training has the same bits") {
  CheckpointFolder folder;
  for (const char* moments : {"f32", "bf16", "mixed"}) {
    CAPTURE(moments);
    const auto there = offloaded_training(folder.path, moments), here = offloaded_training("", moments);
    REQUIRE(there->offloaded->exp_avg().size() > 4 * 2048);  // several blocks
    CHECK(train(*there, 8) == train(*here, 8));
    CHECK(weights_of(*there) == weights_of(*here));
    CHECK(bytes_of(there->trainer.optimizer().exp_avg()) == bytes_of(here->trainer.optimizer().exp_avg()));
    CHECK(bytes_of(there->trainer.optimizer().exp_avg_sq()) == bytes_of(here->trainer.optimizer().exp_avg_sq()));
    ParallelDims dims;
    dims.dp_shard = 2, dims.zero = 1;
    const auto sharded = train_on_threads(dims, 6, DType::f32, {}, offloaded_to(folder.path, moments));
    const RankRun one = train_one_rank(6, DType::f32, offloaded_to("", moments));
    for (const RankRun& run : sharded) CHECK(run.losses == one.losses);
  }
}

TEST_CASE("checkpoints of moments on a disk are those of moments in memory, both ways") {
  CheckpointFolder folder;
  const SystemClock clock;
  const auto whole = offloaded_training(""), there = offloaded_training(folder.path);
  const std::vector<double> expected = train(*whole, 12);
  train(*there, 6);
  for (const bool asynchronous : {false, true}) {
    const CheckpointStore store(clock, format("{}/checkpoints-{}", folder.path, asynchronous), 1);
    CheckpointSaverOptions options;
    options.asynchronous = asynchronous;
    CheckpointSaver saver(clock, store, options);
    REQUIRE(saver.start(there->mesh.world(), test::state_of(there->trainer)).ok());
    REQUIRE(saver.finish(there->mesh.world()).ok());
    for (const bool offload : {false, true}) {
      const auto again = offloaded_training(offload ? folder.path : "");
      TrainingState state = test::state_of(again->trainer);
      const auto loaded = store.load_newest(again->mesh.world(), state, 2);
      REQUIRE(loaded.ok());
      again->trainer.progress() = state.progress;
      again->store.refresh_compute_copy(again->context);
      const std::vector<double> rest = train(*again, 6);
      CHECK(std::equal(rest.begin(), rest.end(), expected.begin() + 6));
      CHECK(weights_of(*again) == weights_of(*whole));
    }
  }
}
