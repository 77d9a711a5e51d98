#include "model/stacks/cublas/answers.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "model/stacks/cublas/lane_answers.hpp"
#include "model/stacks/cublas/xmma.hpp"

namespace plumbline::cublas {
namespace {

using Place = std::array<float, 5>;

/// Answers and where their shapes lie. How many tiles there are says nearly all (an answer holds over wide ranges of
/// K); the weights are those by which answers that were left out are guessed best.
class Nearest {
 public:
  Nearest() {
    places_.reserve(kLaneAnswers.size());
    for (const LaneAnswer& a : kLaneAnswers) places_.push_back(place_of(a.m, a.n, a.k, asked_));
  }

  const LaneAnswer& operator()(double m, double n, double k, double sm_count) const {
    const Place here = place_of(m, n, k, sm_count);
    std::size_t best = 0;
    float least = apart(places_[0], here);
    for (std::size_t i = 1; i < kLaneAnswers.size(); ++i) {
      const float far = apart(places_[i], here);
      if (far >= least) continue;
      least = far;
      best = i;
    }
    return kLaneAnswers[best];
  }

 private:
  Place place_of(double m, double n, double k, double sm_count) const {
    constexpr double kManyRows = 256;
    const auto tiles = [&](double side) { return std::ceil(m / side) * std::ceil(n / side) * asked_ / sm_count; };
    const auto weighed = [](double weight, double value) { return static_cast<float>(weight * std::log(value)); };
    return {weighed(3, tiles(128)), weighed(1.5, tiles(64)), weighed(0.3, k), weighed(0.15, m / n),
            weighed(0.3, std::min(m, kManyRows))};
  }

  static float apart(const Place& a, const Place& b) {
    float sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
    return sum;
  }

  double asked_ = sms_of_asked_card();
  std::vector<Place> places_;
};

}  // namespace

const LaneAnswer& nearest_lane_answer(double m, double n, double k, double sm_count) {
  static const Nearest nearest;
  return nearest(m, n, k, sm_count);
}

}  // namespace plumbline::cublas
