#include "engine/ops/cuda/libraries/cublaslt_library.h"

#include "base/text/text.h"

namespace longhaul::cuda {

Result<CublasLt> CublasLt::open(const std::string& name) {
  const std::string names[] = {name.empty() ? format("libcublasLt.so.{}", CUBLAS_VER_MAJOR) : name};
  Result<SharedLibrary> opened = SharedLibrary::open(names);
  if (!opened.ok())
    return make_error(ErrorCode::unavailable, opened.error().message(),
                      "load the CUDA module that this program was built with, or put its lib64 on LD_LIBRARY_PATH");
  CublasLt lt;
  lt.library = std::move(*opened);
  const SharedLibrary& l = lt.library;
  const bool whole = l.find("cublasLtCreate", lt.create) && l.find("cublasLtDestroy", lt.destroy) &&
                     l.find("cublasLtGetVersion", lt.version) && l.find("cublasLtGetStatusString", lt.status_text) &&
                     l.find("cublasLtMatmul", lt.matmul) && l.find("cublasLtMatmulDescCreate", lt.desc_create) &&
                     l.find("cublasLtMatmulDescDestroy", lt.desc_destroy) &&
                     l.find("cublasLtMatmulDescSetAttribute", lt.desc_set) &&
                     l.find("cublasLtMatrixLayoutCreate", lt.layout_create) &&
                     l.find("cublasLtMatrixLayoutDestroy", lt.layout_destroy) &&
                     l.find("cublasLtMatrixLayoutSetAttribute", lt.layout_set) &&
                     l.find("cublasLtMatmulPreferenceCreate", lt.preference_create) &&
                     l.find("cublasLtMatmulPreferenceDestroy", lt.preference_destroy) &&
                     l.find("cublasLtMatmulPreferenceSetAttribute", lt.preference_set) &&
                     l.find("cublasLtMatmulAlgoGetHeuristic", lt.heuristic);
  if (!whole)
    return make_error(ErrorCode::corrupt, l.name() + " lacks a function of cuBLASLt",
                      "it is another library, or an older one: look at LD_LIBRARY_PATH");
  return lt;
}

}  // namespace longhaul::cuda
