// What gpu_nccl runs on a real GPU, here over a library that stands in for NCCL, on emulated GPUs.
#include "tests/gpu/nccl/nccl_check.h"

#include <doctest/doctest.h>

#include <thread>

#include "base/system/shared_library.h"
#include "engine/ops/cuda/common/tree_rows.h"
#include "engine/ops/cuda/loss/digest_kernels.h"
#include "tests/support/emulated_gpu/emulated_device.h"

using namespace longhaul;
using namespace longhaul::gpu_bench;

namespace {

const std::string fake_path = std::string(LONGHAUL_BINARY_DIR) + "/bin/liblonghaul_fake_nccl.so";

std::vector<int> run_ranks(int size, const std::string& library, std::int64_t first_ms = 30'000) {
  ThreadsRendezvous rendezvous;
  NcclOptions options;
  options.library = library;
  std::vector<int> codes(static_cast<std::size_t>(size), -1);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      testing::EmulatedDevice device;
      codes[static_cast<std::size_t>(rank)] =
          check_over_nccl(device, {cuda::tree_rows, cuda::write_word, cuda::digest_parts, cuda::digest_partials},
                          options, rendezvous, rank, size, first_ms);
    });
  for (std::thread& thread : threads) thread.join();
  return codes;
}

}  // namespace

TEST_CASE("gpu_nccl: the contract over NCCL on two ranks") {
  CHECK(run_ranks(2, fake_path) == std::vector<int>{0, 0});
}

TEST_CASE("gpu_nccl: what NCCL answers where it will not is no failed check") {
  CHECK(run_ranks(2, "/nowhere/libnccl.so.2") == std::vector<int>{kNcclRefused, kNcclRefused});
  const SharedLibrary fake = SharedLibrary::open(std::span(&fake_path, 1)).value();
  void (*misbehave)(const char*, int) = nullptr;
  REQUIRE(fake.find("fake_nccl_misbehave", misbehave));
  misbehave("error", 1);
  const std::vector<int> codes = run_ranks(2, fake_path, 500);
  misbehave("error", -1);
  CHECK(codes == std::vector<int>{kNcclRefused, kNcclRefused});
}

TEST_CASE("gpu_nccl: two ranks by way of the host; one without a device fails") {
  const auto open = []() -> Result<std::unique_ptr<Device>> {
    return std::unique_ptr<Device>(std::make_unique<testing::EmulatedDevice>());
  };
  CHECK(check_staged(2, open) == 0);
  const auto none = []() -> Result<std::unique_ptr<Device>> { return make_error(ErrorCode::unavailable, "no device"); };
  CHECK(check_staged(2, none) == 1);
}
