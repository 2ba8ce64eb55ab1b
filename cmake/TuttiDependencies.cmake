# Everything the build needs from outside, in the oldest versions that were tried. Reasons: docs/design/dependencies.md.

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
find_package(fmt 9.1 REQUIRED)
if(NOT TARGET hwy::hwy) # a parent project may have it
  find_package(hwy 1.0.3 REQUIRED)
endif()
find_package(nlohmann_json 3.11.2 REQUIRED)
find_package(OpenSSL 3 REQUIRED) # headers only: the library is loaded at the first TCP connection

if(TUTTI_TOOLS OR TUTTI_BENCH)
  find_package(CLI11 2.1.2 REQUIRED)
endif()
if(TUTTI_TESTS)
  find_package(GTest 1.12.1 REQUIRED)
  find_package(Python3 3.11 REQUIRED COMPONENTS Interpreter)
endif()
if(TUTTI_BENCH)
  find_package(benchmark 1.7.1 QUIET) # of the micro benchmarks, which are left out without it
endif()

# Headers of others whose code becomes a part of ours. Their namespaces get names of our own: a program may bring
# these libraries in any version, compiled or as headers, and no symbol of its copy has the name of one of ours.
add_library(tutti_embedded INTERFACE)
target_link_libraries(tutti_embedded INTERFACE fmt::fmt-header-only nlohmann_json::nlohmann_json)
target_include_directories(
  tutti_embedded SYSTEM INTERFACE $<TARGET_PROPERTY:hwy::hwy,INTERFACE_INCLUDE_DIRECTORIES>)
target_compile_definitions(tutti_embedded INTERFACE fmt=tutti_fmt hwy=tutti_hwy
                                                    nlohmann=tutti_nlohmann)
