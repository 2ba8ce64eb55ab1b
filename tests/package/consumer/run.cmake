# cmake -D HOW=find_package|pkg_config|add_subdirectory -D SOURCE=... -D BINARY=... -D WORK=... -P run.cmake
#
# Builds and runs the consumer project in WORK, from an install of BINARY or from SOURCE. STANDARD: of C++, empty for the
# oldest that tutti takes.

cmake_minimum_required(VERSION 3.22)
include("${CMAKE_CURRENT_LIST_DIR}/steps.cmake")
file(REMOVE_RECURSE "${WORK}")
file(MAKE_DIRECTORY "${WORK}")

# All public headers, and the standard ones that they include, for the files with macros of others.
file(GLOB_RECURSE public RELATIVE "${SOURCE}/include" "${SOURCE}/include/*.h" "${SOURCE}/include/*.hpp")
foreach(header IN LISTS public)
  file(STRINGS "${SOURCE}/include/${header}" others REGEX "^#include <[a-z0-9_]+/")
  list(FILTER others EXCLUDE REGEX "<tutti/")
  if(others)
    continue() # an adapter, for those who have the library
  endif()
  file(APPEND "${WORK}/headers/public_headers.hpp" "#include <${header}>\n")
  file(STRINGS "${SOURCE}/include/${header}" lines REGEX "^#include <[a-z_]+>")
  list(APPEND standard ${lines})
endforeach()
list(REMOVE_DUPLICATES standard)
foreach(line IN LISTS standard)
  string(REPLACE "#include " "" name "${line}")
  file(APPEND "${WORK}/headers/standard_headers.hpp" "#if __has_include(${name})\n${line}\n#endif\n")
endforeach()

# The blocks of C++ of the guide and of the pages that go on from it: the whole program by itself, specialisations of
# templates outside of functions, and the pieces of a program in a scope within that of the piece before.
set(page "")
foreach(name IN ITEMS learn/guide.md reference/cpp.md how-to/after-a-failure.md)
  file(READ "${SOURCE}/docs/${name}" part)
  string(APPEND page "${part}")
endforeach()
set(open "")
while(TRUE)
  string(FIND "${page}" "\n```cpp\n" begin)
  if(begin EQUAL -1)
    break()
  endif()
  math(EXPR begin "${begin} + 8")
  string(SUBSTRING "${page}" ${begin} -1 page)
  string(FIND "${page}" "\n```" end)
  string(SUBSTRING "${page}" 0 ${end} block)
  string(SUBSTRING "${page}" ${end} -1 page)
  if(block MATCHES "int main\\(")
    file(APPEND "${WORK}/headers/guide_program.cpp" "#line 1 \"a program of the guide\"\n${block}\n")
  elseif(block MATCHES "^template")
    file(APPEND "${WORK}/headers/guide_specialisations.hpp" "#line 1 \"a piece of the guide\"\n${block}\n")
  else()
    string(APPEND open "}\n")
    file(APPEND "${WORK}/headers/guide_pieces.hpp" "{\n#line 1 \"a piece of the guide\"\n${block}\n")
  endif()
endwhile()
file(APPEND "${WORK}/headers/guide_pieces.hpp" "return 0;\n${open}")

if(HOW STREQUAL "pkg_config")
  # Moved after it was installed: the file says where it lies.
  step("${CMAKE_COMMAND}" --install "${BINARY}" --prefix "${WORK}/first")
  file(RENAME "${WORK}/first" "${WORK}/prefix")
  flags_of(flags "${WORK}/prefix" tutti)
  set(project "${SOURCE}/tests/package/consumer/project")
  separate_arguments(all UNIX_COMMAND "-std=c++20 ${FLAGS} -I${WORK}/headers ${project}/main.cpp \
${project}/macros_before.cpp ${project}/macros_behind.cpp")
  step("${COMPILER}" ${all} ${flags} -o "${WORK}/consumer")
  step("${WORK}/consumer")
  # The same for C, where the library is a shared one.
  flags_of(flags "${WORK}/prefix" tutti_c)
  separate_arguments(all UNIX_COMMAND "-std=c99 -Wall -Werror ${SOURCE}/examples/16_from_c.c")
  find_program(c_compiler NAMES cc gcc clang REQUIRED)
  step("${c_compiler}" ${all} ${flags} -o "${WORK}/consumer_in_c")
  step("${CMAKE_COMMAND}" -E env "LD_LIBRARY_PATH=${libraries}" "${WORK}/prefix/bin/tuttirun" --nproc-per-node 2
       "${WORK}/consumer_in_c")
  return()
endif()

if(HOW STREQUAL "find_package")
  step("${CMAKE_COMMAND}" --install "${BINARY}" --prefix "${WORK}/prefix")
  set(how "-DCMAKE_PREFIX_PATH=${WORK}/prefix")
else()
  set(how "-DTUTTI_SOURCE=${SOURCE}" ${quickly} -DTUTTI_PRECOMPILE=ON)
endif()

if(STANDARD)
  list(APPEND how -DCMAKE_CXX_STANDARD=${STANDARD})
endif()
step("${CMAKE_COMMAND}" -S "${SOURCE}/tests/package/consumer/project" -B "${WORK}/build" -G "${GENERATOR}"
     -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER} "-DCMAKE_CXX_FLAGS=${FLAGS}"
     "-DHEADERS=${WORK}/headers" ${how})
step("${CMAKE_COMMAND}" --build "${WORK}/build" --target consumer guide)
step("${WORK}/build/consumer")
if(HOW STREQUAL "add_subdirectory")
  step("${CMAKE_COMMAND}" --build "${WORK}/build" --target ranks tuttirun tutti_backend_mpi)
  run_ranks("${WORK}/build/tutti/bin/tuttirun" "${WORK}/build/ranks")
  # tutti installs nothing as part of a project.
  step("${CMAKE_COMMAND}" --install "${WORK}/build" --prefix "${WORK}/prefix")
  if(EXISTS "${WORK}/prefix")
    message(FATAL_ERROR "tutti is installed with a project that it is a part of")
  endif()
endif()
