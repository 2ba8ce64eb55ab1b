# Where things land, and how parts are added.

# As in an installed prefix, where tuttirun in bin finds the plug-ins in lib/tutti.
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
# Of a parent project: our own way to compile files as one, and our own option for warnings.
set(CMAKE_UNITY_BUILD OFF)
set(CMAKE_COMPILE_WARNING_AS_ERROR OFF)

if(PROJECT_IS_TOP_LEVEL)
  set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
  if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
  endif()
  find_program(TUTTI_CCACHE ccache)
  if(TUTTI_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
    # SLOPPINESS keeps what uses a precompiled header. DEPEND does not preprocess what the compiler
    # will preprocess itself. BASEDIR and NOHASHDIR let a clone in another folder use the same cache.
    set(CMAKE_CXX_COMPILER_LAUNCHER
        "${CMAKE_COMMAND}" -E env CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_DEPEND=1
        CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 "${TUTTI_CCACHE}")
  endif()
endif()

# tutti_add_part(folder [binary folder]): adds a folder of the current one if it has a CMakeLists.txt.
function(tutti_add_part folder)
  if(EXISTS "${CMAKE_CURRENT_SOURCE_DIR}/${folder}/CMakeLists.txt")
    add_subdirectory("${folder}" ${ARGN})
  endif()
endfunction()
