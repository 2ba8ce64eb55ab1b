# What a wheel holds beside the Python files: the module with the library in it, the programs, and the
# shared libraries that a machine without a compiler need not have. Paths are relative to site-packages.

# The programs lie in the package, where they find these libraries in any kind of environment; the
# commands that pip installs start them (bindings/python/tutti/_programs.py).
set(tutti_wheel_libs "tutti/_libs")
set(tutti_wheel_programs "tutti/_bin")

install(TARGETS _tutti LIBRARY DESTINATION tutti)
set_target_properties(_tutti PROPERTIES INSTALL_RPATH "$ORIGIN/_libs")
foreach(plugin tutti_backend_mpi tutti_backend_nccl)
  if(TARGET ${plugin})
    install(TARGETS ${plugin} LIBRARY DESTINATION tutti/lib/tutti)
    set_target_properties(${plugin} PROPERTIES INSTALL_RPATH "$ORIGIN/../../_libs")
  endif()
endforeach()
foreach(program IN ITEMS tuttirun tutti_cli tutti_bench_tutti)
  install(TARGETS ${program} RUNTIME DESTINATION "${tutti_wheel_programs}")
  set_target_properties(${program} PROPERTIES INSTALL_RPATH "$ORIGIN/../_libs")
endforeach()

include(TuttiWheelLibraries)
tutti_install_libraries("${tutti_wheel_libs}")
