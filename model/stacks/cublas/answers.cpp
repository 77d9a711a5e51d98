#include "model/stacks/cublas/answers.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "model/stacks/cublas/lane_answers.hpp"
#include "model/stacks/cublas/tile_answers.hpp"
#include "model/stacks/cublas/xmma.hpp"

namespace plumbline::cublas {
namespace {

double asked_sms() {
  static const double sms = sms_of_asked_card();
  return sms;
}

float weighed(double weight, double value) { return static_cast<float>(weight * std::log(value)); }

/// How many tiles there are says nearly all of a product on lanes (an answer holds over wide ranges of K); the weights are
/// those by which answers that were left out are guessed best.
std::array<float, 5> place_on_lanes(double m, double n, double k, double sm_count) {
  constexpr double kManyRows = 256;
  const auto tiles = [&](double side) { return std::ceil(m / side) * std::ceil(n / side) * asked_sms() / sm_count; };
  return {weighed(3, tiles(128)), weighed(1.5, tiles(64)), weighed(0.3, k), weighed(0.15, m / n),
          weighed(0.3, std::min(m, kManyRows))};
}

/// In tf32 by the tiles along both sides, by what rows of the last are outside, and by what is left of the last turn. (Of 1,428
/// answers that were left out in turn it names the tile of 86 %, tile and cluster of 68; without the last two 82 and 65.)
std::array<float, 10> place_in_tf32(double m, double n, double k, double sm_count) {
  const double more = asked_sms() / sm_count, a_side = std::sqrt(more);
  const auto tiles = [](double size, double side) { return std::ceil(size / side); };
  const auto outside = [&](double size, double side) { return tiles(size, side) * side / size; };
  const auto left = [&](double rows, double cols) {
    const double turns = tiles(m, rows) * tiles(n, cols) / sm_count;
    return std::ceil(turns - 1e-9) / turns;
  };
  return {weighed(0.54, tiles(m, 64) * tiles(n, 64) * more),
          weighed(0.48, k),
          weighed(2, tiles(m, 128) * a_side),
          weighed(2, tiles(n, 128) * a_side),
          weighed(0.5, left(128, 256)),
          weighed(0.5, left(256, 128)),
          weighed(1.5, left(64, 64)),
          weighed(1.5, outside(m, 128)),
          weighed(0.8, outside(n, 256)),
          weighed(0.5, outside(m, 256))};
}

/// Answers and where their shapes lie.
template <class Answers, auto place>
class Nearest {
  using Answer = typename Answers::value_type;
  using Place = decltype(place(1, 1, 1, 1));

 public:
  explicit Nearest(const Answers& answers) : answers_(answers) {
    places_.reserve(answers.size());
    for (const Answer& a : answers) places_.push_back(place(a.m, a.n, a.k, asked_sms()));
  }

  template <std::size_t count>
  std::array<const Answer*, count> find(double m, double n, double k, double sm_count) const {
    const Place here = place(m, n, k, sm_count);
    std::array<const Answer*, count> best{};
    std::array<float, count> least;
    least.fill(std::numeric_limits<float>::max());
    for (std::size_t i = 0; i < places_.size(); ++i) {
      const float far = apart(places_[i], here);
      if (far >= least.back()) continue;
      const auto at = std::upper_bound(least.begin(), least.end(), far) - least.begin();
      std::move_backward(least.begin() + at, least.end() - 1, least.end());
      std::move_backward(best.begin() + at, best.end() - 1, best.end());
      least[static_cast<std::size_t>(at)] = far;
      best[static_cast<std::size_t>(at)] = &answers_[i];
    }
    return best;
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
  return *nearest.find<1>(m, n, k, sm_count)[0];
}

TileAnswers nearest_tile_answers(double m, double n, double k, double sm_count) {
  static const Nearest<decltype(kTileAnswers), place_in_tf32> nearest(kTileAnswers);
  return nearest.find<std::tuple_size_v<TileAnswers>>(m, n, k, sm_count);
}

}  // namespace plumbline::cublas
