# Install and export: find_package(plumbline) gives plumbline::arch, plumbline::ops, plumbline::model (and validate).
include(CMakePackageConfigHelpers)

set(floors arch ops model)
if(TARGET validate)
  list(APPEND floors validate)
endif()
install(TARGETS ${floors} EXPORT plumbline-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS predict-model RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
if(TARGET predict-model-mpi)
  install(TARGETS predict-model-mpi RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
if(TARGET validate-cli)
  install(TARGETS validate-cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
# The roof, as #include <plumbline/model/predict.hpp>.
install(CODE "execute_process(
  COMMAND \${CMAKE_COMMAND} -DROOT=${CMAKE_CURRENT_SOURCE_DIR}
          \"-DTO=\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_INCLUDEDIR}/plumbline\"
          -P ${CMAKE_CURRENT_SOURCE_DIR}/cmake/install_headers.cmake COMMAND_ERROR_IS_FATAL ANY)")
# Measurements are for `validate accuracy`, `coverage` and `replay`.
if(TARGET validate-cli)
  install(DIRECTORY data DESTINATION ${CMAKE_INSTALL_DATADIR}/plumbline)
else()
  install(DIRECTORY data DESTINATION ${CMAKE_INSTALL_DATADIR}/plumbline PATTERN "measurements" EXCLUDE)
endif()
install(EXPORT plumbline-targets NAMESPACE plumbline:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/plumbline)
set(PLUMBLINE_DATA_DIR ${CMAKE_INSTALL_DATADIR}/plumbline/data)
configure_package_config_file(cmake/plumbline-config.cmake.in ${CMAKE_BINARY_DIR}/plumbline-config.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/plumbline
                              PATH_VARS PLUMBLINE_DATA_DIR)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/plumbline-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/plumbline-config.cmake ${CMAKE_BINARY_DIR}/plumbline-config-version.cmake
              cmake/installed_data.cpp
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/plumbline)
