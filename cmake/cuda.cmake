# CUDA where there is a compiler for it: everything else builds and is tested without, and one binary serves machines with and
# without a GPU (the runtime is linked statically; it looks for the driver when it is first called).
#
# Code for every data-centre GPU from sm_80 on, and PTX for what comes later. One architecture compiles in a fourth of the time
# (-DXORBIT_CUDA_ARCHITECTURES=90): `./x demo` and `./x test` build for this machine's GPUs alone.

set(XORBIT_CUDA AUTO CACHE STRING "the CUDA backend: AUTO (if nvcc is found), ON or OFF")
set(XORBIT_CUDA_ARCHITECTURES "80-real;90-real;100-real;103" CACHE STRING "as in CMAKE_CUDA_ARCHITECTURES")

set(XORBIT_HAS_CUDA FALSE)
if(NOT XORBIT_CUDA STREQUAL "OFF")
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    set(CMAKE_CUDA_ARCHITECTURES ${XORBIT_CUDA_ARCHITECTURES})
    # The host compiler's standard library, not that of whatever nvcc would find.
    set(CMAKE_CUDA_HOST_COMPILER ${CMAKE_CXX_COMPILER})
    enable_language(CUDA)
    find_package(CUDAToolkit REQUIRED)
    # CMake before 3.26 does not know how nvcc is told to take C++20.
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
    set(XORBIT_HAS_CUDA TRUE)
  elseif(XORBIT_CUDA STREQUAL "ON")
    message(FATAL_ERROR "XORBIT_CUDA is ON, but there is no nvcc: install the CUDA toolkit 13, or set CMAKE_CUDA_COMPILER")
  endif()
endif()

# Host code of .cu files under the house flags, as far as what nvcc generates around it allows (no -Wpedantic). Device code
# calls the constexpr functions that host code has.
set(XORBIT_CUDA_OPTIONS --expt-relaxed-constexpr --extended-lambda -Werror=all-warnings
    -Xcompiler=-Wall,-Wextra,-Wshadow,-Wconversion,-Wno-sign-conversion,-Werror)
