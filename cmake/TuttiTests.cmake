# tutti_add_test and the functions around it. Every test is started through tools/run_with_stacks.py: when its
# time is over, that prints the stacks of the whole process tree, kills the tree and fails.

set(tutti_sanitizer "") # the one that this is built with; its tests carry it as a label
if(CMAKE_CXX_FLAGS MATCHES "-fsanitize=thread")
  set(tutti_sanitizer tsan)
elseif(CMAKE_CXX_FLAGS MATCHES "-fsanitize=address")
  set(tutti_sanitizer asan)
endif()

# Stands before each program in a test's command: programs of another processor are emulated.
set(tutti_emulator ${CMAKE_CROSSCOMPILING_EMULATOR})

set(tutti_test_home "${PROJECT_BINARY_DIR}/test-home")
file(MAKE_DIRECTORY "${tutti_test_home}")

# tutti_register_test(NAME name COMMAND ... [NEEDS targets...] [LABELS ...] [TIMEOUT seconds] [PROCESSORS n]
#                     [RESULTS ON] [RUN_SERIAL])
#
# NEEDS: targets whose files the test uses and that its command does not name. ./dev test builds them, and the
# files that the command names, before it runs the test. TIMEOUT is what a test may take on an idle machine;
# a hang is one two minutes later. PROCESSORS keeps ctest from starting others beside a test that fills so
# many cores. Tests that may take long begin first, so that nobody waits for one of them at the end. RESULTS
# says that the command may be a GoogleTest program: its cases are then counted one by one.
# Labels: the folder of the test (unit/engine) and its kind (unit) come by themselves. `asan`, `tsan` and `release`
# choose what runs in these presets. `full` keeps a test for ./dev test full; `proof` and `tools` let it run in
# ./dev test only when the planner or the tools have changed (tools/dev/selection.py).
function(tutti_register_test)
  cmake_parse_arguments(arg "RUN_SERIAL" "NAME;TIMEOUT;PROCESSORS;RESULTS"
                        "COMMAND;LABELS;NEEDS" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 60)
  endif()
  if(tutti_emulator)
    math(EXPR arg_TIMEOUT "${arg_TIMEOUT} * 4")
  endif()
  cmake_path(RELATIVE_PATH CMAKE_CURRENT_SOURCE_DIR BASE_DIRECTORY "${PROJECT_SOURCE_DIR}/tests"
             OUTPUT_VARIABLE folder)
  string(REGEX MATCH "^[a-z_]+" kind "${folder}")
  if(kind)
    list(APPEND arg_LABELS "${kind}" "${folder}")
    list(REMOVE_DUPLICATES arg_LABELS)
  endif()
  set(results "")
  set(addresses "")
  if(arg_RESULTS)
    set(results --results "${PROJECT_BINARY_DIR}/test-results/${arg_NAME}.xml")
  endif()
  if(tutti_sanitizer STREQUAL "tsan")
    set(addresses --fixed-addresses)
  endif()
  # A limit that finds a hang need not be short, and must never find a busy machine.
  math(EXPR limit "${arg_TIMEOUT} + 120")
  add_test(NAME ${arg_NAME}
           COMMAND "${Python3_EXECUTABLE}" "${PROJECT_SOURCE_DIR}/tools/run_with_stacks.py"
                   --timeout ${limit} ${results} ${addresses} -- ${arg_COMMAND})
  # ctest's own limit is the last resort, should the watcher itself hang.
  math(EXPR last_resort "${limit} + 60")
  set_tests_properties(${arg_NAME} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${last_resort}
                                              COST ${arg_TIMEOUT})
  if(arg_RESULTS) # the first job of a user makes a key in its home: not in the developer's
    set_tests_properties(${arg_NAME} PROPERTIES ENVIRONMENT "HOME=${tutti_test_home}")
  endif()
  foreach(target IN LISTS arg_NEEDS)
    set_property(TEST ${arg_NAME} APPEND PROPERTY REQUIRED_FILES $<TARGET_FILE:${target}>)
  endforeach()
  if(arg_PROCESSORS)
    set_tests_properties(${arg_NAME} PROPERTIES PROCESSORS ${arg_PROCESSORS})
  endif()
  if(arg_RUN_SERIAL)
    set_tests_properties(${arg_NAME} PROPERTIES RUN_SERIAL ON)
  endif()
endfunction()

# tutti_size_label(variable ranks sizes...): the label of a test that runs on so many ranks, one of these sizes. 2 and 3
# ranks always run (under a sanitizer and in a release build 3). Of the other sizes one runs, chosen by rotation: those
# have the label size_<place>_of_<how many>.
function(tutti_size_label variable ranks)
  set(sizes ${ARGN})
  if(tutti_sanitizer OR CMAKE_BUILD_TYPE STREQUAL "Release")
    set(fixed 3)
  else()
    set(fixed 2 3)
  endif()
  set(${variable} "" PARENT_SCOPE)
  list(REMOVE_ITEM sizes ${fixed})
  list(FIND sizes ${ranks} place)
  if(NOT place EQUAL -1)
    list(LENGTH sizes count)
    set(${variable} "size_${place}_of_${count}" PARENT_SCOPE)
  endif()
endfunction()

# Stops where one of the sources starts a thread, or what does so.
function(tutti_require_one_thread name)
  foreach(source IN LISTS ARGN)
    file(STRINGS "${source}" threads REGEX
         "<thread>|<future>|pthread_create|run_threads|init_process_group|make_tcp")
    if(threads)
      message(FATAL_ERROR "${name} says ONE_THREAD, but ${source} has: ${threads}")
    endif()
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${source}")
  endforeach()
endfunction()

# Compiles a target as tests are compiled.
function(tutti_compile_as_test target optimized)
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/tests")
  set(headers tutti_optimized_test_headers)
  if(NOT optimized)
    set(headers tutti_test_headers)
    tutti_compile_fast(${target})
  endif()
  if(TUTTI_PRECOMPILE)
    target_precompile_headers(${target} REUSE_FROM ${headers})
  endif()
endfunction()

# tutti_test_program(target MAIN library [SOURCES ...] [LIBRARIES ...] [OPTIMIZED])
function(tutti_test_program target)
  cmake_parse_arguments(arg "OPTIMIZED" "MAIN" "SOURCES;LIBRARIES" ${ARGN})
  add_executable(${target} ${arg_SOURCES})
  target_link_libraries(${target} PRIVATE tutti_internal tutti_warnings ${arg_LIBRARIES} ${arg_MAIN}
                                          tutti_verify GTest::gmock)
  tutti_compile_as_test(${target} ${arg_OPTIMIZED})
endfunction()

# tutti_add_test_objects(target SOURCES ... [LIBRARIES ...]): what several test programs hold (LIBRARIES target),
# compiled once. OBJECT, so that tests in it are linked though nothing calls them.
function(tutti_add_test_objects target)
  cmake_parse_arguments(arg "" "" "SOURCES;LIBRARIES" ${ARGN})
  add_library(${target} OBJECT ${arg_SOURCES})
  target_link_libraries(${target} PRIVATE tutti_internal tutti_warnings ${arg_LIBRARIES} GTest::gmock)
  tutti_compile_as_test(${target} ON)
  tutti_unite_folders(${target})
endfunction()

# tutti_add_test(NAME name SOURCES a.cpp ... [LIBRARIES ...] [DEFINITIONS ...] [DEPENDS targets...]
#                [LABELS ...] [TIMEOUT seconds] [RANKS 1 2 4] [PROCESSORS n] [RUN_SERIAL]
#                [NO_SANITIZERS] [ONE_THREAD] [OPTIMIZED] [ALONE] [INSTANTIATION prefix])
#
# A GoogleTest program. With RANKS it is started by tuttirun once per rank count (name.1, name.2,
# ...; see tutti_size_label), else directly. Tests in tests/unit and tests/contract/{backend,transport}
# carry the labels asan and tsan unless NO_SANITIZERS says otherwise; others ask for them with LABELS. With
# ONE_THREAD or RANKS a test runs without tsan, which looks at what several threads of a process do. OPTIMIZED:
# what the test itself computes takes so long that its code is worth optimising (the library's always is).
# DEPENDS: programs that it starts; their paths come by DEFINITIONS.
#
# With TUTTI_UNITY the tests of a folder that are built alike are one program, compiled as one, and each
# test runs the cases that stand in its own sources (tests/support/united_main.cpp), or with INSTANTIATION those
# of that INSTANTIATE_TEST_SUITE_P. ALONE keeps one out: its cases stand in a header, or it replaces something of
# the whole program, like main.
function(tutti_add_test)
  cmake_parse_arguments(
    arg "RUN_SERIAL;NO_SANITIZERS;ONE_THREAD;OPTIMIZED;ALONE" "NAME;TIMEOUT;PROCESSORS;INSTANTIATION"
    "SOURCES;LIBRARIES;DEFINITIONS;DEPENDS;LABELS;RANKS" ${ARGN})
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "tutti_add_test(${arg_NAME}): do not know ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(CMAKE_CURRENT_SOURCE_DIR MATCHES "/tests/(unit|contract)/" AND NOT CMAKE_CURRENT_SOURCE_DIR MATCHES "/(simulation|contract/group)$")
    if(NOT arg_NO_SANITIZERS)
      list(APPEND arg_LABELS asan)
      if(arg_ONE_THREAD)
        tutti_require_one_thread(${arg_NAME} ${arg_SOURCES})
      elseif(NOT arg_RANKS) # what processes do to each other tsan does not see
        list(APPEND arg_LABELS tsan)
      endif()
    endif()
  endif()
  set(optimized "")
  if(arg_OPTIMIZED)
    set(optimized OPTIMIZED)
  endif()
  set(serial "")
  if(arg_RUN_SERIAL)
    set(serial RUN_SERIAL)
  endif()

  set(program ${arg_NAME})
  set(sources ${arg_SOURCES})
  list(TRANSFORM sources PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/")
  set(cases "")
  if(arg_RANKS)
    tutti_test_program(${program} SOURCES ${sources} LIBRARIES ${arg_LIBRARIES} MAIN tutti_ranks_main
                       ${optimized})
  elseif(arg_ALONE OR NOT TUTTI_UNITY)
    tutti_test_program(${program} SOURCES ${sources} LIBRARIES ${arg_LIBRARIES}
                       MAIN GTest::gtest_main ${optimized})
  else()
    string(REPLACE "${PROJECT_SOURCE_DIR}/" "/" cases "${sources}")
    if(arg_INSTANTIATION)
      set(cases "${arg_INSTANTIATION}/")
    endif()
    cmake_path(RELATIVE_PATH CMAKE_CURRENT_SOURCE_DIR BASE_DIRECTORY "${PROJECT_SOURCE_DIR}"
               OUTPUT_VARIABLE program)
    string(APPEND program ";${arg_LIBRARIES};${optimized}")
    # Under a sanitizer only the tests that it runs are built.
    if(tutti_sanitizer AND NOT tutti_sanitizer IN_LIST arg_LABELS)
      string(APPEND program ";without_${tutti_sanitizer}")
    endif()
    list(REMOVE_ITEM program "")
    string(MAKE_C_IDENTIFIER "${program}" program)
    if(NOT TARGET ${program})
      tutti_test_program(${program} LIBRARIES ${arg_LIBRARIES} MAIN tutti_united_main ${optimized})
      # At the end of the folder, when all of its sources are known.
      cmake_language(EVAL CODE "cmake_language(DEFER CALL tutti_unite_folders [[${program}]])")
    endif()
    target_sources(${program} PRIVATE ${sources})
  endif()
  target_compile_definitions(${program} PRIVATE ${arg_DEFINITIONS})
  if(arg_DEPENDS)
    add_dependencies(${program} ${arg_DEPENDS})
  endif()

  if(arg_RANKS)
    tutti_add_ranks_test(NAME ${arg_NAME} PROGRAM ${program} RANKS ${arg_RANKS}
                         LABELS ${arg_LABELS} TIMEOUT ${arg_TIMEOUT} ${serial})
    return()
  endif()
  tutti_register_test(NAME ${arg_NAME} COMMAND ${tutti_emulator} $<TARGET_FILE:${program}> ${cases}
                      LABELS ${arg_LABELS} TIMEOUT ${arg_TIMEOUT} PROCESSORS ${arg_PROCESSORS}
                      RESULTS ON ${serial})
endfunction()

# tutti_add_ranks_test(NAME name PROGRAM target RANKS 1 2 4 [ARGS ...] [LAUNCHER ...] [LABELS ...]
#                      [NEEDS targets...] [TIMEOUT seconds] [RUN_SERIAL])
#
# Runs a program with `tuttirun --nproc-per-node N`, one test per rank count: name.1, name.2, ...
# LAUNCHER: further options of tuttirun.
function(tutti_add_ranks_test)
  cmake_parse_arguments(arg "RUN_SERIAL" "NAME;PROGRAM;TIMEOUT" "RANKS;ARGS;LAUNCHER;LABELS;NEEDS"
                        ${ARGN})
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
    tutti_size_label(size ${ranks} ${arg_RANKS})
    tutti_register_test(
      NAME ${arg_NAME}.${ranks} RESULTS ON PROCESSORS ${ranks}
      COMMAND ${tutti_emulator} $<TARGET_FILE:tuttirun> --nproc-per-node ${ranks} ${arg_LAUNCHER}
              ${tutti_emulator} $<TARGET_FILE:${arg_PROGRAM}> ${arg_ARGS}
      NEEDS ${arg_NEEDS} LABELS ${arg_LABELS} ranks ${size} TIMEOUT ${arg_TIMEOUT} ${serial})
  endforeach()
endfunction()

# tutti_add_must_not_compile(NAME name SOURCE a.cpp CASES case ...)
#
# The source must compile as it is, and must not with any of -DTUTTI_CASE_<case>; the compiler's
# message must then hold the text that stands in the source behind `// <case>: `.
function(tutti_add_must_not_compile)
  cmake_parse_arguments(arg "" "NAME;SOURCE" "CASES" ${ARGN})
  cmake_path(ABSOLUTE_PATH arg_SOURCE)
  find_program(TUTTI_CLANG NAMES clang++ clang++-14)  # another compiler, other errors
  mark_as_advanced(TUTTI_CLANG)
  set(compilers "${CMAKE_CXX_COMPILER}")
  if(TUTTI_CLANG AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    list(APPEND compilers "${TUTTI_CLANG}")
  endif()
  set(suffix "")
  set(label "")
  foreach(compiler IN LISTS compilers)
    tutti_register_test(
      NAME ${arg_NAME}${suffix}
      COMMAND
        "${Python3_EXECUTABLE}" "${PROJECT_SOURCE_DIR}/tools/must_not_compile.py" --source
        "${arg_SOURCE}" --cases ${arg_CASES} -- "${compiler}" -std=c++20
        -I${PROJECT_SOURCE_DIR}/include -I${PROJECT_BINARY_DIR}/include -Wall -Wextra -Werror
      TIMEOUT 120 ${label})
    set(suffix "_with_clang")
    set(label LABELS full)
  endforeach()
endfunction()

# Seconds for each fuzzer, at the least and at the most (with TUTTI_LONG_TESTS=1).
set(tutti_fuzz_seconds 3)
set(tutti_fuzz_long_seconds 60)
# Ten times what the slowest of them takes.
set(tutti_fuzz_planted_runs 1000000)
set(tutti_fuzz_command "${Python3_EXECUTABLE}" "${PROJECT_SOURCE_DIR}/tools/fuzz.py")

# tutti_fuzzer_link(name program): the program by another name, by which it chooses what to do.
function(tutti_fuzzer_link name program)
  set(link "${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/${name}")
  file(MAKE_DIRECTORY "${CMAKE_RUNTIME_OUTPUT_DIRECTORY}")
  file(CREATE_LINK ${program} "${link}" SYMBOLIC)
  set(fuzzer_link "${link}" PARENT_SCOPE)
endfunction()

# tutti_add_fuzzer(NAME name SOURCES ...)
#
# A fuzzer, built only with TUTTI_FUZZ, all of them into one program. Its test goes through
# tests/fuzz/seeds/<name>.txt, then on from there for some seconds, or for a minute.
function(tutti_add_fuzzer)
  cmake_parse_arguments(arg "" "NAME" "SOURCES" ${ARGN})
  if(NOT TUTTI_FUZZ)
    return()
  endif()
  list(TRANSFORM arg_SOURCES PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/")
  target_sources(tutti_fuzzer_sources PRIVATE ${arg_SOURCES})
  tutti_fuzzer_link(${arg_NAME} fuzzers)
  math(EXPR limit "${tutti_fuzz_long_seconds} + 60")
  tutti_register_test(
    NAME ${arg_NAME}
    COMMAND ${tutti_fuzz_command} run --seconds ${tutti_fuzz_seconds} --long
            ${tutti_fuzz_long_seconds} --seeds "${PROJECT_SOURCE_DIR}/tests/fuzz/seeds/${arg_NAME}.txt"
            --work "${PROJECT_BINARY_DIR}/fuzz/${arg_NAME}" "${fuzzer_link}"
    NEEDS fuzzers TIMEOUT ${limit})
  set_property(GLOBAL APPEND PROPERTY tutti_fuzzers "${fuzzer_link}")
endfunction()

# tutti_add_planted_fault(NAME name FILE src/a.cpp REMOVE text)
#
# The fuzzer <x>_fuzz of the name <x>_planted_fault, with a copy of FILE that lacks one check, must find
# that, from nothing, within so many inputs, which are the same ones each time.
function(tutti_add_planted_fault)
  cmake_parse_arguments(arg "" "NAME;FILE;REMOVE" "" ${ARGN})
  if(NOT TUTTI_FUZZ)
    return()
  endif()
  set(original "${PROJECT_SOURCE_DIR}/${arg_FILE}")
  set(copy "${CMAKE_CURRENT_BINARY_DIR}/${arg_NAME}.cpp")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${original}")
  file(READ "${original}" text)
  string(REPLACE "${arg_REMOVE}" "" without "${text}")
  if(without STREQUAL text)
    message(FATAL_ERROR "${arg_NAME}: \"${arg_REMOVE}\" does not stand in ${arg_FILE}")
  endif()
  file(CONFIGURE OUTPUT "${copy}" CONTENT "${without}" @ONLY)
  set_property(GLOBAL APPEND PROPERTY tutti_faulty_parsers "${original}")
  set_property(GLOBAL PROPERTY "tutti_copy_of_${original}" "${copy}")
  tutti_fuzzer_link(${arg_NAME} fuzzers_with_faults)
  tutti_register_test(
    NAME ${arg_NAME}
    COMMAND ${tutti_fuzz_command} must-find --runs ${tutti_fuzz_planted_runs} --work
            "${PROJECT_BINARY_DIR}/fuzz/${arg_NAME}" "${fuzzer_link}"
    NEEDS fuzzers_with_faults TIMEOUT 90)
endfunction()

# tutti_add_fuzz_coverage(NAME name LEAST percent)
#
# The seeds of all fuzzers together reach so many of the lines of the parsers.
function(tutti_add_fuzz_coverage)
  cmake_parse_arguments(arg "" "NAME;LEAST" "" ${ARGN})
  if(NOT TUTTI_FUZZ)
    return()
  endif()
  tutti_finish_fuzzers()
  get_property(fuzzers GLOBAL PROPERTY tutti_fuzzers)
  get_property(sources GLOBAL PROPERTY tutti_fuzzed_sources)
  tutti_register_test(
    NAME ${arg_NAME}
    COMMAND ${tutti_fuzz_command} coverage --least ${arg_LEAST} --cov "${TUTTI_LLVM_COV}"
            --profdata "${TUTTI_LLVM_PROFDATA}" --work "${PROJECT_BINARY_DIR}/fuzz" --seeds
            "${PROJECT_SOURCE_DIR}/tests/fuzz/seeds" --programs ${fuzzers} --sources ${sources}
    NEEDS fuzzers LABELS fuzz TIMEOUT 120)
endfunction()
