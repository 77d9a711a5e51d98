# Installs BUILD to a fresh prefix, moves it (an installed tree must not know where it was made), then builds and runs
# PROJECT against it, and the installed predict-model. Data come from the prefix, not from the source tree.
cmake_minimum_required(VERSION 3.25)

function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    list(JOIN ARGV " " command)
    message(FATAL_ERROR "failed (${result}): ${command}\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${WORK})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/first)
file(RENAME ${WORK}/first ${WORK}/prefix)
run(${CMAKE_COMMAND} -S ${PROJECT} -B ${WORK}/build -G Ninja -DCMAKE_PREFIX_PATH=${WORK}/prefix
    -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_BUILD_TYPE=Release)
run(${CMAKE_COMMAND} --build ${WORK}/build)

# Without PLUMBLINE_DATA the program finds the package's data: a model that only they have says so.
file(RENAME ${WORK}/prefix/share/plumbline/data/models/llama-3.1-8b.json ${WORK}/prefix/share/plumbline/data/models/x.json)
execute_process(COMMAND ${CMAKE_COMMAND} -E env --unset=PLUMBLINE_DATA ${WORK}/build/consumer RESULT_VARIABLE result
                OUTPUT_QUIET ERROR_QUIET)
if(result EQUAL 0)
  message(FATAL_ERROR "the consumer read a model that the package does not have: it found other data")
endif()
file(RENAME ${WORK}/prefix/share/plumbline/data/models/x.json ${WORK}/prefix/share/plumbline/data/models/llama-3.1-8b.json)
run(${CMAKE_COMMAND} -E env --unset=PLUMBLINE_DATA ${WORK}/build/consumer)
if(NOT output MATCHES "^[0-9]+\\.[0-9]+ ms a step, [1-9][0-9]+ tokens/s\n$")
  message(FATAL_ERROR "the consumer said: ${output}")
endif()
message(STATUS "consumer: ${output}")

# The examples, as a user builds them.
run(${CMAKE_COMMAND} -S ${EXAMPLES} -B ${WORK}/examples -G Ninja -DCMAKE_PREFIX_PATH=${WORK}/prefix
    -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_BUILD_TYPE=Debug)
run(${CMAKE_COMMAND} --build ${WORK}/examples)
foreach(example predict own_gpu own_operator own_stack study sweep)
  run(${CMAKE_COMMAND} -E env PLUMBLINE_DATA=${WORK}/prefix/share/plumbline/data ${WORK}/examples/${example})
  if(NOT output MATCHES "[1-9]" OR output MATCHES "nan|inf")
    message(FATAL_ERROR "example ${example} said: ${output}")
  endif()
endforeach()

run(${CMAKE_COMMAND} -E env --unset=PLUMBLINE_DATA ${WORK}/prefix/bin/predict-model list gpus)
if(NOT output MATCHES "h200_sxm")
  message(FATAL_ERROR "the installed predict-model lists: ${output}")
endif()

# What is claimed comes out of the installed validate too.
if(EXISTS ${WORK}/prefix/bin/validate)
  run(${CMAKE_COMMAND} -E env --unset=PLUMBLINE_DATA ${WORK}/prefix/bin/validate accuracy)
  if(NOT output MATCHES "h200_sxm . gemm")
    message(FATAL_ERROR "the installed validate accuracy says: ${output}")
  endif()
endif()

# A wrong version must be refused.
execute_process(COMMAND ${CMAKE_COMMAND} -S ${PROJECT} -B ${WORK}/wrong -G Ninja -DCMAKE_PREFIX_PATH=${WORK}/prefix
                        -DCMAKE_CXX_COMPILER=${CXX} -DWANTED=9.9 RESULT_VARIABLE result OUTPUT_QUIET ERROR_VARIABLE said)
if(result EQUAL 0 OR NOT said MATCHES "9\\.9")
  message(FATAL_ERROR "find_package(plumbline 9.9) was satisfied by ${VERSION}: ${said}")
endif()
file(REMOVE_RECURSE ${WORK})
