# Functions of run.cmake and ranks.cmake.

# Kernels for one instruction set: compiling the others takes minutes and shows nothing here.
set(quickly -DCMAKE_BUILD_TYPE=Debug "-DCMAKE_CXX_FLAGS_DEBUG=-O0 -DHWY_COMPILE_ONLY_STATIC" -DTUTTI_UNITY=ON)

function(step)
  execute_process(COMMAND ${ARGV} COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# flags_of(variable prefix package): the words of pkg-config for a package of the prefix. Its libraries are in ${libraries}.
function(flags_of variable prefix package)
  find_program(pkg_config NAMES pkg-config pkgconf REQUIRED)
  file(GLOB_RECURSE file "${prefix}/*/${package}.pc")
  cmake_path(GET file PARENT_PATH folder)
  set(ENV{PKG_CONFIG_PATH} "${folder}")
  execute_process(COMMAND "${pkg_config}" --cflags --libs "${package} >= 0.1" OUTPUT_VARIABLE flags
                  OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(flags UNIX_COMMAND "${flags}")
  set(${variable} ${flags} PARENT_SCOPE)
  cmake_path(GET folder PARENT_PATH folder)
  set(libraries "${folder}" PARENT_SCOPE)
endfunction()

# run_ranks(tuttirun program): an all_reduce on two ranks, by us and by Debian's Open MPI.
function(run_ranks tuttirun program)
  foreach(backend IN ITEMS native mpi)
    execute_process(
      COMMAND "${CMAKE_COMMAND}" -E env TUTTI_MPI_LIBRARY=libmpi.so.40 "${tuttirun}" --nproc-per-node 2 --backend
              ${backend} "${program}"
      OUTPUT_VARIABLE said COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
    string(REGEX MATCHALL "3 on ${backend}\n" lines "${said}")
    list(LENGTH lines count)
    if(NOT count EQUAL 2)
      message(FATAL_ERROR "not two ranks of ${backend}: ${said}")
    endif()
  endforeach()
endfunction()
