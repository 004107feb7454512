// Products by cuBLASLt in its own terms: matrices by columns, D = epilogue(alpha op(A) op(B) + beta C). An algorithm is
// asked for once for each case (sizes, types, strides, alignment, epilogue, scales) and kept. Deterministic: algorithms
// whose sums depend on who comes first (atomics) are not taken, so that the same case gives the same bits, on the same
// kind of GPU with the same cuBLAS. One thread.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>

#include "engine/core/device/device.h"
#include "engine/ops/cuda/libraries/cublaslt_library.h"

namespace longhaul::cuda {

// What an algorithm is chosen by. op(A) [m, k], op(B) [k, n], C and D [m, n].
struct LtCase {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t ld_a = 0, ld_b = 0, ld_c = 0;
  bool transpose_a = false, transpose_b = false;
  bool adds = false;  // beta is not zero
  cudaDataType_t a = CUDA_R_32F, b = CUDA_R_32F, c = CUDA_R_32F;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  std::int64_t ld_before = 0;                // of the second matrix that GELU's epilogues write or read, of D's type
  int scale_a = -1, scale_b = -1;            // cublasLtMatmulMatrixScale_t; -1: operands have none
  bool fast = false;                         // fp8: sums are not taken to f32 now and then
  std::array<std::uint32_t, 4> alignment{};  // of A, B, C, and the least of what LtPointers has
  auto operator<=>(const LtCase&) const = default;
  std::string text() const;
};

// What a case has beside its matrices; memory of the device.
struct LtPointers {
  const void* bias = nullptr;  // [m], of C's type
  void* before = nullptr;      // [m, n]
  const void* scale_a = nullptr;
  const void* scale_b = nullptr;
};

// The largest power of two, up to 256, that divides an address.
std::uint32_t lt_alignment(const void* address);

class LtProducts {
 public:
  // device: where workspace is taken, borrowed. library: empty: cublaslt_library.h. An error: cuBLASLt cannot be used.
  static Result<std::unique_ptr<LtProducts>> open(Device& device, const std::string& library);

  std::size_t version() const { return lt_.version(); }  // of the library that was opened
  // Does the library have an algorithm for it? Its answer, asked for once.
  bool has(const LtCase& key, const LtPointers& pointers);
  // A case that it does not have ends the process and is named.
  void run(cudaStream_t stream, const LtCase& key, const LtPointers& pointers, float alpha, const void* a,
           const void* b, float beta, void* c);

 private:
  // Ends what one of the library's functions made.
  template <class Handle>
  using Made = std::unique_ptr<std::remove_pointer_t<Handle>, cublasStatus_t (*)(Handle)>;
  struct Plan {
    Made<cublasLtMatmulDesc_t> operation;
    Made<cublasLtMatrixLayout_t> a, b, c;
    std::optional<cublasLtMatmulAlgo_t> algorithm = {};  // empty: the library has none
    cublasStatus_t answer = CUBLAS_STATUS_SUCCESS;       // what it said instead
  };

  LtProducts(Device& device, CublasLt library, Made<cublasLtHandle_t> handle);
  void check(cublasStatus_t status, const char* call, const std::string& what) const;
  template <class T>
  void set(const Plan& plan, cublasLtMatmulDescAttributes_t attribute, const T& value, const std::string& what) const;
  void point(const LtCase& key, const Plan& plan, const LtPointers& pointers) const;
  Made<cublasLtMatrixLayout_t> layout(cudaDataType_t type, std::int64_t rows, std::int64_t columns, std::int64_t ld,
                                      const std::string& what) const;
  Plan& plan(const LtCase& key, const LtPointers& pointers);
  Plan describe(const LtCase& key) const;
  void choose(const LtCase& key, Plan& plan) const;

  CublasLt lt_;  // before what it made
  Made<cublasLtHandle_t> handle_;
  DeviceMemory workspace_;
  std::map<LtCase, Plan> plans_;
};

}  // namespace longhaul::cuda
