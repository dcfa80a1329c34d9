# SPDX-License-Identifier: MIT
#
#   cmake -DROOT=<project> -DLIST=<file> -DOUT=<file.c> -DLLVM=<version> -P TolkCodeHash.cmake
#
# Writes tk_code_hash (src/jit/code_hash.h): SHA-256 over the names and contents of the files in LIST,
# the sources that have a part in what code is made. It stands in the key of each cached kernel, so
# what another build made never answers. A comment counts as well: to compile anew costs little, old
# code costs a lot. Contents, not a commit: a tarball has none, and a working tree has changed files.
cmake_policy(VERSION 3.25)
file(STRINGS ${LIST} sources)
set(all "")
foreach(source IN LISTS sources)
    file(SHA256 ${ROOT}/${source} sum)
    string(APPEND all "${source} ${sum}\n")
endforeach()
string(SHA256 hash "${all}")
file(WRITE ${OUT} "/* SPDX-License-Identifier: MIT\n *\n * Made by cmake/TolkCodeHash.cmake. */\n"
                  "#include \"jit/code_hash.h\"\n\n"
                  "const char tk_code_hash[] = \"${hash}\";\n"
                  "const char tk_code_llvm[] = \"${LLVM}\";\n")
