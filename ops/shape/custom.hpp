#pragma once

#include "arch/units.hpp"
#include "ops/shape/shape.hpp"

namespace plumbline {

/// An operator of one's own, as what one launch of its kernel asks of a GPU; what is left at 0 it does not ask for. Its
/// CTAs are alike. Amounts are those of the whole launch. A kernel of several launches is as many operators.
struct CustomOp {
  Flops tensor;             ///< on tensor cores, in `dtype`; a multiply-add is 2
  Flops fp32;               ///< on ordinary lanes
  double sfu = 0;           ///< exp, rsqrt, sin, ...: one each
  double instructions = 0;  ///< of warps; 0: one an operation on lanes, so that fused multiply-adds are counted twice
  /// Of `instructions` those that are executed, where the others are slots in which the schedulers wait: energy goes by
  /// these. 0: all. Without `instructions` they take no time: they pass while others are waited for.
  double executed = 0;
  Bytes smem;              ///< between shared memory and its SMs
  Bytes l2;                ///< asked of L2; at least what crosses the DRAM interface
  Bytes read, write;       ///< that cross the DRAM interface
  std::int64_t chain = 0;  ///< accesses to memory, or barriers as long, that wait for one another
  /// Instructions of a thread that wait for one another, seen once: behind them other CTAs' work hides them.
  std::int64_t dependent = 0;
  /// How it is cut. 0 CTAs: as many as the GPU holds at a time, each with an equal part.
  std::int64_t ctas = 0, threads = 256, registers = 32;
  Bytes block_smem;  ///< shared memory of a CTA
  Bytes in_flight;   ///< to DRAM, of a CTA; 0: four 16-byte vectors a thread
  DType dtype = DType::bf16;
  bool operator==(const CustomOp&) const = default;
  static const Facts<CustomOp>& facts();
};

}  // namespace plumbline
