#include "engine/core/site_libraries.h"

#include "base/process/program_trust.h"
#include "base/system/shared_library.h"
#include "base/text/text.h"

namespace longhaul {
namespace {

// Both libraries give their version by one function of this kind; own declarations, since their headers may be missing.
using VersionFunction = int(int*);

SiteLibrary look_for(const std::string& name, const std::string& file, const char* function,
                     std::string (*text_of)(int)) {
  const std::string names[] = {file};
  const Result<SharedLibrary> library = SharedLibrary::open(names);
  if (!library.ok()) return {name, "not found: no " + file + " along LD_LIBRARY_PATH or in the system's folders"};
  VersionFunction* version_of = nullptr;
  int version = 0;
  const bool known = library->find(function, version_of) && version_of(&version) == 0;
  return {name, format("{}, {} ({})", known ? text_of(version) : "version unknown", library->path(),
                       owner_text(library->path()))};
}

// Those that only some ranks open, or one of two releases; nothing is said where there is none.
void add_found(const std::string& name, std::vector<std::string> files, std::vector<SiteLibrary>& libraries) {
  const Result<SharedLibrary> library = SharedLibrary::open(files);
  if (library.ok()) libraries.push_back({name, format("{} ({})", library->path(), owner_text(library->path()))});
}

// 13000 is 13.0 (cuDriverGetVersion)
std::string cuda_version(int version) {
  return format("CUDA {}.{}", version / 1000, version % 1000 / 10);
}

// 22809 is 2.28.9; before 2.9 it was 2804 for 2.8.4 (nccl.h, NCCL_VERSION)
std::string nccl_version(int version) {
  const int scale = version < 10'000 ? 1'000 : 10'000;
  return format("{}.{}.{}", version / scale, version % scale / 100, version % 100);
}

}  // namespace

std::vector<SiteLibrary> site_libraries() {
  std::vector<SiteLibrary> libraries = {look_for("cuda driver", "libcuda.so.1", "cuDriverGetVersion", cuda_version),
                                        look_for("nccl", "libnccl.so.2", "ncclGetVersion", nccl_version)};
  add_found("cublaslt", {"libcublasLt.so.13", "libcublasLt.so.12"}, libraries);
  add_found("cudnn", {"libcudnn.so.9"}, libraries);
  add_found("cupti", {"libcupti.so.13", "libcupti.so.12", "libcupti.so"}, libraries);
  add_found("nvml", {"libnvidia-ml.so.1"}, libraries);
  return libraries;
}

}  // namespace longhaul
