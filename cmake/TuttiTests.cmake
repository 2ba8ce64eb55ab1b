# tutti_add_test and its kin. Every test is started through tools/run_with_stacks.py: when its
# time is over, that prints the stacks of the whole process tree, kills the tree and fails.

# tutti_register_test(NAME name COMMAND ... [LABELS ...] [TIMEOUT seconds] [PROCESSORS n]
#                     [RESULTS ON] [RUN_SERIAL])
#
# PROCESSORS keeps ctest from starting others beside a test that fills so many cores. RESULTS says
# that the command may be a GoogleTest program: its cases are then counted one by one.
# Labels: the kind of the test (unit, property, ...; from its folder) comes by itself. `asan` and
# `tsan` choose what ./dev test runs under these sanitizers.
function(tutti_register_test)
  cmake_parse_arguments(arg "RUN_SERIAL" "NAME;TIMEOUT;PROCESSORS;RESULTS"
                        "COMMAND;LABELS" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 20)
  endif()
  cmake_path(RELATIVE_PATH CMAKE_CURRENT_SOURCE_DIR BASE_DIRECTORY "${PROJECT_SOURCE_DIR}/tests"
             OUTPUT_VARIABLE folder)
  string(REGEX MATCH "^[a-z_]+" kind "${folder}")
  if(kind)
    list(APPEND arg_LABELS "${kind}")
  endif()
  set(results "")
  set(addresses "")
  if(arg_RESULTS)
    set(results --results "${PROJECT_BINARY_DIR}/test-results/${arg_NAME}.xml")
  endif()
  if(CMAKE_CXX_FLAGS MATCHES "-fsanitize=thread")
    set(addresses --fixed-addresses)
  endif()
  add_test(NAME ${arg_NAME}
           COMMAND "${Python3_EXECUTABLE}" "${PROJECT_SOURCE_DIR}/tools/run_with_stacks.py"
                   --timeout ${arg_TIMEOUT} ${results} ${addresses} -- ${arg_COMMAND})
  # ctest's own limit is the last resort, should the watcher itself hang.
  math(EXPR last_resort "${arg_TIMEOUT} + 60")
  set_tests_properties(${arg_NAME} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${last_resort})
  if(arg_PROCESSORS)
    set_tests_properties(${arg_NAME} PROPERTIES PROCESSORS ${arg_PROCESSORS})
  endif()
  if(arg_RUN_SERIAL)
    set_tests_properties(${arg_NAME} PROPERTIES RUN_SERIAL ON)
  endif()
  foreach(sanitizer IN ITEMS asan tsan)
    if("${sanitizer}" IN_LIST arg_LABELS AND TARGET "${arg_NAME}")
      add_dependencies(tutti_tests_${sanitizer} ${arg_NAME})
    endif()
  endforeach()
endfunction()

# What ./dev test builds for the sanitizers: the tests of that label and the programs they start.
foreach(sanitizer IN ITEMS asan tsan)
  add_custom_target(tutti_tests_${sanitizer})
endforeach()

# tutti_add_test(NAME name SOURCES a.cpp ... [LIBRARIES ...] [LABELS ...] [TIMEOUT seconds]
#                [RANKS 1 2 4] [ARGS ...] [PROCESSORS n] [RUN_SERIAL] [NO_SANITIZERS])
#
# A GoogleTest program. With RANKS it is started by tuttirun once per rank count (name.1, name.2,
# ...), else directly. Tests in tests/unit and tests/conformance carry the labels asan and tsan
# unless NO_SANITIZERS says otherwise; others ask for them with LABELS.
function(tutti_add_test)
  cmake_parse_arguments(arg "RUN_SERIAL;NO_SANITIZERS" "NAME;TIMEOUT;PROCESSORS"
                        "SOURCES;LIBRARIES;LABELS;RANKS;ARGS" ${ARGN})
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "tutti_add_test(${arg_NAME}): do not know ${arg_UNPARSED_ARGUMENTS}")
  endif()
  add_executable(${arg_NAME} ${arg_SOURCES})
  target_include_directories(${arg_NAME} PRIVATE "${PROJECT_SOURCE_DIR}/tests")
  if(arg_RANKS)
    set(main tutti_ranks_main)
  else()
    set(main GTest::gtest_main)
  endif()
  target_link_libraries(${arg_NAME} PRIVATE tutti_internal tutti_warnings ${arg_LIBRARIES} ${main}
                                            GTest::gmock)
  if(NOT arg_NO_SANITIZERS AND CMAKE_CURRENT_SOURCE_DIR MATCHES "/tests/(unit|conformance)(/|$)")
    list(APPEND arg_LABELS asan tsan)
  endif()
  set(serial "")
  if(arg_RUN_SERIAL)
    set(serial RUN_SERIAL)
  endif()
  if(arg_RANKS)
    tutti_add_ranks_test(NAME ${arg_NAME} PROGRAM ${arg_NAME} RANKS ${arg_RANKS}
                         LABELS ${arg_LABELS} TIMEOUT ${arg_TIMEOUT} ARGS ${arg_ARGS} ${serial})
  else()
    tutti_register_test(NAME ${arg_NAME} COMMAND $<TARGET_FILE:${arg_NAME}> ${arg_ARGS}
                        LABELS ${arg_LABELS} TIMEOUT ${arg_TIMEOUT} PROCESSORS ${arg_PROCESSORS}
                        RESULTS ON ${serial})
  endif()
endfunction()

# tutti_add_ranks_test(NAME name PROGRAM target RANKS 1 2 4 [ARGS ...] [LAUNCHER ...] [LABELS ...]
#                      [TIMEOUT seconds] [RUN_SERIAL])
#
# Runs a program with `tuttirun --nproc-per-node N`, one test per rank count: name.1, name.2, ...
# LAUNCHER: further options of tuttirun.
function(tutti_add_ranks_test)
  cmake_parse_arguments(arg "RUN_SERIAL" "NAME;PROGRAM;TIMEOUT" "RANKS;ARGS;LAUNCHER;LABELS" ${ARGN})
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "tutti_add_ranks_test(${arg_NAME}): do not know ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT TARGET tuttirun)
    message(STATUS "no target tuttirun: ${arg_NAME} is built but not run")
    return()
  endif()
  set(serial "")
  if(arg_RUN_SERIAL)
    set(serial RUN_SERIAL)
  endif()
  foreach(ranks IN LISTS arg_RANKS)
    tutti_register_test(
      NAME ${arg_NAME}.${ranks} RESULTS ON PROCESSORS ${ranks}
      COMMAND $<TARGET_FILE:tuttirun> --nproc-per-node ${ranks} ${arg_LAUNCHER}
              $<TARGET_FILE:${arg_PROGRAM}> ${arg_ARGS}
      LABELS ${arg_LABELS} ranks TIMEOUT ${arg_TIMEOUT} ${serial})
  endforeach()
  foreach(sanitizer IN ITEMS asan tsan)
    if("${sanitizer}" IN_LIST arg_LABELS)
      add_dependencies(tutti_tests_${sanitizer} ${arg_PROGRAM} tuttirun)
    endif()
  endforeach()
endfunction()

# tutti_add_must_not_compile(NAME name SOURCE a.cpp CASES case ...)
#
# The source must compile as it is, and must not with any of -DTUTTI_CASE_<case>; the compiler's
# message must then hold the text that stands in the source behind `// <case>: `.
function(tutti_add_must_not_compile)
  cmake_parse_arguments(arg "" "NAME;SOURCE" "CASES" ${ARGN})
  cmake_path(ABSOLUTE_PATH arg_SOURCE)
  tutti_register_test(
    NAME ${arg_NAME}
    COMMAND
      "${Python3_EXECUTABLE}" "${PROJECT_SOURCE_DIR}/tools/must_not_compile.py" --source
      "${arg_SOURCE}" --cases ${arg_CASES} -- "${CMAKE_CXX_COMPILER}" -std=c++20
      -I${PROJECT_SOURCE_DIR}/include -I${PROJECT_BINARY_DIR}/include -Wall -Wextra -Werror
    TIMEOUT 120)
endfunction()

# tutti_add_fuzzer(NAME name SOURCES ... [CORPUS folder] [SECONDS n])
#
# A libFuzzer program, built only with TUTTI_FUZZ; its test runs it for a bounded time.
function(tutti_add_fuzzer)
  cmake_parse_arguments(arg "" "NAME;CORPUS;SECONDS" "SOURCES" ${ARGN})
  if(NOT TUTTI_FUZZ)
    return()
  endif()
  if(NOT arg_SECONDS)
    set(arg_SECONDS 10)
  endif()
  add_executable(${arg_NAME} ${arg_SOURCES})
  target_link_libraries(${arg_NAME} PRIVATE tutti_internal tutti_warnings)
  target_link_options(${arg_NAME} PRIVATE -fsanitize=fuzzer)
  math(EXPR limit "${arg_SECONDS} + 30")
  tutti_register_test(NAME ${arg_NAME} COMMAND $<TARGET_FILE:${arg_NAME}>
                      -max_total_time=${arg_SECONDS} -rss_limit_mb=1024 ${arg_CORPUS}
                      LABELS fuzz TIMEOUT ${limit})
endfunction()
