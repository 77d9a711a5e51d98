// What a stack's file says of its host: times of its own, or another stack's, where nobody measured it launched one by one.
// The form stands in model/stacks/stack.hpp.
#pragma once

#include "arch/json_reader.hpp"
#include "model/stacks/stack.hpp"

namespace plumbline {

/// Of the file's "host"; nothing where it has none. Throws BadInput naming the place for a time that is none, for a stack to
/// borrow from that is not shipped or has borrowed itself, and for times beside borrowed ones.
HostTime read_host(const JsonValue& root);

}  // namespace plumbline
