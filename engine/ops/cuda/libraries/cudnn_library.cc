#include "engine/ops/cuda/libraries/cudnn_library.h"

#include "base/text/text.h"

namespace longhaul::cuda {
namespace {

constexpr std::size_t oldest = 91600;  // major * 10000 + minor * 100 + patch
constexpr const char* remedy =
    "load the site's cuDNN module, or put its lib folder on LD_LIBRARY_PATH; attention_backend = \"own\" does without";

}  // namespace

Result<Cudnn> Cudnn::open() {
  const std::string names[] = {format("libcudnn.so.{}", CUDNN_MAJOR)};
  return open(names);
}

Result<Cudnn> Cudnn::open(std::span<const std::string> names) {
  Result<SharedLibrary> opened = SharedLibrary::open(names);
  if (!opened.ok()) return make_error(ErrorCode::unavailable, opened.error().message(), remedy);
  Cudnn c;
  c.library = std::move(*opened);
  const SharedLibrary& l = c.library;
  const bool whole = l.find("cudnnGetVersion", c.version) && l.find("cudnnGetErrorString", c.status_text) &&
                     l.find("cudnnGetLastErrorString", c.last_error) && l.find("cudnnCreate", c.create) &&
                     l.find("cudnnDestroy", c.destroy) && l.find("cudnnSetStream", c.set_stream) &&
                     l.find("cudnnBackendCreateDescriptor", c.descriptor_create) &&
                     l.find("cudnnBackendDestroyDescriptor", c.descriptor_destroy) &&
                     l.find("cudnnBackendSetAttribute", c.set) && l.find("cudnnBackendGetAttribute", c.get) &&
                     l.find("cudnnBackendFinalize", c.finalize) && l.find("cudnnBackendExecute", c.execute);
  if (!whole) return make_error(ErrorCode::corrupt, l.name() + " lacks a function of cuDNN's graph API", remedy);
  if (const std::size_t version = c.version(); version < oldest || version / 10000 != CUDNN_MAJOR)
    return make_error(ErrorCode::unavailable,
                      format("{} is release {} of cuDNN; {} and newer ones of major release {} are used", l.name(),
                             version, oldest, CUDNN_MAJOR),
                      remedy);
  return c;
}

Status Cudnn::check(cudnnStatus_t status, const char* call, const std::string& what) const {
  if (status == CUDNN_STATUS_SUCCESS) return {};
  char message[1024] = {};
  last_error(message, sizeof message);
  const bool unsupported = CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_NOT_SUPPORTED;
  return make_error(unsupported ? ErrorCode::unsupported : ErrorCode::internal,
                    format("{} ({}): {}: {}", call, what, status_text(status), message));
}

}  // namespace longhaul::cuda
