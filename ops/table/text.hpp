// Operators as text: `gemm` + dtype + "M=4096,N=4096,K=4096" <-> Op. Used by the command line, the ops CSV and reports.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ops/shape/shapes.hpp"

namespace plumbline {

struct Key;
struct Operator;

/// Reads a shape: `key=value` pairs joined by ';' or ','. Keys are the contract's, any order, each once, whole numbers
/// > 0 (flags 0/1, window/page >= 0, skew a number 0-100). Dims are bounded (each <= 2^40, tensors < 2^62 bytes,
/// multiply-adds < 2^62). Attention: `D` sets both widths, optional `Dv`. Types that a dtype's name does not give are
/// optional keys too: `kv=fp8` (attention), `in=`, `weight=`, `out=`, `math=` (matrix products), `out=` (row-wise).
/// Empty dtype = bf16. Throws BadInput naming the key and the nearest one. Does not allocate on the good path.
/// `quantize` with `scaling=tensor|token|block` is `quantize_dynamic` with `block=0|1|128`.
Op parse_op(std::string_view op, std::string_view dtype, std::string_view shape);

/// The same of an operator that was made in code: throws BadInput for a value that parse_op does not read.
void check(const Op& op);
/// The same of an operator whose other keys are as its kind makes them or were checked: of one key alone, and of what must hold
/// between keys.
void check_key(const Op& op, const Key& key);
void check_relations(const Op& op);
/// What is wrong with a shape whose sizes no int64 arithmetic holds; null: nothing.
const char* too_large(const Op& op);

/// "M=4096;N=4096;K=4096", the canonical text that parse_op reads back.
std::string shape_text(const Op& op);
/// "bf16", "fp8", ...; what parse_op's dtype reads ("" for transfers, which have none).
std::string_view dtype_text(const Op& op);

/// All operator names, the contract's first, and one usage line each ("M,N,K [batch,...]").
const std::vector<std::string>& op_names();
std::string_view op_usage(std::string_view op);
/// Whether the operator's text may have that key.
bool takes_key(const Operator& spec, std::string_view key);
/// True for the operators beside the contract's table, that models are lowered to ("quantize", "recurrence", ...).
bool op_is_ours(std::string_view op);

}  // namespace plumbline
