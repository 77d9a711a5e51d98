// Power, energy and clock of an operator that is priced: what engine/power.hpp says of one launch, applied to its
// launches, and the clock at which their mean power meets the cap.
#pragma once

#include "model/engine/power.hpp"
#include "model/engine/rates.hpp"
#include "model/predict.hpp"

namespace plumbline {

/// The energies of an op whose launches are priced; they do not depend on the clock.
void set_energies(OpPrediction& op, const Rates& rates);
/// Of an op that sends to other GPUs over NVLink, beside set_energies(): what the links take for its bytes, and awake for
/// its time. It goes with neither clock nor voltage, as the memory's own supply.
void add_link_energy(OpPrediction& op, const Rates& rates);
/// Of an op that is priced at the boost clock, beside set_energies(): what its warps take that poll while they wait.
/// The load line of bursts, by which cycles are skipped, does not see it: where it acts, tensor units hardly rest.
void add_polling_energy(OpPrediction& op, const Rates& rates);
/// Prices the launches of `op` again at a share of the boost clock; adds power, energy and clock.
void reprice(OpPrediction& op, const Rates& rates, double clock_share);
/// The time that reprice() gives, and nothing else: for the clocks that a search tries.
Seconds repriced_time(const OpPrediction& op, const Rates& rates, double clock_share);
RunEnergy run_energy(const OpPrediction& op);
/// An op priced at the boost clock on a machine that runs steadily: brings it to the clock that the cap leaves when the
/// op is repeated, or to the locked one where that is lower.
void settle(OpPrediction& op, const Rates& rates);
/// The upper end of the band of a steady power: whatever a run would draw, the regulator holds its mean at the cap, as
/// closely as runs were found to be that it holds down.
Watts held_to_cap(Watts high, Watts power, const Rates& rates);

}  // namespace plumbline
