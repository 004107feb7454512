// What stands in for CUDA's runtime where the engine's own code of a device is tested (engine/core/cuda): streams are
// lists of copies that are carried out when the host looks, memory is the host's.
#pragma once

namespace longhaul::testing {

struct FakeCuda {
  bool reads_pageable = false;  // a GPU that reads the host's pages by itself, when it comes to it
  bool stopped = false;         // nothing that was asked for is carried out any more
  int mallocs = 0, frees = 0;
};
FakeCuda& fake_cuda();

}  // namespace longhaul::testing
