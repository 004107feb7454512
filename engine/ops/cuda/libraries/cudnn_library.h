// cuDNN's graph API, opened while the program runs. libcudnn.so.9 is a small library that opens the large ones beside
// it (graph, engines, heuristic) when they are needed.
#pragma once

#include <cudnn_graph.h>

#include <span>

#include "base/system/shared_library.h"

namespace longhaul::cuda {

struct Cudnn {
  SharedLibrary library;
  decltype(&cudnnGetVersion) version = nullptr;
  decltype(&cudnnGetErrorString) status_text = nullptr;
  decltype(&cudnnGetLastErrorString) last_error = nullptr;
  decltype(&cudnnCreate) create = nullptr;
  decltype(&cudnnDestroy) destroy = nullptr;
  decltype(&cudnnSetStream) set_stream = nullptr;
  decltype(&cudnnBackendCreateDescriptor) descriptor_create = nullptr;
  decltype(&cudnnBackendDestroyDescriptor) descriptor_destroy = nullptr;
  decltype(&cudnnBackendSetAttribute) set = nullptr;
  decltype(&cudnnBackendGetAttribute) get = nullptr;
  decltype(&cudnnBackendFinalize) finalize = nullptr;
  decltype(&cudnnBackendExecute) execute = nullptr;

  // libcudnn.so of the major release that was compiled against. Errors: it is not found, lacks a function, or is older
  // than 9.16 (whose attention needs no workaround for lengths that are no multiples of 128).
  static Result<Cudnn> open();
  static Result<Cudnn> open(std::span<const std::string> names);

  // Error (unsupported where cuDNN says that it has no such engine, internal otherwise): the call, what it was for, the
  // name of the status, and what cuDNN itself says of its last error.
  Status check(cudnnStatus_t status, const char* call, const std::string& what) const;
};

}  // namespace longhaul::cuda
