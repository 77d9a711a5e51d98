#include "validate/probe/link_rows.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>

namespace plumbline {
namespace {

std::string printed(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

/// A field without what would end it.
std::string plain(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == ',' || c == '\n' || c == '\r' || c == '"'; }, ' ');
  return text;
}

}  // namespace

std::string link_header() {
  return "op,dtype,shape,measured_us,low_us,high_us,cache,clock,stack,kernel,plan,gpus,GB_per_s,watts,status\n";
}

std::string link_line(const LinkRow& row) {
  std::string times = ",,", rate;
  if (row.seconds) {
    const Spread& s = *row.seconds;
    times = printed("%.4f", 1e6 * s.median) + "," + printed("%.4f", 1e6 * s.low) + "," + printed("%.4f", 1e6 * s.high);
    const double bytes = row.counted.in(units::B);
    if (bytes > 0 && s.median > 0) rate = printed("%.2f", 1e-9 * bytes / s.median);
  }
  std::string line;
  for (const std::string& field : {row.op, row.dtype, row.shape}) line += plain(field) + ",";
  line += times;
  for (const std::string& field : {row.cache, row.clock, row.stack, row.kernel, row.plan}) line += "," + plain(field);
  return line + "," + std::to_string(row.gpus) + "," + rate + "," + (row.watts ? printed("%.1f", *row.watts) : "") +
         "," + plain(row.status) + "\n";
}

std::string collective_shape_text(const Collective& shape) {
  return "bytes=" + std::to_string(shape.bytes) + ";gpus=" + std::to_string(shape.gpus);
}

Bytes bus_bytes(const Collective& shape) {
  const double ranks = static_cast<double>(shape.gpus);
  const double share = (shape.kind == CollectiveKind::all_reduce ? 2 : 1) * (ranks - 1) / ranks;
  return share * static_cast<double>(shape.bytes) * units::B;
}

std::vector<std::int64_t> link_sizes(std::int64_t most, int random, unsigned seed, std::int64_t unit) {
  constexpr std::int64_t least = 512;
  std::vector<std::int64_t> sizes;
  for (std::int64_t size = least; size <= most; size *= 2) sizes.push_back(size);
  std::mt19937_64 generator(seed);
  std::uniform_real_distribution<double> logarithm(std::log(static_cast<double>(least)),
                                                   std::log(static_cast<double>(most)));
  for (int i = 0; i < random; ++i) sizes.push_back(static_cast<std::int64_t>(std::exp(logarithm(generator))));
  for (std::int64_t& size : sizes) size = (size + unit - 1) / unit * unit;
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

int calls_in_graph(Seconds expected) {
  constexpr Seconds lasts = 2.0 * units::ms;
  return static_cast<int>(std::clamp(lasts / expected, 2.0, 20.0));
}

std::vector<double> per_call(const std::vector<double>& seconds, double floor, int calls) {
  std::vector<double> each;
  for (const double s : seconds) each.push_back((s - floor) / calls);
  return each;
}

}  // namespace plumbline
