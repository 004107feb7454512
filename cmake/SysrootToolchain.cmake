# Compiles against the folder that scripts/sysroot made: -DCMAKE_TOOLCHAIN_FILE=cmake/SysrootToolchain.cmake
# -DLONGHAUL_SYSROOT=build/sysroot/ARCH. Debian 12's GCC 12, Debian 11's libc.
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES LONGHAUL_SYSROOT)
get_filename_component(longhaul_sysroot "${LONGHAUL_SYSROOT}" ABSOLUTE BASE_DIR ${CMAKE_CURRENT_LIST_DIR}/..)
get_filename_component(longhaul_arch "${longhaul_sysroot}" NAME)
set(CMAKE_SYSROOT ${longhaul_sysroot}/root)
# No path of this machine in what is built.
get_filename_component(longhaul_source "${CMAKE_CURRENT_LIST_DIR}" DIRECTORY)
set(CMAKE_C_FLAGS_INIT -ffile-prefix-map=${longhaul_source}=.)
set(CMAKE_CXX_FLAGS_INIT -ffile-prefix-map=${longhaul_source}=.)
if(longhaul_arch STREQUAL "arm64")
  set(triple aarch64-linux-gnu)
  set(CMAKE_SYSTEM_PROCESSOR aarch64)
  set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64;-L;${CMAKE_SYSROOT};-E;LD_LIBRARY_PATH=${CMAKE_SYSROOT}/usr/local/lib)
  # A cross compiler of Debian looks at its own libc first, which is newer.
  set(cxx_headers /usr/aarch64-linux-gnu/include/c++/12)
  set(c_headers "-isystem /usr/lib/gcc-cross/${triple}/12/include -isystem ${CMAKE_SYSROOT}/usr/include/${triple}")
  string(APPEND c_headers " -isystem ${CMAKE_SYSROOT}/usr/include")
  string(APPEND CMAKE_C_FLAGS_INIT " -nostdinc ${c_headers}")
  string(APPEND CMAKE_CXX_FLAGS_INIT " -nostdinc -isystem ${cxx_headers} -isystem ${cxx_headers}/${triple} ${c_headers}")
else()
  set(triple x86_64-linux-gnu)
  set(CMAKE_SYSTEM_PROCESSOR x86_64)
endif()
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_LIBRARY_ARCHITECTURE ${triple})
set(CMAKE_C_COMPILER ${triple}-gcc-12)
set(CMAKE_CXX_COMPILER ${triple}-g++-12)
set(CMAKE_FIND_ROOT_PATH ${CMAKE_SYSROOT})
set(CMAKE_PREFIX_PATH /usr/local)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
# What is our own (scripts/sysroot) before what the packages say of themselves, which is made for shared libraries.
set(ENV{PKG_CONFIG_LIBDIR} ${CMAKE_SYSROOT}/usr/local/lib/pkgconfig:${CMAKE_SYSROOT}/usr/lib/${triple}/pkgconfig)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${CMAKE_SYSROOT})
# Link with the runtime of the compiler whose needs were lowered (that all of them are met is seen when it runs); -B, because a compiler of Debian looks for start
# files and libc in its own folders first, whichever root it is given.
foreach(kind EXE SHARED MODULE)
  set(CMAKE_${kind}_LINKER_FLAGS_INIT
    "-B${CMAKE_SYSROOT}/usr/lib/${triple} -L${CMAKE_SYSROOT}/usr/local/lib -L${CMAKE_SYSROOT}/usr/lib/${triple} -Wl,--exclude-libs,ALL -Wl,--allow-shlib-undefined")
endforeach()
# Static libraries of C++ may ask for what the older libc lacks, too.
set(CMAKE_CXX_STANDARD_LIBRARIES_INIT "-Wl,--push-state,--as-needed,-llonghaul_glibc,--pop-state")
# What is linked without any library (longhaul-rank) asks it of the static runtime, which comes after it.
set(LONGHAUL_STATIC_RUNTIME -Wl,--start-group -lstdc++ -lgcc_eh -llonghaul_glibc -lpthread -lc -Wl,--end-group)
# FindOpenMP and FindMPI would ask the compiler's own folders and wrappers of this machine.
foreach(language C CXX)
  set(OpenMP_${language}_FLAGS -fopenmp CACHE STRING "")
  set(OpenMP_${language}_LIB_NAMES gomp CACHE STRING "")
endforeach()
set(OpenMP_gomp_LIBRARY ${CMAKE_SYSROOT}/usr/local/lib/libgomp.so.1 CACHE FILEPATH "")
set(MPI_C_HEADER_DIR ${CMAKE_SYSROOT}/usr/lib/${triple}/openmpi/include CACHE PATH "")
set(MPI_C_LIB_NAMES mpi CACHE STRING "")
set(MPI_mpi_LIBRARY ${CMAKE_SYSROOT}/usr/lib/${triple}/libmpi.so.40 CACHE FILEPATH "")
set(MPI_SKIP_COMPILER_WRAPPER ON CACHE BOOL "")
