# SPDX-License-Identifier: MIT
#
# Flags of everything we compile, on the interface target tolk_flags.
set(CMAKE_C_FLAGS_RELEASE "-O2 -DNDEBUG")
set(CMAKE_C_FLAGS_DEBUG "-O1 -g")

add_library(tolk_flags INTERFACE)
target_compile_definitions(tolk_flags INTERFACE _GNU_SOURCE)
target_compile_options(
    tolk_flags
    INTERFACE
        -Wall
        -Wextra
        -Wpedantic
        # a*b+c means two roundings wherever we write it
        -ffp-contract=off
        # no path of the machine that built it in __FILE__; a debugger may see them in a debug build
        -fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=
        $<$<NOT:$<CONFIG:Debug>>:-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=>)
if(TOLK_WERROR)
    target_compile_options(tolk_flags INTERFACE -Werror)
endif()

if(TOLK_FUZZ)
    if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
        message(FATAL_ERROR "TOLK_FUZZ needs clang (libFuzzer)")
    endif()
    if(NOT TOLK_SANITIZE)
        set(TOLK_SANITIZE "address,undefined")
    endif()
    target_compile_options(tolk_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
if(TOLK_SANITIZE)
    set(sanitize -fsanitize=${TOLK_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    # clang looks for a signature before the entry of what is called through a pointer; compiled
    # kernels have none, and may stand at the beginning of a page.
    if(CMAKE_C_COMPILER_ID MATCHES "Clang" AND TOLK_SANITIZE MATCHES "undefined")
        list(APPEND sanitize -fno-sanitize=function)
    endif()
    target_compile_options(tolk_flags INTERFACE ${sanitize})
    target_link_options(tolk_flags INTERFACE ${sanitize})
else()
    # Every symbol is resolved when it is linked (sanitizer run-times come in at the program).
    add_link_options($<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,SHARED_LIBRARY>:-Wl,-z,defs>)
endif()
# A library that no object needs (LLVM in a test of the base layer) is not loaded.
target_link_options(tolk_flags INTERFACE -Wl,--as-needed)
