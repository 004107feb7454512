// The contract of Communicator on the NCCL backend: the code that a GPU runs, over a library that stands in for NCCL
// (tests/support/fake_nccl.cc) and emulated GPUs; ranks are threads.
#include <doctest/doctest.h>

#include <mutex>
#include <thread>

#include "base/shared_library.h"
#include "engine/comm/nccl/nccl_communicator.h"
#include "engine/comm/threads_communicator.h"
#include "engine/core/tensor.h"
#include "tests/parallel/comm_contract.h"
#include "tests/support/emulated_device.h"
#include "tests/support/on_device_communicator.h"

using namespace longhaul;
using namespace longhaul::comm_contract;

namespace {

const std::string fake_path = std::string(LONGHAUL_BINARY_DIR) + "/bin/liblonghaul_fake_nccl.so";

// Keeps the fake loaded, and makes a rank of it misbehave as long as this lives.
class Misbehaving {
 public:
  Misbehaving(const char* what, int rank) : what_(what) { tell(rank); }
  ~Misbehaving() { tell(-1); }
  Misbehaving(const Misbehaving&) = delete;
  Misbehaving& operator=(const Misbehaving&) = delete;

 private:
  void tell(int rank) const {
    static const SharedLibrary fake = SharedLibrary::open(std::span(&fake_path, 1)).value();
    void (*misbehave)(const char*, int) = nullptr;
    REQUIRE(fake.find("fake_nccl_misbehave", misbehave));
    misbehave(what_, rank);
  }
  const char* what_;
};

enum class DataOn { host, device };

struct Wanted {
  DataOn data = DataOn::device;
  NcclOptions options = {};
};

NcclOptions fake_options() {
  NcclOptions options;
  options.library = fake_path;
  return options;
}

Failures run_on_nccl(int size, const std::function<Failures(Rank&, NcclRuntime&)>& check, Wanted wanted = {}) {
  wanted.options.library = fake_path;
  ThreadsRendezvous rendezvous;
  std::mutex mutex;
  Failures all;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      longhaul::testing::EmulatedDevice device;
      auto started = NcclRuntime::start(device, rendezvous, rank, size, wanted.options);
      Failures own;
      if (!started) {
        own.push_back(started.error().message());
      } else {
        NcclRuntime& runtime = **started;
        Rank me{rank, size, {}};
        me.make = [&](std::uint64_t epoch, const CommOptions& options) -> Result<std::unique_ptr<Communicator>> {
          LH_TRY(std::unique_ptr<Communicator> made, runtime.world(epoch, options));
          if (wanted.data == DataOn::host) return made;
          return longhaul::testing::make_on_device_communicator(device, std::move(made));
        };
        own = check(me, runtime);
      }
      const std::lock_guard lock(mutex);
      for (const std::string& f : own) all.push_back(format("rank {} of {}: {}", rank, size, f));
    });
  }
  for (std::thread& thread : threads) thread.join();
  return all;
}

void check_contract(std::initializer_list<int> sizes, const Wanted& wanted) {
  for (int size : sizes) {
    for (const Check& check : checks()) {
      const Failures failures = run_on_nccl(size, [&](Rank& me, NcclRuntime&) { return check.run(me); }, wanted);
      const std::string first = failures.empty() ? "" : failures[0];
      INFO(check.name, " on ", size, " ranks: ", first);
      CHECK(failures.empty());
    }
  }
}

// Whether one of the failures has this in it; prints them where none has.
bool tells(const Failures& failures, const std::string& what) {
  for (const std::string& failure : failures)
    if (failure.find(what) != std::string::npos) return true;
  for (const std::string& failure : failures) MESSAGE(failure);
  return false;
}

}  // namespace

TEST_CASE("nccl: the contract of Communicator holds for data on a device on 1, 2, 3, 4 and 8 ranks") {
  check_contract({1, 2, 3, 4, 8}, {});
}

TEST_CASE("nccl: the contract of Communicator holds for data of the host") {
  check_contract({1, 2, 3}, {DataOn::host, {}});
}
