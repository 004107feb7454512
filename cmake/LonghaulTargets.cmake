# What every target of ours has: C++20, warnings as errors, includes from the project's root, sanitizers when asked.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1 -DNDEBUG")
# Also of the sanitizer builds: to optimize what they add takes GCC three times as long as to compile it. Few sources take
# most of a test's time, and are optimized a little in every build: longhaul_always_optimized, and the engine's operations
# (engine/CMakeLists.txt).
set(CMAKE_CXX_FLAGS_DEBUG "-O0 -g1")
# The build type of scripts/quickstart: a quarter less to compile; the engine's operations are optimized as in Release
# (engine/CMakeLists.txt).
set(CMAKE_CXX_FLAGS_QUICK "-O1 -DNDEBUG")
# Where there is memory for it, GCC collects its garbage later: 3 % less to compile, a tenth for the largest files.
cmake_host_system_information(RESULT host_mib QUERY TOTAL_PHYSICAL_MEMORY)
cmake_host_system_information(RESULT host_cores QUERY NUMBER_OF_LOGICAL_CORES)
math(EXPR mib_of_a_core "${host_mib} / ${host_cores}")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND mib_of_a_core GREATER 4000)
  foreach(type RELEASE DEBUG QUICK)
    string(APPEND CMAKE_CXX_FLAGS_${type} " --param ggc-min-heapsize=1048576")
  endforeach()
endif()

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
endif()

# longhaul_always_optimized(target): simulations of weeks, searches over thousands of layouts, and what all do all the time,
# would take five times as long without.
function(longhaul_always_optimized target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Debug>:-O1>)
endfunction()

# longhaul_decides(target): what decides, asks and writes, and computes nothing that anybody waits for, is a third less to
# compile at -O1. In every build, so that what is tested is what is installed.
# UndefinedBehaviorSanitizer asks before every access whether a pointer is null or misaligned, which is a third of what
# there is to compile in these. AddressSanitizer ends what follows a null pointer anyway; the engine, base and the
# heartbeat page, which read numbers that lie mapped in files, keep both.
function(longhaul_decides target)
  target_compile_options(${target} PRIVATE $<$<NOT:$<CONFIG:Debug>>:-O1>)
  if(LONGHAUL_SANITIZE MATCHES "undefined")
    target_compile_options(${target} PRIVATE -fno-sanitize=null,alignment)
  endif()
endfunction()

function(longhaul_options target)
  target_include_directories(${target} PUBLIC ${CMAKE_SOURCE_DIR})
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Werror -fno-math-errno)
  # Who only wants to try it has perhaps another compiler, with warnings that ours lacks.
  target_compile_options(${target} PRIVATE $<$<CONFIG:Quick>:-Wno-error>)
  if(CMAKE_UNITY_BUILD)
    # What is private to a file is no longer: a local name may hide one of another file, and a type that only its own file
    # uses looks as if it were used by others. Builds file by file have these warnings.
    target_compile_options(${target} PRIVATE -Wno-shadow -Wno-subobject-linkage)
  endif()
  if(LONGHAUL_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${LONGHAUL_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
    # With sanitizers GCC sees values without a beginning where there are none: in std::regex, for one. Release builds warn.
    target_compile_options(${target} PRIVATE -Wno-maybe-uninitialized)
    if(CMAKE_CURRENT_SOURCE_DIR MATCHES "^${CMAKE_SOURCE_DIR}/tests" AND LONGHAUL_SANITIZE MATCHES "undefined")
      # The tests' own code, not what it tests: doctest's macros take twice as long to compile with both.
      target_compile_options(${target} PRIVATE -fno-sanitize=undefined)
    endif()
    target_link_options(${target} PUBLIC -fsanitize=${LONGHAUL_SANITIZE})
  endif()
endfunction()

# longhaul_library(name LINKS a b ... PRIVATE_LINKS x y ...): every .cc below this folder except main.cc and the
# sub-folders named after EXCLUDE.
function(longhaul_library name)
  cmake_parse_arguments(arg "" "" "LINKS;PRIVATE_LINKS;EXCLUDE" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  list(FILTER sources EXCLUDE REGEX "/main\\.cc$")
  foreach(folder ${arg_EXCLUDE})
    list(FILTER sources EXCLUDE REGEX "^${CMAKE_CURRENT_SOURCE_DIR}/${folder}/")
  endforeach()
  if(sources)
    add_library(${name} STATIC ${sources})
    longhaul_options(${name})
    # Of scripts/test as of the quickstart: names that cannot share a batch are found before a user finds them.
    if(CMAKE_UNITY_BUILD AND CMAKE_BUILD_TYPE MATCHES "^(Release|Quick)$")
      set_target_properties(${name} PROPERTIES UNITY_BUILD_BATCH_SIZE 64)
    endif()
    target_link_libraries(${name} PUBLIC ${arg_LINKS} PRIVATE ${arg_PRIVATE_LINKS})
  else()
    add_library(${name} INTERFACE)
    target_include_directories(${name} INTERFACE ${CMAKE_SOURCE_DIR})
    target_link_libraries(${name} INTERFACE ${arg_LINKS})
  endif()
endfunction()

# longhaul_program(name LINKS ...): main.cc of this folder.
function(longhaul_program name)
  cmake_parse_arguments(arg "" "" "LINKS" ${ARGN})
  add_executable(${name} main.cc)
  longhaul_options(${name})
  target_link_libraries(${name} PRIVATE ${arg_LINKS})
endfunction()
