// Where the tests' own files and the programs under test lie. One source is compiled with these folders, so that every
// other one compiles to the same object in any checkout.
#pragma once

#include <string>

namespace plumbline::testing_support {

std::string tests_folder();
std::string programs_folder();

}  // namespace plumbline::testing_support
