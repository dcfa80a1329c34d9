# SPDX-License-Identifier: MIT
#
# One OBJECT library per layer, then libtolk, shared and static, of all of them.
#
#   tolk_base <- tolk_ir <- tolk_jit <- tolk_cpu;  tolk_llvm: every llvm_*.c;  tolk_top: src/tolk.c
#
# tolk_upto_<layer> is an archive of that layer and those below it. Tests of the lower layers link it,
# so that a call upwards does not even link.

function(tolk_object_library name)
    add_library(${name} OBJECT ${ARGN})
    target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src
                                               ${PROJECT_SOURCE_DIR}/include)
    target_link_libraries(${name} PRIVATE tolk_flags PkgConfig::XXHASH Threads::Threads)
endfunction()

file(GLOB llvm_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/*/llvm_*.c)
set(tolk_objects)
set(tolk_layers base ir jit cpu)
foreach(layer IN LISTS tolk_layers)
    file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${layer}/*.c)
    list(REMOVE_ITEM sources ${llvm_sources})
    if(sources)
        tolk_object_library(tolk_${layer} ${sources})
        list(APPEND tolk_objects $<TARGET_OBJECTS:tolk_${layer}>)
    endif()
    if(layer MATCHES "^(base|ir)$")
        add_library(tolk_upto_${layer} STATIC EXCLUDE_FROM_ALL ${tolk_objects})
        set_target_properties(tolk_upto_${layer} PROPERTIES LINKER_LANGUAGE C)
    endif()
endforeach()
if(TARGET tolk_cpu)
    target_link_libraries(tolk_cpu PRIVATE tolk_dep_omp_flags)
endif()
if(llvm_sources)
    tolk_object_library(tolk_llvm ${llvm_sources})
    target_link_libraries(tolk_llvm PRIVATE tolk_dep_llvm_headers)
    list(APPEND tolk_objects $<TARGET_OBJECTS:tolk_llvm>)
endif()
file(GLOB top_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/*.c)
if(top_sources)
    tolk_object_library(tolk_top ${top_sources})
    list(APPEND tolk_objects $<TARGET_OBJECTS:tolk_top>)
endif()

# Shared: what programs use. The objects know nothing of each other's flags; the link needs them.
add_library(tolk SHARED ${tolk_objects})
add_library(tolk::tolk ALIAS tolk)
set_target_properties(tolk PROPERTIES LINKER_LANGUAGE C VERSION ${PROJECT_VERSION}
                                      SOVERSION ${PROJECT_VERSION_MAJOR})
target_include_directories(tolk PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                       $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(tolk PRIVATE $<BUILD_INTERFACE:tolk_flags> $<BUILD_INTERFACE:tolk_deps>)

set(map ${PROJECT_SOURCE_DIR}/cmake/libtolk.map)
target_link_options(tolk PRIVATE -Wl,--version-script=${map})
set_target_properties(tolk PROPERTIES LINK_DEPENDS ${map})

add_library(tolk_static STATIC ${tolk_objects})
add_library(tolk::tolk_static ALIAS tolk_static)
set_target_properties(tolk_static PROPERTIES LINKER_LANGUAGE C OUTPUT_NAME tolk)
target_include_directories(tolk_static PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                              $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(tolk_static INTERFACE $<BUILD_INTERFACE:tolk_deps>
                                            "$<INSTALL_INTERFACE:${tolk_deps_private_libs}>")
