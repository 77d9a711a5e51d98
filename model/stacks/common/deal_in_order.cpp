#include "model/stacks/common/deal_in_order.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <queue>

namespace plumbline {
namespace {

struct Slot {
  double until = 0, steps = 0, items = 0;
  bool operator>(const Slot& other) const { return until > other.until; }
};

}  // namespace

double step_alone_clk(const Demand& d) {
  constexpr double kOverlap = 4;  // as the families of attention have it
  double sum = 0;
  for (const double clk : {d.tensor_clk, d.smem_clk, d.fp32_clk, d.sfu_clk, d.issue_clk})
    sum += std::pow(clk, kOverlap);
  return std::pow(sum, 1 / kOverlap) + d.exposed_clk;
}

/// Whoever is free first takes the next item. Of many heads the last ones are dealt so, beginning with SMs that are all
/// as far: what an SM is ahead by is made up for within a head or two.
DealtInOrder deal_in_order(double heads, const std::vector<double>& steps_of_items, double once, double sm_count) {
  constexpr double kDealtApart = 1024;
  const double of_a_head = static_cast<double>(steps_of_items.size());
  double steps_of_head = 0;
  for (const double steps : steps_of_items) steps_of_head += steps;
  DealtInOrder dealt;
  dealt.ctas = std::max(1.0, std::min(heads * of_a_head, std::floor(sm_count)));
  dealt.mean = heads * steps_of_head / dealt.ctas;
  const double apart = std::min(heads, std::max(1.0, std::ceil(kDealtApart / of_a_head)));
  const double before = (heads - apart) / dealt.ctas;
  const Slot start{0, before * steps_of_head, before * of_a_head};
  std::priority_queue<Slot, std::vector<Slot>, std::greater<>> free;
  for (double i = 0; i < dealt.ctas; ++i) free.push(start);
  Slot last;
  for (double head = 0; head < apart; ++head) {
    for (const double steps : steps_of_items) {
      Slot slot = free.top();
      free.pop();
      slot = {slot.until + steps + once, slot.steps + steps, slot.items + 1};
      if (slot.until > last.until) last = slot;
      free.push(slot);
    }
  }
  dealt.steps = std::max(last.steps, dealt.mean);
  dealt.items = last.items;
  return dealt;
}

void clear_counter(Demand& d, const Rates& m) {
  constexpr Seconds kClear = 0.86e-6 * units::s;
  d.gaps = kClear + m.gap_graph;
  d.serial_latency += d.gaps;
  d.serial_latency_of = "to clear the counter that work is dealt out by";
}

}  // namespace plumbline
