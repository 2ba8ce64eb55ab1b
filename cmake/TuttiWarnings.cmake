# The warnings of our own code; never handed on to users of the library.

add_library(tutti_warnings INTERFACE)
target_compile_options(
  tutti_warnings INTERFACE -Wall -Wextra -Wpedantic -Wconversion -Wshadow
                           $<$<BOOL:${TUTTI_WERROR}>:-Werror>)
# GCC 12 sees overlaps that cannot be where std::string is inlined (its bug 105651; gone in 13).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(tutti_warnings
                         INTERFACE $<$<CONFIG:Release,RelWithDebInfo>:-Wno-restrict>)
endif()
