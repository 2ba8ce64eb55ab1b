# Debian's cross compiler for aarch64; what it builds is run by qemu-user. The preset `aarch64`.

set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
# qemu-user keeps a note of every page that a program may use, gigabytes for the arenas of a few ranks. Where address
# space is limited the library maps only the parts of arenas that it uses.
set(CMAKE_CROSSCOMPILING_EMULATOR prlimit --as=34359738368 qemu-aarch64)

# Debian's multi-arch has the libraries of all processors under one root.
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(ENV{PKG_CONFIG_LIBDIR} /usr/lib/aarch64-linux-gnu/pkgconfig:/usr/share/pkgconfig)
