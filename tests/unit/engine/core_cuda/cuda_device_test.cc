// The device of a real GPU (engine/core/cuda), over what stands in for CUDA's runtime.
#include "engine/core/cuda/cuda_device.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <vector>

#include "tests/support/fake_libraries/fake_cudart.h"

using namespace longhaul;
using namespace longhaul::testing;

namespace {

std::unique_ptr<CudaDevice> open_device(std::int64_t deadline_ms = 10'000) {
  return CudaDevice::open(0, false, DeviceArena::Rule(), deadline_ms).value();
}

}  // namespace

TEST_CASE("what the host writes behind a copy to the device does not travel, whoever reads the host's memory") {
  for (const bool reads_pageable : {false, true}) {
    CAPTURE(reads_pageable);
    fake_cuda() = {.reads_pageable = reads_pageable};
    const auto device = open_device();
    std::byte* const there = device->allocate(64 * sizeof(int)).value();
    auto* const pinned = reinterpret_cast<int*>(device->allocate_host(64 * sizeof(int)).value());
    std::vector<int> plain(64);
    for (int* const here : {plain.data(), pinned}) {
      std::fill(here, here + 64, 5);
      device->copy_in(here, there, 64 * sizeof(int));
      std::fill(here, here + 64, 7);
      std::vector<int> back(64);
      device->copy_out(there, back.data(), 64 * sizeof(int));
      CHECK((back == std::vector<int>(64, 5)));
    }
    device->release(there);
    device->release_host(reinterpret_cast<std::byte*>(pinned));
  }
  fake_cuda() = {};
}

TEST_CASE("what is taken from the driver and given back is counted, what the arena hands out again is not") {
  fake_cuda() = {};
  const auto device = open_device();
  device->keep_released();
  constexpr std::int64_t large = std::int64_t{20} << 20;
  std::byte* first = device->allocate(large).value();
  std::byte* small = device->allocate(1000).value();
  const std::int64_t before = device->driver_allocations();
  CHECK(before == fake_cuda().mallocs);
  for (int step = 0; step < 5; ++step) {  // a warm training
    device->release(first), device->release(small);
    small = device->allocate(900).value(), first = device->allocate(large).value();
  }
  CHECK(device->driver_allocations() == before);
  CHECK(fake_cuda().mallocs + fake_cuda().frees == before);
  std::byte* const more = device->allocate(large).value();
  CHECK(device->driver_allocations() == before + 1);
  for (std::byte* memory : {first, small, more}) device->release(memory);
}

TEST_CASE("a GPU that has stopped ends the process, and no wait for it goes on for ever") {
  for (const auto& wait : {+[](Device& device) { device.finish(); },
                           +[](Device& device) {
                             std::byte byte{};
                             device.copy_out(device.allocate(1).value(), &byte, 1);
                           }}) {
    fake_cuda() = {};
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);
      const auto device = open_device(100);
      (void)std::freopen("/dev/null", "w", stderr);
      fake_cuda().stopped = true;
      wait(*device);
      _exit(0);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == SIGABRT);
  }
}
