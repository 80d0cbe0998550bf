# Flags and the function that makes a layer.

add_library(kvrt_flags INTERFACE)
target_compile_options(kvrt_flags INTERFACE -ffp-contract=off -Wall -Wextra -Wpedantic -Wshadow -Wno-unused-parameter
                       $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # False alarms inside std::string and std::vector at -O3 (GCC bugs 105651, 105329, 107852); the ASan build looks for the real ones.
  target_compile_options(kvrt_flags INTERFACE -Wno-restrict -Wno-array-bounds -Wno-stringop-overflow)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 14)
  # False alarms inside libstdc++'s strings and vectors at -O3 (GCC bugs 105651, 105329).
  target_compile_options(kvrt_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict -Wno-array-bounds -Wno-stringop-overflow
                                              -Wno-stringop-overread>)
endif()
target_include_directories(kvrt_flags INTERFACE ${PROJECT_SOURCE_DIR})
if(KVRT_WERROR)
  target_compile_options(kvrt_flags INTERFACE -Werror)
endif()
if(KVRT_ASSERTS)
  target_compile_definitions(kvrt_flags INTERFACE KVRT_ASSERTS)
endif()
if(KVRT_SANITIZE)
  add_compile_options(-fsanitize=${KVRT_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  if(KVRT_SANITIZE MATCHES "address.*undefined" AND NOT KVRT_FUZZ)  # AddressSanitizer finds what is accessed so; they are a tenth of a compilation
    add_compile_options(-fno-sanitize=null,object-size)
  endif()
  add_link_options(-fsanitize=${KVRT_SANITIZE})
endif()

# kvrt_layer(name folder links...): the static library kvrt_<name> of all .cc files in and below the folder.
function(kvrt_layer name folder)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*.cc)
  if(NOT sources)  # no code yet
    add_library(kvrt_${name} INTERFACE)
    target_link_libraries(kvrt_${name} INTERFACE ${ARGN})
    return()
  endif()
  add_library(kvrt_${name} STATIC ${sources})
  target_link_libraries(kvrt_${name} PUBLIC ${ARGN} PRIVATE kvrt_flags)
  target_include_directories(kvrt_${name} PUBLIC ${PROJECT_SOURCE_DIR})
  if(KVRT_FUZZ)
    target_compile_options(kvrt_${name} PRIVATE -fsanitize=fuzzer-no-link)  # coverage: without it a fuzzer is blind
  endif()
endfunction()

# Kernel files: their own instruction set each, and -O2 (g++ 12 spills at -O3). Nothing else is built for more than x86-64.
function(kvrt_kernel_flags)
  file(GLOB avx2 CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/runtime/compute/cpu/*_avx2*.cc)
  set_source_files_properties(${avx2} PROPERTIES COMPILE_OPTIONS "-mavx2;-mfma;-mf16c;-O2")
  file(GLOB avx512 CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/runtime/compute/cpu/*_avx512*.cc)
  set(avx512_flags -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512vl -mavx512vnni -O2)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    list(APPEND avx512_flags -Wno-uninitialized -Wno-maybe-uninitialized)  # False alarms inside its intrinsics (GCC bug 105593).
  endif()
  set_source_files_properties(${avx512} PROPERTIES COMPILE_OPTIONS "${avx512_flags}")
  if(KVRT_SANITIZE MATCHES undefined AND NOT KVRT_FUZZ)  # the scalar files are the same templates, and these would take the time of a fifth of the library
    set_property(SOURCE ${avx2} ${avx512} APPEND PROPERTY COMPILE_OPTIONS -fno-sanitize=undefined)
  endif()
  file(GLOB scalar CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/runtime/compute/cpu/*_scalar*.cc)
  set_source_files_properties(${scalar} PROPERTIES COMPILE_OPTIONS "-O2")
endfunction()
