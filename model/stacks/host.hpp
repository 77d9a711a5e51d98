// The host of one machine: how fast it launches a framework's steps one by one. A stack's own times are of the host that they
// were found on; hosts differ by a factor of four, and rented ones change by a factor of two within minutes. So a machine's
// host is measured there, by a step of a model that is too narrow for the GPU to matter, and the stack's times go with what a
// launch of that step takes. A small file, which `tools/measure_host.py` writes:
//
//   { "schema": 1, "name": "node-7", "narrow_launch": "25.2 us", "source": "..." }
#pragma once

#include <string>

#include "arch/units.hpp"
#include "model/stacks/stack.hpp"

namespace plumbline {

struct MeasuredHost {
  Seconds narrow_launch;
  std::string whose;
};

/// Of a file as above. Throws BadInput naming the place.
MeasuredHost parse_host(const std::string& json_text, const std::string& place);
/// Of --host 25.2us. Throws BadInput for what is no time above 0.
MeasuredHost host_of_time(const std::string& text);

/// `stack` on that host. Throws BadInput for a stack beside which nobody measured the narrow step.
Stack on_host(const Stack& stack, const MeasuredHost& host);

}  // namespace plumbline
