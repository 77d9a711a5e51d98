// What tensor ranks exchange beside products, in a graph of training.
#pragma once

#include "ops/graph/graph.hpp"

namespace plumbline {

/// A gather or a scattered sum of a pass, of tokens that tensor ranks share.
bool is_tensor_exchange(const Node& node);

/// Whether it brings what the product behind it reads: a gather does, and the gradient of a sum, which is a gather; a sum and
/// the gradient of a gather take what the product before them has made.
bool stands_before_its_product(const Node& exchange);

}  // namespace plumbline
