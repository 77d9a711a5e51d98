# Warnings are errors in our own code; consumers of the installed package never see these flags.
add_library(plumbline_warnings INTERFACE)
target_compile_options(plumbline_warnings INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wnon-virtual-dtor -Wold-style-cast -Werror>)
