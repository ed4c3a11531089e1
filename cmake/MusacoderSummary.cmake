# One table at the end of the configure step.
message(STATUS "")
message(STATUS "musacoder ${PROJECT_VERSION}")
foreach(row "build type;${CMAKE_BUILD_TYPE}" "compiler;${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}"
            "ccache;${MUSACODER_CCACHE}" "mold;${MUSACODER_MOLD}" "sanitizers;${MUSACODER_SANITIZE}"
            "python;${MUSACODER_PYTHON}" "torch;${MUSACODER_TORCH_DIR}" "training;${MUSACODER_TRAIN}" "tests;${MUSACODER_TESTS}" "benchmarks;${MUSACODER_BENCH}")
  list(GET row 0 key)
  list(GET row 1 value)
  if(NOT value)
    set(value "no")
  endif()
  string(LENGTH "${key}" length)
  math(EXPR pad "14 - ${length}")
  string(REPEAT " " ${pad} spaces)
  message(STATUS "  ${key}${spaces}${value}")
endforeach()
message(STATUS "")
