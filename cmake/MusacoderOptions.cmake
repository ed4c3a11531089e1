# Options and flags for the whole tree. Every option prints in the summary.
option(MUSACODER_TESTS "build the tests" ON)
option(MUSACODER_BENCH "build the benchmarks" ON)
option(MUSACODER_WERROR "treat warnings as errors" OFF)
option(MUSACODER_TIDY "run clang-tidy while compiling" OFF)
set(MUSACODER_SANITIZE "" CACHE STRING "sanitizers, e.g. address,undefined or thread")
set(MUSACODER_PYTHON "" CACHE FILEPATH "python with torch; default: .venv/bin/python, then python3")

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})

# Designated initialisers leave fields at their defaults on purpose.
add_compile_options(-Wall -Wextra -Wpedantic -Wno-missing-field-initializers)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 sees overlaps and overflows inside std::string and std::vector that are not there (GCC PR 105329, 105651).
  add_compile_options(-Wno-restrict -Wno-stringop-overflow -Wno-array-bounds)
endif()
if(MUSACODER_WERROR)
  add_compile_options(-Werror)
endif()
if(MUSACODER_SANITIZE)
  add_compile_options(-fsanitize=${MUSACODER_SANITIZE} -fno-omit-frame-pointer -g)
  add_link_options(-fsanitize=${MUSACODER_SANITIZE})
endif()

find_program(MUSACODER_CCACHE ccache)
if(MUSACODER_CCACHE)
  # Paths below the checkout count as relative, so that every checkout and worktree shares the cache.
  set(MUSACODER_CCACHE_COMMAND ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
      CCACHE_SLOPPINESS=pch_defines,time_macros ${MUSACODER_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${MUSACODER_CCACHE_COMMAND})
  set(CMAKE_C_COMPILER_LAUNCHER ${MUSACODER_CCACHE_COMMAND})
endif()
find_program(MUSACODER_MOLD mold)
if(MUSACODER_MOLD)
  add_link_options(-fuse-ld=mold)
endif()
if(MUSACODER_TIDY)
  find_program(MUSACODER_CLANG_TIDY NAMES clang-tidy-22 clang-tidy REQUIRED)
  set(CMAKE_CXX_CLANG_TIDY ${MUSACODER_CLANG_TIDY})
endif()

if(NOT MUSACODER_PYTHON)
  if(EXISTS ${CMAKE_SOURCE_DIR}/.venv/bin/python)
    set(MUSACODER_PYTHON ${CMAKE_SOURCE_DIR}/.venv/bin/python CACHE FILEPATH "" FORCE)
  else()
    find_program(MUSACODER_PYTHON3 python3)
    set(MUSACODER_PYTHON ${MUSACODER_PYTHON3} CACHE FILEPATH "" FORCE)
  endif()
endif()
execute_process(
  COMMAND ${MUSACODER_PYTHON} -c "import importlib.util,os;s=importlib.util.find_spec('torch');print(os.path.dirname(s.origin) if s else '')"
  OUTPUT_VARIABLE MUSACODER_TORCH_DIR OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)

# The training half is built where libtorch is; without it, and with MUSACODER_TRAIN=OFF, the verifier is complete.
option(MUSACODER_TRAIN "build musacoder-train (needs libtorch)" ON)
if(MUSACODER_TRAIN)
  find_package(MusacoderTorch QUIET)
  if(NOT MusacoderTorch_FOUND)
    set(MUSACODER_TRAIN OFF)
  endif()
endif()

find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(tl-expected REQUIRED)
find_package(Threads REQUIRED)
