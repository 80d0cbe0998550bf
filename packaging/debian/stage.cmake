# CPack runs this between installing into its folders, one for each Debian package, and packing them: what Debian's policy asks of a package
# beyond what `cmake --install` brings. The times of all files are SOURCE_DATE_EPOCH's, where that is set.
set(here ${CMAKE_CURRENT_LIST_DIR})
set(revision ${CPACK_DEBIAN_PACKAGE_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)

function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE status ERROR_VARIABLE error)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${ARGV}: ${status}: ${error}")
  endif()
endfunction()

foreach(component ${CPACK_COMPONENTS_ALL})
  string(TOUPPER ${component} upper)
  set(package ${CPACK_DEBIAN_${upper}_PACKAGE_NAME})
  set(root ${CPACK_TEMPORARY_DIRECTORY}/${component}/usr)

  file(REMOVE_RECURSE ${root}/share/doc)  # the licence is in the file copyright
  file(COPY ${here}/copyright DESTINATION ${root}/share/doc/${package})
  if(EXISTS ${CPACK_KVRT_NOTICES})  # ./dev package makes it
    file(COPY ${CPACK_KVRT_NOTICES} DESTINATION ${root}/share/doc/${package})
    run(gzip -9n ${root}/share/doc/${package}/THIRD_PARTY_NOTICES)
  endif()
  set(changelog ${root}/share/doc/${package}/changelog.Debian)
  file(WRITE ${changelog} "kvrt (${revision}) unstable; urgency=medium\n\n  * Upstream's own packages of version ${CPACK_DEBIAN_PACKAGE_VERSION}.\n\n"
                          " -- ${CPACK_PACKAGE_CONTACT}  ${date}\n")
  file(GLOB pages ${root}/share/man/man1/*.1)
  run(gzip -9n ${changelog} ${pages})
  set(overrides "")
  foreach(file ${here}/lintian-overrides ${here}/${package}.lintian-overrides)
    if(EXISTS ${file})
      file(READ ${file} text)
      string(APPEND overrides "${text}")
    endif()
  endforeach()
  file(WRITE ${root}/share/lintian/overrides/${package} "${overrides}")

  file(GLOB_RECURSE binaries ${root}/bin/* ${root}/lib/*.so*)
  foreach(binary ${binaries})
    if(NOT IS_SYMLINK ${binary})
      file(RPATH_REMOVE FILE ${binary})  # libkvrt lies where the linker looks
      run(${CPACK_KVRT_STRIP} --remove-section=.comment --remove-section=.note --strip-unneeded ${binary})
    endif()
  endforeach()
  file(GLOB_RECURSE archives ${root}/lib/*.a)
  if(archives)
    run(${CPACK_KVRT_STRIP} --enable-deterministic-archives --remove-section=.comment --strip-debug ${archives})
  endif()
  run(chmod -R u=rwX,go=rX ${root})
  if(DEFINED ENV{SOURCE_DATE_EPOCH})
    run(find ${CPACK_TEMPORARY_DIRECTORY}/${component} -exec touch --no-dereference --date=@$ENV{SOURCE_DATE_EPOCH} {} +)
  endif()
endforeach()
