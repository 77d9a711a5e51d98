#include "model/stacks/own/shared_sms.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace plumbline::own {
namespace {

constexpr double kNothing = 1e-9;

/// What is left of a CTA.
struct Running {
  double start_clk, steps;
};

/// SMs that are in the same state: what was dealt to them, and how far they are.
struct Alike {
  double at = 0, sms = 0;  ///< clocks; how many
  std::array<Running, SmShare::kMost> ctas{};
  std::size_t held = 0;

  std::size_t at_steps() const {
    return static_cast<std::size_t>(std::count_if(ctas.begin(), ctas.begin() + static_cast<std::ptrdiff_t>(held),
                                                  [](const Running& r) { return r.start_clk <= 0; }));
  }
};

class Dealing {
 public:
  Dealing(std::span<const CtaBatch> batches, const SmShare& sm) : left_(batches.begin(), batches.end()), sm_(sm) {}

  /// Whole rounds that keep all SMs busy, of launches that have many: clocks that pass meanwhile.
  double skip(double slots) {
    constexpr double kFollowed = 8, kMany = 12;
    double all = 0;
    for (const CtaBatch& b : left_) all += b.ctas;
    if (all <= kMany * slots) return 0;
    double passed = std::floor(all / slots - kFollowed) * slots, clocks = 0;
    for (; passed > 0; passed -= taken_) {
      CtaBatch& b = left_[next_];
      taken_ = std::min(b.ctas, passed);
      clocks += taken_ * (sm_.start_clk + b.steps * sm_.step_clk[sm_.resident - 1]);
      take(taken_);
    }
    return clocks / slots;
  }

  double run(double sms, double from) {
    std::vector<Alike> all{{from, sms, {}, 0}};
    for (std::size_t i = 0; i < sm_.resident; ++i) all = one_each(all);
    for (const Alike& a : all) push(a);
    double end = from;
    while (!waiting_.empty()) end = std::max(end, advance());
    return end;
  }

 private:
  struct Waiting {
    double end;
    Alike who;
    bool operator<(const Waiting& other) const { return end > other.end; }  // the earliest is on top of the heap
  };

  bool none_left() const { return next_ == left_.size(); }

  void take(double ctas) {
    CtaBatch& b = left_[next_];
    b.ctas -= ctas;
    if (b.ctas <= kNothing) ++next_;
  }

  /// The next CTAs, one to each SM.
  std::vector<Alike> one_each(const std::vector<Alike>& groups) {
    std::vector<Alike> out;
    for (Alike g : groups) {
      while (g.sms > kNothing && !none_left()) {
        Alike given = g;
        given.sms = std::min(g.sms, left_[next_].ctas);
        given.ctas[given.held++] = {sm_.start_clk, left_[next_].steps};
        g.sms -= given.sms;
        take(given.sms);
        out.push_back(given);
      }
      if (g.sms > kNothing) out.push_back(g);
    }
    return out;
  }

  void push(const Alike& a) {
    if (a.held == 0) return;
    const std::size_t at_steps = a.at_steps();
    double next = INFINITY;
    for (std::size_t i = 0; i < a.held; ++i) {
      const Running& r = a.ctas[i];
      next = std::min(next, r.start_clk > 0 ? r.start_clk : r.steps * sm_.step_clk[at_steps - 1]);
    }
    waiting_.push_back({a.at + next, a});
    std::push_heap(waiting_.begin(), waiting_.end());
  }

  /// To the next time that something happens; returns when that is.
  double advance() {
    std::pop_heap(waiting_.begin(), waiting_.end());
    Waiting w = waiting_.back();
    waiting_.pop_back();
    Alike& a = w.who;
    const std::size_t before = a.held, at_steps = a.at_steps();
    const double passed = w.end - a.at;
    a.held = 0;
    for (std::size_t i = 0; i < before; ++i) {
      Running r = a.ctas[i];
      if (r.start_clk > 0) r.start_clk = r.start_clk - passed > kNothing * w.end ? r.start_clk - passed : 0;
      else r.steps -= passed / sm_.step_clk[at_steps - 1];
      if (r.start_clk > 0 || r.steps > kNothing * w.end) a.ctas[a.held++] = r;
    }
    a.at = w.end;
    std::vector<Alike> all{a};
    for (std::size_t i = a.held; i < before && !none_left(); ++i) all = one_each(all);
    for (const Alike& g : all) push(g);
    return w.end;
  }

  std::vector<CtaBatch> left_;
  const SmShare& sm_;
  std::size_t next_ = 0;
  double taken_ = 0;
  std::vector<Waiting> waiting_;
};

}  // namespace

double clocks_of(std::span<const CtaBatch> batches, double sms, const SmShare& sm) {
  Dealing dealing(batches, sm);
  const double from = dealing.skip(sms * static_cast<double>(sm.resident));
  return dealing.run(sms, from);
}

}  // namespace plumbline::own
