#include "model/schedule/side_by_side.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "model/engine/timing.hpp"
#include "model/schedule/pipeline.hpp"

namespace plumbline {
namespace {

/// Repeats of a segment that are laid out.
constexpr int kMostRepeats = 4;
/// ... beside a hand-over between stages.
constexpr int kMostBesideASend = 64;

/// A CTA of each fits on one SM, as far as both say what they need.
bool fit_together(const KernelPlan& a, const KernelPlan& b, const StreamingMultiprocessor& sm) {
  const auto registers = [](const KernelPlan& p) { return p.threads * p.registers_per_thread; };
  if (registers(a) == 0 || registers(b) == 0) return false;
  return a.threads + b.threads <= sm.threads && registers(a) + registers(b) <= sm.registers &&
         a.shared_memory + b.shared_memory <= sm.smem;
}

double capacity(const KernelPlan& plan, double sms) { return sms * static_cast<double>(plan.ctas_per_sm); }

/// CTAs keep their SMs until the launch is done: one wave, or a grid that walks its work.
bool stays(const KernelPlan& plan, double sms) {
  return plan.persistent || plan.longest > plan.steps || static_cast<double>(plan.ctas) <= capacity(plan, sms);
}

double share(Seconds busy, Seconds time) { return time > Seconds{} ? std::min(1.0, busy / time) : 0; }

/// Of work that is dealt out in turn to a CTA on each SM, what falls to the last `late` of them.
std::int64_t dealt_to_last(std::int64_t items, double sms, double late) {
  const auto all = static_cast<std::int64_t>(sms), last = static_cast<std::int64_t>(late);
  return items / all * last + std::max<std::int64_t>(0, items % all - (all - last));
}

/// So many CTAs (or items of a persistent grid) of a launch.
Demand part_of(const Demand& whole, std::int64_t ctas) {
  const double part = static_cast<double>(ctas) / static_cast<double>(whole.plan.ctas);
  Demand d = whole;
  d.plan.ctas = std::max<std::int64_t>(1, ctas);
  for (Bytes* bytes : {&d.l2_distinct, &d.l2_written, &d.dram_read, &d.dram_write}) *bytes = part * *bytes;
  d.start = part * d.start;
  return d;
}

}  // namespace

double sms_held(const OpPrediction& op, const Rates& m) {
  double most = 0;
  for (int i = 0; i < op.launch_count; ++i) {
    const Demand& demand = op.launches[static_cast<std::size_t>(i)].demand;
    if (demand.copy_engine) continue;
    const KernelPlan& plan = demand.plan;
    most = std::max(most, std::ceil(static_cast<double>(plan.ctas) / static_cast<double>(plan.ctas_per_sm)));
  }
  return std::min(most, m.sm_count);
}

double memory_held(const OpPrediction& op, const Rates& m) {
  const Bytes staged = op.launch_count > 0 ? op.launches[0].demand.staged : Bytes{};
  const Bytes beyond_l2 = staged > m.l2_held() ? staged : Bytes{};
  return share(dram_time(op.dram_read + beyond_l2, op.dram_write + beyond_l2, m), op.time);
}

/// Prices of launches beside collectives, each pair once.
class SideBySide::Prices final : public Sharing {
 public:
  Prices(SideBySide& of, const StepPrediction& step) : of_(of), step_(step), number_(step.nodes.size()) {
    for (std::size_t i = 0; i < step.nodes.size(); ++i) {
      const NodePrediction& n = step.nodes[i];
      if (n.node->stream == 0) continue;
      number_[i] = n.first < i && step.nodes[n.first].node->stream != 0 ? number_[n.first] : exchanges_++;
    }
    known_.assign(kLaunches * step.nodes.size() * exchanges_, 0);
    shared_.resize(known_.size());
  }

  SharedLaunch beside(std::size_t compute, std::size_t network) const override {
    const Piece& c = of_.pieces_[compute];
    const NodePrediction& moves = step_.nodes[of_.pieces_[network].node];
    const NodePrediction& works = step_.nodes[c.node];
    if (c.launch < 0 || sms_held(moves.op, of_.m_) == 0) return {};
    // halves that are alike, and layers of different kinds, share operators
    const std::size_t node = c.executions == 1 ? works.first : c.node;
    const std::size_t key =
        (node * kLaunches + static_cast<std::size_t>(c.launch)) * exchanges_ + number_[of_.pieces_[network].node];
    if (known_[key] == 0) {
      shared_[key] = price_beside(works, c, moves);
      known_[key] = 1;
    }
    return shared_[key];
  }

 private:
  SharedLaunch price_beside(const NodePrediction& works, const Piece& c, const NodePrediction& moves) const {
    const LaunchPrediction& l = works.op.launches[static_cast<std::size_t>(c.launch)];
    const KernelPlan& plan = l.demand.plan;
    const double sms = of_.m_.sm_count, held = sms_held(moves.op, of_.m_), left = sms - held;
    const auto ctas = static_cast<double>(plan.ctas);
    SharedLaunch out;
    if (ctas <= left || fit_together(plan, moves.op.launches[0].demand.plan, of_.m_.gpu.sm)) return out;
    out.apart = true;
    out.none_left = left < 1;
    if (out.none_left) return out;
    out.at_once =
        ctas > capacity(plan, left) && (ctas <= capacity(plan, sms) || (plan.persistent && l.demand.dealt_once));
    const Seconds behind = of_.timed(works, c.launch, c.executions).time - c.executions * l.time.total;
    const auto priced = [&](const Demand& d, double on) { return price(d, of_.fewer(on), *l.family, l.speeds); };
    const std::int64_t late = plan.persistent ? dealt_to_last(plan.ctas, sms, held)
                                              : plan.ctas - static_cast<std::int64_t>(capacity(plan, left));
    const LaunchTime time = priced(out.at_once ? part_of(l.demand, plan.ctas - late) : l.demand, left);
    out.time = c.executions * time.total + behind;
    if (out.at_once && late > 0) out.late = c.executions * priced(part_of(l.demand, late), held).total + behind;
    out.dram = share(time.by_resource[Resource::dram], time.total);
    out.l2 = share(time.by_resource[Resource::l2], time.total);
    return out;
  }

  static constexpr std::size_t kLaunches = Launches::kMost;

  SideBySide& of_;
  const StepPrediction& step_;
  std::vector<std::size_t> number_;  ///< of each node that communicates
  std::size_t exchanges_ = 0;
  mutable std::vector<char> known_;
  mutable std::vector<SharedLaunch> shared_;
};

const Rates& SideBySide::fewer(double sms) {
  const auto known = fewer_.find(sms);
  if (known != fewer_.end()) return known->second;
  Rates& rates = fewer_.emplace(sms, m_).first->second;
  rates.sm_count = sms;
  return rates;
}

/// The gap behind an operator comes with its last launch.
TimedLaunch SideBySide::timed(const NodePrediction& n, int launch, double executions) const {
  TimedLaunch out;
  out.stream = n.node->stream == 0 ? 0 : 1;
  out.time = out.turn = executions * (n.op.time + n.gap);
  if (launch >= 0) {
    const LaunchPrediction& l = n.op.launches[static_cast<std::size_t>(launch)];
    const Seconds gap = m_.gap_graph + (launch + 1 == n.op.launch_count ? n.gap : Seconds{});
    out.time = out.turn = executions * (l.time.total + gap);
    const KernelPlan& plan = l.demand.plan;
    if (!stays(plan, m_.sm_count)) {
      out.turn = out.time / std::ceil(static_cast<double>(plan.ctas) / capacity(plan, m_.sm_count));
    }
    out.dram = share(l.time.by_resource[Resource::dram], l.time.total);
    out.l2 = share(l.time.by_resource[Resource::l2], l.time.total);
  }
  if (out.stream == 1) {  // what it reads and writes stands beside its launches
    const Bytes staged = n.op.launch_count > 0 ? n.op.launches[0].demand.staged : Bytes{};
    out.dram = memory_held(n.op, m_);
    out.l2 = share((n.op.dram_bytes() + 2.0 * staged) / m_.l2, n.op.time);
  }
  return out;
}

std::size_t SideBySide::place(const Segment& segment, int repeat, int node) {
  return static_cast<std::size_t>(repeat) * static_cast<std::size_t>(segment.size) + static_cast<std::size_t>(node);
}

int SideBySide::last_of_half(const Graph& graph, const Segment& segment, int half, int repeat) const {
  if (repeat < 0) return -1;
  for (int i = segment.size; i-- > 0;) {
    if (graph.nodes[static_cast<std::size_t>(segment.first) + static_cast<std::size_t>(i)].half != half) continue;
    return last_piece_[place(segment, repeat, i)];
  }
  return -1;
}

void SideBySide::add(const StepPrediction& step, const Segment& segment, std::size_t node, int repeat) {
  const NodePrediction& n = step.nodes[node];
  const double executions = static_cast<double>(n.node->count) / static_cast<double>(segment.repeat);
  const int launches = std::max(1, n.op.launch_count);
  for (int l = 0; l < launches; ++l) {
    const int launch = n.op.launch_count == 0 ? -1 : l;
    TimedLaunch one = timed(n, launch, executions);
    bool within = false;
    for (std::size_t k = 0; k < 2; ++k) {
      const int other = n.node->depends[k] - segment.first;
      if (n.node->depends[k] < 0 || other < 0) continue;
      one.depends[k] = last_piece_[place(segment, repeat, other)];
      within = true;
    }
    if (!within) one.depends[0] = last_of_half(step.graph, segment, n.node->half, repeat - 1);
    launches_.push_back(one);
    pieces_.push_back({node, launch, repeat, executions});
  }
  last_piece_.push_back(static_cast<int>(pieces_.size()) - 1);
}

void SideBySide::lay_out(const StepPrediction& step, const Segment& segment, int repeats) {
  pieces_.clear();
  launches_.clear();
  last_piece_.clear();
  for (int r = 0; r < repeats; ++r) {
    for (int i = segment.first; i < segment.first + segment.size; ++i) {
      add(step, segment, static_cast<std::size_t>(i), r);
    }
  }
}

void SideBySide::read_off(StepPrediction& step, const Segment& segment, int repeats) const {
  const auto all = static_cast<double>(segment.repeat);
  const double middle = repeats > 2 ? (all - 2) / (repeats - 2) : 1;
  const int shown = std::min(1, repeats - 1);
  Seconds base = spans_.back().end;
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    if (pieces_[i].repeat == shown) base = std::min(base, spans_[i].start);
  }
  for (int i = segment.first; i < segment.first + segment.size; ++i) {
    NodePrediction& n = step.nodes[static_cast<std::size_t>(i)];
    n.tax = n.hidden = Seconds{};
    n.beside = -1;
  }
  std::size_t last = step.nodes.size();
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    const Piece& piece = pieces_[i];
    const LaunchSpan& span = spans_[i];
    NodePrediction& n = step.nodes[piece.node];
    const bool outer = piece.repeat == 0 || piece.repeat + 1 == repeats;
    const double weight = (outer ? 1 : middle) / (all * piece.executions);
    n.tax += weight * (span.end - span.start - launches_[i].time);
    if (launches_[i].stream == 1) n.hidden += weight * span.beside;
    if (piece.repeat != shown) continue;
    if (piece.node != last) n.begins = span.start - base;
    last = piece.node;
    if (span.other >= 0 && n.beside < 0) {
      n.beside = static_cast<int>(pieces_[static_cast<std::size_t>(span.other)].node);
    }
  }
}

void SideBySide::operator()(StepPrediction& step) {
  if (!step.graph.side_by_side) return;
  const Prices prices(*this, step);
  for (const Segment& segment : step.graph.segments) {
    const int repeats = static_cast<int>(std::min<std::int64_t>(segment.repeat, kMostRepeats));
    lay_out(step, segment, repeats);
    if (pieces_.empty()) continue;
    schedule(launches_, prices, spans_);
    read_off(step, segment, repeats);
  }
}

/// The send, and compute of the segment's repeats until it is over.
void SideBySide::lay_out_send(const StepPrediction& step, std::size_t send, const Segment& segment) {
  pieces_.clear();
  launches_.clear();
  last_piece_.clear();
  const auto put = [&](std::size_t node, int launch, double executions) {
    pieces_.push_back({node, launch, 0, executions});
    launches_.push_back(timed(step.nodes[node], launch, executions));
  };
  const NodePrediction& s = step.nodes[send];
  for (int l = 0; l < s.op.launch_count; ++l) put(send, l, 1);
  const Seconds enough = 2.0 * (s.op.time + s.gap);
  Seconds laid_out;
  for (int repeat = 0; repeat < kMostBesideASend && laid_out < enough; ++repeat) {
    for (int i = segment.first; i < segment.first + segment.size; ++i) {
      const NodePrediction& n = step.nodes[static_cast<std::size_t>(i)];
      if (n.node->stream != 0) continue;
      const double executions = static_cast<double>(n.node->count) / static_cast<double>(segment.repeat);
      for (int l = 0; l < n.op.launch_count; ++l) put(static_cast<std::size_t>(i), l, executions);
      laid_out += executions * n.op.time;
    }
  }
}

void SideBySide::sends(StepPrediction& step) {
  const PipelineStages& pipeline = step.graph.pipeline;
  if (!pipeline.sends_beside || pipeline.micro_batches < 2) return;
  if (!step.graph.side_by_side) {
    for (NodePrediction& n : step.nodes) n.tax = n.hidden = Seconds{};
  }
  const auto& segments = step.graph.segments;
  const auto layers = std::max_element(segments.begin(), segments.end(),
                                       [](const Segment& a, const Segment& b) { return a.repeat < b.repeat; });
  const auto parts = static_cast<double>(pipeline.micro_batches);
  for (std::size_t i = 0; i < step.nodes.size(); ++i) {
    NodePrediction& send = step.nodes[i];
    if (!hands_over(send.node->op)) continue;
    lay_out_send(step, i, *layers);
    schedule(launches_, Prices(*this, step), spans_);
    Seconds longer;
    for (std::size_t k = 0; k < pieces_.size(); ++k) {
      const Seconds tax = spans_[k].end - spans_[k].start - launches_[k].time;
      NodePrediction& n = step.nodes[pieces_[k].node];
      if (pieces_[k].node == i) {
        longer += tax;
      } else {
        n.tax += (parts - 1) / static_cast<double>(n.node->count) * tax;
        if (tax > Seconds{} && n.beside < 0) n.beside = static_cast<int>(i);
      }
    }
    send.tax = (parts - 1) / parts * longer;
    send.hidden = (parts - 1) / parts * (send.op.time + send.gap + longer);
  }
}

}  // namespace plumbline
