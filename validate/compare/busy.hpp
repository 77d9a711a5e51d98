// The power of kernels out of a window that also holds waits for the host.
#pragma once

#include <optional>

#include "arch/units.hpp"
#include "validate/record/measurement.hpp"

namespace plumbline {

/// Share of the power's window in which the kernels ran: the window holds energy / power for each execution, its kernels'
/// time or more. 1 where the row says no energy.
double busy_share(const Measurement& row);

/// What the kernels drew that ran for the share `busy` of a window, where `waiting` is what the board takes between them:
/// mean = busy x kernels + (1 - busy) x waiting.
Watts without_waits(Watts mean, double busy, Watts waiting);

/// The same of a recorded row. Nothing where it cannot be told: more than three tenths were waits, or more than a tenth with a mean at which the
/// regulator may have held the kernels down to another clock than theirs alone; nor for rows without a power.
std::optional<Watts> power_while_busy(const Measurement& row, Watts waiting, Watts cap);

}  // namespace plumbline
