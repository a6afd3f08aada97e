# Warnings as errors, linker, sanitizers and ccache for every target of ours.
add_library(onepen_warnings INTERFACE)
target_compile_options(onepen_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Werror -Wshadow -Wconversion -Wsign-conversion -Wold-style-cast -Wnon-virtual-dtor -Woverloaded-virtual -Wimplicit-fallthrough -Wno-missing-field-initializers)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  target_compile_options(onepen_warnings INTERFACE -Wthread-safety)
endif()

# Bounds of the standard containers stay checked in release: a broken invariant stops the process rather than going on with a wrong state.
add_compile_definitions(_GLIBCXX_ASSERTIONS)
# No path of the building machine in the binaries; also what lets ccache serve a second clone.
add_compile_options(-ffile-prefix-map=${PROJECT_SOURCE_DIR}/= -ffile-prefix-map=${CMAKE_BINARY_DIR}/=)

set(CMAKE_CXX_FLAGS_SANITIZE "-O1 -g1")
set(CMAKE_C_FLAGS_SANITIZE "-O1 -g1")

set(ONEPEN_SANITIZE "" CACHE STRING "address | undefined | thread | fuzzer-no-link,address")
if(ONEPEN_SANITIZE)
  add_compile_options(-fsanitize=${ONEPEN_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${ONEPEN_SANITIZE})
  if(ONEPEN_SANITIZE STREQUAL "undefined")
    add_compile_options(-fno-sanitize-recover=all)
  endif()
endif()

find_program(ONEPEN_CCACHE ccache)
if(ONEPEN_CCACHE)
  set(ONEPEN_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} ${ONEPEN_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${ONEPEN_LAUNCHER})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${ONEPEN_LAUNCHER})
endif()
find_program(ONEPEN_MOLD mold)
if(ONEPEN_MOLD)
  add_link_options(-fuse-ld=mold)
endif()
