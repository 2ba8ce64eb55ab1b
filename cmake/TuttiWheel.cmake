# What a wheel holds beside the Python files: the module with the library in it, the programs, and the
# shared libraries that a machine without a compiler need not have. Paths are relative to site-packages.

# The programs lie in the package, where they find these libraries in any kind of environment; the
# commands that pip installs start them (python/tutti/_programs.py).
set(tutti_wheel_libs "tutti/_libs")
set(tutti_wheel_programs "tutti/_bin")

install(TARGETS _tutti LIBRARY DESTINATION tutti)
set_target_properties(_tutti PROPERTIES INSTALL_RPATH "$ORIGIN/_libs")
foreach(program IN ITEMS tuttirun tutti_cli)
  install(TARGETS ${program} RUNTIME DESTINATION "${tutti_wheel_programs}")
  set_target_properties(${program} PROPERTIES INSTALL_RPATH "$ORIGIN/../_libs")
endforeach()

# A wheel holds no links, so each library goes in under the name that the loader asks for.
foreach(library IN ITEMS fmt::fmt hwy::hwy)
  get_target_property(type ${library} TYPE)
  if(NOT type STREQUAL "STATIC_LIBRARY" AND NOT type STREQUAL "INTERFACE_LIBRARY")
    install(
      CODE "
      file(REAL_PATH \"$<TARGET_FILE:${library}>\" file)
      file(INSTALL \"\${file}\" DESTINATION \"\${CMAKE_INSTALL_PREFIX}/${tutti_wheel_libs}\"
           TYPE FILE RENAME \"$<TARGET_SONAME_FILE_NAME:${library}>\")")
  endif()
endforeach()
# Their licences, where the system keeps them.
foreach(package IN ITEMS libfmt9 libhwy1)
  if(EXISTS "/usr/share/doc/${package}/copyright")
    install(FILES "/usr/share/doc/${package}/copyright"
            DESTINATION "${tutti_wheel_libs}/licences" RENAME "${package}.txt")
  endif()
endforeach()
