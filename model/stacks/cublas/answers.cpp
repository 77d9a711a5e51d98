#include "model/stacks/cublas/answers.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "arch/error.hpp"
#include "arch/files.hpp"
#include "model/stacks/cublas/xmma.hpp"

namespace plumbline::cublas {
namespace {

using Place = std::array<float, 5>;

/// A line of the table: M,N,K,tile,parts,in_place.
LaneAnswer parsed(std::string_view line, const std::string& path) {
  std::array<std::uint16_t, 6> cells{};
  const char *at = line.data(), *const end = line.data() + line.size();
  for (std::uint16_t& cell : cells) {
    const auto [next, error] = std::from_chars(at, end, cell);
    const bool last = &cell == &cells.back();
    if (error != std::errc{} || (last ? next != end : next == end || *next != ',')) {
      throw BadInput(path + ": '" + std::string(line) + "': expected M,N,K,tile,parts,in_place");
    }
    at = last ? next : next + 1;
  }
  const auto narrow = [](std::uint16_t cell) { return static_cast<std::uint8_t>(cell); };
  return {cells[0], cells[1], cells[2], narrow(cells[3]), narrow(cells[4]), cells[5] != 0};
}

std::vector<LaneAnswer> read_lane_answers() {
  const std::string path = data_folder() + "/launches/cublas_lanes.csv", text = read_text_file(path);
  std::vector<LaneAnswer> out;
  std::size_t begin = text.find('\n');  // behind the names of the columns
  while (begin != std::string::npos && ++begin < text.size()) {
    const std::size_t end = text.find('\n', begin);
    out.push_back(parsed(std::string_view(text).substr(begin, end - begin), path));
    begin = end;
  }
  if (out.empty()) throw BadInput(path + ": expected answers");
  return out;
}

/// Answers and where their shapes lie. How many tiles there are says nearly all (an answer holds over wide ranges of
/// K); the weights are those by which answers that were left out are guessed best.
class Nearest {
 public:
  Nearest() {
    places_.reserve(lane_answers().size());
    for (const LaneAnswer& a : lane_answers()) places_.push_back(place_of(a.m, a.n, a.k, asked_));
  }

  const LaneAnswer& operator()(double m, double n, double k, double sm_count) const {
    const Place here = place_of(m, n, k, sm_count);
    std::size_t best = 0;
    float least = apart(places_[0], here);
    for (std::size_t i = 1; i < places_.size(); ++i) {
      const float far = apart(places_[i], here);
      if (far >= least) continue;
      least = far;
      best = i;
    }
    return lane_answers()[best];
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

const std::vector<LaneAnswer>& lane_answers() {
  static const std::vector<LaneAnswer> answers = read_lane_answers();
  return answers;
}

const LaneAnswer& nearest_lane_answer(double m, double n, double k, double sm_count) {
  static const Nearest nearest;
  return nearest(m, n, k, sm_count);
}

}  // namespace plumbline::cublas
