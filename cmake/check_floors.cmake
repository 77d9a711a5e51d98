# The picture of includes: arch <- ops <- model <- validate -> kernels -> ops. Fails, naming each line that points up.
#
#   cmake -DROOT=<checkout> -P cmake/check_floors.cmake
#
# Also: CUDA headers only in kernels/ and the device files of validate/; each third-party library only where it belongs.
cmake_minimum_required(VERSION 3.25)
if(NOT ROOT)
  get_filename_component(ROOT ${CMAKE_CURRENT_LIST_DIR}/.. ABSOLUTE)
endif()

# What each floor may include of our own, as a pattern of the path.
set(allowed_arch "arch/")
set(allowed_ops "ops/|arch/(units|error|dtype|format|files|printable|json_reader)\\.hpp")
set(allowed_model "model/|ops/|arch/")
set(allowed_kernels "kernels/|ops/(shape/shapes|table/text|plan/[a-z_]+)\\.hpp|arch/(units|dtype|error)\\.hpp")
set(allowed_validate "validate/|kernels/|model/|ops/|arch/")

# Libraries of others: which includes are theirs, and which of our files may have them.
set(libraries cuda json cli eigen)
set(header_cuda "(cuda|cupti|nvml|cublas|cudnn|cutlass|cute|nccl|curand|cooperative_groups|mma)[^/]*[./]")
set(home_cuda "^kernels/.*\\.cuh?$|^validate/(measure|probe)/(cuda|cupti|nvml)[^/]*$")
set(header_json "nlohmann/")
# The one reader, and the writers.
set(home_json "^arch/(json_reader|calibration/calibration)\\.cpp$|^model/report/gpu_page\\.cpp$|(json|trace)[^/]*\\.cpp$|^model/report/json_parts\\.hpp$")
set(header_cli "CLI/")
set(home_cli "_main\\.cpp$|^(model|validate)/cli/")
set(header_eigen "Eigen/")
set(home_eigen "^validate/")

set(wrong "")
set(lines_seen 0)
foreach(floor arch ops model kernels validate)
  file(GLOB_RECURSE files RELATIVE ${ROOT} ${ROOT}/${floor}/*.hpp ${ROOT}/${floor}/*.cpp ${ROOT}/${floor}/*.cu
       ${ROOT}/${floor}/*.cuh)
  foreach(file ${files})
    file(STRINGS ${ROOT}/${file} includes REGEX "^[ \t]*#[ \t]*include[ \t]*[<\"]")
    foreach(line ${includes})
      math(EXPR lines_seen "${lines_seen} + 1")
      string(REGEX REPLACE "^[^<\"]*[<\"]([^>\"]*).*$" "\\1" header "${line}")
      if(header MATCHES "^(arch|ops|model|kernels|validate)/")
        if(NOT header MATCHES "^(${allowed_${floor}})")
          list(APPEND wrong "${file}: \"${header}\" is above ${floor}/ or beside it")
        endif()
      elseif(file MATCHES "_probe_main\\.cpp$" AND header MATCHES "^tests/gpu/")
        # The program `probe` runs the kernels' checks.
      elseif(line MATCHES "include[ \t]*\"" AND NOT file MATCHES "\\.cuh?$")
        list(APPEND wrong "${file}: \"${header}\" is not spelled from the root")
      else()
        foreach(library ${libraries})
          if(header MATCHES "^${header_${library}}" AND NOT file MATCHES "${home_${library}}")
            list(APPEND wrong "${file}: <${header}> belongs in ${home_${library}} only")
          endif()
        endforeach()
      endif()
    endforeach()
  endforeach()
endforeach()

if(wrong)
  list(JOIN wrong "\n  " text)
  message(FATAL_ERROR "includes that point the wrong way:\n  ${text}")
elseif(lines_seen EQUAL 0)
  message(FATAL_ERROR "${ROOT}: no includes found; is this a checkout?")
endif()
message(STATUS "floors: ${lines_seen} includes, all pointing down")
