# cmake --install: the command, the extension, one archive of all product objects with the public headers, and how to find them
# (find_package(onepen) -> onepen::onepen, pkg-config onepen). Included after the libraries and the apps exist.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

add_library(onepen STATIC)
set_target_properties(onepen PROPERTIES LINKER_LANGUAGE CXX)
set(archive_externals "")
foreach(lib ${ONEPEN_LIBRARIES})
  get_target_property(outside onepen_${lib} ONEPEN_NOT_IN_ARCHIVE)
  if(outside)
    continue()
  endif()
  target_sources(onepen PRIVATE $<TARGET_OBJECTS:onepen_${lib}_obj>)
  get_target_property(externals onepen_${lib} ONEPEN_EXTERNAL)
  list(APPEND archive_externals ${externals})
endforeach()
list(REMOVE_DUPLICATES archive_externals)
target_include_directories(onepen INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}> $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>)
# What users see: tl::expected in onepen/result.h, and plain SQLite. The other libraries are used only inside the archive.
target_link_libraries(onepen INTERFACE tl::expected PkgConfig::sqlite3)
foreach(external ${archive_externals})
  if(NOT external MATCHES "^(tl::expected|PkgConfig::sqlite3)$")
    target_link_libraries(onepen PRIVATE ${external})
  endif()
endforeach()

install(TARGETS onepen EXPORT onepenTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/onepen DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT onepenTargets NAMESPACE onepen:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/onepen)
configure_package_config_file(cmake/onepenConfig.cmake.in ${CMAKE_BINARY_DIR}/onepenConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/onepen)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/onepenConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/onepenConfig.cmake ${CMAKE_BINARY_DIR}/onepenConfigVersion.cmake DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/onepen)

# Relocatable: the prefix is found from where the file lies (libdir has two parts on Debian's multiarch, else one).
file(RELATIVE_PATH ONEPEN_PC_UP /p/${CMAKE_INSTALL_LIBDIR}/pkgconfig /p)
configure_file(cmake/onepen.pc.in ${CMAKE_BINARY_DIR}/onepen.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/onepen.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# The extension installs itself (lib/onepen/onepen.so, see extension/CMakeLists.txt).
if(TARGET onepen_app)
  install(TARGETS onepen_app RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
if(EXISTS ${PROJECT_SOURCE_DIR}/docs/onepen.1)
  install(FILES docs/onepen.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endif()
