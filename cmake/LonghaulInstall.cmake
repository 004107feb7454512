# What `cmake --install` and CPack put where: programs in bin/, workflows, sites and constants in share/longhaul/, which the
# programs find from their own path (orchestrator/cli/session/installation.h), so that a prefix can be moved.
include(GNUInstallDirs)
set(share ${CMAKE_INSTALL_DATADIR}/longhaul)
foreach(program longhaul longhaul-worker longhaul-rank longhaul-engine longhaul-slurm)
  if(TARGET ${program})
    install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
    if(LONGHAUL_OWN_LIBRARIES AND NOT program STREQUAL "longhaul-rank")  # that one loads nothing
      # Not DT_RPATH: what a site's modules put into LD_LIBRARY_PATH comes before.
      set_target_properties(${program} PROPERTIES
        INSTALL_RPATH "$ORIGIN/../lib/longhaul:$ORIGIN/../lib/longhaul/openmpi/lib" BUILD_RPATH_USE_ORIGIN ON)
    endif()
  endif()
endforeach()
install(DIRECTORY workflows site-configs DESTINATION ${share} USE_SOURCE_PERMISSIONS)
install(FILES autotune/constants.toml DESTINATION ${share}/autotune)
install(FILES README.md CHANGELOG.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN "*.md" PATTERN "*.svg")
# Manual pages are printed by the program itself; a build for another machine goes without.
install(CODE "
  execute_process(COMMAND \"$<TARGET_FILE:longhaul>\" docs --man
    \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_MANDIR}/man1\" OUTPUT_QUIET RESULT_VARIABLE failed)
  if(failed)
    message(WARNING \"no manual pages: longhaul does not run on this machine\")
  endif()")
# For programs of others that report progress as a `command` stage (docs/workflows.md).
install(FILES resiliency/beat/longhaul_beat.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/longhaul)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME longhaul)
set(CPACK_PACKAGE_VENDOR "The Longhaul project")
set(CPACK_PACKAGE_CONTACT "The Longhaul project <longhaul@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "raw text to a deployed language model on a Slurm cluster")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "openmpi-bin, openssh-client, ca-certificates")
include(CPack)
