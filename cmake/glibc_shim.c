/* liblonghaul_glibc.so: what libraries of Debian 12 that travel with the package (libstdc++, libfmt, libdnnl) ask of a libc newer
   than 2.31 (scripts/sysroot, scripts/package_elf.py). Compiled with the headers of 2.31. */
#define _GNU_SOURCE
#include <link.h>
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

#ifdef SHIM_STATIC
/* glibc 2.35: the unwinder of GCC 12 asks it for the table of the object that an address lies in. The static one alone does
   (longhaul-rank); where libraries are loaded the package's older libgcc_s is taken. The struct is that of <dlfcn.h> of 2.35 on 64-bit machines. */
struct shim_object {
  unsigned long long flags;
  void *map_start, *map_end, *link_map, *eh_frame;
  unsigned long long reserved[7];
};
struct shim_search {
  uintptr_t address;
  struct shim_object* found;
};
static int shim_look(struct dl_phdr_info* object, size_t size, void* given) {
  struct shim_search* search = given;
  const ElfW(Phdr)* table = 0;
  int inside = 0;
  (void)size;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)* segment = object->dlpi_phdr + i;
    const uintptr_t start = object->dlpi_addr + segment->p_vaddr;
    if (segment->p_type == PT_GNU_EH_FRAME) table = segment;
    if (segment->p_type != PT_LOAD || search->address < start || search->address - start >= segment->p_memsz) continue;
    inside = 1;
    search->found->map_start = (void*)start;
    search->found->map_end = (void*)(start + segment->p_memsz);
  }
  if (!inside || !table) return 0;
  search->found->eh_frame = (void*)(object->dlpi_addr + table->p_vaddr);
  return 1;
}
int _dl_find_object(void* address, struct shim_object* found) {
  struct shim_search search = {(uintptr_t)address, found};
  *found = (struct shim_object){0};
  return dl_iterate_phdr(shim_look, &search) == 1 ? 0 : -1;
}
#endif
