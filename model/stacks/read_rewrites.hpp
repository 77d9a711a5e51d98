// The launches that a framework runs for each operator of a model's source: a file of data/launches, which stacks name
// ("launches": "transformers").
//
//   { "schema": 1, "title": "...",
//     "kernels": [ {"name": "vectorized", "op": "custom", "shape": "read=read;write=write;ctas=ceil(n/1024);threads=128",
//                   "source": "..."} ],
//     "launches": [ {"op": "rmsnorm", "launches": [
//         {"name": "square", "kernel": "vectorized", "n": "rows*cols", "read": "4*rows*cols", "write": "4*rows*cols"},
//         {"name": "mean", "op": "sum_rows", "shape": "rows=rows;cols=cols", "dtype": "fp32"} ]} ] }
//
// A kernel is an operator whose keys are expressions of `n` (elements of the result), `read` and `write` (bytes), and of
// what its "let" names before ("let": "rows=read/write;parts=ceil(rows/64)", each of those above it); a
// launch gives those as expressions of the keys of the operator that it is for, and of the step
// (ops/rewrite/rewrite.hpp). A launch may also name an operator and its keys itself, or say "same": true for the
// operator that it is for. "times" is an expression too: how often it runs, 0 for sizes that take another kernel.
// "in_call": true is a launch that the library makes in the call of its product, so that the host takes no more for it;
// "calls": 3 one that takes the host as long as three of PyTorch's operators do, "waits": true one that it waits for in
// front of what it issues next, both of an update that goes through the tensors in a loop. "nodes", "model_types",
// "activations" (what the model's source calls that of its feed-forward parts) and "phase" limit an entry; the first one that is for a node is taken. An entry without launches: the framework runs
// nothing for such a node. "before" names another file of data/launches: its kernels may be named, and its entries are
// for nodes that no entry here is for. "pass" is forward where it is not given, backward or update: a backward entry is
// for the operator of the forward pass, whose keys its expressions have, and stands for that one's whole gradient.
// "stops_early" of a file: what a layer computes again ends with what the backward pass reads (ops/rewrite/rewrite.hpp).
// "held" of a file: the families whose whole lists were held against what ran; of others a prediction says so.
// "lists" of an update: how many lists of all tensors the framework walks to launch it, which takes its host time.
#pragma once

#include <memory>
#include <string_view>

#include "arch/json_reader.hpp"
#include "ops/rewrite/rewrite.hpp"

namespace plumbline {

/// Throws BadInput naming the place for an operator, key, kernel or name of an expression that is not known, or text
/// that is no expression.
Rewrites parse_rewrites(const JsonValue& root);
/// Those that a stack's file names by `key`; null where it names none.
std::shared_ptr<const Rewrites> read_rewrites(const JsonValue& stack, std::string_view key = "launches");

}  // namespace plumbline
