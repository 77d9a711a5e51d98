// What an operator must do whatever the machine: exact FLOPs by unit, and the bytes no kernel can avoid.
#pragma once

#include "arch/units.hpp"
#include "ops/op/shapes.hpp"

namespace plumbline {

/// FLOPs count a multiply-add as 2 and only useful work (masked-out attention pairs do not count).
struct Work {
  DType math = DType::bf16;  ///< format of the tensor FLOPs
  Flops tensor;              ///< matrix products
  Flops fp32;                ///< everything else on ordinary lanes
  double sfu = 0;            ///< special-function evaluations: exp, rsqrt, sqrt, reciprocal, sin, cos, tanh, erf
  Bytes read, write;         ///< compulsory: each input read once, each output written once
  Bytes link;                ///< bytes one rank must send (collectives, transfers)

  Flops flops() const { return tensor + fp32; }
  Bytes bytes() const { return read + write; }
};

/// Formulas and conventions: beside each case in work.cpp and in docs of shapes.hpp. Exact in doubles (to 2^53).
Work work(const Op& op);

/// Query-key pairs that are not masked, summed over one head of one sequence:
/// sum over i in [0, S) of min(Skv - S + i + 1, window) when causal, S * min(Skv, window) otherwise.
double visible_pairs(const AttentionPrefill& shape);

/// Keys of one sequence that at least one query sees: all of them, or under a window the last `window` (without a
/// causal mask) or those from the first query's window on (with one).
double visible_keys(const AttentionPrefill& shape);

/// Expected number of experts that at least one of T tokens is routed to, uniform routing:
/// E (1 - (1 - k/E)^T). (hf_config notes, section 4.)
double experts_touched(double experts, double topk, double tokens);

}  // namespace plumbline
