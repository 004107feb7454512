#include <doctest/doctest.h>

#include <deque>

#include "engine/checkpoint/global/checkpoint_saver.h"
#include "tests/support/emulated_gpu/emulated_device.h"
#include "tests/unit/engine/checkpoint/checkpoint_tests.h"

using namespace longhaul;
using namespace longhaul::test;

namespace {

// Copies nothing before it is let go.
class HeldQueue final : public DeviceQueue {
 public:
  explicit HeldQueue(Device& device) : device_(device) {}
  CUstream_st* stream() const override { return nullptr; }
  void follow_operations() override {}
  void copy(const void* from, void* to, std::int64_t bytes) override { asked_.push_back({from, to, bytes}); }
  void run(std::function<void(CUstream_st*)>) override {}
  bool idle() override { return asked_.empty(); }
  std::unique_ptr<QueueMark> mark() override {
    struct Mark final : QueueMark {
      explicit Mark(HeldQueue& queue) : queue_(queue) {}
      bool reached() override { return queue_.looked_at(); }
      HeldQueue& queue_;
    };
    return std::make_unique<Mark>(*this);
  }

  void let_go() {
    for (; !asked_.empty(); asked_.pop_front())
      device_.copy_out(asked_.front().from, asked_.front().to, asked_.front().bytes);
  }
  bool looked_at() {
    if (looks_left > 0 && --looks_left == 0) let_go();
    return idle();
  }
  int looks_left = 0;  // until it lets go by itself; 0: never

 private:
  struct Copy {
    const void* from;
    void* to;
    std::int64_t bytes;
  };
  Device& device_;
  std::deque<Copy> asked_;
};

// A device whose queue the test holds.
class HeldDevice final : public Device {
 public:
  explicit HeldDevice(Device& device) : device_(device) {}
  std::string name() const override { return device_.name(); }
  std::int64_t free_bytes() const override { return device_.free_bytes(); }
  Result<std::byte*> allocate(std::int64_t bytes) override { return device_.allocate(bytes); }
  void release(std::byte* memory) override { device_.release(memory); }
  void copy_in(const void* host, void* device, std::int64_t bytes) override { device_.copy_in(host, device, bytes); }
  void copy_out(const void* device, void* host, std::int64_t bytes) override { device_.copy_out(device, host, bytes); }
  void copy(const void* from, void* to, std::int64_t bytes) override { device_.copy(from, to, bytes); }
  void zero(void* device, std::int64_t bytes) override { device_.zero(device, bytes); }
  void finish() override { device_.finish(); }
  std::unique_ptr<DeviceRecording> record(const std::string& what, const std::function<void()>& ask) override {
    return device_.record(what, ask);
  }
  std::int64_t releases() const override { return device_.releases(); }
  bool owns(const void* address) const override { return device_.owns(address); }
  Result<std::unique_ptr<DeviceQueue>> queue() override {
    auto made = std::make_unique<HeldQueue>(device_);
    held = made.get();
    return std::unique_ptr<DeviceQueue>(std::move(made));
  }
  Result<std::byte*> allocate_host(std::int64_t bytes) override {
    if (refuses_pinned) return make_error(ErrorCode::internal, "no pinned memory", "look at ulimit -l");
    pinned_bytes += bytes;
    return device_.allocate_host(bytes);
  }
  void release_host(std::byte* memory) override { device_.release_host(memory); }
  Result<std::byte*> share(std::byte* memory, std::int64_t bytes) override { return device_.share(memory, bytes); }
  void unshare(std::byte* memory) override { device_.unshare(memory); }

  HeldQueue* held = nullptr;
  bool refuses_pinned = false;
  std::int64_t pinned_bytes = 0;

 private:
  Device& device_;
};

// A training on the host, and its state as a device would hold it.
struct StateOnDevice {
  StateOnDevice() { train(setup, 2); }
  ~StateOnDevice() {
    for (std::byte* memory : taken) device.release(memory);
  }
  TrainingState state() {
    TrainingState state = state_of(setup.trainer);
    for (StateArray* array : {&state.masters, &state.exp_avg, &state.exp_avg_sq}) {
      const View host = array->memory();
      taken.push_back(*device.allocate(host.bytes()));
      device.copy_in(host.data(), taken.back(), host.bytes());
      *array = StateArray(View(taken.back(), host.dtype(), {host.size()}), &device);
    }
    return state;
  }

  TrainingSetup setup{8, 20};
  testing::EmulatedGpu gpu;
  HeldDevice device{gpu.device()};
  ComputeContext context{device, gpu.ops()};
  CheckpointFolder folder;
  SystemClock clock;
  CheckpointStore store{clock, folder.path, 1};
  std::vector<std::byte*> taken;
};

CheckpointSaverOptions on_device(StateOnDevice& place) {
  CheckpointSaverOptions options;
  options.compute = &place.context, options.deadline_ms = 20'000;
  return options;
}

std::string shard_bytes(const std::string& folder) {
  return *read_file(join_path(folder, shard_file_name(0, 1)));
}

}  // namespace

TEST_CASE("a device copies its share while the training goes on, and the state may change when it has") {
  StateOnDevice place;
  CheckpointSaver saver(place.clock, place.store, on_device(place));
  const TrainingState state = place.state();
  REQUIRE(saver.start(place.setup.mesh.world(), state).ok());
  REQUIRE(place.device.held);
  CHECK_FALSE(place.device.held->idle());  // asked for, not copied
  CHECK_FALSE(saver.ready());
  CHECK_FALSE(saver.ready());
  place.device.held->looks_left = 3;
  saver.finish_copy();
  CHECK(place.device.held->idle());
  for (std::byte* memory : place.taken) place.device.zero(memory, 64);  // the update of the next step
  auto saved = saver.finish(place.setup.mesh.world());
  REQUIRE(saved.ok());
  CHECK(saved->staged);

  const CheckpointStore host_store(place.clock, place.folder.path + "/host", 1);
  CheckpointSaver host(place.clock, host_store, {});
  REQUIRE(host.start(place.setup.mesh.world(), state_of(place.setup.trainer)).ok());
  auto of_host = host.finish(place.setup.mesh.world());
  REQUIRE(of_host.ok());
  CHECK(shard_bytes(saved->path) == shard_bytes(of_host->path));
}

TEST_CASE("a device that has copied by itself is seen between the steps; nothing waits for it") {
  StateOnDevice place;
  CheckpointSaver saver(place.clock, place.store, on_device(place));
  REQUIRE(saver.start(place.setup.mesh.world(), place.state()).ok());
  place.device.held->let_go();
  (void)saver.ready();  // begins to write
  const std::int64_t deadline = place.clock.monotonic_ns() + 20'000'000'000;
  while (!saver.ready()) REQUIRE(place.clock.monotonic_ns() < deadline);
  auto voted = saver.advance(place.setup.mesh.world());
  REQUIRE(voted.ok());
  CHECK(saver.finish(place.setup.mesh.world()).ok());
  CHECK(*place.store.list() == std::vector<std::string>{"step-00000002"});
}

TEST_CASE("a checkpoint that is given up while a device copies leaves the memory alone, and the next one is whole") {
  StateOnDevice place;
  CheckpointSaver saver(place.clock, place.store, on_device(place));
  const TrainingState state = place.state();
  REQUIRE(saver.start(place.setup.mesh.world(), state).ok());
  place.device.held->looks_left = 2;
  REQUIRE(saver.give_up(10'000).ok());
  CHECK(place.device.held->idle());
  CHECK_FALSE(saver.busy());
  CHECK(place.store.list()->empty());
  REQUIRE(saver.start(place.setup.mesh.world(), state).ok());
  place.device.held->let_go();
  CHECK(saver.finish(place.setup.mesh.world()).ok());
}

TEST_CASE("staging memory for a device is pinned; without it the training waits for the write, and it is reported") {
  StateOnDevice place;
  MemoryAccount account;
  CheckpointSaverOptions options = on_device(place);
  options.account = &account;
  {
    CheckpointSaver saver(place.clock, place.store, options);
    REQUIRE(saver.reserve(place.setup.store.layout()).ok());
    CHECK(place.device.pinned_bytes >= account.bytes_now);
    CHECK(account.bytes_now > 0);
  }
  CHECK(account.bytes_now == 0);
  place.device.refuses_pinned = true;
  CheckpointSaver saver(place.clock, place.store, options);
  const Status reserved = saver.reserve(place.setup.store.layout());
  REQUIRE_FALSE(reserved.ok());
  CHECK(reserved.error().code == ErrorCode::unavailable);
  CHECK(reserved.error().hint.find("ulimit") != std::string::npos);
  REQUIRE(saver.start(place.setup.mesh.world(), place.state()).ok());
  auto saved = saver.finish(place.setup.mesh.world());
  REQUIRE(saved.ok());
  CHECK_FALSE(saved->staged);
}
