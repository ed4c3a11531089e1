# One way to declare a library, a program, a test, a benchmark, so that each folder's CMakeLists.txt is a few lines.

# mc_library(name DEPS a b): static library musacoder_<name> from every .cpp of this folder and its sub-folders,
# minus files called main.cpp or listed in EXCLUDE.
function(mc_library name)
  cmake_parse_arguments(arg "" "" "DEPS;EXCLUDE" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  list(FILTER sources EXCLUDE REGEX "/([a-z_]*main|fuzz_[a-z_]+)\\.cpp$")
  foreach(pattern ${arg_EXCLUDE})
    list(FILTER sources EXCLUDE REGEX "${pattern}")
  endforeach()
  if(NOT sources)
    set(sources ${CMAKE_SOURCE_DIR}/cmake/empty.cpp)
  endif()
  add_library(mc_${name} STATIC ${sources})
  target_include_directories(mc_${name} PUBLIC ${CMAKE_SOURCE_DIR}/src)
  target_link_libraries(mc_${name} PUBLIC ${arg_DEPS} fmt::fmt tl::expected Threads::Threads)
endfunction()

# mc_program(program SOURCES main.cpp DEPS ...)
function(mc_program program)
  cmake_parse_arguments(arg "" "" "DEPS;SOURCES" ${ARGN})
  add_executable(${program} ${arg_SOURCES})
  target_link_libraries(${program} PRIVATE ${arg_DEPS})
endfunction()

# mc_test(folder DEPS ...): one GoogleTest program <folder>_tests from tests/<folder>/**/*_test.cpp
function(mc_test folder)
  cmake_parse_arguments(arg "" "" "DEPS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*_test.cpp)
  if(NOT sources)
    return()
  endif()
  add_executable(${folder}_tests ${sources})
  target_include_directories(${folder}_tests PRIVATE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/tests)
  target_link_libraries(${folder}_tests PRIVATE ${arg_DEPS} GTest::gtest GTest::gmock GTest::gtest_main)
  target_compile_definitions(${folder}_tests PRIVATE MC_SOURCE_DIR="${CMAKE_SOURCE_DIR}"
                             MC_BINARY_DIR="${CMAKE_BINARY_DIR}")
  add_test(NAME ${folder} COMMAND ${folder}_tests)
  set_tests_properties(${folder} PROPERTIES TIMEOUT 300 LABELS fast
    ENVIRONMENT "MUSACODER_SOURCE_DIR=${CMAKE_SOURCE_DIR};MUSACODER_PYTHON=${MUSACODER_PYTHON}")
endfunction()

# mc_bench(name SOURCES x.cpp DEPS ...): Google Benchmark program bench_<name>
function(mc_bench name)
  cmake_parse_arguments(arg "" "" "DEPS;SOURCES" ${ARGN})
  find_package(benchmark QUIET)
  if(NOT benchmark_FOUND)
    return()
  endif()
  add_executable(bench_${name} ${arg_SOURCES})
  target_link_libraries(bench_${name} PRIVATE ${arg_DEPS} benchmark::benchmark)
  target_compile_definitions(bench_${name} PRIVATE MC_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
endfunction()

# mc_fuzz(name SOURCES fuzz_x.cpp DEPS ... CORPUS dir): a libFuzzer target under clang with MUSACODER_FUZZ;
# everywhere else a plain regression program that runs every file of CORPUS through the same entry.
function(mc_fuzz name)
  cmake_parse_arguments(arg "" "CORPUS" "DEPS;SOURCES" ${ARGN})
  if(MUSACODER_FUZZ AND CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    add_executable(fuzz_${name} ${arg_SOURCES})
    target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
  else()
    add_executable(fuzz_${name} ${arg_SOURCES} ${CMAKE_SOURCE_DIR}/cmake/fuzz_main.cpp)
    add_test(NAME fuzz_${name} COMMAND fuzz_${name} ${arg_CORPUS})
    set_tests_properties(fuzz_${name} PROPERTIES TIMEOUT 120 LABELS fast)
  endif()
  target_link_libraries(fuzz_${name} PRIVATE ${arg_DEPS})
endfunction()
