// Planners of everything that mostly moves data: row-wise and elementwise operators, rotary embedding, gathers, scans,
// selection, sparse matrix-vector, recurrences, copies.
#pragma once

#include "model/stacks/provider.hpp"

namespace plumbline {

/// Clocks of a CTA in which tensor units, or the lanes that stand in for them, do its share of the products.
double tensor_clk(const Work& work, double ctas, const StreamingMultiprocessor& sm);

/// One pass over the operator's compulsory bytes with its arithmetic spread over the same CTAs. `warm`: inputs and
/// outputs that fit stay in L2 (a producer has just written them).
Demand stream_demand(const Work& work, const Rates& rates, bool warm);
/// A kernel that does nothing but pass through its operands once, however many instructions that takes it: none of its
/// loads waits for another, and it has no bytes in flight of its own.
bool only_streams(const Op& op);
/// Of a demand that is cold, as one of a step: L2 holds so many of the bytes that it reads, and what it writes replaces lines
/// that something else wrote before, which go to DRAM meanwhile at whatever time its own do.
void hold_in_l2(Demand& demand, Bytes held, const Rates& rates);

/// Writes the clocks that the operator's arithmetic takes of a CTA, in equal parts of the plan's CTAs. Formats that the
/// tensor units have no path for go over ordinary lanes.
void spread_arithmetic(Demand& demand, const Work& work, const StreamingMultiprocessor& sm);

/// The same of a demand that has clocks of its own, and steps: its arithmetic beside them, its issue no less than that takes.
void add_arithmetic(Demand& demand, const Work& work, const StreamingMultiprocessor& sm);

/// What the pass needs beyond its bytes: extra L2 passes, sectors that gathers waste, barriers between passes.
Demand plan_stream(const Question& question);

/// Whether an operator is priced as a stream: neither a matrix product nor attention nor a user's own.
bool runs_as_stream(const Op& op);

/// One launch, as the planner has it. Not of what leaves the GPU: collectives and transfers but d2d.
using StreamPlanner = Demand (*)(const Question&, const FamilyScalars&);
bool answer_stream(const Question& question, const FamilyScalars& family, StreamPlanner planner, Answer& answer);
/// plan_stream() as such a planner.
Demand stream_planner(const Question& question, const FamilyScalars& family);

}  // namespace plumbline
