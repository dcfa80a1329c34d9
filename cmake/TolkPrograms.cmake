# SPDX-License-Identifier: MIT
#
# Programs over the public API: the tool, small separate tools, examples, benchmarks. All see
# include/ only.
pkg_check_modules(PNG IMPORTED_TARGET libpng)

# What `build.sh demo` needs, and all that is installed.
add_custom_target(programs DEPENDS tolk tolk_static)

function(tolk_program name)
    add_executable(${name} ${ARGN})
    target_link_libraries(${name} PRIVATE tolk_flags tolk m)
endfunction()

file(GLOB tool_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tools/*.c)
file(GLOB standalone_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tools/standalone_*.c)
list(REMOVE_ITEM tool_sources ${standalone_sources})
set(tool_main ${PROJECT_SOURCE_DIR}/tools/main.c)
list(REMOVE_ITEM tool_sources ${tool_main})

# All of the tool but main(), so that tests can link its parts.
if(tool_sources)
    add_library(tolk_tool STATIC ${tool_sources})
    target_include_directories(tolk_tool PRIVATE ${PROJECT_SOURCE_DIR}/include)
    target_link_libraries(tolk_tool PRIVATE tolk_flags Threads::Threads)
    # Line editing at the prompt; without libedit lines are read as they come.
    pkg_check_modules(EDIT IMPORTED_TARGET libedit)
    if(EDIT_FOUND)
        target_compile_definitions(tolk_tool PRIVATE TOLK_HAVE_EDIT)
        target_link_libraries(tolk_tool PUBLIC PkgConfig::EDIT)
    endif()
    if(EXISTS ${tool_main})
        add_executable(tolk-jit ${tool_main})
        target_link_libraries(tolk-jit PRIVATE tolk_flags tolk_tool tolk m Threads::Threads
                                               ${CMAKE_DL_LIBS})
        add_dependencies(programs tolk-jit)
    endif()
endif()

# tools/standalone_NAME.c -> build/tools/NAME. They may look inside the library (a sweep of an
# internal function does), so they link the static library.
foreach(source IN LISTS standalone_sources)
    string(REGEX REPLACE "^.*/standalone_(.*)\\.c$" "\\1" name ${source})
    add_executable(standalone_${name} ${source})
    set_target_properties(standalone_${name} PROPERTIES OUTPUT_NAME ${name}
                          RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tools)
    target_include_directories(standalone_${name} PRIVATE ${PROJECT_SOURCE_DIR}/src
                                                          ${PROJECT_SOURCE_DIR}/include)
    target_link_libraries(standalone_${name} PRIVATE tolk_flags tolk_static tolk_deps)
endforeach()

# examples/NAME.c -> build/examples/NAME; those that write pictures need libpng.
if(TOLK_EXAMPLES)
    file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/examples/*.c)
    foreach(source IN LISTS sources)
        cmake_path(GET source STEM name)
        file(STRINGS ${source} wants_png REGEX "#include <png.h>")
        if(wants_png AND NOT PNG_FOUND)
            message(STATUS "example ${name}: left out, libpng not found")
            continue()
        endif()
        tolk_program(example_${name} ${source})
        set_target_properties(example_${name} PROPERTIES OUTPUT_NAME ${name}
                              RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/examples)
        if(wants_png)
            target_link_libraries(example_${name} PRIVATE PkgConfig::PNG)
        endif()
        add_dependencies(programs example_${name})
    endforeach()
endif()

# bench/NAME.c -> build/bench/NAME. A peer that is here is measured beside (TOLK_HAVE_SLEEF), files
# named llvm_* see LLVM's C API. They run on this machine only: -march=native.
if(TOLK_BENCH)
    find_library(TOLK_SLEEF_LIBRARY sleef)
    find_library(TOLK_MVEC_LIBRARY mvec)
    file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/bench/*.c)
    foreach(source IN LISTS sources)
        cmake_path(GET source STEM name)
        tolk_program(bench_${name} ${source})
        set_target_properties(bench_${name} PROPERTIES OUTPUT_NAME ${name}
                              RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bench)
        target_compile_options(bench_${name} PRIVATE -O3 -march=native)
        target_link_libraries(bench_${name} PRIVATE tolk_dep_omp_flags ${TOLK_OMP_LIBRARY}
                                                    ${CMAKE_DL_LIBS} Threads::Threads)
        if(TOLK_SLEEF_LIBRARY)
            target_compile_definitions(bench_${name} PRIVATE TOLK_HAVE_SLEEF)
            target_link_libraries(bench_${name} PRIVATE ${TOLK_SLEEF_LIBRARY})
        endif()
        if(TOLK_MVEC_LIBRARY)
            target_compile_definitions(bench_${name} PRIVATE TOLK_HAVE_MVEC)
            target_link_libraries(bench_${name} PRIVATE ${TOLK_MVEC_LIBRARY})
        endif()
        if(name MATCHES "^llvm_")
            target_link_libraries(bench_${name} PRIVATE tolk_dep_llvm_headers ${TOLK_LLVM_LIBRARY})
        endif()
    endforeach()
endif()
