#include "kernels/reference/reference.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <string>

#include "arch/error.hpp"
#include "kernels/common/launch.hpp"

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
    case RowwiseKind::sigmoid: return 1.0 / (1.0 + std::exp(-in.x[i]));
    case RowwiseKind::relu: return std::max(in.x[i], 0.0);
    case RowwiseKind::squared_relu: return std::pow(std::max(in.x[i], 0.0), 2);
    case RowwiseKind::swiglu: {
      const std::size_t cols = size(s.cols), row = i / cols, gate = row * 2 * cols + i % cols;
      return silu(in.x[gate]) * in.x[gate + cols];
    }
    case RowwiseKind::transpose_copy: return in.x[i % size(s.rows) * size(s.cols) + i / size(s.rows)];
    default: throw NotModelled(std::string(name(s.kind)) + ": no reference");
  }
}

TopKResult top_of_rows(std::int64_t rows, std::int64_t cols, std::int64_t k, const Values& x) {
  TopKResult result;
  std::vector<std::int32_t> order(size(cols));
  for (std::int64_t r = 0; r < rows; ++r) {
    const double* row = x.data() + r * cols;
    std::iota(order.begin(), order.end(), 0);
    std::partial_sort(order.begin(), order.begin() + k, order.end(),
                      [&](std::int32_t a, std::int32_t b) { return row[a] != row[b] ? row[a] > row[b] : a < b; });
    for (std::int64_t i = 0; i < k; ++i) {
      const std::int32_t at = order[size(i)];
      result.values.push_back(row[at]);
      result.indices.push_back(at);
    }
  }
  return result;
}

}  // namespace

double round_to_bf16(double value) {
  const auto narrow = static_cast<float>(value);  // doubles here come from bf16 sums, so fp32 loses nothing that counts
  if (std::isnan(narrow)) return narrow;
  std::uint32_t bits = std::bit_cast<std::uint32_t>(narrow);
  bits += 0x7fffU + ((bits >> 16) & 1U);
  return static_cast<double>(std::bit_cast<float>(bits & 0xffff0000U));
}

double fp16_value(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31, mantissa = bits & 0x3ff;
  double size = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(0x400 + mantissa, exponent - 25);
  if (exponent == 31) {
    size = mantissa == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  }
  return (bits & 0x8000) != 0 ? -size : size;
}

double round_to_fp16(double value) {
  constexpr int kDigits = 11, kLeast = -24;  // significant bits; the exponent of the smallest number
  constexpr double kLargest = 65504;
  if (!std::isfinite(value)) return value;
  int exponent = 0;
  std::frexp(value, &exponent);
  const int unit = std::max(exponent - kDigits, kLeast);
  const double rounded = std::ldexp(std::nearbyint(std::ldexp(value, -unit)), unit);  // ties to even
  return std::abs(rounded) > kLargest ? std::copysign(std::numeric_limits<double>::infinity(), value) : rounded;
}

double round_to(DType type, double value) { return type == DType::fp16 ? round_to_fp16(value) : round_to_bf16(value); }

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
        for (std::size_t i = 0; i < n; ++i) result.sum[i] = round_to(s.input, in.x[i] + in.second[i]);
      }
      result.y = by_rows(s, in, s.residual ? result.sum : in.x);
      break;
    }
    case RowwiseKind::quantize: {
      result.y = in.x;
      for (std::size_t r = 0; r < size(s.rows); ++r) {
        double largest = 0;
        double* row = result.y.data() + r * size(s.cols);
        for (std::size_t c = 0; c < size(s.cols); ++c) largest = std::max(largest, std::abs(row[c]));
        result.scale.push_back(largest / 448);  // e4m3's largest number
        for (std::size_t c = 0; c < size(s.cols) && largest > 0; ++c) row[c] *= 448 / largest;
      }
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

Values reference_cumsum(const Values& x) {
  Values y(x.size());
  std::partial_sum(x.begin(), x.end(), y.begin());
  return y;
}

TopKResult reference_topk(const TopK& s, const Values& x) { return top_of_rows(s.rows, s.cols, s.k, x); }

TopKResult reference_softmax_topk(const SoftmaxTopK& s, const Values& x) {
  TopKResult result = top_of_rows(s.rows, s.cols, s.k, x);  // softmax keeps the order
  for (std::size_t r = 0; r < size(s.rows); ++r) {
    double* values = result.values.data() + r * size(s.k);
    const double largest = values[0];
    double sum = 0;
    for (std::size_t c = 0; c < size(s.cols); ++c) sum += std::exp(x[r * size(s.cols) + c] - largest);
    for (std::size_t i = 0; i < size(s.k); ++i) values[i] = std::exp(values[i] - largest) / sum;
  }
  return result;
}

double e4m3_value(std::uint8_t bits) {
  const int exponent = bits >> 3 & 15, mantissa = bits & 7;
  if (exponent == 15 && mantissa == 7) return std::numeric_limits<double>::quiet_NaN();
  const double size = exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
  return (bits & 0x80) != 0 ? -size : size;
}

double e4m3_spacing(double value) {
  int exponent = 0;
  std::frexp(value, &exponent);  // |value| in [2^(exponent - 1), 2^exponent)
  return std::ldexp(1.0, std::max(value == 0 ? -9 : exponent - 4, -9));
}

}  // namespace plumbline
