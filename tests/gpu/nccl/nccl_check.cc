#include "tests/gpu/nccl/nccl_check.h"

#include <cstdio>
#include <mutex>
#include <thread>

#include "base/text/text.h"
#include "engine/comm/staged_communicator.h"
#include "engine/comm/threads_communicator.h"
#include "tests/parallel/comm/comm_contract.h"
#include "tests/support/emulated_gpu/on_device_communicator.h"

namespace longhaul::gpu_bench {
namespace {

using comm_contract::Failures;

// Each check on this rank, in the order of all ranks.
int run_checks(comm_contract::Rank& me) {
  std::size_t failed = 0;
  for (const comm_contract::Check& check : comm_contract::checks()) {
    const Failures failures = check.run(me);
    failed += failures.empty() ? 0 : 1;
    for (const std::string& failure : failures)
      std::printf("FAILED rank %d of %d, %s: %s\n", me.rank, me.size, check.name, failure.c_str());
    if (failures.empty() && me.rank == 0) std::printf("%s: holds\n", check.name);
    std::fflush(stdout);
  }
  return failed == 0 ? 0 : 1;
}

// NCCL makes a communicator when its first operation needs it.
Status first_sum(NcclRuntime& runtime, Device& device, std::int64_t timeout_ms) {
  static const SystemClock clock;
  CommOptions options;
  options.clock = &clock, options.timeout_ms = timeout_ms;
  LH_TRY(std::unique_ptr<Communicator> made, runtime.world(1, options));
  const auto communicator = testing::make_on_device_communicator(device, std::move(made));
  std::vector<float> ones(1000, 1.0F);
  LH_CHECK(communicator->wait(communicator->all_reduce_sum(ones)));
  if (ones[999] == static_cast<float>(runtime.size())) return {};
  return make_error(ErrorCode::internal, format("1 summed over {} ranks is {}", runtime.size(), ones[999]));
}

}  // namespace

int check_over_nccl(Device& device, const NcclKernels& kernels, const NcclOptions& options, Rendezvous& rendezvous,
                    int rank, int size, std::int64_t first_ms) {
  const auto refused = [&](const Error& error) {
    std::printf("rank %d of %d: NCCL was refused, or refuses: %s\n", rank, size, error.message().c_str());
    std::fflush(stdout);
    return kNcclRefused;
  };
  const auto runtime = NcclRuntime::start(device, kernels, rendezvous, rank, size, options);
  if (!runtime.ok()) return refused(runtime.error());
  if (rank == 0) std::printf("NCCL %s, %d ranks\n", (*runtime)->version().c_str(), size);
  if (const Status summed = first_sum(**runtime, device, first_ms); !summed.ok()) return refused(summed.error());
  comm_contract::Rank me{rank, size, {}, 2};
  me.make = [&](std::uint64_t epoch, const CommOptions& wanted) -> Result<std::unique_ptr<Communicator>> {
    LH_TRY(std::unique_ptr<Communicator> made, (*runtime)->world(epoch, wanted));
    return testing::make_on_device_communicator(device, std::move(made));
  };
  const int code = run_checks(me);
  if (rank == 0 && !(*runtime)->counted_by_host().empty())
    std::printf("completed collectives are counted by the host: %s\n", (*runtime)->counted_by_host().c_str());
  return code;
}

int check_staged(int size, const std::function<Result<std::unique_ptr<Device>>()>& open) {
  const ThreadsWorld world(size);
  std::mutex mutex;
  int worst = 0;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      const Result<std::unique_ptr<Device>> device = open();
      int code = 1;
      if (device.ok()) {
        comm_contract::Rank me{rank, size, {}, 1};
        me.make = [&](std::uint64_t epoch, const CommOptions& wanted) -> Result<std::unique_ptr<Communicator>> {
          return testing::make_on_device_communicator(
              **device, make_staged_communicator(**device, world.communicator(rank, epoch, wanted)));
        };
        code = run_checks(me);
      } else {
        std::printf("rank %d of %d: %s\n", rank, size, device.error().message().c_str());
      }
      const std::lock_guard lock(mutex);
      worst = std::max(worst, code);
    });
  for (std::thread& thread : threads) thread.join();
  return worst;
}

}  // namespace longhaul::gpu_bench
