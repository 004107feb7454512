// What tests may ask of and set in the library that stands in for cuBLASLt (fake_cublaslt.cc), which they open beside
// the code that uses it.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

struct FakeCublasLtCounts {
  std::int64_t heuristics, products;  // calls that came through
  std::int64_t alive;                 // handles, descriptions, layouts and preferences that nobody has destroyed
};

// The GPU that it answers for (ten times major plus minor of its compute capability) and the version that it calls
// itself, for all handles from now on; counts begin anew.
void fake_cublaslt_become(int capability, std::size_t version);
FakeCublasLtCounts fake_cublaslt_counts();
// Why the last call that was refused was; for messages.
const char* fake_cublaslt_refusal();
}
