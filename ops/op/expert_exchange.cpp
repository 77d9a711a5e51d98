#include <algorithm>
#include <array>
#include <cmath>

#include "ops/facts/facts.hpp"
#include "ops/op/counting.hpp"
#include "ops/shape/collective.hpp"

namespace plumbline {
namespace {

using namespace counting;

constexpr auto kExchangeNames =
    std::to_array<OperatorName>({{"moe_dispatch", static_cast<int>(ExpertExchangeKind::dispatch), false, Pattern::none},
                                 {"moe_combine", static_cast<int>(ExpertExchangeKind::combine), false, Pattern::none}});
static_assert(in_order(kExchangeNames));

constexpr auto kExchangeKeys =
    std::to_array<Key>({key<&ExpertExchange::tokens>("tokens"), key<&ExpertExchange::cols>("cols"),
                        key<&ExpertExchange::topk>("topk"), key<&ExpertExchange::experts>("experts"),
                        key<&ExpertExchange::gpus>("gpus"), optional_count<&ExpertExchange::sms>("sms"),
                        optional_count<&ExpertExchange::nodes>("nodes"), optional_key<&ExpertExchange::skew>("skew")});

constexpr auto kExchangeRelations = std::to_array<Relation<ExpertExchange>>(
    {{"key 'topk': expected at most experts", [](const ExpertExchange& s) { return s.topk <= s.experts; },
      [](ExpertExchange& s) { s.topk = s.experts; }},
     {"key 'gpus': expected at most experts", [](const ExpertExchange& s) { return s.gpus <= s.experts; },
      [](ExpertExchange& s) { s.gpus = s.experts; }}});

/// What has to cross the links is one copy of a token for each other rank that has one of its experts, whichever kernels
/// send more. Each copy is written on arrival, and read again on its way back.
Work exchange_work(const ExpertExchange& s) {
  const double n = d(s.gpus), copies = d(s.tokens) * groups_reached(d(s.experts), d(s.topk), n);
  const double busiest = 1 + s.skew / 100;
  const Bytes tokens = storage(s.dtype, d(s.tokens) * d(s.cols)), moved = storage(s.dtype, copies * d(s.cols));
  const bool back = s.kind == ExpertExchangeKind::combine;
  Work w;
  w.math = s.dtype;
  w.read = back ? busiest * moved : tokens;
  w.write = back ? tokens : busiest * moved;
  w.link = (n - 1) / n * busiest * moved;
  if (back) w.fp32 = flop(copies * d(s.cols));
  return w;
}

Volume exchange_volume(const ExpertExchange& s) { return {product_of({s.tokens, s.topk, s.cols}), 0}; }

/// Dispatch is undone by combine, and the other way round.
void exchange_gradient(const ExpertExchange& s, NodeRole, Gradient& out) {
  ExpertExchange back = s;
  const bool was_dispatch = s.kind == ExpertExchangeKind::dispatch;
  back.kind = was_dispatch ? ExpertExchangeKind::combine : ExpertExchangeKind::dispatch;
  out.add(GradientPart::whole, back);
}

}  // namespace

const Facts<ExpertExchange>& ExpertExchange::facts() {
  static constexpr Facts<ExpertExchange> kFacts{
      .names = kExchangeNames,
      .keys = kExchangeKeys,
      .relations = kExchangeRelations,
      .work = exchange_work,
      .volume = exchange_volume,
      .gradient = exchange_gradient,
  };
  return kFacts;
}

std::string_view name(ExpertExchangeKind kind) { return kExchangeNames[static_cast<std::size_t>(kind)].name; }

double groups_reached(double experts, double topk, double groups) {
  constexpr double kMostFactors = 64;  // of more draws than that a share of the rest tells next to nothing
  const double each = experts / groups;
  double none = 1;
  if (topk > kMostFactors) none = std::pow(1 - each / experts, topk);
  else {
    for (double drawn = 0; drawn < topk; ++drawn) none *= std::max(0.0, experts - each - drawn) / (experts - drawn);
  }
  return groups * (1 - none);
}

double ranks_reached(const ExpertExchange& s, double per_node) {
  const double experts = d(s.experts), ranks = d(s.gpus), nodes = std::max(1.0, ranks / per_node);
  const double allowed = s.nodes > 0 ? std::min(d(s.nodes), nodes) : nodes;
  return groups_reached(experts * allowed / nodes, std::min(d(s.topk), experts * allowed / nodes),
                        ranks * allowed / nodes);
}

Bytes row_bytes(const ExpertExchange& s) {
  constexpr double kScaledTogether = 128;
  const double scales = bits(s.dtype) <= 8 ? std::ceil(d(s.cols) / kScaledTogether) : 0;
  return storage(s.dtype, d(s.cols)) + byte(kFloatBytes * scales);
}

}  // namespace plumbline
