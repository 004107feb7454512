// How calls come here and go on: a function that a program finds in place of the C library's, and the C library's own.
#pragma once

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>

// A function of ours with the name of one of the C library, whose headers declare that in some other way:
//   LH_IN_PLACE_OF(rename) int our_rename(const char*, const char*) { ... }   needs a declaration first, as GCC wants
//   it
#define LH_IN_PLACE_OF(name) __asm__(#name) __attribute__((visibility("default"), used))

namespace longhaul::call_faults {

// The function that stands behind ours; the program ends where there is none, for nobody can go on then.
template <class F>
F* next_function(const char* name) {
  void* found = ::dlsym(RTLD_NEXT, name);
  if (found == nullptr) std::abort();
  return reinterpret_cast<F*>(found);
}

// A system call past everything that stands here.
template <class... A>
long direct_call(long number, A... arguments) {
  using Syscall = long(long, ...);
  static Syscall* const call = next_function<Syscall>("syscall");
  return call(number, arguments...);
}

}  // namespace longhaul::call_faults
