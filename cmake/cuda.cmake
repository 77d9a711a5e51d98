# The kernels' floor, and the measuring part of validate. The kernels' CPU references are plain C++ and always built; the
# CUDA sources, the measuring and the program `probe` where there are an nvcc and CUPTI's headers. Without them `validate`
# builds too and can't measure. libcupti, NVML and cuBLASLt are loaded when the programs run, never linked.
include(CheckLanguage)
option(PLUMBLINE_CUDA "Build the CUDA kernels (on where nvcc is found)" ON)
option(PLUMBLINE_CUDA_QUICK "Compile CUDA code quickly, to see that it compiles: slow kernels, not to be run" OFF)

file(GLOB_RECURSE cuda_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/kernels/*.cu)
if(PLUMBLINE_CUDA AND cuda_sources)
  find_program(PLUMBLINE_NVCC nvcc HINTS ENV CUDA_PATH PATHS /usr/local/cuda/bin)
  if(PLUMBLINE_NVCC AND NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
    set(CMAKE_CUDA_COMPILER ${PLUMBLINE_NVCC})
  endif()
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    set(CMAKE_CUDA_ARCHITECTURES OFF)  # the options below name the one we build for
    enable_language(CUDA)
    if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know that nvcc 12 and newer speak it
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
    endif()
    # nvcc's -O is for the host's code alone, which takes a third less time so; the card's code stays as it is.
    if(PLUMBLINE_CUDA_QUICK)
      string(REPLACE "-O3" "-O1" CMAKE_CUDA_FLAGS_RELEASE "${CMAKE_CUDA_FLAGS_RELEASE}")
    endif()
  endif()
endif()

# The target compiles these of its CUDA sources quickly, those of a folder as one: most of such a file's time goes to
# CUDA's headers. Alone are those that have names in common with their neighbours. Builds whose kernels run compile each alone.
function(plumbline_quick target)
  set(alone probes/epilogue probes/instructions rows/rowwise rows/topk training/update gpu/check_decode gpu/check_flash
      gpu/check_gemm)
  foreach(source ${ARGN})
    cmake_path(GET source PARENT_PATH room)
    cmake_path(GET room FILENAME name)
    cmake_path(GET source STEM stem)
    set(quick ${source})
    if(NOT "${name}/${stem}" IN_LIST alone)
      set(quick ${CMAKE_BINARY_DIR}/quick/${name}.cu)
      string(APPEND room_${name} "#include \"${source}\"\n")
      list(APPEND rooms ${name})
      list(APPEND within ${source})
    endif()
    list(APPEND compiled ${quick})
  endforeach()
  list(REMOVE_DUPLICATES rooms)
  foreach(name ${rooms})
    file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/quick/${name}.cu CONTENT "${room_${name}}")
  endforeach()
  list(REMOVE_DUPLICATES compiled)
  get_target_property(sources ${target} SOURCES)
  list(REMOVE_ITEM sources ${within})
  list(APPEND sources ${compiled})
  list(REMOVE_DUPLICATES sources)
  set_property(TARGET ${target} PROPERTY SOURCES ${sources})
  set_property(SOURCE ${compiled} APPEND PROPERTY COMPILE_OPTIONS "--Ofast-compile=max")
endfunction()

plumbline_floor(kernels ops arch)
if(CMAKE_CUDA_COMPILER_LOADED)
  list(FILTER cuda_sources EXCLUDE REGEX "_main\\.cu$")
  target_sources(kernels PRIVATE ${cuda_sources})
  # Kernels that need nothing newer than sm_80 are built for it too, with code that later cards translate themselves.
  # The others (wgmma, TMA, clusters, programmatic launches) stay with sm_90a, as does what only measures.
  set(portable_kernels attention/flash_portable chain/attention_chain chain/attention_chain_flat gemm/gemm_portable probes/bandwidth
      probes/latency probes/launch rows/flat rows/moves rows/scan rows/transpose)
  if(PLUMBLINE_CUDA_QUICK)
    set(portable_kernels chain/attention_chain_flat rows/flat rows/moves rows/scan)
  endif()
  list(TRANSFORM portable_kernels REPLACE "(.+)" "${CMAKE_CURRENT_SOURCE_DIR}/kernels/\\1.cu")
  set_source_files_properties(${portable_kernels} PROPERTIES COMPILE_OPTIONS
    "-gencode=arch=compute_80,code=sm_80;-gencode=arch=compute_80,code=compute_80")
  # Code that is not compressed can be read by tools/kernel_resources.py.
  file(GLOB counted_kernels CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/kernels/rows/*.cu
       ${CMAKE_CURRENT_SOURCE_DIR}/kernels/chain/*.cu)
  set_property(SOURCE ${counted_kernels} APPEND PROPERTY COMPILE_OPTIONS "--no-compress")
  # The real code of these takes two minutes of a processor; where it is not compiled, the test `kernel_resources` asks whether
  # their sources are still those that it was read from.
  if(PLUMBLINE_CUDA_QUICK AND CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
    list(REMOVE_ITEM cuda_sources ${portable_kernels})
    plumbline_quick(kernels ${cuda_sources})
  endif()
  set(cuda_targets kernels)
  find_path(PLUMBLINE_CUPTI_INCLUDE cupti.h HINTS ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES}
            PATHS /usr/local/cuda/extras/CUPTI/include)
endif()
target_link_libraries(kernels PUBLIC ${CMAKE_DL_LIBS})

if(PLUMBLINE_VALIDATE)
  if(CMAKE_CUDA_COMPILER_LOADED AND PLUMBLINE_CUPTI_INCLUDE)
    file(GLOB device_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/validate/measure/cuda_*.cpp
         ${CMAKE_CURRENT_SOURCE_DIR}/validate/probe/cuda_*.cpp
         ${CMAKE_CURRENT_SOURCE_DIR}/validate/measure/cupti_activity.cpp)
    list(FILTER device_sources EXCLUDE REGEX "(_main|_absent)\\.cpp$")
    add_library(validate_device STATIC ${device_sources})
    plumbline_rooms(validate_device ${device_sources})
    target_include_directories(validate_device SYSTEM PUBLIC ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES}
                                                             ${PLUMBLINE_CUPTI_INCLUDE})
    # The kernels against their references (tests/gpu), in a program that also runs the machine's probes.
    file(GLOB kernel_checks CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/tests/gpu/*.cu)
    add_executable(probe validate/probe/cuda_probe_main.cpp ${kernel_checks})
    target_include_directories(probe PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
    # libstdc++ inside: the program is carried to machines with an older one.
    target_link_options(probe PRIVATE -static-libstdc++ -static-libgcc)
    target_link_libraries(probe PRIVATE validate_device plumbline_warnings)
    if(PLUMBLINE_CUDA_QUICK AND CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
      plumbline_quick(probe ${kernel_checks})
    endif()
    list(APPEND cuda_targets validate_device probe validate-cli)
  else()
    add_library(validate_device STATIC validate/measure/cuda_measurer_absent.cpp validate/probe/cuda_links_absent.cpp)
  endif()
  target_link_libraries(validate_device PUBLIC validate kernels PRIVATE plumbline_warnings)
  target_link_libraries(validate-cli PRIVATE validate_device)
endif()
foreach(target ${cuda_targets})
  set_target_properties(${target} PROPERTIES CUDA_RUNTIME_LIBRARY Static)
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-gencode=arch=compute_90a,code=sm_90a
                                                                      -Xcompiler=-Wall,-Wextra>)
endforeach()

# The references are tested anywhere; the kernels against them where there is a card (exit code 4: there is none).
if(PLUMBLINE_TESTS)
  find_package(GTest REQUIRED)
  add_executable(kernels_tests tests/gpu/reference_test.cpp tests/gpu/reference_chain_test.cpp
                 tests/gpu/runner_layout_test.cpp tests/gpu/nccl_group_test.cpp)
  target_link_libraries(kernels_tests PRIVATE kernels GTest::gtest GTest::gmock GTest::gtest_main plumbline_warnings)
  timed_test(120 NAME kernels COMMAND kernels_tests)
  # Registers, shared memory and code on file are those of the kernels as built (exit code 4: by another compiler).
  find_package(Python3 COMPONENTS Interpreter)
  if(CMAKE_CUDA_COMPILER_LOADED AND Python3_FOUND)
    set(compared --check $<TARGET_FILE:kernels>)
    if(PLUMBLINE_CUDA_QUICK)
      set(compared --check-sources)
    endif()
    timed_test(60 NAME kernel_resources COMMAND Python3::Interpreter
               ${CMAKE_CURRENT_SOURCE_DIR}/tools/kernel_resources.py ${compared})
    set_tests_properties(kernel_resources PROPERTIES SKIP_RETURN_CODE 4)
  endif()
  if(TARGET probe)
    timed_test(300 NAME gpu_checks COMMAND probe --check)
    set_tests_properties(gpu_checks PROPERTIES LABELS gpu SKIP_RETURN_CODE 4)
  endif()
endif()
