#include "model/schedule/timeline.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace plumbline {
namespace {

constexpr int kIdle = -1;
constexpr Seconds kNever = std::numeric_limits<double>::infinity() * units::s;

/// Differences of times that rounding leaves.
bool reached(Seconds now, Seconds then) { return now >= then - 1e-12 * then; }

struct Running {
  int launch = kIdle;
  Seconds start;
  Seconds left;                         ///< of its work alone; at once: of the CTAs that began
  Seconds late;                         ///< at once: of the CTAs that did not
  bool at_once = false, waits = false;  ///< ... and whether they still wait
  Seconds early_end;                    ///< at once: when those that began leave their SMs

  bool idle() const { return launch == kIdle; }
  std::size_t place() const { return static_cast<std::size_t>(launch); }
};

class Simulation {
 public:
  Simulation(const std::vector<TimedLaunch>& launches, const Sharing& sharing, std::vector<LaunchSpan>& spans)
      : launches_(launches), sharing_(sharing), spans_(spans) {
    spans_.assign(launches.size(), {});
    for (int s = 0; s < 2; ++s) next_[index(s)] = following(0, s);
  }

  void run() {
    for (;;) {
      begin_what_can();
      if (compute_.idle() && network_.idle()) return;
      advance();
    }
  }

 private:
  static std::size_t index(int stream) { return static_cast<std::size_t>(stream); }

  std::size_t following(std::size_t from, int stream) const {
    while (from < launches_.size() && launches_[from].stream != stream) ++from;
    return from;
  }

  bool ended(std::size_t launch) const {
    const int stream = launches_[launch].stream;
    const Running& running = stream == 0 ? compute_ : network_;
    return launch < next_[index(stream)] && running.launch != static_cast<int>(launch);
  }

  bool ready(std::size_t launch) const {
    if (launch >= launches_.size()) return false;
    const auto& depends = launches_[launch].depends;
    return std::all_of(depends.begin(), depends.end(),
                       [&](int other) { return other < 0 || ended(static_cast<std::size_t>(other)); });
  }

  /// When the SMs that the next launch of communication needs are free; now, where they are.
  Seconds room_from() const {
    if (compute_.idle() || !sharing_.beside(compute_.place(), next_[1]).apart) return now_;
    if (compute_.at_once) return compute_.waits ? kNever : std::max(now_, compute_.early_end);
    const TimedLaunch& holds = launches_[compute_.place()];
    if (holds.turn >= holds.time) return kNever;  // at its end
    const double turns = std::ceil((now_ - compute_.start) / holds.turn * (1 - 1e-12));
    return std::max(now_, compute_.start + turns * holds.turn);
  }

  void begin_what_can() {
    room_ = kNever;
    if (network_.idle() && ready(next_[1])) {
      room_ = room_from();
      if (reached(now_, room_)) {
        begin(network_, 1);
        room_ = kNever;
      }
    }
    if (compute_.idle() && ready(next_[0]) && finds_an_sm(next_[0])) begin(compute_, 0);
    share();
  }

  bool finds_an_sm(std::size_t compute) const {
    return network_.idle() || !sharing_.beside(compute, network_.place()).none_left;
  }

  void begin(Running& running, int stream) {
    const std::size_t launch = next_[index(stream)];
    next_[index(stream)] = following(launch + 1, stream);
    running = Running{};
    running.launch = static_cast<int>(launch);
    running.start = spans_[launch].start = now_;
    running.left = launches_[launch].time;
    longest_[index(stream)] = Seconds{};
    if (stream == 1 || network_.idle()) return;
    const SharedLaunch pair = sharing_.beside(launch, network_.place());
    if (!pair.apart || !pair.at_once) return;
    running.at_once = running.waits = true;
    running.left = pair.time;
    running.late = pair.late;
    running.early_end = now_ + pair.time;
  }

  /// At which the two go on, as shares of what each does alone.
  void share() {
    speed_ = {1, 1};
    if (compute_.idle() || network_.idle()) return;
    const SharedLaunch pair = sharing_.beside(compute_.place(), network_.place());
    const TimedLaunch& alone = launches_[compute_.place()];
    // CTAs that are late have the SMs that the others left, or what the network's launch did
    const bool fewer = pair.apart && (compute_.at_once ? compute_.waits : !pair.at_once);
    if (fewer && !compute_.at_once && pair.time > Seconds{}) speed_[0] = std::min(1.0, alone.time / pair.time);
    const TimedLaunch& moves = launches_[network_.place()];
    const double dram = (fewer ? pair.dram : alone.dram) + moves.dram, l2 = (fewer ? pair.l2 : alone.l2) + moves.l2;
    const double asked = std::max({1.0, dram, l2});
    for (double& speed : speed_) speed /= asked;
  }

  Seconds end_of(const Running& running, double speed) const {
    if (running.idle()) return kNever;
    Seconds left = running.left;
    if (!running.waits) left = std::max(left, running.late);
    Seconds end = now_ + left / speed;
    // the late ones are no help to those that had begun
    if (running.at_once && !running.waits) end = std::max(end, running.start + launches_[running.place()].time);
    return end;
  }

  void advance() {
    const Seconds compute = end_of(compute_, speed_[0]), network = end_of(network_, speed_[1]);
    const Seconds then = std::max(now_, std::min({compute, network, room_}));
    const Seconds passed = then - now_;
    if (!compute_.idle() && !network_.idle()) ran_side_by_side(passed);
    const auto work = [passed](Running& running, double speed) {
      running.left = std::max(Seconds{}, running.left - passed * speed);
      if (!running.waits) running.late = std::max(Seconds{}, running.late - passed * speed);
    };
    if (!compute_.idle()) work(compute_, speed_[0]);
    if (!network_.idle()) work(network_, speed_[1]);
    now_ = then;
    const bool waited = compute_.waits;
    if (network <= then) {
      end(network_, 1);
      let_late_begin();
    }
    if (compute > then) return;
    if (waited) let_late_begin();  // the first CTAs are through: their SMs are free
    else end(compute_, 0);
  }

  void let_late_begin() {
    if (!compute_.waits) return;
    compute_.waits = false;
    compute_.early_end = now_ + compute_.left;
  }

  void end(const Running& running, int stream) {
    spans_[running.place()].end = now_;
    (stream == 0 ? compute_ : network_) = Running{};
  }

  void ran_side_by_side(Seconds passed) {
    const auto count = [&](std::size_t one, int other, int stream) {
      LaunchSpan& span = spans_[one];
      span.beside += passed;
      if (passed <= longest_[index(stream)]) return;
      longest_[index(stream)] = passed;
      span.other = other;
    };
    count(compute_.place(), network_.launch, 0);
    count(network_.place(), compute_.launch, 1);
  }

  const std::vector<TimedLaunch>& launches_;
  const Sharing& sharing_;
  std::vector<LaunchSpan>& spans_;
  std::array<std::size_t, 2> next_{};
  Running compute_, network_;
  std::array<double, 2> speed_{1, 1};
  std::array<Seconds, 2> longest_;
  Seconds now_, room_ = kNever;
};

}  // namespace

void schedule(const std::vector<TimedLaunch>& launches, const Sharing& sharing, std::vector<LaunchSpan>& spans) {
  Simulation(launches, sharing, spans).run();
}

}  // namespace plumbline
