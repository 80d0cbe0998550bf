# CPack reads this before it does anything: the scripts beside it are for Debian's packages alone.
if(NOT CPACK_GENERATOR STREQUAL "DEB")
  message(FATAL_ERROR "kvrt: expected the generator DEB, found ${CPACK_GENERATOR}. `./dev package tarball` packs a build, and `git archive` the sources.")
endif()
