# Not built: nobody has built this port yet. packaging/fill.py fills in the hash.

vcpkg_download_distfile(
  ARCHIVE
  URLS "https://pypi.org/packages/source/t/tutti/tutti-${VERSION}.tar.gz"
  FILENAME "tutti-${VERSION}.tar.gz"
  SHA512 @SHA512@)
vcpkg_extract_source_archive(SOURCE_PATH ARCHIVE "${ARCHIVE}")

vcpkg_check_features(OUT_FEATURE_OPTIONS FEATURE_OPTIONS FEATURES tools TUTTI_TOOLS)

# The backends on MPI and NCCL are shared libraries that are loaded: a static triplet has none.
if(VCPKG_LIBRARY_LINKAGE STREQUAL "static")
  list(APPEND FEATURE_OPTIONS -DTUTTI_MPI=OFF -DTUTTI_NCCL=OFF -DTUTTI_C=OFF)
endif()

vcpkg_cmake_configure(
  SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS ${FEATURE_OPTIONS} -DTUTTI_TESTS=OFF -DTUTTI_BENCH=OFF -DTUTTI_EXAMPLES=OFF
          -DTUTTI_CUDA_KERNELS=OFF -DTUTTI_UNITY=ON)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/tutti)
vcpkg_fixup_pkgconfig()
if("tools" IN_LIST FEATURES)
  vcpkg_copy_tools(TOOL_NAMES tuttirun tutti tutti_bench_tutti AUTO_CLEAN)
endif()

file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share")
file(INSTALL "${CMAKE_CURRENT_LIST_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
