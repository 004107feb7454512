// NCCL, opened while the program runs: the functions that the communicators use, typed by NCCL's own header.
#pragma once

#include <nccl.h>

#include <memory>
#include <span>
#include <string>

#include "base/system/shared_library.h"

namespace longhaul {

// Each member is the function of its name.
struct NcclFunctions {
  decltype(&::ncclGetVersion) ncclGetVersion = nullptr;
  decltype(&::ncclGetUniqueId) ncclGetUniqueId = nullptr;
  decltype(&::ncclCommInitRankConfig) ncclCommInitRankConfig = nullptr;
  decltype(&::ncclCommGetAsyncError) ncclCommGetAsyncError = nullptr;
  decltype(&::ncclCommFinalize) ncclCommFinalize = nullptr;
  decltype(&::ncclCommDestroy) ncclCommDestroy = nullptr;
  decltype(&::ncclCommAbort) ncclCommAbort = nullptr;
  decltype(&::ncclGetErrorString) ncclGetErrorString = nullptr;
  decltype(&::ncclGetLastError) ncclGetLastError = nullptr;
  decltype(&::ncclGroupStart) ncclGroupStart = nullptr;
  decltype(&::ncclGroupEnd) ncclGroupEnd = nullptr;
  decltype(&::ncclSend) ncclSend = nullptr;
  decltype(&::ncclRecv) ncclRecv = nullptr;
  decltype(&::ncclAllGather) ncclAllGather = nullptr;
  decltype(&::ncclAllReduce) ncclAllReduce = nullptr;
  decltype(&::ncclReduceScatter) ncclReduceScatter = nullptr;
  decltype(&::ncclBroadcast) ncclBroadcast = nullptr;
};

class NcclLibrary : public NcclFunctions {
 public:
  // NCCL counts its versions as 10000 * major + 100 * minor + patch.
  static constexpr int version_least = 21800;  // communicators that never block, all through

  // The first of `names` that the loader finds; none given: libnccl.so.2. Errors: it is not there, is too old, or lacks
  // a function, each with what to do.
  static Result<std::shared_ptr<const NcclLibrary>> open(std::span<const std::string> names = {});

  int version() const { return version_; }
  const std::string& name() const { return library_.name(); }
  // "ncclSend: unhandled system error (...)", with what NCCL says of this communicator (null: in general).
  Error failed(const char* call, ncclResult_t result, ncclComm_t communicator) const;

 private:
  explicit NcclLibrary(SharedLibrary library) : library_(std::move(library)) {}
  SharedLibrary library_;
  int version_ = 0;
};

std::string nccl_version_text(int version);  // "2.28.9"

}  // namespace longhaul
