# What makes builds shorter and changes nothing of what is built.

# Only headers of others, so that no change of ours makes everything new. A build in which tutti is
# a part of another project has none: there each of our files must include what it uses.
option(TUTTI_PRECOMPILE "Precompile the headers of the C++ library, {fmt} and GoogleTest"
       ${PROJECT_IS_TOP_LEVEL})

set(tutti_precompiled
    <fmt/format.h>
    <algorithm>
    <array>
    <atomic>
    <chrono>
    <cstring>
    <deque>
    <functional>
    <map>
    <memory>
    <mutex>
    <optional>
    <span>
    <string>
    <string_view>
    <utility>
    <vector>)

# Not with optimisation: GCC 12 forgets then which headers are the system's, and warns of what it
# only believes to see inside std::string (array-bounds, stringop-overread).
if(NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
  set(TUTTI_PRECOMPILE OFF)
endif()

# tutti_precompile(target [more headers]): the target precompiles them and can be reused from.
function(tutti_precompile target)
  if(TUTTI_PRECOMPILE)
    target_precompile_headers(${target} PRIVATE ${tutti_precompiled} ${ARGN})
  endif()
endfunction()

# tutti_compile_fast(target): for programs whose own code is not what takes time when they run, and
# whose optimising takes longer than all that could be won. The library is optimised as ever.
function(tutti_compile_fast target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Debug>:-O0>)
endfunction()

# Most of the time goes into headers, not into our files. What compiles everything once and throws it
# away (.ci/run) compiles each folder as one; who changes a file does not want its neighbours
# compiled too, so this is off. Whoever has it off builds each file by itself: both must work.
option(TUTTI_UNITY "Compile all files of a folder as one: less work for a build from nothing" OFF)

# GCC looks for garbage again and again while its heap grows: a sixth of the time of such a large file.
# Below a gigabyte it need not.
if(TUTTI_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options(--param=ggc-min-expand=1000 --param=ggc-min-heapsize=1000000)
endif()

# tutti_unite_folders(target): with TUTTI_UNITY each folder of the target's sources is compiled as one,
# in the order in which they are listed.
function(tutti_unite_folders target)
  if(NOT TUTTI_UNITY)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  get_target_property(sources ${target} SOURCES)
  get_target_property(folder ${target} SOURCE_DIR)
  foreach(source IN LISTS sources)
    if(NOT source MATCHES "\\.cpp$")
      continue()
    endif()
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY "${folder}")
    cmake_path(GET source PARENT_PATH group)
    cmake_path(RELATIVE_PATH group BASE_DIRECTORY "${PROJECT_SOURCE_DIR}")
    string(MAKE_C_IDENTIFIER "${group}" group)
    set_source_files_properties("${source}" TARGET_DIRECTORY ${target} PROPERTIES UNITY_GROUP ${group})
  endforeach()
endfunction()

# tutti_compile_together(target sources...): as one, because a header that all of them include takes
# longer than they do.
function(tutti_compile_together target)
  if(TUTTI_PRECOMPILE)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
    set_source_files_properties(${ARGN} PROPERTIES UNITY_GROUP together)
  endif()
endfunction()
