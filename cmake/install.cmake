# Install rules. Components: kvrt_Runtime (for programs), kvrt_Development (for compilers), kvrt_Tools (the program kvrt).
include(CMakePackageConfigHelpers)
set(KVRT_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/kvrt)

install(TARGETS kvrt kvrt_cpp EXPORT kvrtTargets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT kvrt_Runtime NAMELINK_COMPONENT kvrt_Development)
if(KVRT_STATIC)
  install(TARGETS kvrt_static EXPORT kvrtTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT kvrt_Development)
  set(KVRT_PC_PRIVATE "-lm -ldl -pthread")
  if(NOT KVRT_STATIC_DEPS)
    set(KVRT_PC_REQUIRES "libzstd sqlite3 libpcre2-8 libsodium")
    string(PREPEND KVRT_PC_PRIVATE "-lzstd -lsqlite3 -lpcre2-8 -lsodium -lstdc++ ")
  endif()
endif()
install(FILES include/kvrt.h bindings/cpp/kvrt.hpp bindings/cpp/kvrt_values.hpp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT kvrt_Development)
install(FILES include/kvrt.abi.json DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/kvrt COMPONENT kvrt_Development)
install(EXPORT kvrtTargets NAMESPACE kvrt:: DESTINATION ${KVRT_CMAKE_DIR} COMPONENT kvrt_Development)
configure_package_config_file(cmake/kvrtConfig.cmake.in ${PROJECT_BINARY_DIR}/kvrtConfig.cmake INSTALL_DESTINATION ${KVRT_CMAKE_DIR})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/kvrtConfigVersion.cmake COMPATIBILITY SameMajorVersion)  # as the soname
install(FILES ${PROJECT_BINARY_DIR}/kvrtConfig.cmake ${PROJECT_BINARY_DIR}/kvrtConfigVersion.cmake DESTINATION ${KVRT_CMAKE_DIR}
        COMPONENT kvrt_Development)

# The .pc files find their prefix from their own place, so that the tree can be moved; but not one whose folders are absolute.
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
  set(KVRT_PC_PREFIX ${CMAKE_INSTALL_PREFIX})
else()
  file(RELATIVE_PATH KVRT_PC_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
  string(REGEX REPLACE "/$" "" KVRT_PC_PREFIX "\${pcfiledir}/${KVRT_PC_PREFIX}")
endif()
foreach(folder LIBDIR INCLUDEDIR DATAROOTDIR)
  set(KVRT_PC_${folder} "\${prefix}")
  cmake_path(APPEND KVRT_PC_${folder} ${CMAKE_INSTALL_${folder}})  # an absolute one stays as it is
endforeach()
configure_file(cmake/kvrt.pc.in ${PROJECT_BINARY_DIR}/kvrt.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/kvrt.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT kvrt_Development)
if(KVRT_STATIC)
  configure_file(cmake/kvrt-static.pc.in ${PROJECT_BINARY_DIR}/kvrt-static.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/kvrt-static.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT kvrt_Development)
endif()

install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/doc/kvrt COMPONENT kvrt_Runtime)
if(TARGET kvrt_cli)
  install(TARGETS kvrt_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT kvrt_Tools)
  if(NOT CMAKE_CROSSCOMPILING)
    install(DIRECTORY ${PROJECT_BINARY_DIR}/share/ DESTINATION ${CMAKE_INSTALL_DATAROOTDIR} COMPONENT kvrt_Tools)
  endif()
endif()
