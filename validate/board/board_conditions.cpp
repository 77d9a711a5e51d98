// What a row of looks at the board says together. No NVML in here: tested on made-up samples.
#include "validate/board/nvml_board.hpp"

#include <algorithm>

namespace plumbline {
namespace {

constexpr std::uint64_t kIdle = 0x1;

/// The mean of a reading over the samples that have it.
template <class T>
std::optional<T> mean_of(const std::vector<BoardSample>& samples, std::optional<T> BoardSample::*reading) {
  T sum{};
  int count = 0;
  for (const BoardSample& s : samples) {
    if (!(s.*reading)) continue;
    sum += *(s.*reading);
    ++count;
  }
  return count > 0 ? std::optional<T>(sum / static_cast<double>(count)) : std::nullopt;
}

/// What a counter moved by between the first look at it and the last, a second. Nothing where it was set back.
std::optional<Bandwidth> rate_of(const std::vector<BoardSample>& samples,
                                 std::optional<Bytes> Board::Traffic::*counter) {
  const BoardSample* first = nullptr;
  const BoardSample* last = nullptr;
  for (const BoardSample& s : samples) {
    if (!s.traffic || !(*s.traffic.*counter)) continue;
    if (first == nullptr) first = &s;
    last = &s;
  }
  if (first == nullptr || last->at <= first->at) return std::nullopt;
  const Bytes before = *(*first->traffic.*counter), after = *(*last->traffic.*counter);
  return after >= before ? std::optional((after - before) / (last->at - first->at)) : std::nullopt;
}

}  // namespace

Conditions conditions(const std::vector<BoardSample>& samples) {
  Conditions out;
  out.sm_clock = mean_of(samples, &BoardSample::sm_clock);
  out.memory_clock = mean_of(samples, &BoardSample::memory_clock);
  out.power = mean_of(samples, &BoardSample::power);
  out.temperature_C = mean_of(samples, &BoardSample::temperature_C);
  for (const BoardSample& s : samples) {
    out.clock_event_reasons |= s.clock_event_reasons & ~kIdle;
    if (s.memory_used) out.memory_used = std::max(out.memory_used.value_or(Bytes{}), *s.memory_used);
  }
  out.pcie_tx = rate_of(samples, &Board::Traffic::pcie_tx);
  out.pcie_rx = rate_of(samples, &Board::Traffic::pcie_rx);
  out.nvlink_tx = rate_of(samples, &Board::Traffic::nvlink_tx);
  out.nvlink_rx = rate_of(samples, &Board::Traffic::nvlink_rx);
  return out;
}

std::int64_t other_processes(const std::optional<std::vector<unsigned>>& processes, unsigned self) {
  if (!processes || processes->empty()) return 0;
  const auto others =
      static_cast<std::int64_t>(processes->size()) - std::count(processes->begin(), processes->end(), self);
  const bool listed = others < static_cast<std::int64_t>(processes->size());
  return listed ? others : others - 1;
}

}  // namespace plumbline
