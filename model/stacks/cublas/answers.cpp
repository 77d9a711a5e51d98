#include "model/stacks/cublas/answers.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "model/stacks/cublas/lane_answers.hpp"
#include "model/stacks/cublas/tile_answers.hpp"
#include "model/stacks/cublas/tile_answers_km.hpp"
#include "model/stacks/cublas/tile_answers_kn.hpp"
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

/// In tf32 by the tiles along both sides, by what rows of the last are outside, by what is left of the last turn and by the tiles that
/// come beside the last ones where clusters are to be full. (Of 20,000 answers with weights [N,K] that were left out of some 71,000
/// the nearest five name the tile of 93.9 %, tile and cluster of 85.6, without full clusters 93.7 and 84.7.)
std::array<float, 13> place_in_tf32(double m, double n, double k, double sm_count) {
  const double more = asked_sms() / sm_count, a_side = std::sqrt(more);
  const auto tiles = [](double size, double side) { return std::ceil(size / side); };
  const auto outside = [&](double size, double side) { return tiles(size, side) * side / size; };
  const auto beside = [&](double size, double side, double cluster) {
    return std::ceil(tiles(size, side) / cluster) * cluster / tiles(size, side);
  };
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
          weighed(0.5, outside(m, 256)),
          weighed(1.2, beside(m, 128, 4)),
          weighed(1.2, beside(n, 128, 3)),
          weighed(1.2, beside(n, 64, 8))};
}

std::vector<TileAnswer> unpacked(std::span<const std::uint64_t> packed_answers) {
  std::vector<TileAnswer> answers;
  answers.reserve(packed_answers.size());
  for (std::uint64_t packed : packed_answers) {
    const auto take = [&packed](int bits) {
      const std::uint64_t value = packed & ((std::uint64_t{1} << bits) - 1);
      packed >>= bits;
      return value;
    };
    TileAnswer a{};
    a.cuts = take(1) != 0;
    a.swizzled = take(1) != 0;
    a.cluster = static_cast<std::uint8_t>(take(5));
    a.tile = static_cast<std::uint8_t>(take(4));
    a.k = static_cast<std::uint32_t>(take(17));
    a.n = static_cast<std::uint32_t>(take(17));
    a.m = static_cast<std::uint32_t>(take(17));
    answers.push_back(a);
  }
  return answers;
}

/// Answers and where their shapes lie, in the order of one coordinate, `along`, in which they lie far apart: a search begins where
/// it is the same and ends where it alone is farther than what was found.
template <class Answers, auto place, std::size_t along>
class Nearest {
  using Answer = typename Answers::value_type;
  using Place = decltype(place(1, 1, 1, 1));
  struct Placed {
    Place at;
    const Answer* answer;
  };

 public:
  explicit Nearest(const Answers& answers) {
    placed_.reserve(answers.size());
    for (const Answer& a : answers) placed_.push_back({place(a.m, a.n, a.k, asked_sms()), &a});
    std::stable_sort(placed_.begin(), placed_.end(),
                     [](const Placed& a, const Placed& b) { return a.at[along] < b.at[along]; });
  }

  /// How far they are, squared, and what was answered, the nearest first.
  template <std::size_t count>
  using Nearby = std::array<std::pair<float, const Answer*>, count>;

  template <std::size_t count>
  Nearby<count> find(double m, double n, double k, double sm_count) const {
    const Place here = place(m, n, k, sm_count);
    Found<count> found;
    auto up = std::lower_bound(placed_.begin(), placed_.end(), here[along],
                               [](const Placed& a, float at) { return a.at[along] < at; });
    auto down = up;
    while (up != placed_.end() || down != placed_.begin()) {
      const float above = up == placed_.end() ? kFar : square(up->at[along] - here[along]);
      const float below = down == placed_.begin() ? kFar : square(std::prev(down)->at[along] - here[along]);
      if (std::min(above, below) > found.farthest()) break;
      const Placed& next = above <= below ? *up++ : *--down;
      found.add(apart(next.at, here), next.answer);
    }
    return found.all();
  }

 private:
  static constexpr float kFar = std::numeric_limits<float>::max();

  static float square(float x) { return x * x; }

  static float apart(const Place& a, const Place& b) {
    float sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += square(a[i] - b[i]);
    return sum;
  }

  /// The nearest so far; of those that are as near the first of the table.
  template <std::size_t count>
  class Found {
    using One = std::pair<float, const Answer*>;

   public:
    Found() { best_.fill({std::numeric_limits<float>::infinity(), nullptr}); }
    float farthest() const { return best_.back().first; }
    void add(float far, const Answer* answer) {
      const One one{far, answer};
      if (best_.back() <= one) return;
      const auto at = std::upper_bound(best_.begin(), best_.end(), one);
      std::move_backward(at, best_.end() - 1, best_.end());
      *at = one;
    }
    const Nearby<count>& all() const { return best_; }

   private:
    Nearby<count> best_;
  };

  std::vector<Placed> placed_;
};

using TilesNearby = Nearest<std::vector<TileAnswer>, place_in_tf32, 2>;
constexpr std::size_t kVoters = 5;

/// Of the nearest answers those first whose tile the most are for, near ones by more. (With weights [N,K]: of 2,500 answers that were
/// left out the nearest of fewer coordinates named the tile of 93.4 %, five of them 94.2; training launches without their own answers 5.02 and 4.96 % off
/// in the mean. With fewer answers none is gained: weights [K,N] 7.50 and 7.56 %, both across 5.18 and 5.25.)
TileAnswers voted(TilesNearby::Nearby<kVoters> nearby) {
  const auto votes = [&nearby](const TileAnswer& answer) {
    constexpr float kNear = 0.01F;
    float sum = 0;
    for (const auto& [squared, other] : nearby) {
      const float far = std::sqrt(squared) + kNear;
      if (other->tile == answer.tile) sum += 1 / (far * far);
    }
    return sum;
  };
  const auto most = std::max_element(nearby.begin(), nearby.end(), [&votes](const auto& a, const auto& b) {
    return votes(*a.second) < votes(*b.second);
  });
  const int tile = most->second->tile;
  std::stable_partition(nearby.begin(), nearby.end(), [tile](const auto& one) { return one.second->tile == tile; });
  TileAnswers answers;
  for (std::size_t i = 0; i < answers.size(); ++i) answers[i] = nearby[i].second;
  return answers;
}

TileAnswers as_found(const TilesNearby::Nearby<std::tuple_size_v<TileAnswers>>& nearby) {
  TileAnswers answers;
  std::transform(nearby.begin(), nearby.end(), answers.begin(), [](const auto& one) { return one.second; });
  return answers;
}

}  // namespace

const LaneAnswer& nearest_lane_answer(double m, double n, double k, double sm_count) {
  static const Nearest<decltype(kLaneAnswers), place_on_lanes, 0> nearest(kLaneAnswers);
  return *nearest.find<1>(m, n, k, sm_count)[0].second;
}

TileAnswers nearest_tile_answers(Lying lying, double m, double n, double k, double sm_count) {
  constexpr std::size_t kCount = std::tuple_size_v<TileAnswers>;
  if (lying == Lying::along_k) {
    static const std::vector<TileAnswer> answers = unpacked(kTileAnswers);
    static const TilesNearby nearest(answers);
    return voted(nearest.find<kVoters>(m, n, k, sm_count));
  }
  if (lying == Lying::both_across) {
    static const std::vector<TileAnswer> answers = unpacked(kTileAnswersKm);
    static const TilesNearby nearest(answers);
    return as_found(nearest.find<kCount>(m, n, k, sm_count));
  }
  static const std::vector<TileAnswer> answers = unpacked(kTileAnswersKn);
  static const TilesNearby nearest(answers);
  return as_found(nearest.find<kCount>(n, m, k, sm_count));
}

}  // namespace plumbline::cublas
