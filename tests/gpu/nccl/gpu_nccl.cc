// One rank of several over NCCL, each a process of its own that opens the GPU of its number (or the only one), and the
// contract of the communicators on them; or, with --staged, two ranks on one GPU, whose data goes through the host.
// scripts/gpu_nccl.py starts the ranks and says what became of them.
//
// usage: gpu_nccl --rank R --size N --folder FOLDER     FOLDER: empty, seen by all ranks
//        gpu_nccl --staged
// Exit codes: 0, 1: a check failed, 3: NCCL refused, 77: no GPU.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "engine/core/cuda/cuda_device.h"
#include "engine/ops/cuda/common/tree_rows.h"
#include "engine/ops/cuda/loss/digest_kernels.h"
#include "tests/gpu/nccl/nccl_check.h"
#include "tests/gpu/real_gpu.h"

using namespace longhaul;

namespace {

Result<std::unique_ptr<Device>> open(int rank) {
  LH_TRY(std::unique_ptr<CudaDevice> device, CudaDevice::open(rank, false));
  return std::unique_ptr<Device>(std::move(device));
}

int run_rank(int rank, int size, const char* folder) {
  const auto device = open(rank);
  if (!device.ok()) {
    std::printf("skipped: %s\n", device.error().message().c_str());
    return testing::kNoGpu;
  }
  std::printf("rank %d of %d on %s\n", rank, size, (*device)->name().c_str());
  FileRendezvous rendezvous(folder);
  return gpu_bench::check_over_nccl(**device,
                                    {cuda::tree_rows, cuda::write_word, cuda::digest_parts, cuda::digest_partials}, {},
                                    rendezvous, rank, size);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "--staged") == 0) return gpu_bench::check_staged(2, [] { return open(0); });
  if (argc == 7 && std::strcmp(argv[1], "--rank") == 0 && std::strcmp(argv[3], "--size") == 0 &&
      std::strcmp(argv[5], "--folder") == 0)
    return run_rank(std::atoi(argv[2]), std::atoi(argv[4]), argv[6]);
  std::fprintf(stderr, "usage: %s --rank R --size N --folder FOLDER | --staged\n", argv[0]);
  return 2;
}
