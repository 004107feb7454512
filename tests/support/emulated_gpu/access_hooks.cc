#include <cstddef>
#include <utility>

#include "tests/support/emulated_gpu/access_races.h"

namespace longhaul::testing {
namespace {

constinit thread_local AccessWatcher* watching = nullptr;

void tell(const volatile void* at, std::size_t bytes, Access kind) {
  AccessWatcher* const watcher = std::exchange(watching, nullptr);
  watcher->accessed(const_cast<const void*>(at), bytes, kind);
  watching = watcher;
}

inline void accessed(const volatile void* at, std::size_t bytes, Access kind) {
  if (watching != nullptr) [[unlikely]]
    tell(at, bytes, kind);
}

}  // namespace

void watch_accesses(AccessWatcher* watcher) {
  watching = watcher;
}

}  // namespace longhaul::testing

// ThreadSanitizer's own build has its own. The names and signatures are the compiler's (gcc/sanitizer.def).
#ifndef __SANITIZE_THREAD__
// NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp,readability-identifier-naming)
using longhaul::testing::Access;
using longhaul::testing::accessed;

extern "C" {

void __tsan_init();
void __tsan_init() {}
void __tsan_func_entry(void*);
void __tsan_func_entry(void*) {}
void __tsan_func_exit(void*);
void __tsan_func_exit(void*) {}
void __tsan_vptr_update(void** at, void*);
void __tsan_vptr_update(void** at, void*) {
  accessed(static_cast<const void*>(at), sizeof(void*), Access::write);
}
void __tsan_read_range(void* at, unsigned long bytes);
void __tsan_read_range(void* at, unsigned long bytes) {
  accessed(at, bytes, Access::read);
}
void __tsan_write_range(void* at, unsigned long bytes);
void __tsan_write_range(void* at, unsigned long bytes) {
  accessed(at, bytes, Access::write);
}

#define LH_ACCESS(name, bytes, kind) \
  void name(void* at);               \
  void name(void* at) {              \
    accessed(at, bytes, kind);       \
  }
LH_ACCESS(__tsan_read1, 1, Access::read)
LH_ACCESS(__tsan_read2, 2, Access::read)
LH_ACCESS(__tsan_read4, 4, Access::read)
LH_ACCESS(__tsan_read8, 8, Access::read)
LH_ACCESS(__tsan_read16, 16, Access::read)
LH_ACCESS(__tsan_unaligned_read2, 2, Access::read)
LH_ACCESS(__tsan_unaligned_read4, 4, Access::read)
LH_ACCESS(__tsan_unaligned_read8, 8, Access::read)
LH_ACCESS(__tsan_unaligned_read16, 16, Access::read)
LH_ACCESS(__tsan_write1, 1, Access::write)
LH_ACCESS(__tsan_write2, 2, Access::write)
LH_ACCESS(__tsan_write4, 4, Access::write)
LH_ACCESS(__tsan_write8, 8, Access::write)
LH_ACCESS(__tsan_write16, 16, Access::write)
LH_ACCESS(__tsan_unaligned_write2, 2, Access::write)
LH_ACCESS(__tsan_unaligned_write4, 4, Access::write)
LH_ACCESS(__tsan_unaligned_write8, 8, Access::write)
LH_ACCESS(__tsan_unaligned_write16, 16, Access::write)

// Whatever order is asked for, the strictest one is right.
#define LH_CHANGE(name, type, operation)                                        \
  type name(volatile void* at, type value, int);                                \
  type name(volatile void* at, type value, int) {                               \
    accessed(at, sizeof(type), Access::atomic);                                 \
    return operation(static_cast<volatile type*>(at), value, __ATOMIC_SEQ_CST); \
  }
#define LH_ATOMICS(prefix, type)                                                                                    \
  type prefix##_load(const volatile void* at, int);                                                                 \
  type prefix##_load(const volatile void* at, int) {                                                                \
    accessed(at, sizeof(type), Access::atomic);                                                                     \
    return __atomic_load_n(static_cast<const volatile type*>(at), __ATOMIC_SEQ_CST);                                \
  }                                                                                                                 \
  void prefix##_store(volatile void* at, type value, int);                                                          \
  void prefix##_store(volatile void* at, type value, int) {                                                         \
    accessed(at, sizeof(type), Access::atomic);                                                                     \
    __atomic_store_n(static_cast<volatile type*>(at), value, __ATOMIC_SEQ_CST);                                     \
  }                                                                                                                 \
  LH_CHANGE(prefix##_exchange, type, __atomic_exchange_n)                                                           \
  LH_CHANGE(prefix##_fetch_add, type, __atomic_fetch_add)                                                           \
  LH_CHANGE(prefix##_fetch_sub, type, __atomic_fetch_sub)                                                           \
  LH_CHANGE(prefix##_fetch_and, type, __atomic_fetch_and)                                                           \
  LH_CHANGE(prefix##_fetch_or, type, __atomic_fetch_or)                                                             \
  bool prefix##_compare_exchange_strong(volatile void* at, void* expected, type value, int, int);                   \
  bool prefix##_compare_exchange_strong(volatile void* at, void* expected, type value, int, int) {                  \
    accessed(at, sizeof(type), Access::atomic);                                                                     \
    return __atomic_compare_exchange_n(static_cast<volatile type*>(at), static_cast<type*>(expected), value, false, \
                                       __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                                         \
  }                                                                                                                 \
  bool prefix##_compare_exchange_weak(volatile void* at, void* expected, type value, int, int);                     \
  bool prefix##_compare_exchange_weak(volatile void* at, void* expected, type value, int, int) {                    \
    return prefix##_compare_exchange_strong(at, expected, value, 0, 0);                                             \
  }
LH_ATOMICS(__tsan_atomic8, unsigned char)
LH_ATOMICS(__tsan_atomic32, unsigned)
LH_ATOMICS(__tsan_atomic64, unsigned long)
#undef LH_ACCESS
#undef LH_CHANGE
#undef LH_ATOMICS

}  // extern "C"
// NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp,readability-identifier-naming)
#endif
