# Every outside library by one name, xorbit::<name> for those whose packages bring no CMake file that all distributions share.
#
# With XORBIT_STATIC (the release preset) archives are preferred over shared libraries, so that the binary also runs on a machine
# that has none of these packages, or other versions of them. Developer and sanitizer builds link whatever is there.

option(XORBIT_STATIC "link libraries other than the C library into the programs" OFF)
if(XORBIT_STATIC)
  set(OPENSSL_USE_STATIC_LIBS ON)
  add_link_options(-static-libstdc++ -static-libgcc)
endif()

find_package(Threads REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(fmt REQUIRED)  # link fmt::fmt-header-only: Debian 12 ships no archive

# xorbit_dependency(name header library): xorbit::<name>, with the header's folder and the library's file.
function(xorbit_dependency name header library)
  set(names ${library})
  if(XORBIT_STATIC)
    set(names lib${library}.a ${library})
  endif()
  find_path(XORBIT_${name}_INCLUDE_DIR ${header} REQUIRED)
  find_library(XORBIT_${name}_LIBRARY NAMES ${names} REQUIRED)
  mark_as_advanced(XORBIT_${name}_INCLUDE_DIR XORBIT_${name}_LIBRARY)
  add_library(xorbit::${name} UNKNOWN IMPORTED GLOBAL)
  set_target_properties(xorbit::${name} PROPERTIES
    IMPORTED_LOCATION ${XORBIT_${name}_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${XORBIT_${name}_INCLUDE_DIR})
endfunction()

xorbit_dependency(zstd zstd.h zstd)
xorbit_dependency(lz4 lz4.h lz4)
xorbit_dependency(snappy snappy.h snappy)
xorbit_dependency(xxhash xxhash.h xxhash)
xorbit_dependency(zlib zlib.h z)
