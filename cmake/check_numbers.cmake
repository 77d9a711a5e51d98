# No number of one card is physics: in model/ and ops/ no compute capability decides anything (facts of the descriptor do:
# sm.matrix_unit, sm.async_copy, generation), and no SM count of one card stands in code. Run with -DROOT=checkout.
# Reports may print the compute capability.
cmake_minimum_required(VERSION 3.25)
if(NOT ROOT)
  get_filename_component(ROOT ${CMAKE_CURRENT_LIST_DIR}/.. ABSOLUTE)
endif()

set(wrong "")
foreach(floor model ops kernels)
  file(GLOB_RECURSE files RELATIVE ${ROOT} ${ROOT}/${floor}/*.hpp ${ROOT}/${floor}/*.cpp ${ROOT}/${floor}/*.cu
       ${ROOT}/${floor}/*.cuh)
  foreach(file ${files})
    file(STRINGS ${ROOT}/${file} lines)
    foreach(line ${lines})
      string(REGEX REPLACE "//.*$" "" code "${line}")
      # The operand lists of PTX instructions count registers, 132 among them.
      if(code MATCHES "(^|[^0-9A-Za-z_.])132([.]0*)?([^0-9A-Za-z_.]|$)" AND NOT code MATCHES "PLUMBLINE_WGMMA")
        list(APPEND wrong "${file}: the SM count of one card: ${code}")
      endif()
      if(floor STREQUAL "kernels" OR file MATCHES "^model/report/")
        continue()
      endif()
      if(code MATCHES "compute_capability|\"(8|9|10|12)\\.[0-9]*\"|\"gfx")
        list(APPEND wrong "${file}: a compute capability: ${code}")
      endif()
    endforeach()
  endforeach()
endforeach()

if(wrong)
  list(JOIN wrong "\n  " text)
  message(FATAL_ERROR "Numbers of one card in code:\n  ${text}")
endif()
message(STATUS "no number of one card in model/, ops/ and kernels/")
