// What our Hopper GEMM reads from memory: small walks by hand, and every product that was counted.
#include <gtest/gtest.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "arch/files.hpp"
#include "arch/gpu/gpu.hpp"
#include "model/engine/rates.hpp"
#include "model/machines.hpp"
#include "model/stacks/own/gemm_traffic.hpp"
#include "ops/csv.hpp"
#include "ops/shape/shapes.hpp"
#include "ops/table/text.hpp"

namespace plumbline::own_traffic_test {
namespace {

/// Four rows of four tiles, four at a time down bands of two rows: each turn is two rows and two columns.
own::GemmWalk square() {
  own::GemmWalk w;
  w.row_tiles = w.col_tiles = 4;
  w.row_bytes = w.col_bytes = 100;
  w.tile_bytes = 10;
  w.at_once = 4;
  w.band = 2;
  return w;
}

TEST(OwnTraffic, AllIsReadOnceWhereItIsHeld) { EXPECT_DOUBLE_EQ(own::walked_bytes(square(), 1e6, 2), 800); }

TEST(OwnTraffic, EachTurnReadsItsRowsAndColumnsWhereNothingIs) {
  // Four turns of two rows and two columns are 1600. Of a turn that may end anywhere in its band the last column spares
  // the rows a quarter of the time: two such ends, of two rows each.
  EXPECT_DOUBLE_EQ(own::walked_bytes(square(), 1, 2), 1600 - 2 * 2 * 100 / 4.0);
}

TEST(OwnTraffic, ALargerCacheNeverReadsMore) {
  double before = 1e9;
  for (double l2 = 50; l2 < 4000; l2 *= 1.1) {
    const double bytes = own::walked_bytes(square(), l2, 2);
    EXPECT_LE(bytes, before * (1 + 1e-12)) << l2;
    EXPECT_GE(bytes, 800);
    before = bytes;
  }
}

TEST(OwnTraffic, OneColumnOfTilesIsReadOnce) {
  own::GemmWalk w = square();
  w.row_tiles = 400;
  w.col_tiles = 1;
  EXPECT_NEAR(own::walked_bytes(w, 1, 2), 400 * 100 + 100 * 100, 100 * 100)
      << "but for the column, which each turn reads";
}

double number(std::string_view text) {
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

/// The tile of a kernel's name, "sm90::gemm<sm90::GemmTile<128, 256, ...": rows and columns. Zeros: another kernel.
std::pair<double, double> tile_of(std::string_view kernel) {
  constexpr std::string_view kBefore = "GemmTile<";
  const auto at = kernel.find(kBefore);
  if (at == std::string_view::npos) return {};
  const std::string_view list = kernel.substr(at + kBefore.size());
  return {number(list), number(list.substr(list.find(',') + 2))};
}

/// The walk of a product whose rows are the tokens.
own::GemmWalk walk_of(const Gemm& g, std::pair<double, double> tile, double sms) {
  const double es = bytes_of(g.precision.input), k = static_cast<double>(g.k), m = static_cast<double>(g.m),
               n = static_cast<double>(g.n);
  own::GemmWalk w;
  w.row_tiles = std::ceil(m / tile.first);
  w.col_tiles = std::ceil(n / tile.second);
  w.row_bytes = m * k * es / w.row_tiles;
  w.col_bytes = n * k * es / w.col_tiles;
  w.tile_bytes = 2 * tile.first * tile.second;
  w.at_once = sms;
  w.band = std::round(std::sqrt(sms * tile.second / tile.first));
  return w;
}

TEST(OwnTraffic, CountedProductsAreMet) {
  const Machine machine = machines().get({"h200_sxm", MachineOptions{"own"}});
  const std::string file = "profiled_h200.train.csv", text = read_text_file(data_folder() + "/kernels/" + file);
  CsvReader reader(text, file);
  const CsvHeader header(reader);
  const std::size_t op = header.require("op"), dtype = header.require("dtype"), shape = header.require("shape"),
                    kernel = header.require("kernel"), read = header.require("dram_read_B");
  constexpr double kLarge = 60e6, kRows = 250;  // more than L2; tokens on the row side
  const double l2 = machine.rates().l2_capacity.in(units::B);
  std::vector<double> errors;
  while (reader.next()) {
    const auto f = reader.fields();
    if (f[op] != "gemm" || number(f[read]) < kLarge || tile_of(f[kernel]).first <= 0) continue;
    const Op what = parse_op(f[op], f[dtype], f[shape]);
    const auto& g = std::get<Gemm>(what);
    if (static_cast<double>(g.m) < kRows) continue;
    const double bytes = own::walked_bytes(walk_of(g, tile_of(f[kernel]), 132), l2, 2);
    errors.push_back(std::abs(std::log(bytes / number(f[read]))));
  }
  ASSERT_EQ(errors.size(), 53U);
  std::sort(errors.begin(), errors.end());
  EXPECT_LT(errors[26], 0.02);
  EXPECT_LT(errors[47], 0.12);
  EXPECT_LT(errors.back(), 0.55) << "a small operand, which L2 keeps from band to band";
}

}  // namespace
}  // namespace plumbline::own_traffic_test
