// What the checks of training's kernels share: shapes and operands, sums that a kernel adds to, the judgement.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "kernels/training/training.hpp"
#include "tests/gpu/check_buffers.cuh"

namespace plumbline::checking {

inline constexpr std::size_t kPool = 1 << 20;
inline constexpr double kFloatRounding =
    1.0 / (1 << 18);  // of sums of up to some thousand terms, relative to their sizes

inline std::string sizes(const Rows& s) { return "rows=" + std::to_string(s.rows) + ";cols=" + std::to_string(s.cols); }

class Draw {
 public:
  explicit Draw(unsigned seed) : random_(seed), pool_(seed, kPool) {}
  std::int64_t below(std::int64_t n) { return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(n)); }
  /// Rows of up to `most` columns, half of them whole vectors, every order of magnitude as likely.
  Rows rows(std::int64_t most, std::int64_t elements = 1 << 16) {
    const double u = static_cast<double>(below(1 << 20)) / (1 << 20);
    Rows s;
    s.cols = std::max<std::int64_t>(1, std::llround(std::exp(u * std::log(static_cast<double>(most)))));
    if (below(2) == 0) s.cols = (s.cols + 7) / 8 * 8;
    s.rows = 1 + below(std::clamp<std::int64_t>(elements / s.cols, 1, 700));
    return s;
  }
  /// Where an operand of n values begins: whole vectors.
  std::size_t from(std::int64_t n) {
    return static_cast<std::size_t>(below((static_cast<std::int64_t>(kPool) - n) / 8 + 1)) * 8;
  }
  const Pool& pool() const { return pool_; }
  std::vector<std::int32_t> ids(std::int64_t n, std::int64_t limit) {
    std::vector<std::int32_t> out(static_cast<std::size_t>(n));
    for (std::int32_t& id : out) id = static_cast<std::int32_t>(below(limit));
    return out;
  }

 private:
  std::mt19937_64 random_;
  Pool pool_;
};

template <class T>
class Upload {
 public:
  explicit Upload(const std::vector<T>& host) : buffer_(host.size() * sizeof(T) + 16) {
    PLUMBLINE_CUDA_CHECK(cudaMemcpy(buffer_.as(), host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice));
  }
  T* get() const { return buffer_.template as<T>(); }

 private:
  DeviceBuffer buffer_;
};

/// fp32 that a kernel adds to: begins as i % 7, and what is added is compared.
class Sums {
 public:
  explicit Sums(std::int64_t n) : n_(static_cast<std::size_t>(n)), out_(n_ * 4) {
    std::vector<float> begin(n_);
    for (std::size_t i = 0; i < n_; ++i) begin[i] = static_cast<float>(i % 7);
    PLUMBLINE_CUDA_CHECK(cudaMemcpy(out_.prepare(n_ * 4), begin.data(), n_ * 4, cudaMemcpyHostToDevice));
  }
  float* get() const { return static_cast<float*>(out_.get()); }
  /// `size[i]`: the sum of the terms' absolute values.
  void judge(const std::vector<double>& want, const std::vector<double>& size, Comparison& all, const char* what) {
    const std::vector<float> got = out_.read<float>();
    for (std::size_t i = 0; i < n_; ++i) {
      const double first = static_cast<double>(i % 7);
      all.add(static_cast<double>(got[i]) - first, want[i], kFloatRounding * (size[i] + first + 1e-3),
              std::string(what) + " " + std::to_string(i));
    }
    if (out_.overrun()) all.fault = std::string(what) + ": wrote past the end";
  }

 private:
  std::size_t n_;
  Poisoned out_;
};

/// bf16 results, each within one rounding and `slack` of the row's size.
inline void judge_values(Poisoned& out, const std::vector<double>& want, const std::vector<double>& slack,
                         Comparison& all) {
  const std::vector<bf16> got = out.read<bf16>();
  for (std::size_t i = 0; i < want.size(); ++i) {
    all.add(static_cast<double>(__bfloat162float(got[i])), want[i], kBf16Rounding * std::abs(want[i]) + slack[i],
            "element " + std::to_string(i));
  }
  if (out.overrun()) all.fault = "wrote past the end";
}

inline Check finish(const std::string& op, const std::string& shape, const Comparison& all) {
  Check c{op, shape, all.error(), 1.0 / 256, all.fault};
  if (!(c.error <= c.allowed) && c.fault.empty()) c.fault = "relative error too large";
  return c;
}

/// Loss over a vocabulary, forward and backward; and norm, clipping and update of parameters, two steps.
Check check_loss(Draw& draw);
Check check_update(Draw& draw);

}  // namespace plumbline::checking
