# SPDX-License-Identifier: MIT
#
# What the library stands on: pthreads, libm, libxxhash, libomp, LLVM 19 (C API). Each is an
# interface target tolk_dep_*; tolk_deps_private_libs is the same as linker words for a static link,
# by soname, so that an installed file names no folder of the machine that built it.
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)

set(TOLK_LLVM_MAJOR 19)
find_program(TOLK_LLVM_CONFIG NAMES llvm-config-${TOLK_LLVM_MAJOR} llvm-config
             HINTS /usr/lib/llvm-${TOLK_LLVM_MAJOR}/bin REQUIRED
             DOC "llvm-config of LLVM ${TOLK_LLVM_MAJOR}")
function(llvm_config out)
    execute_process(COMMAND ${TOLK_LLVM_CONFIG} ${ARGN} OUTPUT_VARIABLE text
                    OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
    set(${out} "${text}" PARENT_SCOPE)
endfunction()
llvm_config(TOLK_LLVM_VERSION --version)
if(NOT TOLK_LLVM_VERSION MATCHES "^${TOLK_LLVM_MAJOR}\\.")
    message(FATAL_ERROR "tolk needs LLVM ${TOLK_LLVM_MAJOR}; ${TOLK_LLVM_CONFIG} is LLVM "
                        "${TOLK_LLVM_VERSION}. Install llvm-${TOLK_LLVM_MAJOR}-dev or set "
                        "TOLK_LLVM_CONFIG.")
endif()
llvm_config(llvm_include --includedir)
llvm_config(llvm_libdir --libdir)
find_library(TOLK_LLVM_LIBRARY NAMES LLVM-${TOLK_LLVM_MAJOR} LLVM HINTS ${llvm_libdir}
             NO_DEFAULT_PATH REQUIRED)
# Only the files that see LLVM get its headers.
add_library(tolk_dep_llvm_headers INTERFACE)
target_include_directories(tolk_dep_llvm_headers SYSTEM INTERFACE ${llvm_include})
target_compile_definitions(tolk_dep_llvm_headers INTERFACE TOLK_LLVM_VERSION="${TOLK_LLVM_VERSION}")

# What libtolk-llvm.so is linked with. The archives of LLVM's packages: only what is used of them is
# there, its calls are direct, and it opens in a quarter of the time that libLLVM.so with its many
# relocations and its own libraries (Z3, ICU) takes. Without the archives: libLLVM.so. Sanitizer
# builds use that, too, so that both ways are tested and LSan knows LLVM by its name.
set(llvm_components x86codegen aarch64codegen nvptxcodegen core target analysis)
if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
    list(APPEND llvm_components orcjit)
endif()
execute_process(COMMAND ${TOLK_LLVM_CONFIG} --link-static --libs ${llvm_components}
                OUTPUT_VARIABLE llvm_archives OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
separate_arguments(llvm_archives)
execute_process(COMMAND ${CMAKE_C_COMPILER} -print-file-name=libstdc++.a
                OUTPUT_VARIABLE stdcxx_archive OUTPUT_STRIP_TRAILING_WHITESPACE)
find_library(TOLK_ZLIB_LIBRARY NAMES z libz.so.1)
find_library(TOLK_ZSTD_LIBRARY NAMES zstd libzstd.so.1)
set(llvm_static -L${llvm_libdir} ${llvm_archives} ${stdcxx_archive} ${TOLK_ZLIB_LIBRARY}
                ${TOLK_ZSTD_LIBRARY} ${CMAKE_DL_LIBS} m)
include(CMakePushCheckState)
include(CheckCSourceCompiles)
cmake_push_check_state(RESET)
set(CMAKE_REQUIRED_INCLUDES ${llvm_include})
set(CMAKE_REQUIRED_LIBRARIES ${llvm_static} Threads::Threads)
check_c_source_compiles("#include <llvm-c/Target.h>
                         int main(void) { LLVMInitializeX86AsmPrinter(); return 0; }"
                        TOLK_LLVM_HAS_ARCHIVES)
cmake_pop_check_state()
set(static_default ${TOLK_LLVM_HAS_ARCHIVES})
if(TOLK_SANITIZE)
    set(static_default OFF)
endif()
option(TOLK_LLVM_STATIC "Link LLVM's archives into libtolk-llvm.so" "${static_default}")
if(TOLK_LLVM_STATIC)
    set(tolk_module_llvm ${llvm_static})
else()
    set(tolk_module_llvm ${TOLK_LLVM_LIBRARY})
endif()

# OpenMP code runs on libomp, also when gcc compiled it (libomp has gcc's entry points).
find_library(TOLK_OMP_LIBRARY NAMES omp HINTS ${llvm_libdir} REQUIRED)
add_library(tolk_dep_omp_flags INTERFACE)
if(CMAKE_C_COMPILER_ID MATCHES "Clang")
    target_compile_options(tolk_dep_omp_flags INTERFACE -fopenmp=libomp)
else()
    target_compile_options(tolk_dep_omp_flags INTERFACE -fopenmp)
endif()

# What libtolk.so needs, and with LLVM what the static library does.
add_library(tolk_deps_core INTERFACE)
target_link_libraries(tolk_deps_core INTERFACE PkgConfig::XXHASH ${TOLK_OMP_LIBRARY}
                                               Threads::Threads ${CMAKE_DL_LIBS} m)
add_library(tolk_deps INTERFACE)
target_link_libraries(tolk_deps INTERFACE ${TOLK_LLVM_LIBRARY} tolk_deps_core)

# The soname of a shared library file, as "-l:NAME".
function(tolk_soname_word library out)
    execute_process(COMMAND ${CMAKE_OBJDUMP} -p ${library} OUTPUT_VARIABLE text
                    COMMAND_ERROR_IS_FATAL ANY)
    if(NOT text MATCHES "SONAME +([^ \n]+)")
        message(FATAL_ERROR "${library} has no soname")
    endif()
    set(${out} "-l:${CMAKE_MATCH_1}" PARENT_SCOPE)
endfunction()
tolk_soname_word(${TOLK_LLVM_LIBRARY} llvm_word)
tolk_soname_word(${TOLK_OMP_LIBRARY} omp_word)
set(tolk_deps_private_libs -lxxhash ${llvm_word} ${omp_word} -pthread -ldl -lm)
