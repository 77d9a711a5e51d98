#include "ops/shape/moe.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "ops/facts/facts.hpp"
#include "ops/facts/precision.hpp"
#include "ops/op/counting.hpp"

namespace plumbline {
namespace {

using namespace counting;

constexpr auto kMoeNames = std::to_array<OperatorName>({{"moe", 0, true, Pattern::none}});
/// `gated=1` is `mats=3`, `gated=0` is `mats=2`; text is written with `mats`.
constexpr Key gated_key() {
  Key key;
  key.name = "gated";
  key.type = KeyType::flag;
  key.required = false;
  key.get = key.usual = [](const void* shape) { return static_cast<const Moe*>(shape)->gated() ? 1.0 : 0.0; };
  key.set = [](void* shape, double value) { static_cast<Moe*>(shape)->matrices = value > 0 ? 3 : 2; };
  return key;
}

constexpr auto kMoeKeys =
    std::to_array<Key>({key<&Moe::tokens>("T"), key<&Moe::hidden>("H"), key<&Moe::width>("I"), key<&Moe::experts>("E"),
                        key<&Moe::topk>("topk"), optional_key<&Moe::tp>("tp"), optional_key<&Moe::ep>("ep"),
                        optional_key<&Moe::matrices>("mats"), optional_count<&Moe::alpha_percent>("alpha_pct"),
                        optional_count<&Moe::leftover>("leftover"), optional_count<&Moe::routed>("routed"),
                        optional_count<&Moe::block>("block"), optional_key<&Moe::skew>("skew"), gated_key(),
                        precision_key<&Moe::precision, &Precision::input>("in"),
                        precision_key<&Moe::precision, &Precision::weight>("weight"),
                        precision_key<&Moe::precision, &Precision::output>("out"),
                        precision_key<&Moe::precision, &Precision::math>("math")});

constexpr std::int64_t kMostExperts = 4096, kSteepest = 300;

constexpr auto kMoeRelations = std::to_array<Relation<Moe>>(
    {{"key 'E': expected at most 4096", [](const Moe& s) { return s.experts <= kMostExperts; },
      [](Moe& s) { s.experts = kMostExperts; }},
     {"key 'topk': expected at most E", [](const Moe& s) { return s.topk <= s.experts; },
      [](Moe& s) { s.topk = s.experts; }},
     {"key 'ep': expected a divisor of E", [](const Moe& s) { return s.experts % s.ep == 0; },
      [](Moe& s) { s.ep = std::gcd(s.ep, s.experts); }},
     {"key 'tp': expected a divisor of I", [](const Moe& s) { return s.width % s.tp == 0; },
      [](Moe& s) { s.tp = std::gcd(s.tp, s.width); }},
     {"key 'mats': expected 2 or 3", [](const Moe& s) { return s.matrices == 2 || s.matrices == 3; },
      [](Moe& s) { s.matrices = 3; }},
     {"key 'alpha_pct': expected at most 300", [](const Moe& s) { return s.alpha_percent <= kSteepest; },
      [](Moe& s) { s.alpha_percent = kSteepest; }},
     {"key 'leftover': expected 0, 1 or 2", [](const Moe& s) { return s.leftover <= 2; },
      [](Moe& s) { s.leftover = 2; }},
     {"key 'leftover': expected 'alpha_pct' above 0 beside it",
      [](const Moe& s) { return s.leftover == 0 || s.alpha_percent > 0; }, [](Moe& s) { s.leftover = 0; }},
     {"key 'skew': expected at most 100 (E / topk - 1): no expert has more rows than there are tokens",
      [](const Moe& s) { return d(s.topk) * (1 + s.skew / 100) <= d(s.experts); }, [](Moe& s) { s.skew = 0; }},
     {"key 'skew': expected without 'alpha_pct', which says who gets how many rows too",
      [](const Moe& s) { return s.skew == 0 || s.alpha_percent == 0; }, [](Moe& s) { s.skew = 0; }},
     {"key 'routed': expected 0 or 1", [](const Moe& s) { return s.routed <= 1; }, [](Moe& s) { s.routed = 1; }},
     {"key 'block': expected 0, 32 or 128",
      [](const Moe& s) { return s.block == 0 || s.block == kMxBlock || s.block == 128; }, [](Moe& s) { s.block = 0; }},
     {"key 'block': experts whose products are not in fp8 have no scales of 32 values; expected 0",
      [](const Moe& s) { return s.block != kMxBlock || s.precision.math == DType::fp8; },
      [](Moe& s) { s.block = 0; }}});

/// Each value once: logits (or the experts chosen, an index and a weight of four bytes each), tokens that have an expert on
/// this rank, weights of the experts that have a token; the result. Of the arithmetic the products, the activation
/// (silu(gate) x up, or a squared relu) and the weighted sum of a token's rows; choosing the experts is of the router.
Work work_of(const Moe& s) {
  const ExpertRows load = expert_rows(s);
  const double rows = load.total(), hidden = d(s.hidden), width = d(s.own_width()), mats = d(s.matrices);
  const double tokens = d(s.tokens), seen = std::min(tokens, rows);
  const bool gated = s.gated();
  Work w;
  w.math = s.precision.math;
  w.tensor = flop(2 * rows * mats * hidden * width);
  w.fp32 = flop(rows * width * (gated ? 3 : 2) + 2 * rows * hidden);
  w.sfu = gated ? 2 * rows * width : 0;
  w.read = (s.routed == 0 ? storage(s.precision.output, tokens * d(s.experts))
                          : 2 * storage(DType::fp32, tokens * d(s.topk))) +
           storage(s.precision.output, seen * hidden) +
           storage(s.precision.weight, load.touched() * mats * hidden * width);
  // a byte for each 32 weights of 8 bits; those of 4 bits have theirs in their width
  if (s.block == kMxBlock && s.precision.weight == DType::fp8) {
    w.read += storage(DType::fp8, load.touched() * ((mats - 1) * width * std::ceil(hidden / kMxBlock) +
                                                    hidden * std::ceil(width / kMxBlock)));
  }
  w.write = storage(s.precision.output, tokens * hidden);
  return w;
}

Volume volume_of(const Moe& s) {
  return {std::max({product_of({s.tokens, s.topk, std::max(s.hidden, s.width)}), product_of({s.tokens, s.experts}),
                    product_of({s.experts, s.matrices, s.hidden, s.width})}),
          product_of({s.tokens, s.topk, s.matrices, s.hidden, s.width})};
}

// --- who goes where -------------------------------------------------------------------------------------------------

using Counts = std::vector<std::int64_t>;

Counts balanced(const Moe& s) {
  Counts rows(static_cast<std::size_t>(s.experts));
  const auto add = [&](std::int64_t expert) { ++rows[static_cast<std::size_t>(expert % s.experts)]; };
  const std::int64_t stride = (s.experts + s.topk - 1) / s.topk;
  for (std::int64_t i = 0; i < s.topk; ++i) {
    if (s.tokens >= stride) {
      for (std::int64_t& each : rows) each += s.tokens / s.experts;
      for (std::int64_t t = 0; t < s.tokens % s.experts; ++t) add(t + i * stride);
    } else {
      for (std::int64_t t = 0; t < s.tokens; ++t) add(t * stride / s.tokens + i * stride);
    }
  }
  rows.resize(static_cast<std::size_t>(s.experts / s.ep));
  return rows;
}

/// The same rows in all, in equal steps from (1 + skew) of their mean down to (1 - skew). What is rounded down, or is
/// more than an expert may have, is the next one's, so that none is lost.
Counts skewed(const Moe& s, Counts rows) {
  const double all = d(std::accumulate(rows.begin(), rows.end(), std::int64_t{0})), each = 1 / d(std::ssize(rows));
  double due = 0;
  std::int64_t given = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    due += all * each * (1 + s.skew / 100 * (1 - (2 * static_cast<double>(i) + 1) * each));
    constexpr double kRounding = 1e-9;  // sums that are whole but for rounding
    const bool last = i + 1 == rows.size();
    rows[i] = std::min(s.tokens, static_cast<std::int64_t>(last ? all : std::floor(due + kRounding)) - given);
    given += rows[i];
  }
  return rows;
}

/// Number i of a fixed sequence in [0, 1): splitmix64 (Steele, Lea, Flood 2014).
double drawn(std::uint64_t i) {
  std::uint64_t x = (i + 1) * 0x9E3779B97F4A7C15U;
  x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27U)) * 0x94D049BB133111EBU;
  return static_cast<double>((x ^ (x >> 31U)) >> 11U) * 0x1p-53;
}

/// Adds `rows` to those that have fewest, or takes them from those that have most, one by one.
void level(std::span<std::int64_t> of, std::int64_t rows, std::int64_t most) {
  const bool add = rows > 0;
  const auto nearer = [add](std::int64_t a, std::int64_t b) { return add ? a < b : a > b; };
  for (std::int64_t left = std::abs(rows); left > 0;) {
    const std::int64_t edge = add ? *std::min_element(of.begin(), of.end()) : *std::max_element(of.begin(), of.end());
    if (edge == (add ? most : 0)) return;
    std::int64_t next = add ? most : 0, at_edge = 0;
    for (const std::int64_t each : of) {
      if (each == edge) ++at_edge;
      else if (nearer(each, next)) next = each;
    }
    const std::int64_t whole = std::min(std::abs(next - edge), left / at_edge);
    std::int64_t single = whole > 0 ? 0 : left;
    left -= whole > 0 ? whole * at_edge : left;
    for (std::int64_t& each : of) {
      if (each != edge) continue;
      if (whole > 0) each += add ? whole : -whole;
      else if (single-- > 0) each += add ? 1 : -1;
    }
  }
}

/// Shares of a power law from `low` to `high`, by its inverse distribution function.
double share_of(double u, double alpha, double low, double high) {
  if (std::abs(alpha - 1) < 1e-9) return low * std::pow(high / low, u);
  const double a = std::pow(low, 1 - alpha), b = std::pow(high, 1 - alpha);
  return std::pow(a + (b - a) * u, 1 / (1 - alpha));
}

/// Rows of every expert by one draw, rounded: some may be left over or too many.
Counts drawn_rows(const Moe& s, std::uint64_t draw) {
  const bool many = s.tokens > s.experts / s.topk;
  const double low = many ? 1 : 0.01, high = many ? std::max(1.0, 0.8 * d(s.tokens)) : 2;
  const double alpha = d(s.alpha_percent) / 100, all = d(s.tokens) * d(s.topk);
  std::vector<double> shares(static_cast<std::size_t>(s.experts));
  for (std::size_t i = 0; i < shares.size(); ++i)
    shares[i] = share_of(drawn(draw * kMostExperts + i), alpha, low, high);
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  Counts rows;
  for (const double share : shares)
    rows.push_back(std::min(s.tokens, static_cast<std::int64_t>(std::llround(share / sum * all))));
  return rows;
}

/// One row more for each expert in turn, those with most rows first (of equals the first), or one less from the last on,
/// until none is left or no expert has room. Whole turns are taken at once: a call may be short of more rows than can be
/// counted singly.
void top_up(Counts& rows, std::int64_t short_of, std::int64_t most) {
  std::vector<std::size_t> order(rows.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return rows[a] > rows[b]; });
  if (short_of < 0) std::reverse(order.begin(), order.end());
  const std::int64_t step = short_of > 0 ? 1 : -1, all = std::abs(short_of);
  const auto room = [&](std::int64_t has) { return step > 0 ? most - has : has; };
  const auto taken = [&](std::int64_t turns) {
    std::int64_t sum = 0;
    for (const std::int64_t has : rows) sum += std::min(turns, room(has));
    return sum;
  };
  std::int64_t turns = 0, too_many = most + 1;  // of no expert is there room for so many
  while (too_many - turns > 1) {
    const std::int64_t middle = turns + (too_many - turns) / 2;
    (taken(middle) <= all ? turns : too_many) = middle;
  }
  std::int64_t left = all - taken(turns);
  for (const std::size_t i : order) {
    const std::int64_t whole = std::min(turns, room(rows[i]));
    const bool one_more = left > 0 && room(rows[i]) > whole;
    rows[i] += step * (whole + (one_more ? 1 : 0));
    if (one_more) --left;
  }
}

/// The rank with most rows of one draw.
Counts by_power_law(const Moe& s, std::uint64_t draw) {
  Counts rows = drawn_rows(s, draw);
  std::int64_t short_of = s.tokens * s.topk - std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
  if (s.leftover == 1) top_up(rows, short_of, s.tokens);
  if (s.leftover == 2) level(rows, short_of, s.tokens);
  if (s.leftover != 0) short_of = 0;
  const auto own = static_cast<std::size_t>(s.experts / s.ep);
  Counts fullest;
  std::int64_t most = -1;
  for (std::int64_t rank = 0; rank < s.ep; ++rank) {
    const std::span<std::int64_t> part = std::span(rows).subspan(static_cast<std::size_t>(rank) * own, own);
    level(part, short_of / s.ep + (rank < std::abs(short_of % s.ep) ? (short_of > 0 ? 1 : -1) : 0), s.tokens);
    const std::int64_t here = std::accumulate(part.begin(), part.end(), std::int64_t{0});
    if (here <= most) continue;
    most = here;
    fullest.assign(part.begin(), part.end());
  }
  return fullest;
}

}  // namespace

double ExpertRows::total() const { return d(std::accumulate(rows.begin(), rows.end(), std::int64_t{0})) / draws; }

double ExpertRows::touched() const {
  return d(std::count_if(rows.begin(), rows.end(), [](std::int64_t each) { return each > 0; })) / draws;
}

double ExpertRows::tiles(double height) const {
  double sum = 0;
  for (const std::int64_t each : rows) sum += std::ceil(d(each) / height);
  return sum / draws;
}

ExpertRows expert_rows(const Moe& s) {
  if (s.alpha_percent == 0) return {s.skew > 0 ? skewed(s, balanced(s)) : balanced(s), 1};
  constexpr std::uint64_t kDraws = 3;
  ExpertRows out;
  out.draws = static_cast<double>(kDraws);
  for (std::uint64_t draw = 0; draw < kDraws; ++draw) {
    const Counts rows = by_power_law(s, draw);
    out.rows.insert(out.rows.end(), rows.begin(), rows.end());
  }
  return out;
}

const Facts<Moe>& Moe::facts() {
  static constexpr Facts<Moe> kFacts{
      .names = kMoeNames,
      .keys = kMoeKeys,
      .relations = kMoeRelations,
      .work = work_of,
      .volume = volume_of,
  };
  return kFacts;
}

}  // namespace plumbline
