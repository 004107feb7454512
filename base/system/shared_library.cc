#include "base/system/shared_library.h"

#include <dlfcn.h>
#include <link.h>

#include "base/text/text.h"

namespace longhaul {

void SharedLibrary::Close::operator()(void* handle) const {
  (void)::dlclose(handle);
}

Result<SharedLibrary> SharedLibrary::open(std::span<const std::string> names, bool stays) {
  std::string reasons;
  for (const std::string& name : names) {
    SharedLibrary library;
    library.handle_.reset(::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | (stays ? RTLD_NODELETE : 0)));
    if (library.handle_) {
      library.name_ = name;
      return library;
    }
    const char* why = ::dlerror();
    reasons += format("{}{}", reasons.empty() ? "" : "; ", why ? why : "no reason given");
  }
  return make_error(ErrorCode::not_found, "cannot load: " + reasons);
}

std::string SharedLibrary::path() const {
  const link_map* map = nullptr;
  if (::dlinfo(handle_.get(), RTLD_DI_LINKMAP, &map) != 0 || !map || !map->l_name || !*map->l_name) return name_;
  return map->l_name;
}

void* SharedLibrary::address_of(const char* name) const {
  return ::dlsym(handle_.get(), name);
}

}  // namespace longhaul
