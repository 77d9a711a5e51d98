// The operators that the backward pass of an operator consists of.
#pragma once

#include <array>
#include <cstdint>

#include "ops/shape/shapes.hpp"

namespace plumbline {

/// What a node of a model's graph is to its neighbours, where the operator alone does not say it and the backward pass
/// depends on it.
enum class NodeRole : std::uint8_t {
  plain,           ///< a matrix product is one with weights
  scores,          ///< matrix product of queries and keys: both operands are activations
  context,         ///< matrix product of probabilities and values
  product,         ///< element-wise product of two activations, which is lowered as an `add` (the same bytes)
  dropped,         ///< an add whose second operand's dropout is in the same kernel
  loss,            ///< fused cross entropy: the forward kernel writes the gradient
  beside_forward,  ///< exchange between replicas that can travel while the forward pass runs: weights that it will read
  beside_backward,  ///< the same of the backward pass: weights, and sums of gradients that are there
  copied_forward,   ///< copy to the host while the forward pass runs
  copied_backward,  ///< copy from the host while the backward pass runs
  beside_copies,    ///< sum of gradients that travels while others' sums are copied back to their places
  copied_back,      ///< such a copy
};

/// Which gradient a node computes; its name says so ("qkv_proj.dw").
enum class GradientPart : std::uint8_t { whole, dx, dw, db, dq, dk, dp, dv, recompute, reverse };

/// In the order in which they run.
struct Gradient {
  struct Node {
    GradientPart part = GradientPart::whole;
    Op op;
  };
  std::array<Node, 3> nodes;
  int size = 0;

  void add(GradientPart part, const Op& op) { nodes[static_cast<std::size_t>(size++)] = {part, op}; }
  const Node* begin() const { return nodes.data(); }
  const Node* end() const { return nodes.data() + size; }
};

/// Rules of each operator stand in its own file. Empty for one that has no gradient or never is in a training step;
/// throws NotModelled for row-wise kinds that no forward pass holds.
Gradient gradient_of(const Op& op, NodeRole role);

}  // namespace plumbline
