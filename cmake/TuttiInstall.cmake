# cmake --install: library, public headers, programs, tuttiConfig.cmake.

include(CMakePackageConfigHelpers)

set(tutti_config_dir "${CMAKE_INSTALL_LIBDIR}/cmake/tutti")

install(
  TARGETS tutti
  EXPORT tuttiTargets
  ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}"
  INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/tutti" "${PROJECT_BINARY_DIR}/include/tutti"
        DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" FILES_MATCHING PATTERN "*.hpp")
foreach(program IN ITEMS tuttirun tutti_cli)
  if(TARGET ${program})
    install(TARGETS ${program} RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
  endif()
endforeach()
if(TARGET tutti_backend_mpi)
  install(TARGETS tutti_backend_mpi LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}/tutti")
endif()
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}")

install(EXPORT tuttiTargets NAMESPACE tutti:: DESTINATION "${tutti_config_dir}")
configure_package_config_file(
  "${CMAKE_CURRENT_LIST_DIR}/tuttiConfig.cmake.in" "${PROJECT_BINARY_DIR}/tuttiConfig.cmake"
  INSTALL_DESTINATION "${tutti_config_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/tuttiConfigVersion.cmake"
                                 COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/tuttiConfig.cmake"
              "${PROJECT_BINARY_DIR}/tuttiConfigVersion.cmake" DESTINATION "${tutti_config_dir}")
