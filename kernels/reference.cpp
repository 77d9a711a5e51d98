#include "kernels/reference.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <string>

#include "arch/error.hpp"
#include "kernels/launch.hpp"

namespace plumbline {
namespace {

std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }

double silu(double x) { return x / (1.0 + std::exp(-x)); }
double gelu(double x) { return 0.5 * x * (1.0 + std::erf(x / std::sqrt(2.0))); }

/// y and x are one row.
void norm_row(const Rowwise& s, const RowwiseInputs& in, const double* x, double* y) {
  const std::size_t cols = size(s.cols);
  const double count = static_cast<double>(cols);
  double mean = 0, square = 0;
  if (s.kind == RowwiseKind::layernorm) {
    for (std::size_t c = 0; c < cols; ++c) mean += x[c] / count;
  }
  for (std::size_t c = 0; c < cols; ++c) square += (x[c] - mean) * (x[c] - mean) / count;
  const double scale = 1.0 / std::sqrt(square + static_cast<double>(kNormEpsilon));
  for (std::size_t c = 0; c < cols; ++c) {
    y[c] = (x[c] - mean) * scale * (in.weight.empty() ? 1.0 : in.weight[c]) + (in.bias.empty() ? 0.0 : in.bias[c]);
  }
}

void softmax_row(std::size_t cols, const double* x, double* y) {
  const double largest = *std::max_element(x, x + cols);
  double sum = 0;
  for (std::size_t c = 0; c < cols; ++c) sum += y[c] = std::exp(x[c] - largest);
  for (std::size_t c = 0; c < cols; ++c) y[c] /= sum;
}

Values by_rows(const Rowwise& s, const RowwiseInputs& in, const Values& x) {
  const std::size_t rows = size(s.rows), cols = size(s.cols);
  const bool one_each = s.kind == RowwiseKind::sum_rows || s.kind == RowwiseKind::argmax;
  Values y(one_each ? rows : rows * cols);
  for (std::size_t r = 0; r < rows; ++r) {
    const double* row = x.data() + r * cols;
    switch (s.kind) {
      case RowwiseKind::softmax: softmax_row(cols, row, y.data() + r * cols); break;
      case RowwiseKind::sum_rows:
        for (std::size_t c = 0; c < cols; ++c) y[r] += row[c];
        break;
      case RowwiseKind::argmax: y[r] = static_cast<double>(std::max_element(row, row + cols) - row); break;
      default: norm_row(s, in, row, y.data() + r * cols); break;
    }
  }
  return y;
}

double element(const Rowwise& s, const RowwiseInputs& in, std::size_t i) {
  switch (s.kind) {
    case RowwiseKind::copy: return in.x[i];
    case RowwiseKind::add: return in.x[i] + in.second[i];
    case RowwiseKind::silu: return silu(in.x[i]);
    case RowwiseKind::gelu: return gelu(in.x[i]);
    case RowwiseKind::swiglu: {
      const std::size_t cols = size(s.cols), row = i / cols, gate = row * 2 * cols + i % cols;
      return silu(in.x[gate]) * in.x[gate + cols];
    }
    case RowwiseKind::transpose_copy: return in.x[i % size(s.rows) * size(s.cols) + i / size(s.rows)];
    default: throw NotModelled(std::string(name(s.kind)) + ": no reference");
  }
}

}  // namespace

double round_to_bf16(double value) {
  const auto narrow = static_cast<float>(value);  // doubles here come from bf16 sums, so fp32 loses nothing that counts
  if (std::isnan(narrow)) return narrow;
  std::uint32_t bits = std::bit_cast<std::uint32_t>(narrow);
  bits += 0x7fffU + ((bits >> 16) & 1U);
  return static_cast<double>(std::bit_cast<float>(bits & 0xffff0000U));
}

RowwiseResult reference_rowwise(const Rowwise& s, const RowwiseInputs& in) {
  RowwiseResult result;
  const std::size_t n = size(s.rows) * size(s.cols);
  switch (s.kind) {
    case RowwiseKind::layernorm:
    case RowwiseKind::rmsnorm:
    case RowwiseKind::softmax:
    case RowwiseKind::sum_rows:
    case RowwiseKind::argmax: {
      if (s.residual) {
        result.sum.resize(n);
        for (std::size_t i = 0; i < n; ++i) result.sum[i] = round_to_bf16(in.x[i] + in.second[i]);
      }
      result.y = by_rows(s, in, s.residual ? result.sum : in.x);
      break;
    }
    default:
      result.y.resize(n);
      for (std::size_t i = 0; i < n; ++i) result.y[i] = element(s, in, i);
  }
  return result;
}

Values reference_rope(const Rope& s, const Values& x, const std::vector<std::int32_t>& positions,
                      const std::vector<float>& inverse_frequency) {
  Values y(x.size());
  const std::size_t half = size(s.head_dim) / 2, per_token = size(s.heads) * half * 2;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t at = i % (2 * half), pair = at % half, low = i - at + pair, high = low + half;
    // the angle in fp32, as frameworks compute it; its sine and cosine exactly
    const float angle = static_cast<float>(positions[i / per_token]) * inverse_frequency[pair];
    const double c = std::cos(static_cast<double>(angle)), s_ = std::sin(static_cast<double>(angle));
    y[i] = at < half ? x[low] * c - x[high] * s_ : x[high] * c + x[low] * s_;
  }
  return y;
}

Values reference_embedding(const Embedding& s, const Values& table, const std::vector<std::int32_t>& ids) {
  Values y;
  y.reserve(size(s.rows * s.cols));
  for (const std::int32_t id : ids) {
    const auto* row = table.data() + size(id) * size(s.cols);
    y.insert(y.end(), row, row + s.cols);
  }
  return y;
}

double reference_sum_all(const Values& x) {
  double sum = 0;
  for (const double v : x) sum += v;
  return sum;
}

}  // namespace plumbline
