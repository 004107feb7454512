// The ranks of a launch as threads of one process, each of them longhaul-engine with an emulated GPU, over a library
// that stands in for NCCL (fake_nccl.cc) and knows the ranks of its own process alone. They find each other as
// processes do: in the launch's folder.
//
// usage: longhaul-engine-emulated-nccl RANKS run --task TASK --launch LAUNCH
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "engine/comm/nccl/nccl_communicator.h"
#include "engine/ops/cuda/common/tree_rows.h"
#include "engine/ops/cuda/loss/digest_kernels.h"
#include "engine/tasks/commands/command_line.h"
#include "tests/support/emulated_gpu/emulated_device.h"

namespace {

longhaul::EngineEnvironment surroundings() {
  using namespace longhaul;
  EngineEnvironment around;
  around.open_gpu = [](int, bool) -> Result<std::unique_ptr<Gpu>> {
    return std::unique_ptr<Gpu>(std::make_unique<testing::EmulatedGpu>(std::int64_t{4} << 30, false));
  };
  around.start_nccl = [](Device& device, Rendezvous& rendezvous, int rank, int size,
                         MemoryAccount* memory) -> Result<std::unique_ptr<DeviceRanks>> {
    NcclOptions options;
    options.library = std::string(LONGHAUL_BINARY_DIR) + "/bin/liblonghaul_fake_nccl.so";
    options.memory = memory;
    LH_TRY(std::unique_ptr<DeviceRanks> ranks,
           NcclRuntime::start(device, {cuda::tree_rows, cuda::write_word, cuda::digest_parts, cuda::digest_partials},
                              rendezvous, rank, size, options));
    return ranks;
  };
  return around;
}

}  // namespace

int main(int argc, char** argv) {
  const int ranks = argc > 2 ? std::atoi(argv[1]) : 0;
  if (ranks < 1) return std::fprintf(stderr, "usage: %s RANKS run --task TASK --launch LAUNCH\n", argv[0]), 2;
  std::vector<int> codes(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      std::vector<std::string> words = {argv[0]};
      words.insert(words.end(), argv + 2, argv + argc);
      words.insert(words.end(), {"--rank", std::to_string(rank)});
      std::vector<char*> pointers;
      for (std::string& word : words) pointers.push_back(word.data());
      codes[static_cast<std::size_t>(rank)] =
          longhaul::engine_main(static_cast<int>(pointers.size()), pointers.data(), surroundings());
    });
  for (std::thread& thread : threads) thread.join();
  return *std::max_element(codes.begin(), codes.end());
}
