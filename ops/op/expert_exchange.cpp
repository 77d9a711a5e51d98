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

constexpr auto kExchangeKeys = std::to_array<Key>(
    {key<&ExpertExchange::tokens>("tokens"), key<&ExpertExchange::cols>("cols"), key<&ExpertExchange::topk>("topk"),
     key<&ExpertExchange::experts>("experts"), key<&ExpertExchange::gpus>("gpus"),
     optional_count<&ExpertExchange::sms>("sms"), optional_count<&ExpertExchange::nodes>("nodes"),
     optional_count<&ExpertExchange::groups>("groups"), optional_count<&ExpertExchange::top_groups>("top_groups"),
     optional_key<&ExpertExchange::skew>("skew")});

/// Groups are drawn one by one; DeepSeek has 8.
constexpr std::int64_t kMostGroups = 1024;
constexpr auto kExchangeRelations = std::to_array<Relation<ExpertExchange>>(
    {{"key 'topk': expected at most experts", [](const ExpertExchange& s) { return s.topk <= s.experts; },
      [](ExpertExchange& s) { s.topk = s.experts; }},
     {"key 'gpus': expected at most experts", [](const ExpertExchange& s) { return s.gpus <= s.experts; },
      [](ExpertExchange& s) { s.gpus = s.experts; }},
     {"key 'groups': expected at most experts", [](const ExpertExchange& s) { return s.groups <= s.experts; },
      [](ExpertExchange& s) { s.groups = s.experts; }},
     {"key 'groups': expected at most 1024", [](const ExpertExchange& s) { return s.groups <= kMostGroups; },
      [](ExpertExchange& s) { s.groups = kMostGroups; }},
     {"key 'top_groups': expected 1 to groups, where there are groups",
      [](const ExpertExchange& s) { return s.top_groups <= s.groups && (s.groups == 0) == (s.top_groups == 0); },
      [](ExpertExchange& s) { s.top_groups = s.groups; }},
     {"key 'top_groups': expected as many as hold topk experts",
      [](const ExpertExchange& s) { return s.groups == 0 || s.topk * s.groups <= s.experts * s.top_groups; },
      [](ExpertExchange& s) { s.top_groups = s.groups; }},
     {"key 'nodes': expected none beside groups", [](const ExpertExchange& s) { return s.nodes == 0 || s.groups == 0; },
      [](ExpertExchange& s) { s.nodes = 0; }}});

/// Share of draws without putting back, `drawn` of `all`, that take none of `marked`.
double none_of(double marked, double drawn, double all) {
  constexpr double kMostFactors = 64;  // of more draws than that a share of the rest tells next to nothing
  if (drawn > kMostFactors) return std::pow(1 - marked / all, drawn);
  double none = 1;
  for (double i = 0; i < drawn; ++i) none *= std::max(0.0, all - marked - i) / (all - i);
  return none;
}

/// Share of tokens that go to a place with `held` whole groups: over how many of those are among the token's, what share of
/// them has one of its experts there. Draws of groups: hypergeometric, each weight from the one before it.
double reaches(const ExpertExchange& s, std::int64_t held) {
  const double each = d(s.experts) / d(s.groups), among = each * d(s.top_groups);
  const std::int64_t least = std::max<std::int64_t>(0, s.top_groups - (s.groups - held));
  const std::int64_t most = std::min(s.top_groups, held);
  constexpr double kLarge = 1e100;
  double weight = 1, all = 0, found = 0;
  for (std::int64_t drawn = least; drawn <= most; ++drawn) {
    all += weight;
    found += weight * (1 - none_of(each * d(drawn), d(s.topk), among));
    weight *=
        d(held - drawn) * d(s.top_groups - drawn) / (d(drawn + 1) * d(s.groups - held - s.top_groups + drawn + 1));
    if (weight > kLarge) {  // only their ratios count
      all /= weight;
      found /= weight;
      weight = 1;
    }
  }
  return found / all;
}

/// What has to cross the links is one copy of a token for each other rank that has one of its experts, whichever kernels
/// send more. Each copy is written on arrival, and read again on its way back.
Work exchange_work(const ExpertExchange& s) {
  const double n = d(s.gpus), copies = d(s.tokens) * places_reached(s, n);
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
  return groups * (1 - none_of(experts / groups, topk, experts));
}

double places_reached(const ExpertExchange& s, double places) {
  if (s.groups == s.top_groups) return groups_reached(d(s.experts), d(s.topk), places);
  const double share = d(s.top_groups) / d(s.groups), held = d(s.groups) / places;
  if (held <= 1) return groups_reached(d(s.experts) * share, d(s.topk), places * share);
  const double whole = std::floor(held);
  const double fewer = reaches(s, static_cast<std::int64_t>(whole));
  if (held == whole) return places * fewer;
  return places * (fewer + (held - whole) * (reaches(s, static_cast<std::int64_t>(whole) + 1) - fewer));
}

double ranks_reached(const ExpertExchange& s, double per_node) {
  if (s.nodes == 0) return places_reached(s, d(s.gpus));
  const double experts = d(s.experts), ranks = d(s.gpus), nodes = std::max(1.0, ranks / per_node);
  const double allowed = std::min(d(s.nodes), nodes);
  return groups_reached(experts * allowed / nodes, std::min(d(s.topk), experts * allowed / nodes),
                        ranks * allowed / nodes);
}

Bytes row_bytes(const ExpertExchange& s) {
  constexpr double kScaledTogether = 128;
  const double scales = bits(s.dtype) <= 8 ? std::ceil(d(s.cols) / kScaledTogether) : 0;
  return storage(s.dtype, d(s.cols)) + byte(kFloatBytes * scales);
}

}  // namespace plumbline
