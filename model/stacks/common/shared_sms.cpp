#include "model/stacks/common/shared_sms.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

namespace plumbline {
namespace {

constexpr double kNothing = 1e-9;

/// What is left of a CTA.
struct Running {
  double start_clk, steps;
};

/// SMs that are in the same state: what was dealt to them, and how far they are.
struct Alike {
  double at = 0, sms = 0;     ///< clocks; how many
  std::vector<double> dealt;  ///< steps of each CTA that one of them was given, in order
  std::array<Running, SmShare::kMost> ctas{};
  std::size_t held = 0;

  std::size_t at_steps() const {
    return static_cast<std::size_t>(std::count_if(ctas.begin(), ctas.begin() + static_cast<std::ptrdiff_t>(held),
                                                  [](const Running& r) { return r.start_clk <= 0; }));
  }
};

class Dealing {
 public:
  Dealing(std::vector<CtaBatch> batches, const SmShare& sm) : left_(std::move(batches)), sm_(sm) {}

  /// Clocks until the last CTA has ended.
  double run(double sms) {
    std::vector<Alike> all{{0, sms, {}, {}, 0}};
    for (std::size_t i = 0; i < sm_.resident; ++i) all = one_each(all);
    for (const Alike& a : all) push(a);
    double end = 0;
    while (!waiting_.empty()) end = std::max(end, advance());
    return end;
  }

  /// What SMs were given, each list once.
  const std::set<std::vector<double>>& lists() const { return lists_; }

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
        given.dealt.push_back(left_[next_].steps);
        g.sms -= given.sms;
        take(given.sms);
        out.push_back(given);
      }
      if (g.sms > kNothing) out.push_back(g);
    }
    return out;
  }

  void push(const Alike& a) {
    if (a.held == 0) {
      lists_.insert(a.dealt);
      return;
    }
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
      bool goes_on = true;
      if (r.start_clk > 0) {
        r.start_clk = r.start_clk - passed > kNothing * w.end ? r.start_clk - passed : 0;
      } else {
        const double step_clk = sm_.step_clk[at_steps - 1];
        r.steps -= passed / step_clk;
        goes_on = r.steps * step_clk > kNothing * w.end;
      }
      if (goes_on) a.ctas[a.held++] = r;
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
  std::vector<Waiting> waiting_;
  std::set<std::vector<double>> lists_;
};

/// Whole rounds that keep all SMs busy, of launches that have many, are taken out; returns the clocks that pass meanwhile.
double skip(std::vector<CtaBatch>& batches, double slots, const SmShare& sm) {
  constexpr double kFollowed = 8, kMany = 12;
  double all = 0;
  for (const CtaBatch& b : batches) all += b.ctas;
  if (all <= kMany * slots) return 0;
  double left = std::floor(all / slots - kFollowed) * slots, clocks = 0;
  for (CtaBatch& b : batches) {
    const double taken = std::min(b.ctas, left);
    clocks += taken * (sm.start_clk + b.steps * sm.step_clk[sm.resident - 1]);
    b.ctas -= taken;
    left -= taken;
  }
  std::erase_if(batches, [](const CtaBatch& b) { return b.ctas <= kNothing; });
  return clocks / slots;
}

/// By which CTAs are dealt out, in steps, round numbers: a CTA waits for one and a half, and each beside it makes it slower by three
/// quarters.
SmShare nominal(std::size_t resident) {
  SmShare share{.resident = resident, .start_clk = 1.5, .step_clk = {}};
  for (std::size_t i = 0; i < resident; ++i) share.step_clk[i] = 1 + 0.75 * static_cast<double>(i);
  return share;
}

}  // namespace

double clocks_of(std::span<const CtaBatch> batches, double sms, const SmShare& sm) {
  std::vector<CtaBatch> followed(batches.begin(), batches.end());
  const double passed = skip(followed, sms * static_cast<double>(sm.resident), sm);
  const SmShare by_steps = nominal(sm.resident);
  Dealing dealing(std::move(followed), by_steps);
  dealing.run(sms);
  double last = 0;
  for (const std::vector<double>& list : dealing.lists()) {
    std::vector<CtaBatch> given;
    for (const double steps : list) given.push_back({steps, 1});
    last = std::max(last, Dealing(std::move(given), sm).run(1));
  }
  return passed + last;
}

}  // namespace plumbline
