// The kernels of training against fp64 on the CPU: random and awkward shapes, outputs poisoned or, where they are added
// to, filled with known values.
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "kernels/training/training.hpp"
#include "tests/gpu/cases.hpp"
#include "tests/gpu/check_training.cuh"

namespace plumbline {
namespace {

using namespace checking;

// --- norms ----------------------------------------------------------------------------------------------------------

struct NormReference {
  std::vector<double> dx, slack, dgamma, dgamma_size, dbeta, dbeta_size;
};

NormReference norm_reference(NormKind kind, const Rows& s, const Pool& p, std::size_t dy, std::size_t x,
                             std::size_t gamma, std::size_t residual, bool adds) {
  const auto rows = static_cast<std::size_t>(s.rows), cols = static_cast<std::size_t>(s.cols);
  NormReference out{std::vector<double>(rows * cols), std::vector<double>(rows * cols), std::vector<double>(cols),
                    std::vector<double>(cols),        std::vector<double>(cols),        std::vector<double>(cols)};
  const auto n = static_cast<double>(cols);
  for (std::size_t r = 0; r < rows; ++r) {
    double mean = 0, square = 0, along = 0, sum = 0, largest = 0;
    if (kind == NormKind::layer) {
      for (std::size_t c = 0; c < cols; ++c) mean += p.at(x + r * cols + c) / n;
    }
    for (std::size_t c = 0; c < cols; ++c) {
      const double v = p.at(x + r * cols + c) - mean, g = p.at(dy + r * cols + c) * p.at(gamma + c);
      square += v * v;
      along += g * v;
      sum += g;
      largest = std::max(largest, std::abs(g));
    }
    const double scale = 1 / std::sqrt(square / n + static_cast<double>(kNormEpsilon));
    for (std::size_t c = 0; c < cols; ++c) {
      const std::size_t i = r * cols + c;
      const double v = p.at(x + i) - mean, d = p.at(dy + i);
      double dx = scale * d * p.at(gamma + c) - scale * scale * scale * along / n * v;
      if (kind == NormKind::layer) dx -= scale * sum / n;
      out.slack[i] = 1e-5 * scale * (largest + std::abs(v) * scale * largest + 1);
      out.dx[i] = adds ? dx + p.at(residual + i) : dx;
      out.dgamma[c] += d * v * scale;
      out.dgamma_size[c] += std::abs(d * v * scale) + std::abs(d) * scale;
      out.dbeta[c] += d;
      out.dbeta_size[c] += std::abs(d);
    }
  }
  return out;
}

Check check_norm(Draw& draw, NormKind kind, bool adds, std::int64_t most) {
  const bool layer = kind == NormKind::layer;
  Rows s = draw.rows(most);
  if (layer) s.cols = std::max<std::int64_t>(8, s.cols);  // of one or two columns nothing but rounding is left
  const std::int64_t n = s.rows * s.cols;
  const std::size_t dy = draw.from(n), x = draw.from(n), gamma = draw.from(s.cols), residual = draw.from(n);
  Sums dgamma(s.cols), dbeta(s.cols);
  Poisoned dx(static_cast<std::size_t>(n) * 2);
  dx.prepare(static_cast<std::size_t>(n) * 2);
  const Pool& p = draw.pool();
  launch_norm_backward(kind, s,
                       {p.device(dy), p.device(x), p.device(gamma), adds ? p.device(residual) : nullptr, dx.get(),
                        dgamma.get(), dbeta.get()},
                       nullptr);
  const NormReference want = norm_reference(kind, s, p, dy, x, gamma, residual, adds);
  Comparison all;
  judge_values(dx, want.dx, want.slack, all);
  Comparison sums;
  dgamma.judge(want.dgamma, want.dgamma_size, sums, "dgamma");
  if (layer) dbeta.judge(want.dbeta, want.dbeta_size, sums, "dbeta");
  if (all.fault.empty()) all.fault = sums.fault;
  return finish(std::string(layer ? "layernorm" : "rmsnorm") + "_backward", sizes(s) + (adds ? ";residual=1" : ""),
                all);
}

// --- activations ----------------------------------------------------------------------------------------------------

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

double slope(RowwiseKind kind, double x) {
  if (kind == RowwiseKind::relu) return x > 0 ? 1 : 0;
  if (kind == RowwiseKind::silu) return sigmoid(x) * (1 + x * (1 - sigmoid(x)));
  return 0.5 * std::erfc(-x / std::sqrt(2.0)) + x * std::exp(-x * x / 2) / std::sqrt(2 * std::acos(-1.0));
}

Check check_activation(Draw& draw, RowwiseKind kind) {
  const Rows s = draw.rows(40000);
  const std::int64_t n = s.rows * s.cols;
  const std::size_t dy = draw.from(n), x = draw.from(n);
  const Pool& p = draw.pool();
  Poisoned dx(static_cast<std::size_t>(n) * 2);
  launch_activation_backward(kind, s, p.device(dy), p.device(x), dx.prepare(static_cast<std::size_t>(n) * 2), nullptr);
  std::vector<double> want(static_cast<std::size_t>(n)), slack(want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    want[i] = p.at(dy + i) * slope(kind, p.at(x + i));
    slack[i] = 1e-6 * std::abs(p.at(dy + i)) * (1 + std::abs(p.at(x + i)));
  }
  Comparison all;
  judge_values(dx, want, slack, all);
  return finish(std::string(name(kind)) + "_backward", sizes(s), all);
}

Check check_swiglu(Draw& draw) {
  const Rows s = draw.rows(20000);
  const std::int64_t n = s.rows * s.cols;
  const std::size_t dy = draw.from(n), x = draw.from(2 * n);
  const Pool& p = draw.pool();
  Poisoned dx(static_cast<std::size_t>(n) * 4);
  launch_swiglu_backward(s, p.device(dy), p.device(x), dx.prepare(static_cast<std::size_t>(n) * 4), nullptr);
  std::vector<double> want(2 * static_cast<std::size_t>(n)), slack(want.size());
  const auto cols = static_cast<std::size_t>(s.cols);
  for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
    const std::size_t gate_at = i + i / cols * cols;
    const double d = p.at(dy + i), gate = p.at(x + gate_at), up = p.at(x + gate_at + cols);
    want[gate_at] = d * up * slope(RowwiseKind::silu, gate);
    want[gate_at + cols] = d * gate * sigmoid(gate);
    slack[gate_at] = slack[gate_at + cols] = 1e-6 * std::abs(d) * (1 + std::abs(up)) * (1 + std::abs(gate));
  }
  Comparison all;
  judge_values(dx, want, slack, all);
  return finish("swiglu_backward", sizes(s), all);
}

// --- moves ----------------------------------------------------------------------------------------------------------

Check check_rope(Draw& draw) {
  Rope s;
  s.head_dim = 16 * (1 + draw.below(16));
  const std::int64_t kv = 1 + draw.below(4), q = kv * (1 + draw.below(4));
  s.heads = q + 2 * kv;
  s.tokens = 1 + draw.below(std::max<std::int64_t>(1, 60000 / (s.heads * s.head_dim)));
  const std::int64_t width = s.head_dim, half = width / 2;
  const std::size_t dq = draw.from(s.tokens * q * width), dk = draw.from(s.tokens * kv * width),
                    dv = draw.from(s.tokens * kv * width);
  const Pool& p = draw.pool();
  const std::vector<std::int32_t> positions = draw.ids(s.tokens, 100000);
  std::vector<float> frequency(static_cast<std::size_t>(half));
  for (std::size_t i = 0; i < frequency.size(); ++i) {
    frequency[i] = static_cast<float>(std::pow(500000.0, -static_cast<double>(i) / static_cast<double>(half)));
  }
  const Upload<std::int32_t> where(positions);
  const Upload<float> turn(frequency);
  const auto n = static_cast<std::size_t>(s.tokens * s.heads * width);
  Poisoned out(n * 2);
  launch_rope_backward(s, {p.device(dq), p.device(dk), p.device(dv), out.prepare(n * 2), where.get(), turn.get(), q},
                       nullptr);
  std::vector<double> want(n), slack(n, 4e-6);
  for (std::int64_t t = 0; t < s.tokens; ++t) {
    for (std::int64_t h = 0; h < s.heads; ++h) {
      const std::int64_t in_kv = h < q + kv ? h - q : h - q - kv;
      const std::size_t base = h < q ? dq + static_cast<std::size_t>((t * q + h) * width)
                                     : (h < q + kv ? dk : dv) + static_cast<std::size_t>((t * kv + in_kv) * width);
      const auto to = static_cast<std::size_t>((t * s.heads + h) * width);
      for (std::int64_t i = 0; i < half; ++i) {
        const auto at = static_cast<std::size_t>(i), other = static_cast<std::size_t>(i + half);
        // the angle is rounded to fp32, as the frameworks do
        const auto angle =
            static_cast<double>(static_cast<float>(positions[static_cast<std::size_t>(t)]) * frequency[at]);
        const double c = h < q + kv ? std::cos(angle) : 1, sine = h < q + kv ? std::sin(angle) : 0;
        want[to + at] = p.at(base + at) * c + p.at(base + other) * sine;
        want[to + other] = p.at(base + other) * c - p.at(base + at) * sine;
      }
    }
  }
  Comparison all;
  judge_values(out, want, slack, all);
  return finish(
      "rope_backward",
      "tokens=" + std::to_string(s.tokens) + ";heads=" + std::to_string(s.heads) + ";head_dim=" + std::to_string(width),
      all);
}

Check check_embedding(Draw& draw) {
  const Rows s = draw.rows(4000, 1 << 15);
  const std::int64_t table = 1 + draw.below(std::max<std::int64_t>(1, 100000 / s.cols));
  const std::int64_t n = s.rows * s.cols;
  const std::size_t dy = draw.from(n);
  const Pool& p = draw.pool();
  const std::vector<std::int32_t> ids = draw.ids(s.rows, table);
  const Upload<std::int32_t> where(ids);
  Sums sums(table * s.cols);
  launch_embedding_backward(s, p.device(dy), where.get(), sums.get(), nullptr);
  std::vector<double> want(static_cast<std::size_t>(table * s.cols)), size(want.size());
  for (std::int64_t r = 0; r < s.rows; ++r) {
    for (std::int64_t c = 0; c < s.cols; ++c) {
      const auto to = static_cast<std::size_t>(ids[static_cast<std::size_t>(r)] * s.cols + c);
      const double d = p.at(dy + static_cast<std::size_t>(r * s.cols + c));
      want[to] += d;
      size[to] += std::abs(d);
    }
  }
  Comparison all;
  sums.judge(want, size, all, "table");
  return finish("embedding_backward", sizes(s) + ";table=" + std::to_string(table), all);
}

Check check_columns(Draw& draw) {
  const Rows s = draw.rows(8000, 1 << 17);
  const std::int64_t n = s.rows * s.cols;
  const std::size_t dy = draw.from(n);
  const Pool& p = draw.pool();
  Sums sums(s.cols);
  launch_column_sums(s, p.device(dy), sums.get(), nullptr);
  std::vector<double> want(static_cast<std::size_t>(s.cols)), size(want.size());
  for (std::int64_t i = 0; i < n; ++i) {
    const double d = p.at(dy + static_cast<std::size_t>(i));
    want[static_cast<std::size_t>(i % s.cols)] += d;
    size[static_cast<std::size_t>(i % s.cols)] += std::abs(d);
  }
  Comparison all;
  sums.judge(want, size, all, "column");
  return finish("bias_backward", sizes(s), all);
}

}  // namespace

std::vector<Check> check_training(unsigned seed, int shapes) {
  Draw draw(seed);
  std::vector<Check> out;
  for (int i = 0; i < shapes; ++i) {
    const std::int64_t most = i % 4 == 0 ? 16380 : 6000;
    out.push_back(check_norm(draw, NormKind::rms, i % 2 == 0, most));
    out.push_back(check_norm(draw, NormKind::layer, i % 2 == 0, most));
    for (const RowwiseKind kind : {RowwiseKind::gelu, RowwiseKind::silu, RowwiseKind::relu}) {
      out.push_back(check_activation(draw, kind));
    }
    out.push_back(check_swiglu(draw));
    out.push_back(check_rope(draw));
    out.push_back(check_embedding(draw));
    out.push_back(check_columns(draw));
    out.push_back(check_loss(draw));
    out.push_back(check_update(draw));
  }
  return out;
}

}  // namespace plumbline
