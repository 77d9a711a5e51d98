// The update of one element by AdamW, in fp32; 16-byte loads of fp32.
#pragma once

#include <cmath>

#include "kernels/common/vector.cuh"
#include "kernels/rows/adamw.hpp"

namespace plumbline {
namespace device {

/// The step's numbers, as an element's update needs them.
struct AdamwNumbers {
  float beta1, one_less_beta1, beta2, one_less_beta2, scale;
  float keep, rate, root_correction, epsilon;  // 1 - lr wd; lr / (1 - beta1^t); 1 / sqrt(1 - beta2^t)
};
__device__ inline void adamw_update(float g, float& m, float& v, float& w, const AdamwNumbers& n) {
  g *= n.scale;
  m = fmaf(n.beta1, m, n.one_less_beta1 * g);
  v = fmaf(n.beta2, v, n.one_less_beta2 * g * g);
  float root;
  asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(root) : "f"(v));
  w = fmaf(-n.rate, __fdividef(m, fmaf(root, n.root_correction, n.epsilon)), n.keep * w);
}

__device__ inline float4 load_four(const float* p) {
  const uint4 v = load_vector(p);
  return make_float4(__uint_as_float(v.x), __uint_as_float(v.y), __uint_as_float(v.z), __uint_as_float(v.w));
}

}  // namespace device

inline device::AdamwNumbers numbers_of(const AdamwSettings& s) {
  const auto number = [](double x) { return static_cast<float>(x); };
  device::AdamwNumbers n{};
  n.beta1 = number(s.beta1);
  n.one_less_beta1 = number(1 - s.beta1);
  n.beta2 = number(s.beta2);
  n.one_less_beta2 = number(1 - s.beta2);
  n.scale = number(s.gradient_scale);
  n.keep = number(1 - s.rate * s.decay);
  n.rate = number(s.rate / (1 - std::pow(s.beta1, s.step)));
  n.root_correction = number(1 / std::sqrt(1 - std::pow(s.beta2, s.step)));
  n.epsilon = number(s.epsilon);
  return n;
}

}  // namespace plumbline
