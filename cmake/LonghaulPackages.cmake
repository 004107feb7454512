# Debian packages, found the way each of them allows. Optional families are found or cleanly absent.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
pkg_check_modules(FMT REQUIRED IMPORTED_TARGET fmt)
find_package(nlohmann_json REQUIRED)
find_package(Eigen3 3.3 REQUIRED NO_MODULE)  # headers alone
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(SQLITE3 REQUIRED IMPORTED_TARGET sqlite3)
pkg_check_modules(ZLIB REQUIRED IMPORTED_TARGET zlib)
pkg_check_modules(CRYPTO REQUIRED IMPORTED_TARGET libcrypto)
pkg_check_modules(YAML REQUIRED IMPORTED_TARGET yaml-0.1)
pkg_check_modules(CURL REQUIRED IMPORTED_TARGET libcurl)
find_package(spdlog REQUIRED)
pkg_check_modules(TOMLPP REQUIRED IMPORTED_TARGET tomlplusplus)

# Engine. dnnl's own CMake config wants OpenCL headers, so it is found by hand.
find_path(DNNL_INCLUDE_DIR dnnl.h REQUIRED)
find_library(DNNL_LIBRARY dnnl REQUIRED)
add_library(longhaul_dnnl INTERFACE)
target_include_directories(longhaul_dnnl SYSTEM INTERFACE ${DNNL_INCLUDE_DIR})
target_link_libraries(longhaul_dnnl INTERFACE ${DNNL_LIBRARY})
find_package(OpenMP REQUIRED)
find_package(MPI REQUIRED COMPONENTS C)
# Only the C interface: the old C++ bindings that mpi.h would pull in are not linked, and gone from newer releases.
set_property(TARGET MPI::MPI_C APPEND PROPERTY INTERFACE_COMPILE_DEFINITIONS OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(HTTPLIB REQUIRED IMPORTED_TARGET cpp-httplib)

# Curation family: absent where a site lacks one of its packages.
pkg_check_modules(ICU IMPORTED_TARGET icu-uc icu-i18n)
pkg_check_modules(GUMBO IMPORTED_TARGET gumbo)
# cld2_full holds only the large tables (160 languages), cld2 the code with small ones (80): linked in this order, and both
# kept, the large tables win.
find_library(CLD2_TABLES_LIBRARY cld2_full)
find_library(CLD2_CODE_LIBRARY cld2)
find_path(CLD2_INCLUDE_DIR cld2/public/compact_lang_det.h)
if(ICU_FOUND AND GUMBO_FOUND AND CLD2_CODE_LIBRARY AND CLD2_TABLES_LIBRARY AND CLD2_INCLUDE_DIR)
  set(LONGHAUL_HAVE_CURATE ON)
  add_library(longhaul_cld2 INTERFACE)
  target_include_directories(longhaul_cld2 SYSTEM INTERFACE ${CLD2_INCLUDE_DIR})
  target_link_libraries(longhaul_cld2 INTERFACE
    "-Wl,--push-state,--no-as-needed,${CLD2_TABLES_LIBRARY},${CLD2_CODE_LIBRARY},--pop-state")
else()
  set(LONGHAUL_HAVE_CURATE OFF)
  message(STATUS "curate: ICU, gumbo or CLD2 not found; the stage kind will say so when it is asked for")
endif()

# Ways to pack raw documents beside gzip: each is built in where its library is found, and refused by name elsewhere.
pkg_check_modules(ZSTD IMPORTED_TARGET libzstd)
pkg_check_modules(LZMA IMPORTED_TARGET liblzma)
find_package(BZip2)

# Rewards by JSON schemas (headers alone): without valijson such a reward is refused by name.
find_path(VALIJSON_INCLUDE_DIR valijson/adapters/nlohmann_json_adapter.hpp)
set(LONGHAUL_HAVE_VALIJSON OFF)
if(VALIJSON_INCLUDE_DIR)
  set(LONGHAUL_HAVE_VALIJSON ON)
else()
  message(STATUS "valijson was not found; rewards with a JSON schema will say so when they are asked for")
endif()

# Native stacks of ranks that hang: without libdw a dump holds what the kernel says of the threads, and says so.
option(LONGHAUL_LIBDW "Native stacks in dumps of ranks, by libdw, where it is found" ON)
set(LONGHAUL_HAVE_LIBDW OFF)
if(LONGHAUL_LIBDW)
  pkg_check_modules(LIBDW IMPORTED_TARGET libdw)
  set(LONGHAUL_HAVE_LIBDW ${LIBDW_FOUND})
endif()
if(NOT LONGHAUL_HAVE_LIBDW)
  message(STATUS "stacks: libdw is not used; dumps of ranks hold the state of their threads without native stacks")
endif()

# CUDA: its compiler, its headers and the small static runtime. The large libraries (cuBLASLt, NCCL, cuDNN, CUPTI) are
# opened by the program when it finds a GPU, not linked.
set(LONGHAUL_CUDA_ARCHITECTURES "80" CACHE STRING "GPUs to compile for: 80 (A100; later ones translate it when they load
 it), 90a (H100, H200, GH200), 100 (B200), several with ';' between")
set(LONGHAUL_HAVE_CUDA OFF)
if(NOT LONGHAUL_CUDA STREQUAL "OFF")
  include(CheckLanguage)
  if(NOT CMAKE_CUDA_COMPILER AND EXISTS /usr/local/cuda/bin/nvcc)
    set(CMAKE_CUDA_COMPILER /usr/local/cuda/bin/nvcc)
  endif()
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    set(CMAKE_CUDA_ARCHITECTURES ${LONGHAUL_CUDA_ARCHITECTURES})
    enable_language(CUDA)
    if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # a CMake older than the compiler does not know that it can
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    endif()
    find_package(CUDAToolkit 12.0 REQUIRED)
    set(LONGHAUL_HAVE_CUDA ON)
  elseif(LONGHAUL_CUDA STREQUAL "ON")
    message(FATAL_ERROR "LONGHAUL_CUDA=ON but no nvcc was found; set CMAKE_CUDA_COMPILER or use LONGHAUL_CUDA=OFF")
  endif()
endif()
