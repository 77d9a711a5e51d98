// topk and softmax_topk against their references: values and indices, in order, ties by the lower index.
#include "kernels/common/launch.hpp"
#include "tests/gpu/cases.hpp"
#include "tests/gpu/check_tools.cuh"

namespace plumbline {
namespace {

/// Neighbours among the largest are alike, and so are their roundings to bf16: half a unit in the last place, each.
constexpr double kWorst = 1.0 / 256 + 1.0 / 65536;

void check_top(const TopK& s, bool softmax, const Values& x, const char* data, std::vector<Check>& out) {
  const OnDevice in(x);
  const std::size_t results = static_cast<std::size_t>(s.rows * s.k);
  Output values(results * 2), indices(results * 4);
  const SoftmaxTopK fused{s.rows, s.cols, s.k};
  if (softmax) launch_softmax_topk(fused, in.get(), values.get(), static_cast<std::int32_t*>(indices.get()), nullptr);
  if (!softmax) launch_topk(s, in.get(), values.get(), static_cast<std::int32_t*>(indices.get()), nullptr);
  const TopKResult want = softmax ? reference_softmax_topk(fused, x) : reference_topk(s, x);
  const std::string op = softmax ? "softmax_topk" : "topk";
  const std::string shape = "rows=" + std::to_string(s.rows) + ";cols=" + std::to_string(s.cols) +
                            ";k=" + std::to_string(s.k) + ";data=" + data;
  Check c = judge(op, shape, to_values(values.read<__nv_bfloat16>()), want.values, softmax ? kWorst : 0);
  const Check places = judge(op, shape, to_values(indices.read<std::int32_t>()), want.indices, 0);
  if (c.fault.empty() && !places.fault.empty()) c.fault = "index of " + places.fault;
  if (values.overrun() || indices.overrun()) c.fault = "wrote past the end";
  out.push_back(c);
}

/// Normal, as drawn; rising, so that neighbours hold the largest; few values, so that nearly all are ties; and largest
/// elements that all belong to one thread.
Values data_of(int which, const TopK& s, Inputs& random) {
  Values x = random.values(s.rows * s.cols);
  for (std::size_t i = 0; i < x.size() && which > 0; ++i) {
    const auto col = static_cast<double>(i % static_cast<std::size_t>(s.cols));
    if (which == 1) x[i] = round_to_bf16(col / 64);
    if (which == 2) x[i] = std::floor(x[i]);
    if (which == 3) x[i] = static_cast<std::int64_t>(col) / 8 % 128 == 5 ? 100 + std::abs(x[i]) : x[i];
    if (which == 3) x[i] = round_to_bf16(x[i]);
  }
  return x;
}

}  // namespace

std::vector<Check> check_topk(unsigned seed, int shapes) {
  static const char* const kData[] = {"normal", "rising", "few", "one_thread"};
  Inputs random(seed);
  std::vector<Check> out;
  std::vector<TopK> all = {{1, 1, 1},       {3, 7, 7},       {5, 64, 64},     {9, 256, 8},    {300, 256, 8},
                           {17, 1000, 50},  {4, 1024, 16},   {4, 1024, 17},   {3, 2048, 64},  {2, 4096, 50},
                           {2, 4097, 50},   {3, 8192, 33},   {2, 16384, 64},  {1, 32768, 64}, {130, 32768, 5},
                           {2, 128256, 64}, {1, 128257, 50}, {1, 262144, 64}, {1, 200001, 1}, {130, 40000, 20}};
  while (static_cast<int>(all.size()) < shapes) {
    const std::int64_t cols = random.size(random.below(16) == 0 ? 3e5 : 2e4);
    const std::int64_t rows = random.size(std::max(1.0, 131072.0 / static_cast<double>(cols)));
    all.push_back({rows, cols, std::min(cols, random.size(64))});
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    const int which = i < 20 ? 0 : static_cast<int>(random.below(4));
    const Values x = data_of(which, all[i], random);
    for (const bool softmax : {false, true}) check_top(all[i], softmax, x, kData[which], out);
  }
  return out;
}

}  // namespace plumbline
