# libtorch from the pinned PyPI wheel in MUSACODER_TORCH_DIR, without the wheel's own CMake package (which looks for a CUDA
# toolkit of the very version and adds flags of its own).
#
#   find_package(MusacoderTorch)
#   target_link_libraries(x PRIVATE MusacoderTorch::torch)
#
# Linked are libtorch_cpu and libc10 only: CUDA's libraries, a gigabyte, are loaded at run time when a CUDA device is asked for.
# MusacoderTorch_CUDA says whether they are there, MusacoderTorch_VERSION which version it is.
# Wheels are built with the C++11 ABI of std::string (torch >= 2.6); one that is not is refused.
set(MusacoderTorch_CUDA OFF)
if(MUSACODER_TORCH_DIR AND EXISTS ${MUSACODER_TORCH_DIR}/version.py)
  file(STRINGS ${MUSACODER_TORCH_DIR}/version.py _line REGEX "^__version__ = ")
  string(REGEX REPLACE ".*'([^']+)'.*" "\\1" MusacoderTorch_VERSION "${_line}")
  string(REGEX MATCH "^[0-9]+\\.[0-9]+\\.[0-9]+" _numbers "${MusacoderTorch_VERSION}")
  set(_abi OFF)
  if(_numbers VERSION_GREATER_EQUAL 2.6)
    set(_abi ON)
  endif()
  find_library(MusacoderTorch_CPU_LIBRARY torch_cpu PATHS ${MUSACODER_TORCH_DIR}/lib NO_DEFAULT_PATH)
  find_library(MusacoderTorch_C10_LIBRARY c10 PATHS ${MUSACODER_TORCH_DIR}/lib NO_DEFAULT_PATH)
  find_file(MusacoderTorch_GOMP_LIBRARY libgomp.so.1 PATHS ${MUSACODER_TORCH_DIR}/lib NO_DEFAULT_PATH)
  find_path(MusacoderTorch_INCLUDE_DIR ATen/ATen.h PATHS ${MUSACODER_TORCH_DIR}/include NO_DEFAULT_PATH)
  if(EXISTS ${MUSACODER_TORCH_DIR}/lib/libtorch_cuda.so)
    set(MusacoderTorch_CUDA ON)
  endif()
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(MusacoderTorch
  REQUIRED_VARS MusacoderTorch_CPU_LIBRARY MusacoderTorch_C10_LIBRARY MusacoderTorch_GOMP_LIBRARY MusacoderTorch_INCLUDE_DIR _abi
  VERSION_VAR MusacoderTorch_VERSION)
mark_as_advanced(MusacoderTorch_CPU_LIBRARY MusacoderTorch_C10_LIBRARY MusacoderTorch_GOMP_LIBRARY MusacoderTorch_INCLUDE_DIR)
if(MusacoderTorch_FOUND AND NOT TARGET MusacoderTorch::torch)
  add_library(MusacoderTorch::torch INTERFACE IMPORTED)
  # Its headers come after all others: the wheel brings copies of fmt, pybind11 and more, and what is linked is the system's.
  # at::parallel_for is serial without OpenMP; the wheel's own libgomp is linked, so that there is one pool of threads.
  # (Clang's OpenMP code calls another library; under clang our own kernels use one thread.)
  set_target_properties(MusacoderTorch::torch PROPERTIES
    INTERFACE_COMPILE_OPTIONS
      "$<$<CXX_COMPILER_ID:GNU>:-fopenmp>;SHELL:-idirafter ${MusacoderTorch_INCLUDE_DIR}/torch/csrc/api/include;SHELL:-idirafter ${MusacoderTorch_INCLUDE_DIR}"
    INTERFACE_LINK_LIBRARIES "${MusacoderTorch_CPU_LIBRARY};${MusacoderTorch_C10_LIBRARY};${MusacoderTorch_GOMP_LIBRARY}")
endif()
