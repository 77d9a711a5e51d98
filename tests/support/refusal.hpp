// What a call refuses with: the message of the BadInput it throws, or "(accepted)".
#pragma once

#include <string>

#include "arch/error.hpp"

namespace plumbline::testing_support {

template <class Call>
std::string refusal(Call call) {
  try {
    call();
  } catch (const BadInput& e) {
    return e.what();
  }
  return "(accepted)";
}

}  // namespace plumbline::testing_support
