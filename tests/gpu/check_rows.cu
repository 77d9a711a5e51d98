// The row-wise operators against their references.
#include <utility>

#include "kernels/common/launch.hpp"
#include "tests/gpu/cases.hpp"
#include "tests/gpu/check_tools.cuh"

namespace plumbline {
namespace {

std::string rows_cols(const Rowwise& s) {
  return "rows=" + std::to_string(s.rows) + ";cols=" + std::to_string(s.cols) + (s.residual ? ";residual=1" : "") +
         type_mark(s.input);
}

void check_rowwise(const Rowwise& s, Inputs& random, std::vector<Check>& out) {
  const std::int64_t n = s.rows * s.cols;
  const bool norm = s.kind == RowwiseKind::layernorm || s.kind == RowwiseKind::rmsnorm;
  const bool one_each = s.kind == RowwiseKind::sum_rows || s.kind == RowwiseKind::argmax;
  RowwiseInputs in;
  in.x = random.values(s.kind == RowwiseKind::swiglu ? 2 * n : n);
  if (s.residual || s.kind == RowwiseKind::add) in.second = random.values(n);
  if (norm) in.weight = random.values(s.cols);
  if (s.kind == RowwiseKind::layernorm) in.bias = random.values(s.cols);
  const OnDevice x(in.x, s.input), second(in.second, s.input), weight(in.weight, s.input), bias(in.bias, s.input);
  const std::int64_t results = one_each ? s.rows : n;
  Output y(static_cast<std::size_t>(results) * (s.kind == RowwiseKind::argmax ? 4 : 2));
  Output sum(s.residual ? static_cast<std::size_t>(n) * 2 : 0);
  launch_rowwise(s,
                 {x.get(), second.get(), weight.get(), bias.get(), y.get(), s.residual ? sum.get() : nullptr, nullptr},
                 nullptr);
  const Values got = s.kind == RowwiseKind::argmax ? to_values(y.read<std::int32_t>()) : read_as(y, s.input);
  const bool exact =
      s.kind == RowwiseKind::copy || s.kind == RowwiseKind::transpose_copy || s.kind == RowwiseKind::argmax;
  // a norm of very few columns has few different results, whose roundings are the same in every row
  const auto independent = static_cast<std::size_t>(norm ? std::min(results, 4 * s.cols) : results);
  const RowwiseResult want = reference_rowwise(s, in);
  Check c = judge(std::string(name(s.kind)), rows_cols(s), got, want.y, exact ? 0 : rounding(independent), s.input);
  if (c.fault.empty() && s.residual) {
    const Check other = judge(c.op, c.shape, read_as(sum, s.input), want.sum, 0);
    if (!other.fault.empty()) c.fault = "residual: " + other.fault;
  }
  if (y.overrun() || sum.overrun()) c.fault = "wrote past the end";
  out.push_back(c);
}

/// Every result within half of e4m3's spacing of x / scale, and the scales as they should be.
void check_quantize(const Rowwise& s, Inputs& random, std::vector<Check>& out) {
  const std::int64_t n = s.rows * s.cols;
  RowwiseInputs in;
  in.x = random.values(n);
  const OnDevice x(in.x, s.input);
  Output y(static_cast<std::size_t>(n)), scale(static_cast<std::size_t>(s.rows) * 4);
  RowwiseBuffers buffers;
  buffers.x = x.get();
  buffers.y = y.get();
  buffers.scale = static_cast<float*>(scale.get());
  launch_rowwise(s, buffers, nullptr);
  const std::vector<std::uint8_t> bits = y.read<std::uint8_t>();
  const std::vector<float> scales = scale.read<float>();
  const RowwiseResult want = reference_rowwise(s, in);
  Check c{"quantize", rows_cols(s), 0, 0.501, ""};
  for (std::size_t i = 0; i < bits.size(); ++i) {
    const double off = std::abs(e4m3_value(bits[i]) - want.y[i]) / e4m3_spacing(want.y[i]);
    if (!(off <= c.allowed) && c.fault.empty()) c.fault = "element " + std::to_string(i) + " is " + std::to_string(off);
    c.error = std::max(c.error, off);
  }
  for (std::size_t r = 0; r < scales.size(); ++r) {
    const double off = std::abs(static_cast<double>(scales[r]) - want.scale[r]);
    if (!(off <= want.scale[r] * 1e-6) && c.fault.empty()) c.fault = "scale of row " + std::to_string(r);
  }
  if (y.overrun() || scale.overrun()) c.fault = "wrote past the end";
  out.push_back(c);
}

/// Widths around every entry of the menus, and ragged ones.
const std::vector<std::pair<int, int>> kAlways = {
    {1, 1},     {3, 7},      {5, 129},    {17, 1000}, {9, 256},    {33, 512},   {13, 1024},   {3, 1032},   {2, 2049},
    {4, 2048},  {3, 4096},   {2, 6144},   {5, 8192},  {3, 12288},  {2, 16384},  {2, 32768},   {2, 65536},  {2, 65544},
    {1, 70001}, {2, 20000},  {257, 63},   {65, 65},   {1000, 328}, {64, 5000},  {1024, 2880}, {1, 128256}, {140, 17000},
    {3, 50257}, {1, 300000}, {600, 1024}, {600, 300}, {700, 33},   {530, 2048}, {530, 4096},  {530, 8192}, {530, 4097}};

/// Of every magnitude up to about 2^17 elements, half of them whole vectors.
Rowwise any_shape(RowwiseKind kind, Inputs& random) {
  const std::int64_t cols = random.size(random.below(16) == 0 ? 3e5 : 2e4);
  const std::int64_t rows = random.size(std::max(1.0, 131072.0 / static_cast<double>(cols)));
  return {kind, rows, random.below(2) == 0 ? cols : (cols + 7) / 8 * 8};
}

void check_kind(RowwiseKind kind, DType type, int shapes, Inputs& random, std::vector<Check>& out) {
  const bool norm = kind == RowwiseKind::rmsnorm || kind == RowwiseKind::layernorm;
  const auto check = [&](Rowwise s) {
    s.input = s.output = type;
    if (kind == RowwiseKind::quantize) {
      s.output = DType::fp8;
      return check_quantize(s, random, out);
    }
    check_rowwise(s, random, out);
    s.residual = norm;
    if (norm) check_rowwise(s, random, out);
  };
  for (const auto& [rows, cols] : kAlways) check({kind, rows, cols});
  for (int i = static_cast<int>(kAlways.size()); i < shapes; ++i) check(any_shape(kind, random));
}

std::vector<Check> check_type(DType type, unsigned seed, int shapes) {
  Inputs random(seed, type);
  std::vector<Check> out;
  using K = RowwiseKind;
  for (const K kind : {K::copy, K::add, K::swiglu, K::transpose_copy, K::rmsnorm, K::layernorm, K::softmax, K::sum_rows,
                       K::argmax, K::quantize}) {
    check_kind(kind, type, shapes, random, out);
  }
  for (const RowwiseRow& row : kRowwiseRows) {
    if (row.activation) check_kind(row.kind, type, shapes, random, out);
  }
  return out;
}

}  // namespace

std::vector<Check> check_rowwise(unsigned seed, int shapes) { return check_type(DType::bf16, seed, shapes); }
std::vector<Check> check_rowwise_fp16(unsigned seed, int shapes) { return check_type(DType::fp16, seed, shapes); }

}  // namespace plumbline
