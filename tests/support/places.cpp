#include "tests/support/places.hpp"

namespace plumbline::testing_support {

std::string tests_folder() { return PLUMBLINE_TESTS; }
std::string programs_folder() { return PLUMBLINE_BIN; }

}  // namespace plumbline::testing_support
