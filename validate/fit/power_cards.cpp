#include "validate/fit/power_cards.hpp"

#include <algorithm>

namespace plumbline {

MemoryLine memory_line(const std::vector<PowerCounts>& rows) {
  double n = 0, sx = 0, sy = 0, sxx = 0, sxy = 0;
  for (const PowerCounts& c : rows) {
    if (!c.row->memory_power || c.data != DataPattern::normal) continue;
    if (c.row->warm && c.work.l2 / c.time > 1.0 * units::TB_per_s) continue;  // what the L2 loses is not in the counts
    const double x = ((c.work.dram_read + c.work.dram_write) / c.time).in(units::TB_per_s);
    const double y = c.row->memory_power->in(units::W);
    n += 1, sx += x, sy += y, sxx += x * x, sxy += x * y;
  }
  const double spread = n * sxx - sx * sx;
  if (n < 3 || spread <= 0) return {};
  MemoryLine line;
  line.pJ_per_B = std::max(0.0, (n * sxy - sx * sy) / spread);
  line.rest_W = (sy - line.pJ_per_B * sx) / n;
  return line;
}

void count_traffic_of_warm_rows(const MemoryLine& line, std::vector<PowerCounts>& rows) {
  if (line.pJ_per_B <= 0) return;
  for (PowerCounts& c : rows) {
    if (!c.row->warm || !c.row->memory_power) continue;
    const double TB_per_s = std::max(0.0, c.row->memory_power->in(units::W)-line.rest_W) / line.pJ_per_B;
    const Bytes counted = c.work.dram_read + c.work.dram_write;
    const double read = counted > Bytes{} ? c.work.dram_read / counted : 1;
    const Bytes moved = TB_per_s * units::TB_per_s * c.time;
    c.work.dram_read = read * moved;
    c.work.dram_write = (1 - read) * moved;
  }
}

std::map<std::string, double> memory_of_cards(const std::vector<PowerCounts>& rows) {
  std::map<std::string, std::vector<PowerCounts>> by_card;
  for (const PowerCounts& c : rows) {
    if (!c.row->card.empty()) by_card[c.row->card].push_back(c);
  }
  std::map<std::string, double> per_byte;
  std::size_t most = 0;
  double of_most = 0;
  for (const auto& [card, of_card] : by_card) {
    const double pJ = memory_line(of_card).pJ_per_B;
    if (pJ <= 0) continue;
    per_byte[card] = pJ;
    if (of_card.size() <= most) continue;
    most = of_card.size();
    of_most = pJ;
  }
  for (auto& [card, pJ] : per_byte) pJ /= of_most;
  return per_byte;
}

std::vector<PowerCounts> as_on_one_card(std::vector<PowerCounts> rows, const std::map<std::string, double>& memory,
                                        double supply) {
  for (PowerCounts& c : rows) {
    const auto of_card = memory.find(c.row->card);
    if (of_card == memory.end()) continue;
    const double counts_for = 1 + supply * (of_card->second - 1);
    c.work.dram_read *= counts_for;
    c.work.dram_write *= counts_for;
  }
  return rows;
}

HeatLine fit_temperature(const std::vector<PowerCounts>& rows, double otherwise_C) {
  double n = 0, sx = 0, sy = 0, sxx = 0, sxy = 0;
  for (const PowerCounts& c : rows) {
    if (!c.row->temperature_C) continue;
    n += 1, sx += c.watts, sy += *c.row->temperature_C, sxx += c.watts * c.watts;
    sxy += c.watts * *c.row->temperature_C;
  }
  const double spread = n * sxx - sx * sx;
  if (n < 3 || spread <= 0) return {otherwise_C, 0};
  const double slope = std::max(0.0, (n * sxy - sx * sy) / spread);
  return {(sy - slope * sx) / n, slope};
}

void without_heat(double leakage_W_per_K, const HeatLine& heat, std::vector<PowerCounts>& rows) {
  for (PowerCounts& c : rows) {
    const double warmer_K = c.row->temperature_C ? *c.row->temperature_C - heat.cool_C : heat.kelvin_per_W * c.watts;
    c.watts -= leakage_W_per_K * warmer_K;
  }
}

double with_heat(double watts, double leakage_W_per_K, const HeatLine& heat) {
  return watts / (1 - leakage_W_per_K * heat.kelvin_per_W);
}

}  // namespace plumbline
