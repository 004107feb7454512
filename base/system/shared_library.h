// A library that is opened while the program runs, because not every host has it. Closed with its owner: whatever was
// found in it must be gone before.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "base/error/result.h"

namespace longhaul {

class SharedLibrary {
 public:
  // The first of `names` that the loader finds: a path, or a name to be looked for along this program's run path,
  // LD_LIBRARY_PATH and the system's folders. Error (not_found): what the loader said of each.
  // stays: the library is never unloaded, for one that leaves its functions with others (CUPTI hooks into the driver).
  static Result<SharedLibrary> open(std::span<const std::string> names, bool stays = false);

  // Sets `function`; false and null where the library has no such name. Its type is what the caller says.
  template <class Function>
  bool find(const char* name, Function*& function) const {
    function = reinterpret_cast<Function*>(address_of(name));
    return function != nullptr;
  }
  const std::string& name() const { return name_; }
  std::string path() const;  // the file that the loader took; the name where it does not say

 private:
  struct Close {
    void operator()(void* handle) const;
  };
  void* address_of(const char* name) const;
  std::unique_ptr<void, Close> handle_;
  std::string name_;
};

}  // namespace longhaul
