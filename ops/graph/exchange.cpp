#include "ops/graph/exchange.hpp"

#include <variant>

namespace plumbline {

bool is_tensor_exchange(const Node& node) {
  const auto* c = std::get_if<Collective>(&node.op);
  return c != nullptr && node.pass != Pass::update && node.role == NodeRole::plain &&
         (c->kind == CollectiveKind::all_gather || c->kind == CollectiveKind::reduce_scatter);
}

bool stands_before_its_product(const Node& exchange) {
  const bool gathers = std::get<Collective>(exchange.op).kind == CollectiveKind::all_gather;
  const bool gradient = exchange.pass == Pass::backward && exchange.of >= 0 && !exchange.again;
  return gathers != gradient;
}

}  // namespace plumbline
