// A launch whose operands may lie in L2.
#pragma once

#include "model/stacks/provider.hpp"

namespace plumbline {

/// Adds the launch as its operands are found: `cold`, or, where all of them were touched just before and fit in L2,
/// without DRAM traffic. `latency`: what a step's loads take then / from DRAM; the chain of a step that has its operands
/// stays.
void launch_as_found(Answer& answer, const Question& question, const char* kernel, const Demand& cold,
                     const FamilyScalars& family, double latency = 1);

}  // namespace plumbline
