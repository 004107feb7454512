// The contract of Communicator on the `threads` backend. No OpenMP code runs here, so ThreadSanitizer sees everything.
#include <doctest/doctest.h>
#include <sched.h>

#include <mutex>
#include <thread>

#include "engine/comm/threads_communicator.h"
#include "tests/parallel/comm_contract.h"

using namespace longhaul;
using namespace longhaul::comm_contract;

namespace {

Failures run_on_threads(int size, const std::function<Failures(Rank&)>& check) {
  ThreadsWorld world(size);
  std::mutex mutex;
  Failures all;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      Rank me{rank, size, {}};
      me.make = [&world, rank](std::uint64_t epoch,
                               const CommOptions& options) -> Result<std::unique_ptr<Communicator>> {
        return world.communicator(rank, epoch, options);
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

TEST_CASE("threads: one wrong element of one rank turns the check of the sums red on every rank") {
  const Failures failures = run_on_threads(4, [](Rank& me) { return check_sums(me, true); });
  CHECK(failures.size() == 3 * 4);
}

TEST_CASE("threads: ranks that disagree are told who did what") {
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
