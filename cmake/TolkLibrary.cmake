# SPDX-License-Identifier: MIT
#
# One OBJECT library per layer, then libtolk, shared and static, of all of them.
#
#   tolk_base <- tolk_ir <- tolk_jit <- tolk_cpu, tolk_realize;  tolk_ir <- tolk_schedule <- tolk_realize;
#   tolk_llvm, tolk_llvm_orc: every llvm_*.c;  tolk_top: src/tolk.c
#
# libtolk.so opens tolk_llvm as a library of its own, libtolk-llvm.so, which holds what it needs of the
# lower layers itself: they have no variables. The static library holds everything.
#
# tolk_upto_<layer> is an archive of that layer and those below it. Tests of the lower layers link it,
# so that a call upwards does not even link.

function(tolk_object_library name)
    add_library(${name} OBJECT ${ARGN})
    target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src
                                               ${PROJECT_SOURCE_DIR}/include)
    target_link_libraries(${name} PRIVATE tolk_flags PkgConfig::XXHASH Threads::Threads)
endfunction()

# What has a part in generated code: base, ir and jit with their tables, what the CPU is asked for, and
# the public headers (their enum values are in keys). tk_code_hash follows these files at build time.
set(code_patterns)
foreach(folder src/base src/ir src/jit src/cpu include/tolk)
    foreach(kind c h def)
        list(APPEND code_patterns ${PROJECT_SOURCE_DIR}/${folder}/*.${kind})
    endforeach()
endforeach()
file(GLOB code_files RELATIVE ${PROJECT_SOURCE_DIR} CONFIGURE_DEPENDS ${code_patterns})
list(SORT code_files)
list(JOIN code_files "\n" code_lines)
set(code_list ${PROJECT_BINARY_DIR}/generated/code_files.txt)
file(CONFIGURE OUTPUT ${code_list} CONTENT "${code_lines}\n") # written only if it is another one
list(TRANSFORM code_files PREPEND ${PROJECT_SOURCE_DIR}/)
set(code_hash ${PROJECT_BINARY_DIR}/generated/code_hash.c)
add_custom_command(
    OUTPUT ${code_hash}
    COMMAND ${CMAKE_COMMAND} -DROOT=${PROJECT_SOURCE_DIR} -DLIST=${code_list} -DOUT=${code_hash}
            -DLLVM=${TOLK_LLVM_VERSION} -P ${CMAKE_CURRENT_LIST_DIR}/TolkCodeHash.cmake
    DEPENDS ${code_files} ${code_list} ${CMAKE_CURRENT_LIST_DIR}/TolkCodeHash.cmake
    COMMENT "Hashing the sources that shape generated code"
    VERBATIM)
add_custom_target(tolk_code_hash DEPENDS ${code_hash})

file(GLOB llvm_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/*/llvm_*.c)
set(module_open ${PROJECT_SOURCE_DIR}/src/jit/module_open.c)
set(module_linked ${PROJECT_SOURCE_DIR}/src/jit/module_linked.c)
set(llvm_opening ${PROJECT_SOURCE_DIR}/src/jit/llvm_opening.c)
set(llvm_orc ${PROJECT_SOURCE_DIR}/src/jit/llvm_orc.c)
list(REMOVE_ITEM llvm_sources ${llvm_opening} ${llvm_orc})
set(tolk_objects)
set(tolk_layers base ir jit cpu)
foreach(layer IN LISTS tolk_layers)
    file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${layer}/*.c)
    list(REMOVE_ITEM sources ${llvm_sources} ${llvm_orc} ${llvm_opening} ${module_open} ${module_linked})
    if(layer STREQUAL "jit")
        list(APPEND sources ${code_hash})
    endif()
    if(sources)
        tolk_object_library(tolk_${layer} ${sources})
        list(APPEND tolk_objects $<TARGET_OBJECTS:tolk_${layer}>)
    endif()
    if(layer STREQUAL "ir") # not a part of generated code
        file(GLOB schedule_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/schedule/*.c)
        tolk_object_library(tolk_schedule ${schedule_sources})
        add_library(tolk_upto_schedule STATIC EXCLUDE_FROM_ALL ${tolk_objects}
                                              $<TARGET_OBJECTS:tolk_schedule>)
        set_target_properties(tolk_upto_schedule PROPERTIES LINKER_LANGUAGE C)
    endif()
    if(layer MATCHES "^(base|ir)$")
        add_library(tolk_upto_${layer} STATIC EXCLUDE_FROM_ALL ${tolk_objects})
        set_target_properties(tolk_upto_${layer} PROPERTIES LINKER_LANGUAGE C)
    endif()
endforeach()
add_dependencies(tolk_jit tolk_code_hash)
if(TARGET tolk_cpu)
    target_link_libraries(tolk_cpu PRIVATE tolk_dep_omp_flags)
endif()
tolk_object_library(tolk_llvm ${llvm_sources})
target_link_libraries(tolk_llvm PRIVATE tolk_dep_llvm_headers)
tolk_object_library(tolk_llvm_orc ${llvm_orc})
target_link_libraries(tolk_llvm_orc PRIVATE tolk_dep_llvm_headers)
tolk_object_library(tolk_module_open ${module_open})
target_compile_definitions(tolk_module_open PRIVATE TOLK_LIBDIR="${CMAKE_INSTALL_FULL_LIBDIR}")
tolk_object_library(tolk_module_linked ${module_linked})
tolk_object_library(tolk_llvm_opening ${llvm_opening})
target_link_libraries(tolk_llvm_opening PRIVATE tolk_dep_llvm_headers)

add_library(tolk_llvm_needs STATIC EXCLUDE_FROM_ALL ${tolk_objects})
set_target_properties(tolk_llvm_needs PROPERTIES LINKER_LANGUAGE C)
set(map ${PROJECT_SOURCE_DIR}/cmake/libtolk-llvm.map)
set(linker $<TARGET_OBJECTS:tolk_llvm_orc>)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
    set(linker) # src/cpu/cpu_object.c
endif()
add_library(tolk_llvm_module MODULE $<TARGET_OBJECTS:tolk_llvm> ${linker}
                                    $<TARGET_OBJECTS:tolk_llvm_opening>)
set_target_properties(tolk_llvm_module PROPERTIES LINKER_LANGUAGE C OUTPUT_NAME tolk-llvm
                                                  LINK_DEPENDS ${map})
target_link_libraries(tolk_llvm_module PRIVATE tolk_flags tolk_llvm_needs ${tolk_module_llvm}
                                               PkgConfig::XXHASH Threads::Threads ${CMAKE_DL_LIBS} m)
target_link_options(tolk_llvm_module PRIVATE -Wl,--version-script=${map} -Wl,-z,nodelete)
# src/jit/llvm_opening.c runs before the initializers of LLVM, wherever they are.
if(TOLK_LLVM_STATIC)
    target_link_options(tolk_llvm_module PRIVATE -Wl,--gc-sections)
    include(CheckLinkerFlag)
    check_linker_flag(C -Wl,-z,pack-relative-relocs TOLK_HAS_RELR)
    if(TOLK_HAS_RELR) # a few KiB to read in place of a MiB
        target_link_options(tolk_llvm_module PRIVATE -Wl,-z,pack-relative-relocs)
    endif()
else()
    target_link_options(tolk_llvm_module PRIVATE -Wl,-z,initfirst)
endif()
if(NOT TOLK_SANITIZE)
    target_link_options(tolk_llvm_module PRIVATE -Wl,-z,defs)
endif()

file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/realize/*.c)
tolk_object_library(tolk_realize ${sources})
target_include_directories(tolk_realize PRIVATE ${PROJECT_SOURCE_DIR}/third_party)
list(APPEND tolk_objects $<TARGET_OBJECTS:tolk_schedule> $<TARGET_OBJECTS:tolk_realize>)
file(GLOB top_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/*.c)
if(top_sources)
    tolk_object_library(tolk_top ${top_sources})
    list(APPEND tolk_objects $<TARGET_OBJECTS:tolk_top>)
endif()

# Shared: what programs use. The objects know nothing of each other's flags; the link needs them.
add_library(tolk SHARED ${tolk_objects} $<TARGET_OBJECTS:tolk_module_open>)
add_dependencies(tolk tolk_llvm_module)
add_library(tolk::tolk ALIAS tolk)
set_target_properties(tolk PROPERTIES LINKER_LANGUAGE C VERSION ${PROJECT_VERSION}
                                      SOVERSION ${PROJECT_VERSION_MAJOR})
target_include_directories(tolk PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                       $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(tolk PRIVATE $<BUILD_INTERFACE:tolk_flags> $<BUILD_INTERFACE:tolk_deps_core>)

set(map ${PROJECT_SOURCE_DIR}/cmake/libtolk.map)
# Its threads may be at work when a host drops it: it stays where it is.
target_link_options(tolk PRIVATE -Wl,--version-script=${map} -Wl,-z,nodelete)
set_target_properties(tolk PROPERTIES LINK_DEPENDS ${map})

add_library(tolk_static STATIC ${tolk_objects} $<TARGET_OBJECTS:tolk_llvm>
                               $<TARGET_OBJECTS:tolk_llvm_orc>
                               $<TARGET_OBJECTS:tolk_module_linked>)
add_library(tolk::tolk_static ALIAS tolk_static)
set_target_properties(tolk_static PROPERTIES LINKER_LANGUAGE C OUTPUT_NAME tolk)
target_include_directories(tolk_static PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                              $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(tolk_static INTERFACE $<BUILD_INTERFACE:tolk_deps>
                                            "$<INSTALL_INTERFACE:${tolk_deps_private_libs}>")
