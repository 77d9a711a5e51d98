// What every check of a kernel against its reference needs: inputs, poisoned outputs, and the judgement.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/common/measure.cuh"
#include "kernels/common/records.hpp"
#include "kernels/reference/reference.hpp"
#include "tests/gpu/stored16.hpp"

namespace plumbline {

constexpr unsigned char kPoison = 0xff;  // as bf16 and fp32: NaN, as an index: -1
constexpr std::size_t kGuard = 4096;     // bytes behind an output that nobody may write

using Floats = std::vector<float>;

class Inputs {
 public:
  explicit Inputs(unsigned seed, DType type = DType::bf16) : random_(seed), pool_((std::size_t{1} << 18) + 1) {
    std::normal_distribution<double> normal;
    for (double& v : pool_) v = round_to(type, normal(random_));
  }

  /// Normal values that bf16 (or fp16) holds exactly, from a pool: a stretch of it from a random place, over and over.
  Values values(std::int64_t n) {
    Values out(static_cast<std::size_t>(n));
    std::size_t at = random_() % pool_.size();
    for (double& v : out) {
      v = pool_[at];
      at = at + 1 < pool_.size() ? at + 1 : random_() % pool_.size();
    }
    return out;
  }
  /// From 1 to `most`, every magnitude as likely as the next.
  std::int64_t size(double most) {
    const double u = static_cast<double>(random_()) / 4294967296.0;
    return static_cast<std::int64_t>(std::exp(u * std::log(most + 1.0)));
  }
  unsigned below(unsigned limit) { return static_cast<unsigned>(random_() % limit); }
  std::vector<std::int32_t> ids(std::int64_t n, int limit) {
    std::vector<std::int32_t> out(static_cast<std::size_t>(n));
    for (std::int32_t& v : out) v = static_cast<std::int32_t>(random_() % static_cast<unsigned>(limit));
    return out;
  }

 private:
  std::mt19937 random_;
  Values pool_;
};

/// Device copy of host values as bf16 or fp16; at least one vector large, so that an empty one has an address too.
class OnDevice {
 public:
  explicit OnDevice(const Values& host, DType type = DType::bf16) : OnDevice(stored(host, type)) {}
  template <class T>
  explicit OnDevice(const std::vector<T>& host) : buffer_(host.size() * sizeof(T) + 16), empty_(host.empty()) {
    PLUMBLINE_CUDA_CHECK(cudaMemcpy(buffer_.as(), host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice));
  }
  void* get() const { return empty_ ? nullptr : buffer_.as<void>(); }

 private:
  static std::vector<unsigned short> stored(const Values& host, DType type) {
    std::vector<unsigned short> out;
    out.reserve(host.size());
    for (const double v : host) out.push_back(checking::Stored16{type}.of(static_cast<float>(v)));
    return out;
  }
  DeviceBuffer buffer_;
  bool empty_;
};

/// Poisoned device memory with a guard behind it.
class Output {
 public:
  explicit Output(std::size_t bytes) : bytes_(bytes), buffer_(bytes + kGuard) {
    PLUMBLINE_CUDA_CHECK(cudaMemset(buffer_.as(), kPoison, buffer_.bytes()));
  }
  void* get() const { return buffer_.as<void>(); }

  template <class T>
  std::vector<T> read() {
    PLUMBLINE_CUDA_CHECK(cudaDeviceSynchronize());
    std::vector<unsigned char> raw(buffer_.bytes());
    PLUMBLINE_CUDA_CHECK(cudaMemcpy(raw.data(), buffer_.as(), raw.size(), cudaMemcpyDeviceToHost));
    for (std::size_t i = bytes_; i < raw.size(); ++i) overrun_ = overrun_ || raw[i] != kPoison;
    std::vector<T> out(bytes_ / sizeof(T));
    std::memcpy(static_cast<void*>(out.data()), raw.data(), out.size() * sizeof(T));
    return out;
  }
  /// Whether the last read found something behind the end.
  bool overrun() const { return overrun_; }

 private:
  std::size_t bytes_;
  DeviceBuffer buffer_;
  bool overrun_ = false;
};

/// What one rounding to bf16 can do to ||out - ref|| / ||ref|| of n elements; fp32 maths adds far less (2^-16 is room
/// for it). Never above half a unit in the last place, 2^-8. Of many elements: errors uniform in +-2^-8 have a root
/// mean square of 2^-7 / sqrt(12), relative to mantissas of 1 (the true ones lie in [1, 2), so this has room too); the
/// spread of such a mean over n normal values is about 1 / sqrt(n) of it, of which three are allowed.
inline double rounding(std::size_t n) {
  const double typical = std::ldexp(1.0, -7) / std::sqrt(12.0);
  const double allowed = typical * (1.0 + 3.0 / std::sqrt(static_cast<double>(n)));
  return std::min(std::ldexp(1.0, -8), allowed) + std::ldexp(1.0, -16);
}

/// `type`: of the results. fp16's rounding is an eighth of bf16's, down to its smallest numbers, which are 2^-24 apart.
inline Check judge(const std::string& op, const std::string& shape, const Values& got, const Values& want,
                   double allowed, DType type = DType::bf16) {
  const double finer = checking::Stored16{type}.finer(), least = type == DType::fp16 ? std::ldexp(1.0, -25) : 0;
  Check c{op, shape, 0, allowed * finer, ""};
  double difference = 0, size = 0, largest = 0;
  for (const double w : want) largest = std::max(largest, std::abs(w));
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double d = got[i] - want[i];
    difference += d * d;
    size += want[i] * want[i];
    // each element too: an error of one would drown in the norm of a large result
    const double bound = allowed > 0 ? finer * (std::abs(want[i]) / 128 + largest / 1024) + least : 0.0;
    if (!(std::abs(d) <= bound) && c.fault.empty()) {
      c.fault = "element " + std::to_string(i) + ": " + std::to_string(got[i]) + " for " + std::to_string(want[i]);
    }
  }
  c.error = size > 0 ? std::sqrt(difference / size) : std::sqrt(difference);
  if (allowed > 0 && size > 0) c.allowed += least * std::sqrt(static_cast<double>(want.size()) / size);
  if (!(c.error <= c.allowed) && c.fault.empty()) c.fault = "relative error too large";
  return c;
}

template <class T>
Values to_values(const std::vector<T>& raw) {
  Values out;
  out.reserve(raw.size());
  for (const T v : raw) out.push_back(static_cast<double>(static_cast<float>(v)));
  return out;
}
inline Values to_values(const std::vector<std::int32_t>& raw) { return Values(raw.begin(), raw.end()); }
/// What was written as bf16 or fp16.
inline Values read_as(Output& output, DType type) {
  return type == DType::fp16 ? to_values(output.read<__half>()) : to_values(output.read<__nv_bfloat16>());
}
/// For the name of a check.
inline std::string type_mark(DType type) { return type == DType::fp16 ? ";dtype=fp16" : ""; }

}  // namespace plumbline
