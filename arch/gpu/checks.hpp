// Physics that a descriptor must not break. Internal to arch/gpu*.cpp.
#pragma once

#include <string>

#include "arch/gpu/fields.hpp"

namespace plumbline::descriptor {

/// What must hold for any machine, imagined ones included: TDP above idle, base <= boost, limits that nest, one-way
/// links.
void check_physics(const GpuDescriptor& d, const std::string& place);

/// What must hold for a description of a real one, before any `--set`: dense rates that agree with the datasheet and
/// with each other.
void check_dense_rates(const Gpu& gpu, const std::string& place);

/// The tolerance within which a number counts as twice another: a brochure's sparse or two-way figure.
bool is_about_twice(double number, double reference);

/// The clock that a datasheet's tensor peak of `type` assumes. fp64 peaks go with the boost clock on every NVIDIA part,
/// the others with `datasheet_tensor_clock` (H100 SXM: 67 = 132 x 256 x 1980 MHz, but 989.4 = 132 x 4096 x 1830 MHz).
Hertz datasheet_clock(const Gpu& gpu, DType type);

}  // namespace plumbline::descriptor
