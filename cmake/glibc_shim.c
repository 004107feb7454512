/* liblonghaul_glibc.so: what libraries of Debian 12 that travel with the package (libstdc++, libfmt, libdnnl) ask of a libc newer
   than 2.31 (scripts/sysroot, scripts/package_elf.py). Compiled with the headers of 2.31. */
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* glibc 2.32: true allows to spare atomic instructions; false is always right. */
char __libc_single_threaded = 0;

/* glibc 2.36: std::random_device asks it. */
uint32_t arc4random(void) {
  uint32_t value;
  if (getentropy(&value, sizeof value) != 0) abort();
  return value;
}

/* glibc 2.33; before, headers turned them into calls of these functions, which every later libc still has. */
int shim_stat(const char* path, struct stat* to) __asm__("stat");
int shim_stat(const char* path, struct stat* to) {
  return __xstat(_STAT_VER, path, to);
}
int shim_lstat(const char* path, struct stat* to) __asm__("lstat");
int shim_lstat(const char* path, struct stat* to) {
  return __lxstat(_STAT_VER, path, to);
}
int shim_fstat(int file, struct stat* to) __asm__("fstat");
int shim_fstat(int file, struct stat* to) {
  return __fxstat(_STAT_VER, file, to);
}
/* On 64-bit machines struct stat and struct stat64 are one. */
int shim_fstat64(int file, struct stat* to) __asm__("fstat64");
int shim_fstat64(int file, struct stat* to) {
  return __fxstat(_STAT_VER, file, to);
}
