// What the checks of the portable GEMM and the training attention chain share: random values, poisoned outputs with a
// guard behind them, and the judgement of a result.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/common/half.cuh"
#include "kernels/common/measure.cuh"
#include "kernels/common/records.hpp"

namespace plumbline::checking {

using bf16 = __nv_bfloat16;

/// A pool of normal values that E holds exactly, on host and device; operands are windows of it at random places.
template <class E>
class PoolOf {
 public:
  PoolOf(unsigned seed, std::size_t elements) : host_(elements), device_(elements * sizeof(E)) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (E& v : host_) v = device::rounded<E>(normal(random));
    PLUMBLINE_CUDA_CHECK(cudaMemcpy(device_.as(), host_.data(), elements * sizeof(E), cudaMemcpyHostToDevice));
  }
  std::size_t size() const { return host_.size(); }
  double at(std::size_t i) const { return static_cast<double>(static_cast<float>(host_[i])); }
  const E* device(std::size_t from) const { return device_.template as<E>() + from; }

 private:
  std::vector<E> host_;
  DeviceBuffer device_;
};
using Pool = PoolOf<bf16>;

/// Device memory for many outputs, one after the other: poisoned up to and past the end of each.
class Poisoned {
 public:
  static constexpr unsigned char kPoison = 0xff;  // as bf16 and fp32: NaN
  static constexpr std::size_t kGuard = 4096;     // bytes behind an output that nobody may write

  explicit Poisoned(std::size_t most_bytes) : buffer_(most_bytes + kGuard) {}

  /// Poisons room for `bytes` and the guard.
  void* prepare(std::size_t bytes) {
    bytes_ = bytes;
    PLUMBLINE_CUDA_CHECK(cudaMemset(buffer_.as(), kPoison, bytes + kGuard));
    return buffer_.as<void>();
  }
  void* get() const { return buffer_.as<void>(); }

  /// Waits; what was written, and whether the guard is as it was.
  template <class T>
  std::vector<T> read() {
    PLUMBLINE_CUDA_CHECK(cudaDeviceSynchronize());
    raw_.resize(bytes_ + kGuard);
    PLUMBLINE_CUDA_CHECK(cudaMemcpy(raw_.data(), buffer_.as(), raw_.size(), cudaMemcpyDeviceToHost));
    overrun_ = false;
    for (std::size_t i = bytes_; i < raw_.size(); ++i) overrun_ = overrun_ || raw_[i] != kPoison;
    std::vector<T> out(bytes_ / sizeof(T));
    std::memcpy(static_cast<void*>(out.data()), raw_.data(), out.size() * sizeof(T));
    return out;
  }
  bool overrun() const { return overrun_; }

 private:
  DeviceBuffer buffer_;
  std::size_t bytes_ = 0;
  std::vector<unsigned char> raw_;
  bool overrun_ = false;
};

/// Elements that still hold poison, or any other NaN.
template <class E>
std::size_t not_written(const std::vector<E>& values) {
  std::size_t n = 0;
  for (const E v : values) n += std::isnan(static_cast<float>(v)) ? 1 : 0;
  return n;
}

/// Sums up ||out - ref|| / ||ref||, and remembers the first element that is off by more than `bound`.
struct Comparison {
  double difference = 0, size = 0;
  std::string fault;

  void add(double got, double want, double bound, const std::string& where) {
    const double d = got - want;
    difference += d * d;
    size += want * want;
    if (!(std::abs(d) <= bound) && fault.empty()) {
      fault = where + ": " + std::to_string(got) + " for " + std::to_string(want);
    }
  }
  double error() const { return size > 0 ? std::sqrt(difference / size) : std::sqrt(difference); }
};

/// Half a unit in the last place of bf16, and room for fp32 maths before it.
constexpr double kBf16Rounding = 1.0 / 256 + 1.0 / 65536;

}  // namespace plumbline::checking
