#include "engine/comm/nccl/nccl_library.h"

#include <utility>
#include <vector>

#include "base/text/text.h"

namespace longhaul {

std::string nccl_version_text(int version) {
  return format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

Result<std::shared_ptr<const NcclLibrary>> NcclLibrary::open(std::span<const std::string> names) {
  const std::vector<std::string> usual = {"libnccl.so.2", "libnccl.so"};
  auto opened = SharedLibrary::open(names.empty() ? std::span<const std::string>(usual) : names);
  if (!opened)
    return make_error(ErrorCode::not_found, opened.error().what,
                      "ranks on several GPUs need NCCL 2: install it, or name its folder in LD_LIBRARY_PATH");
  std::shared_ptr<NcclLibrary> nccl(new NcclLibrary(std::move(opened).value()));
  std::string missing;
  const auto find = [&](const char* name, auto& function) {
    if (!nccl->library_.find(name, function)) missing += format("{}{}", missing.empty() ? "" : ", ", name);
  };
#define LH_NCCL_FIND(name) find(#name, nccl->name)
  LH_NCCL_FIND(ncclGetVersion);
  LH_NCCL_FIND(ncclGetUniqueId);
  LH_NCCL_FIND(ncclCommInitRankConfig);
  LH_NCCL_FIND(ncclCommGetAsyncError);
  LH_NCCL_FIND(ncclCommFinalize);
  LH_NCCL_FIND(ncclCommDestroy);
  LH_NCCL_FIND(ncclCommAbort);
  LH_NCCL_FIND(ncclGetErrorString);
  LH_NCCL_FIND(ncclGetLastError);
  LH_NCCL_FIND(ncclGroupStart);
  LH_NCCL_FIND(ncclGroupEnd);
  LH_NCCL_FIND(ncclSend);
  LH_NCCL_FIND(ncclRecv);
  LH_NCCL_FIND(ncclAllGather);
  LH_NCCL_FIND(ncclAllReduce);
  LH_NCCL_FIND(ncclReduceScatter);
  LH_NCCL_FIND(ncclBroadcast);
#undef LH_NCCL_FIND
  const char* remedy = "take NCCL 2.18 or newer, of CUDA's major version";
  if (nccl->ncclGetVersion == nullptr || nccl->ncclGetVersion(&nccl->version_) != ncclSuccess)
    return make_error(ErrorCode::unsupported, nccl->name() + " is no NCCL: it does not give its version", remedy);
  if (nccl->version_ < version_least)
    return make_error(ErrorCode::unsupported,
                      format("{} is version {}, {} is needed", nccl->name(), nccl_version_text(nccl->version_),
                             nccl_version_text(version_least)),
                      remedy);
  if (nccl->version_ / 10000 != NCCL_MAJOR)
    return make_error(ErrorCode::unsupported,
                      format("{} is version {}, this program was built with {}.{}", nccl->name(),
                             nccl_version_text(nccl->version_), NCCL_MAJOR, NCCL_MINOR),
                      remedy);
  if (!missing.empty())
    return make_error(ErrorCode::unsupported, format("{} has no {}", nccl->name(), missing), remedy);
  return std::shared_ptr<const NcclLibrary>(std::move(nccl));
}

Error NcclLibrary::failed(const char* call, ncclResult_t result, ncclComm_t communicator) const {
  const char* said = ncclGetErrorString(result);
  const char* last = ncclGetLastError(communicator);
  const std::string more = last != nullptr && *last != '\0' ? format(" ({})", last) : "";
  return make_error(result == ncclRemoteError ? ErrorCode::aborted : ErrorCode::internal,
                    format("{}: {}{}", call, said != nullptr ? said : "an error without a name", more),
                    "NCCL_DEBUG=WARN in the environment of the ranks makes NCCL say more");
}

}  // namespace longhaul
