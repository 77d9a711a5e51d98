# timed_test(SECONDS NAME name COMMAND ...): add_test with a limit, twice as long under sanitizers; the test `limits` wants
# one of every test. A limit is many times what the test takes, so that a hang ends and a slow machine passes.
function(timed_test seconds keyword name)
  if(PLUMBLINE_SANITIZE)
    math(EXPR seconds "2 * ${seconds}")
  endif()
  add_test(${keyword} ${name} ${ARGN})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${seconds})
endfunction()
