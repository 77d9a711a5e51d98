// What lies in the buffers of a loaded step, as numbers, and how far numbers are from what they should be.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "kernels/common/cuda_check.hpp"
#include "kernels/reference/reference.hpp"
#include "validate/measure/cuda_step_run.hpp"

namespace plumbline {

/// Outputs of an operator that are compared.
inline constexpr int kSamples = 48;

/// What 16 bits stand for, of bf16 or fp16.
inline double value16(DType type, std::uint16_t bits) {
  if (type == DType::fp16) return fp16_value(bits);
  const std::uint32_t wide = static_cast<std::uint32_t>(bits) << 16;
  float out = 0;
  std::memcpy(&out, &wide, 4);
  return static_cast<double>(out);
}

/// Reads bf16, fp16, e4m3, fp32 or int32 out of the step's buffers; of activations' type unless said.
class Reader {
 public:
  explicit Reader(const LoadedStep& step) : Reader(step, step.program().type) {}
  Reader(const LoadedStep& step, DType type) : step_(step), type_(type) {}

  Values read(const StepOperand& from, std::int64_t first, std::int64_t count) const {
    const std::size_t each = type_ == DType::fp8    ? 1
                             : type_ == DType::fp32 ? 4
                                                    : 2,
                      n = static_cast<std::size_t>(count);
    std::vector<unsigned char> raw(n * each);
    copy(raw.data(), step_.at(from) + static_cast<std::size_t>(first) * each, raw.size());
    Values out(n);
    for (std::size_t i = 0; i < n; ++i) out[i] = value(raw.data() + i * each);
    return out;
  }
  std::int32_t index(const StepOperand& from, std::int64_t at) const {
    std::int32_t out = 0;
    copy(&out, step_.at(from) + static_cast<std::size_t>(at) * 4, 4);
    return out;
  }

 private:
  static void copy(void* to, const void* from, std::size_t bytes) {
    PLUMBLINE_CUDA_CHECK(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost));
  }
  double value(const unsigned char* bytes) const {
    if (type_ == DType::fp8) return e4m3_value(*bytes);
    if (type_ == DType::fp32) {
      float out = 0;
      std::memcpy(&out, bytes, 4);
      return static_cast<double>(out);
    }
    std::uint16_t bits = 0;
    std::memcpy(&bits, bytes, 2);
    return value16(type_, bits);
  }

  const LoadedStep& step_;
  DType type_;
};

/// Largest difference over what is expected there, or over the root mean square where that is more.
class Difference {
 public:
  void add(double got, double want) { pairs_.emplace_back(got, want); }
  void add(const Values& got, const Values& want) {
    for (std::size_t i = 0; i < want.size(); ++i) add(got[i], want[i]);
  }
  double relative() const {
    double square = 0, worst = 0;
    for (const auto& [got, want] : pairs_) square += want * want;
    const double mean = pairs_.empty() ? 0 : std::sqrt(square / static_cast<double>(pairs_.size()));
    for (const auto& [got, want] : pairs_) {
      const double difference = std::abs(got - want) / std::max(mean, std::abs(want));
      worst = std::isfinite(difference) ? std::max(worst, difference) : INFINITY;
    }
    return worst;
  }

 private:
  std::vector<std::pair<double, double>> pairs_;
};

}  // namespace plumbline
