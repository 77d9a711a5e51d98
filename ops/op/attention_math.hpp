// Counts that several attention operators share.
#pragma once

#include "ops/facts/work.hpp"

namespace plumbline {

/// `pairs` visible (query, key) pairs and `rows` queries of all heads and sequences. A pair costs 2 qk for the score, 2
/// v for the value; scale, maximum, subtract, exp, sum. A query costs one reciprocal and v multiplies by it.
Work attention_math(double pairs, double rows, double qk, double v, DType type);

/// Attention over narrow inputs answers in bf16, as the quantized GEMMs do (`parse_precision`).
DType attention_output(DType type);

/// Rotation of `elements` values of `tokens` tokens: a pair (x, y) becomes (x c - y s, y c + x s), 6 a pair; the D/2
/// angles of a token (position x frequency) and their sines and cosines are computed once for all heads.
void add_rotation(Work& w, double elements, double tokens, double dim);

}  // namespace plumbline
