// The contract of Communicator on the `threads` backend. No OpenMP code runs here, so ThreadSanitizer sees everything.
#include <doctest/doctest.h>
#include <sched.h>

#include <array>
#include <mutex>
#include <thread>

#include "engine/comm/staged_communicator.h"
#include "engine/comm/threads_communicator.h"
#include "tests/parallel/comm/comm_contract.h"
#include "tests/support/emulated_gpu/emulated_device.h"
#include "tests/support/emulated_gpu/on_device_communicator.h"

using namespace longhaul;
using namespace longhaul::comm_contract;

namespace {

enum class DataOn { host, device };

Failures run_on_threads(int size, const std::function<Failures(Rank&)>& check, DataOn data = DataOn::host) {
  ThreadsWorld world(size);
  std::mutex mutex;
  Failures all;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      Rank me{rank, size, {}};
      longhaul::testing::EmulatedDevice device;
      me.make = [&](std::uint64_t epoch, const CommOptions& options) -> Result<std::unique_ptr<Communicator>> {
        auto on_host = world.communicator(rank, epoch, options);
        if (data == DataOn::host) return on_host;
        return longhaul::testing::make_on_device_communicator(device,
                                                              make_staged_communicator(device, std::move(on_host)));
      };
      const Failures own = check(me);
      const std::lock_guard lock(mutex);
      for (const std::string& f : own) all.push_back(format("rank {} of {}: {}", rank, size, f));
    });
  }
  for (std::thread& thread : threads) thread.join();
  return all;
}

}  // namespace

TEST_CASE("threads: the contract of Communicator holds on 1, 2, 3, 4 and 8 ranks") {
  for (int size : {1, 2, 3, 4, 8}) {
    for (const Check& check : checks()) {
      const Failures failures = run_on_threads(size, check.run);
      const std::string first = failures.empty() ? "" : failures[0];
      INFO(check.name, " on ", size, " ranks: ", first);
      CHECK(failures.empty());
    }
  }
}

TEST_CASE("staged: the contract of Communicator holds for data on a device, by way of the host") {
  for (int size : {1, 2, 3, 4, 8}) {
    for (const Check& check : checks()) {
      const Failures failures = run_on_threads(size, check.run, DataOn::device);
      const std::string first = failures.empty() ? "" : failures[0];
      INFO(check.name, " on ", size, " ranks: ", first);
      CHECK(failures.empty());
    }
  }
}

TEST_CASE("staged: one wrong element of one rank turns the check of the sums red on every rank") {
  const Failures failures = run_on_threads(4, [](Rank& me) { return check_sums(me, true); }, DataOn::device);
  CHECK(failures.size() == 3 * 4);
}

TEST_CASE("staged: spans of the host and of the device in one operation; copies of what is under way are counted") {
  ThreadsWorld world(2);
  const SystemClock clock;
  std::vector<std::thread> ranks;
  std::array<Failures, 2> failures;
  for (int rank = 0; rank < 2; ++rank)
    ranks.emplace_back([&, rank] {
      Failures& out = failures[static_cast<std::size_t>(rank)];
      longhaul::testing::EmulatedDevice device;
      MemoryAccount account;
      CommOptions options;
      options.clock = &clock;
      options.memory = &account;
      const auto comm = make_staged_communicator(device, world.communicator(rank, 1, options));
      DeviceMemory mine(device, 400);
      const std::vector<float> values(100, static_cast<float>(rank + 1));
      device.copy_in(values.data(), mine.data(), 400);
      std::vector<float> all(200);
      Request gather = comm->all_gather(ConstBytes(mine.data(), 400), std::as_writable_bytes(std::span(all)));
      expect(out, account.bytes_now == 400, format("{} bytes counted, 400 expected", account.bytes_now));
      expect_ok(out, comm->wait(std::move(gather)), "from the device to the host");
      expect(out, all[99] == 1.0F && all[100] == 2.0F, "what was gathered");
      DeviceMemory both(device, 800);
      expect_ok(out, comm->wait(comm->all_gather(std::as_bytes(std::span(values)), Bytes(both.data(), 800))),
                "from the host to the device");
      device.copy_out(both.data(), all.data(), 800);
      expect(out, all[99] == 1.0F && all[100] == 2.0F, "what was gathered on the device");
      expect(out, account.bytes_now == 0 && account.bytes_peak == 800, "bytes are still counted");
    });
  for (std::thread& rank : ranks) rank.join();
  for (const Failures& of_rank : failures) CHECK_MESSAGE(of_rank.empty(), (of_rank.empty() ? "" : of_rank[0]));
}

TEST_CASE("threads: one wrong element of one rank turns the check of the sums red on every rank") {
  const Failures failures = run_on_threads(4, [](Rank& me) { return check_sums(me, true); });
  CHECK(failures.size() == 3 * 4);
}

TEST_CASE("threads: ranks that disagree learn who did what") {
  const Failures failures = run_on_threads(2, [](Rank& me) {
    Failures out;
    const auto comm = me.communicator();
    std::vector<float> data(me.rank == 0 ? 4 : 5);
    const Status status = comm->wait(comm->all_reduce_sum(data));
    expect(out, !status.ok() && status.error().what.find("16 of") == std::string::npos, "disagreement was not noticed");
    if (!status) expect(out, status.error().what.find("rank 1") != std::string::npos, status.error().what);
    return out;
  });
  const std::string first = failures.empty() ? "" : failures[0];
  INFO(first);
  CHECK(failures.empty());
}
