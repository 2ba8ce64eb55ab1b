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
# tuttirun: 18.8 s of a CPU with -O3, 12.3 with -O1, 8.7 with -O0.
function(tutti_compile_fast target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Debug>:-O0> $<$<CONFIG:Release>:-O1>)
endfunction()

# Most of the time goes into headers, not into our files. A build from nothing (.ci/run, a wheel) compiles
# all files of a folder as one. After a change of one file that is more work, so it is off by default. Both
# ways must work.
option(TUTTI_UNITY "Compile all files of a folder as one: less work for a build from nothing" OFF)

# GCC looks for garbage again and again while its heap grows: a sixth of the time of such a large file.
# Below a gigabyte it need not.
if(TUTTI_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options(--param=ggc-min-expand=1000 --param=ggc-min-heapsize=1000000)
endif()

# Functions and lines, which is all that a stack shows, and no variables: a third of the time of the library's files.
if(TUTTI_UNITY)
  add_compile_options($<$<CONFIG:Debug>:-g1>)
endif()

# tutti_unite(target name sources...): the target compiles these of its sources as one file. Its includes
# are relative, other than CMake's own, so that a compiler cache serves clones in other folders.
function(tutti_unite target name)
  get_target_property(folder ${target} SOURCE_DIR)
  get_target_property(binary ${target} BINARY_DIR)
  set(united "${binary}/unity/${target}/${name}.cpp")
  set(text "")
  foreach(source IN LISTS ARGN)
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY "${folder}" NORMALIZE)
    file(RELATIVE_PATH relative "${binary}/unity/${target}" "${source}")
    string(APPEND text "#include \"${relative}\"\n")
    set_source_files_properties("${source}" TARGET_DIRECTORY ${target} PROPERTIES HEADER_FILE_ONLY ON)
  endforeach()
  file(CONFIGURE OUTPUT "${united}" CONTENT "${text}" @ONLY)
  target_sources(${target} PRIVATE "${united}")
endfunction()

# tutti_unite_folders(target [folder+folder...]...): with TUTTI_UNITY each folder of the target's sources is
# compiled as one. Folders that an argument joins with "+" are compiled as one together: the headers that
# small folders have in common take longer than what is in them. A file with SKIP_UNITY_BUILD_INCLUSION
# is compiled by itself.
function(tutti_unite_folders target)
  if(NOT TUTTI_UNITY)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  get_target_property(folder ${target} SOURCE_DIR)
  set(groups "")
  foreach(source IN LISTS sources)
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY "${folder}" NORMALIZE)
    get_source_file_property(alone "${source}" TARGET_DIRECTORY ${target} SKIP_UNITY_BUILD_INCLUSION)
    if(NOT source MATCHES "\\.cpp$" OR alone)
      continue()
    endif()
    cmake_path(GET source PARENT_PATH group)
    cmake_path(RELATIVE_PATH group BASE_DIRECTORY "${PROJECT_SOURCE_DIR}")
    foreach(together IN LISTS ARGN)
      string(REPLACE "+" ";" folders "${together}")
      if(group IN_LIST folders)
        set(group "${together}")
      endif()
    endforeach()
    string(MAKE_C_IDENTIFIER "${group}" group)
    list(APPEND groups ${group})
    list(APPEND of_${group} "${source}")
  endforeach()
  list(REMOVE_DUPLICATES groups)
  foreach(group IN LISTS groups)
    tutti_unite(${target} ${group} ${of_${group}})
  endforeach()
endfunction()

# tutti_compile_together(target sources...): as one, because a header that all of them include takes
# longer than they do.
function(tutti_compile_together target)
  if(TUTTI_PRECOMPILE AND NOT TUTTI_UNITY)
    tutti_unite(${target} together ${ARGN})
  endif()
endfunction()

# A linker that takes a fifth of the time of the usual one, where it is there. A cross compiler does not look where it is.
find_program(TUTTI_MOLD mold)
if(PROJECT_IS_TOP_LEVEL AND TUTTI_MOLD AND NOT CMAKE_CROSSCOMPILING AND CMAKE_BUILD_TYPE STREQUAL "Debug")
  add_link_options(-fuse-ld=mold)
endif()
