# A toolchain of CMake whose programs hold the code of all instruction sets:
#
#   cmake -S . -B build -DCMAKE_TOOLCHAIN_FILE="$(motet cc --print-cmake-toolchain)"
#
# Programs run on this computer, too, so this is no cross build: CMake tries what it has compiled.

get_filename_component(motet_bin "${CMAKE_CURRENT_LIST_DIR}/../bin" ABSOLUTE)
set(CMAKE_C_COMPILER "${motet_bin}/motet-cc")
set(CMAKE_CXX_COMPILER "${motet_bin}/motet-c++")
set(CMAKE_ASM_COMPILER "${motet_bin}/motet-cc")
set(CMAKE_AR "${motet_bin}/motet-ar" CACHE FILEPATH "Archiver")
set(CMAKE_RANLIB "${motet_bin}/motet-ranlib" CACHE FILEPATH "Writer of archives' tables")

# There are no shared libraries: CMake makes static ones where a project asks for them, and says so.
set(BUILD_SHARED_LIBS OFF CACHE BOOL "There are no shared libraries")
set(CMAKE_USER_MAKE_RULES_OVERRIDE "${CMAKE_CURRENT_LIST_DIR}/motet-rules.cmake")

# This computer's libraries hold one instruction set. CMAKE_FIND_ROOT_PATH names folders with libraries of `motet cc`.
if(NOT CMAKE_FIND_ROOT_PATH)
  set(CMAKE_FIND_ROOT_PATH "${CMAKE_CURRENT_LIST_DIR}")
endif()
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
