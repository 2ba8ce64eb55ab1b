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

# tutti_compile_together(target sources...): as one, because a header that all of them include takes
# longer than they do.
function(tutti_compile_together target)
  if(TUTTI_PRECOMPILE)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
    set_source_files_properties(${ARGN} PROPERTIES UNITY_GROUP together)
  endif()
endfunction()
