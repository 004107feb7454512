// The contract of Communicator on MPI. Started by mpirun; every rank runs every check, rank 0 reports, and the run is
// red on all ranks if it is red on one. An alarm ends a run that hangs.
#include <time.h>
#include <unistd.h>

#include <cstdio>

#include "base/text/text.h"
#include "engine/comm/mpi_communicator.h"
#include "engine/comm/staged_communicator.h"
#include "tests/parallel/comm/comm_contract.h"
#include "tests/support/emulated_gpu/emulated_device.h"
#include "tests/support/emulated_gpu/on_device_communicator.h"

using namespace longhaul;
using namespace longhaul::comm_contract;

namespace {

std::int64_t nanoseconds_of(clockid_t clock) {
  struct timespec now{};
  clock_gettime(clock, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

// Rank 0 comes half a second late: what the others use of their cores until then.
Failures check_waiting_costs_little(Rank& me) {
  const auto comm = me.communicator();
  std::vector<float> one = {1};
  if (const Status met = comm->wait(comm->all_reduce_sum(one)); !met) return {met.error().message()};
  if (me.rank == 0) usleep(500'000);
  const std::int64_t from = nanoseconds_of(CLOCK_MONOTONIC), used_from = nanoseconds_of(CLOCK_PROCESS_CPUTIME_ID);
  if (const Status met = comm->wait(comm->all_reduce_sum(one)); !met) return {met.error().message()};
  const double seconds = 1e-9 * static_cast<double>(nanoseconds_of(CLOCK_MONOTONIC) - from);
  const double used = 1e-9 * static_cast<double>(nanoseconds_of(CLOCK_PROCESS_CPUTIME_ID) - used_from);
  if (me.rank == 1) std::printf("a rank that waited for %.3f s used %.3f s of its core\n", seconds, used);
  if (me.rank == 0 || used <= 0.05 * seconds) return {};
  return {format("waiting for {} s used {} s of the core, more than a twentieth", seconds, used)};
}

}  // namespace

int main(int argc, char** argv) {
  alarm(100);
  auto runtime = MpiRuntime::start(&argc, &argv);
  if (!runtime) {
    std::fprintf(stderr, "%s\n", runtime.error().message().c_str());
    return 1;
  }
  Rank me{(*runtime)->rank(), (*runtime)->size(), {}};
  me.make = [&](std::uint64_t epoch, const CommOptions& options) { return (*runtime)->world(epoch, options); };
  int red = 0;
  const auto agree = [&](const char* name, Failures failures, bool should_fail) {
    if (should_fail) {
      failures = failures.empty() ? Failures{"a planted wrong element went unnoticed"} : Failures{};
    }
    for (const std::string& f : failures) std::fprintf(stderr, "rank %d: %s: %s\n", me.rank, name, f.c_str());
    const auto comm = me.communicator();
    std::vector<float> count = {static_cast<float>(failures.size())};
    const Status status = comm->wait(comm->all_reduce_sum(count));
    const bool good = status.ok() && count[0] == 0.0F;
    if (me.rank == 0) std::printf("%-16s on %d ranks: %s\n", name, me.size, good ? "ok" : "FAILED");
    red += good ? 0 : 1;
  };
  for (const Check& check : checks()) agree(check.name, check.run(me), false);
  if (me.size > 1) agree("planted error", check_sums(me, true), true);
  if (me.size > 1) agree("waiting", check_waiting_costs_little(me), false);
  // The same where every message travels as many: as one beyond what MPI can count would.
  me.make = [&](std::uint64_t epoch, CommOptions options) {
    options.piece_bytes_max = 1000;
    return (*runtime)->world(epoch, options);
  };
  for (const Check& check : checks()) agree(check.name, check.run(me), false);
  // For data on a device, by way of the host.
  longhaul::testing::EmulatedDevice device;
  me.make = [&](std::uint64_t epoch, const CommOptions& options) -> Result<std::unique_ptr<Communicator>> {
    LH_TRY(std::unique_ptr<Communicator> on_host, (*runtime)->world(epoch, options));
    return longhaul::testing::make_on_device_communicator(device, make_staged_communicator(device, std::move(on_host)));
  };
  for (const Check& check : checks()) agree(check.name, check.run(me), false);
  if (me.size > 1) agree("planted error", check_sums(me, true), true);
  if (me.rank == 0) std::printf("%zu operations in quarantine at rank 0\n", (*runtime)->quarantined());
  std::fflush(stdout);
  runtime = make_error(ErrorCode::aborted, "finished");  // MPI_Finalize
  return red == 0 ? 0 : 1;
}
