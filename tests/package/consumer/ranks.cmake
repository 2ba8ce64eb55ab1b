# cmake -D HOW=moved|fetch_content -D SOURCE=... -D BINARY=... -D WORK=... -P ranks.cmake
#
# Builds the project ranks in WORK and runs its program. moved: from an install of BINARY that was moved to a path with a
# space. fetch_content: from SOURCE as part of a project, which wants a shared library; then from an install of that.

cmake_minimum_required(VERSION 3.22)
include("${CMAKE_CURRENT_LIST_DIR}/steps.cmake")
file(REMOVE_RECURSE "${WORK}")
file(MAKE_DIRECTORY "${WORK}/first")
set(prefix "${WORK}/a moved prefix")
set(project "${SOURCE}/tests/package/consumer/ranks")

function(configure build)
  step("${CMAKE_COMMAND}" -S "${project}" -B "${build}" -G "${GENERATOR}" -DCMAKE_CXX_COMPILER=${COMPILER}
       -DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER} "-DCMAKE_CXX_FLAGS=${FLAGS}" ${ARGN})
endfunction()

if(HOW STREQUAL "moved")
  step("${CMAKE_COMMAND}" --install "${BINARY}" --prefix "${WORK}/first/prefix")
else()
  set(parent "${WORK}/a parent")
  file(CREATE_LINK "${SOURCE}" "${WORK}/its sources" SYMBOLIC)
  set(how "-DTUTTI_SOURCE=${WORK}/its sources" ${quickly} -DTUTTI_NCCL=OFF)
  configure("${parent}" ${how})
  step("${CMAKE_COMMAND}" --install "${parent}" --prefix "${WORK}/nothing")
  if(EXISTS "${WORK}/nothing" OR EXISTS "${parent}/compile_commands.json")
    message(FATAL_ERROR "as part of a project tutti installs itself, or writes compile_commands.json")
  endif()
  configure("${parent}" ${how} -DTUTTI_INSTALL=ON)
  step("${CMAKE_COMMAND}" --build "${parent}")
  run_ranks("${parent}/_deps/tutti-build/bin/tuttirun" "${parent}/ranks")
  step("${CMAKE_COMMAND}" --install "${parent}" --prefix "${WORK}/first/prefix")
  file(REMOVE_RECURSE "${parent}") # with the library and the plug-ins that could be found there
endif()
file(RENAME "${WORK}/first/prefix" "${prefix}")

configure("${WORK}/build" "-DCMAKE_PREFIX_PATH=${prefix}")
step("${CMAKE_COMMAND}" --build "${WORK}/build")
run_ranks("${prefix}/bin/tuttirun" "${WORK}/build/ranks")
if(HOW STREQUAL "fetch_content") # a shared tutti finds its plug-ins by itself
  step("${CMAKE_COMMAND}" -E env TUTTI_MPI_LIBRARY=libmpi.so.40 TUTTI_BACKEND=mpi "${WORK}/build/ranks")
endif()

flags_of(flags "${prefix}" tutti)
separate_arguments(given UNIX_COMMAND "${FLAGS}")
step("${COMPILER}" -std=c++20 ${given} "${project}/ranks.cpp" ${flags} -o "${WORK}/by_pkg_config")
set(ENV{LD_LIBRARY_PATH} "${libraries}")
run_ranks("${prefix}/bin/tuttirun" "${WORK}/by_pkg_config")
