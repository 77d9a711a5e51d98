// What one unit of each energy adds to a run's power: the columns of the least squares that fit energies. They are the
// engine's own P(f) (model/engine/power.hpp) with that energy alone, so that the formula stands once.
#pragma once

#include <span>
#include <vector>

#include "model/engine/power.hpp"

namespace plumbline {

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
