#include "kernels/reference/reference_chain.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>

#include "arch/error.hpp"

namespace plumbline {
namespace {

std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }

/// One row of the fused operators: scores to probabilities.
struct Probabilities {
  Values p;
  double log_sum = 0;
};

Probabilities softmax_of(const ChainSettings& c, const double* x, const Values& mask) {
  Probabilities out;
  double largest = -std::numeric_limits<double>::infinity(), sum = 0;
  for (std::size_t i = 0; i < mask.size(); ++i) {
    out.p.push_back(x[i] * static_cast<double>(c.scale) + mask[i]);
    largest = std::max(largest, out.p.back());
  }
  if (std::isinf(largest)) {  // all masked: no probabilities
    out.p.assign(mask.size(), 0);
    out.log_sum = -std::numeric_limits<double>::infinity();
    return out;
  }
  for (double& v : out.p) sum += v = std::exp(v - largest);
  for (double& v : out.p) v /= sum;
  out.log_sum = largest + std::log(sum);
  return out;
}

void fused_forward(const Rowwise& s, const ChainSettings& c, const ChainInputs& in, ChainResult& out) {
  for (std::int64_t r = 0; r < s.rows; ++r) {
    const Probabilities row = softmax_of(c, in.x.data() + r * s.cols, in.mask);
    out.log_sum.push_back(row.log_sum);
    for (std::int64_t col = 0; col < s.cols; ++col) {
      out.y.push_back(reference_keeps(c, r, col, s.cols) ? row.p[size(col)] * kept_scale(c.drop) : 0.0);
    }
  }
}

/// p (dp - sum(dp p)), times `factor`.
void softmax_gradient(const Values& p, const Values& dp, double factor, Values& out) {
  double sum = 0;
  for (std::size_t i = 0; i < p.size(); ++i) sum += p[i] * dp[i];
  for (std::size_t i = 0; i < p.size(); ++i) out.push_back(factor * p[i] * (dp[i] - sum));
}

void fused_backward(const Rowwise& s, const ChainSettings& c, const ChainInputs& in, ChainResult& out) {
  for (std::int64_t r = 0; r < s.rows; ++r) {
    Values dp;
    for (std::int64_t col = 0; col < s.cols; ++col) {
      dp.push_back(reference_keeps(c, r, col, s.cols) ? in.dy[size(r * s.cols + col)] * kept_scale(c.drop) : 0.0);
    }
    softmax_gradient(softmax_of(c, in.x.data() + r * s.cols, in.mask).p, dp, static_cast<double>(c.scale), out.y);
  }
}

void softmax_backward(const Rowwise& s, const ChainInputs& in, ChainResult& out) {
  for (std::int64_t r = 0; r < s.rows; ++r) {
    const auto row = [&](const Values& all) {
      return Values(all.begin() + r * s.cols, all.begin() + (r + 1) * s.cols);
    };
    softmax_gradient(row(in.x), row(in.dy), 1.0, out.y);
  }
}

/// r (g - x r^2 mean(g x)) with g = dy gamma and r = 1 / sqrt(mean x^2 + eps); gamma is `mask`.
void rmsnorm_backward(const Rowwise& s, const ChainInputs& in, ChainResult& out) {
  const auto count = static_cast<double>(s.cols);
  for (std::int64_t row = 0; row < s.rows; ++row) {
    double squares = 0, dots = 0;
    for (std::int64_t c = 0; c < s.cols; ++c) {
      const double x = in.x[size(row * s.cols + c)];
      squares += x * x;
      dots += in.dy[size(row * s.cols + c)] * in.mask[size(c)] * x;
    }
    const double r = 1 / std::sqrt(squares / count + static_cast<double>(kNormEpsilon));
    for (std::int64_t c = 0; c < s.cols; ++c) {
      const std::size_t at = size(row * s.cols + c);
      const double y = r * (in.dy[at] * in.mask[size(c)] - in.x[at] * r * r * dots / count);
      out.y.push_back(y + (s.residual ? in.residual[at] : 0.0));
    }
  }
}

void element(const Rowwise& s, const ChainSettings& c, const ChainInputs& in, std::int64_t i, ChainResult& out) {
  const std::size_t at = size(i);
  switch (s.kind) {
    case RowwiseKind::scale: out.y.push_back(in.x[at] * static_cast<double>(c.scale)); break;
    case RowwiseKind::mask: out.y.push_back(in.x[at] + in.mask[size(i % s.cols)]); break;
    case RowwiseKind::dropout: {
      const bool keep = reference_keeps(c, i / s.cols, i % s.cols, s.cols);
      out.y.push_back(keep ? in.x[at] * kept_scale(c.drop) : 0.0);
      out.keep_mask.push_back(keep ? 1 : 0);
      break;
    }
    case RowwiseKind::dropout_backward:
      out.y.push_back(in.keep_mask[at] != 0 ? in.dy[at] * kept_scale(c.drop) : 0.0);
      break;
    default: throw NotModelled(std::string(name(s.kind)) + ": no reference");
  }
}

}  // namespace

std::array<std::uint32_t, 4> reference_philox(std::array<std::uint32_t, 4> c, std::array<std::uint32_t, 2> key,
                                              int rounds) {
  for (int round = 0; round < rounds; ++round) {
    const std::uint64_t first = 0xD2511F53ULL * c[0], second = 0xCD9E8D57ULL * c[2];
    const auto high = [](std::uint64_t v) { return static_cast<std::uint32_t>(v >> 32); };
    const auto low = [](std::uint64_t v) { return static_cast<std::uint32_t>(v & 0xffffffffU); };
    c = {high(second) ^ c[1] ^ key[0], low(second), high(first) ^ c[3] ^ key[1], low(first)};
    key[0] += 0x9E3779B9U;  // the golden ratio
    key[1] += 0xBB67AE85U;  // sqrt(3) - 1
  }
  return c;
}

bool reference_keeps(const ChainSettings& c, std::int64_t row, std::int64_t col, std::int64_t cols) {
  const auto group = static_cast<std::uint64_t>(row * ((cols + 7) / 8) + col / 8);
  const auto word = [](std::uint64_t v, int i) { return static_cast<std::uint32_t>(v >> (32 * i)); };
  const auto random = reference_philox({word(group, 0), word(group, 1), word(c.offset, 0), word(c.offset, 1)},
                                       {word(c.seed, 0), word(c.seed, 1)});
  const std::int64_t in_group = col % 8;
  const std::uint32_t half = random[size(in_group / 2)] >> (16 * (in_group % 2)) & 0xffffU;
  return half >= dropout_threshold(c.drop);
}

ChainResult reference_attention_chain(const Rowwise& s, const ChainSettings& c, const ChainInputs& in) {
  ChainResult out;
  switch (s.kind) {
    case RowwiseKind::scale_mask_softmax_dropout: fused_forward(s, c, in, out); break;
    case RowwiseKind::scale_mask_softmax_dropout_backward: fused_backward(s, c, in, out); break;
    case RowwiseKind::softmax_backward: softmax_backward(s, in, out); break;
    case RowwiseKind::rmsnorm_backward: rmsnorm_backward(s, in, out); break;
    default:
      for (std::int64_t i = 0; i < s.rows * s.cols; ++i) element(s, c, in, i, out);
  }
  return out;
}

}  // namespace plumbline
