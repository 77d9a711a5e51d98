#include "model/stacks/cublas/answers.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "model/stacks/cublas/lane_answers.hpp"
#include "model/stacks/cublas/tile_answers.hpp"
#include "model/stacks/cublas/xmma.hpp"

namespace plumbline::cublas {
namespace {

using Place = std::array<float, 5>;

double asked_sms() {
  static const double sms = sms_of_asked_card();
  return sms;
}

float weighed(double weight, double value) { return static_cast<float>(weight * std::log(value)); }

/// How many tiles there are says nearly all of a product on lanes (an answer holds over wide ranges of K); the weights are
/// those by which answers that were left out are guessed best.
Place place_on_lanes(double m, double n, double k, double sm_count) {
  constexpr double kManyRows = 256;
  const auto tiles = [&](double side) { return std::ceil(m / side) * std::ceil(n / side) * asked_sms() / sm_count; };
  return {weighed(3, tiles(128)), weighed(1.5, tiles(64)), weighed(0.3, k), weighed(0.15, m / n),
          weighed(0.3, std::min(m, kManyRows))};
}

/// In tf32 by the tiles along both sides. (Of 1,200 answers left out it names the tile of 85 %.)
Place place_in_tf32(double m, double n, double k, double sm_count) {
  constexpr double kManyRows = 256;
  const double more = asked_sms() / sm_count, a_side = std::sqrt(more);
  return {weighed(1.5, std::ceil(m / 64) * std::ceil(n / 64) * more), weighed(0.3, k),
          weighed(0.3, std::min(m, kManyRows)), weighed(2, std::ceil(m / 128) * a_side),
          weighed(2, std::ceil(n / 128) * a_side)};
}

/// Answers and where their shapes lie.
template <class Answers, Place (*place)(double, double, double, double)>
class Nearest {
 public:
  explicit Nearest(const Answers& answers) : answers_(answers) {
    places_.reserve(answers.size());
    for (const auto& a : answers) places_.push_back(place(a.m, a.n, a.k, asked_sms()));
  }

  const typename Answers::value_type& operator()(double m, double n, double k, double sm_count) const {
    const Place here = place(m, n, k, sm_count);
    std::size_t best = 0;
    float least = apart(places_[0], here);
    for (std::size_t i = 1; i < places_.size(); ++i) {
      const float far = apart(places_[i], here);
      if (far >= least) continue;
      least = far;
      best = i;
    }
    return answers_[best];
  }

 private:
  static float apart(const Place& a, const Place& b) {
    float sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
    return sum;
  }

  const Answers& answers_;
  std::vector<Place> places_;
};

}  // namespace

const LaneAnswer& nearest_lane_answer(double m, double n, double k, double sm_count) {
  static const Nearest<decltype(kLaneAnswers), place_on_lanes> nearest(kLaneAnswers);
  return nearest(m, n, k, sm_count);
}

const TileAnswer& nearest_tile_answer(double m, double n, double k, double sm_count) {
  static const Nearest<decltype(kTileAnswers), place_in_tf32> nearest(kTileAnswers);
  return nearest(m, n, k, sm_count);
}

}  // namespace plumbline::cublas
