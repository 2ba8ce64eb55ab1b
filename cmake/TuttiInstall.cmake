# cmake --install: library, public headers, programs, tuttiConfig.cmake, tutti.pc, tutti_c.pc. A wheel of Python holds
# the same folders (SKBUILD), but no links: a library's only name there is the one that the loader asks for.

include(CMakePackageConfigHelpers)

set(tutti_config_dir "${CMAKE_INSTALL_LIBDIR}/cmake/tutti")

if(SKBUILD)
  set(tutti_links NAMELINK_SKIP)
endif()
install(
  TARGETS tutti
  EXPORT tuttiTargets
  ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}"
  LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" ${tutti_links}
  INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/tutti" "${PROJECT_BINARY_DIR}/include/tutti"
        DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" FILES_MATCHING PATTERN "*.hpp" PATTERN "*.h")
if(TARGET tutti_c)
  install(TARGETS tutti_c EXPORT tuttiTargets LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" ${tutti_links})
  set_target_properties(tutti_c PROPERTIES INSTALL_RPATH "$ORIGIN") # a shared tutti lies beside it
endif()
foreach(program IN ITEMS tuttirun tutti_cli tutti_bench_tutti)
  if(TARGET ${program})
    install(TARGETS ${program} RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
  endif()
endforeach()
foreach(plugin tutti_backend_mpi tutti_backend_nccl)
  if(TARGET ${plugin})
    install(TARGETS ${plugin} LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}/tutti")
  endif()
endforeach()

install(EXPORT tuttiTargets NAMESPACE tutti:: DESTINATION "${tutti_config_dir}")
configure_package_config_file(
  "${CMAKE_CURRENT_LIST_DIR}/tuttiConfig.cmake.in" "${PROJECT_BINARY_DIR}/tuttiConfig.cmake"
  INSTALL_DESTINATION "${tutti_config_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/tuttiConfigVersion.cmake"
                                 COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/tuttiConfig.cmake"
              "${PROJECT_BINARY_DIR}/tuttiConfigVersion.cmake" DESTINATION "${tutti_config_dir}")

# Licences of those whose code is compiled into ours, where the system keeps them.
foreach(package IN ITEMS libfmt-dev libhwy-dev nlohmann-json3-dev)
  if(EXISTS "/usr/share/doc/${package}/copyright")
    install(FILES "/usr/share/doc/${package}/copyright" DESTINATION "${CMAKE_INSTALL_DOCDIR}/licences"
            RENAME "${package}.txt")
  endif()
endforeach()

if(SKBUILD)
  return() # the licence lies with the wheel's own data, and -ltutti would need a link
endif()

install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}")

# Found from where it lies, so that an installed folder can be moved. What a static library needs is not private: there is
# no shared one beside it.
get_target_property(type tutti TYPE)
set(tutti_cflags "")
set(tutti_libs "")
if(type STREQUAL "STATIC_LIBRARY")
  set(tutti_cflags " -DTUTTI_STATIC")
  set(tutti_libs " -ldl")
endif()
set(pc_folder "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
file(RELATIVE_PATH tutti_prefix_of_pc "/${pc_folder}" "/")
foreach(library IN ITEMS tutti tutti_c)
  if(TARGET ${library})
    configure_file("${CMAKE_CURRENT_LIST_DIR}/${library}.pc.in" "${PROJECT_BINARY_DIR}/${library}.pc" @ONLY)
    install(FILES "${PROJECT_BINARY_DIR}/${library}.pc" DESTINATION "${pc_folder}")
  endif()
endforeach()
