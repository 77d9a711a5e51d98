// What an operator must do whatever the machine: exact FLOPs by unit, and the bytes no kernel can avoid.
//
// What counts is fixed here, so that a count by hand or by machine agrees to the unit:
//
// * tensor: the multiplies and adds of matrix products; a multiply-add is 2.
// * fp32: every other add, subtract, multiply, maximum and comparison on floating-point values is 1, whatever their
//   type. Negation, absolute value, selection, conversion, address and integer arithmetic are 0. Constants that follow
//   from the shape (1/cols, 1/sqrt(D)) cost nothing to make. A value used twice is computed once.
// * sfu: one each for exp, reciprocal, rsqrt, sqrt, sin, cos, tanh, erf. Not FLOPs.
// * A reduction of n values is n operations (it starts from the identity), as a dot product of K is 2K.
// * read/write: each element of each tensor once, in its storage type; what the operator itself produced is not read
//   back. Indices, positions and routing ids are int32; scales that belong to a type are in `storage`.
//   Lengths and other scalars ride in the launch arguments and count 0.
// Bytes: docs/sources.md: streams (norm 2 N es, +residual 4 N es; SwiGLU 3 N es; scan 2 N es;
// SpMV nnz (val + 4) + 4 (rows + 1) + out + x; decode 2 B S Hkv D es).
#pragma once

#include "arch/units.hpp"
#include "ops/shape/shapes.hpp"

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

/// The formula stands in the operator's own file (ops/op/<operator>.cpp). Exact in doubles (to 2^53).
Work work(const Op& op);

/// Query-key pairs that are not masked, summed over one head of one sequence:
/// sum over i in [0, S) of min(Skv - S + i + 1, window) when causal, S * min(Skv, window) otherwise.
double visible_pairs(const AttentionPrefill& shape);

/// Keys of one sequence that at least one query sees: all of them, or under a window the last `window` (without a
/// causal mask) or those from the first query's window on (with one).
double visible_keys(const AttentionPrefill& shape);

/// Expected number of experts that at least one of T tokens is routed to, uniform routing:
/// E (1 - (1 - k/E)^T). (docs/sources.md: models.)
double experts_touched(double experts, double topk, double tokens);

}  // namespace plumbline
