// What one unit of each energy adds to a run's power: the columns of the least squares that fit energies. They are the
// engine's own P(f) (model/engine/power.hpp) with that energy alone, so that the formula stands once.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "model/engine/power.hpp"

namespace plumbline {

namespace power_fit {

/// The energies that a fit of whole kernels solves for, by their names in a calibration's power section: the order of
/// its columns.
enum Column {
  kConstant,
  kClocked,
  kBf16,
  kFp8,
  kFp32,
  kSfu,
  kInstruction,
  kSmem,
  kL2,
  kRead,
  kWrite,
  kPolling,
  kColumns
};
inline constexpr std::array<const char*, kColumns> kNames{"constant_W",
                                                          "clocked_W",
                                                          "tensor_bf16_J_per_FLOP",
                                                          "tensor_fp8_J_per_FLOP",
                                                          "fp32_J_per_FLOP",
                                                          "sfu_J",
                                                          "instruction_J",
                                                          "smem_J_per_B",
                                                          "l2_J_per_B",
                                                          "dram_read_J_per_B",
                                                          "dram_write_J_per_B",
                                                          "polling_W"};

}  // namespace power_fit

/// Names of a calibration's power section that are watts, or joules a unit of work; energies are fitted in pJ, so that
/// columns are of a like size.
inline constexpr double kPico = 1e-12;
bool is_watts(const char* name);

/// The basis of a fit: for each name scalars with the voltage curve, data factors and memory supply of `shape`, and one
/// unit (W, or pJ) of that scalar alone.
std::vector<PowerScalars> unit_scalars(std::span<const char* const> names, const PowerScalars& shape);

/// Watts that a unit of each scalar adds to a run that does `work` in `time` at a share of the boost clock.
std::vector<double> power_columns(std::span<const PowerScalars> units, const Activity& work, DType math,
                                  DataPattern data, double clock_share, Seconds time);

}  // namespace plumbline
