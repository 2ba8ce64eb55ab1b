# tutti_find_torch(): the torch of Python_EXECUTABLE, as the target tutti_torch_libraries; sets torch_minor ("2_13").
#
# Not by find_package(Torch): that of a build for GPUs wants CUDA's compiler and libraries, and a plug-in for CPU
# tensors needs none of them. Nor by `import torch`, which loads CUDA's libraries.

function(tutti_find_torch)
  execute_process(
    COMMAND
      "${Python_EXECUTABLE}" -c
      "import importlib.util, pathlib, runpy
spec = importlib.util.find_spec('torch')
if spec is None or not spec.submodule_search_locations: raise SystemExit('torch is not installed')
folder = pathlib.Path(spec.submodule_search_locations[0])
version = runpy.run_path(str(folder / 'version.py'))['__version__']
print(folder.as_posix(), '_'.join(version.split('.')[:2]), sep=';')"
    OUTPUT_VARIABLE words
    OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  list(GET words 0 folder)
  list(GET words 1 minor)

  add_library(tutti_torch_libraries INTERFACE)
  set(include "${folder}/include")
  if(NOT EXISTS "${include}/torch/csrc/distributed/c10d/Backend.hpp")
    message(FATAL_ERROR "${include} has no headers of torch.distributed")
  endif()
  target_include_directories(tutti_torch_libraries SYSTEM
                             INTERFACE "${include}" "${include}/torch/csrc/api/include")
  # What torch's headers ask about the build of torch that they belong to.
  target_compile_definitions(tutti_torch_libraries INTERFACE USE_DISTRIBUTED USE_C10D_GLOO USE_RPC
                                                             USE_TENSORPIPE)
  foreach(name IN ITEMS c10 torch_cpu torch_python)
    find_library(tutti_lib${name} ${name} PATHS "${folder}/lib" REQUIRED NO_CACHE NO_DEFAULT_PATH)
    target_link_libraries(tutti_torch_libraries INTERFACE "${tutti_lib${name}}")
  endforeach()
  set(torch_minor "${minor}" PARENT_SCOPE)
endfunction()
