# tutti_install_libraries(folder): installs the shared libraries that a machine without a compiler need not
# have, and their licences, into a folder of a wheel.
function(tutti_install_libraries folder)
  # A wheel holds no links, so each library goes in under the name that the loader asks for.
  foreach(library IN ITEMS fmt::fmt hwy::hwy)
    get_target_property(type ${library} TYPE)
    if(NOT type STREQUAL "STATIC_LIBRARY" AND NOT type STREQUAL "INTERFACE_LIBRARY")
      install(
        CODE "
        file(REAL_PATH \"$<TARGET_FILE:${library}>\" file)
        file(INSTALL \"\${file}\" DESTINATION \"\${CMAKE_INSTALL_PREFIX}/${folder}\"
             TYPE FILE RENAME \"$<TARGET_SONAME_FILE_NAME:${library}>\")")
    endif()
  endforeach()
  # Their licences, where the system keeps them.
  foreach(package IN ITEMS libfmt9 libhwy1)
    if(EXISTS "/usr/share/doc/${package}/copyright")
      install(FILES "/usr/share/doc/${package}/copyright"
              DESTINATION "${folder}/licences" RENAME "${package}.txt")
    endif()
  endforeach()
endfunction()
