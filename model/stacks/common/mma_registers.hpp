// What mma.sync takes beyond wgmma, by energy: its operands and sums come out of registers and go back to them.
#pragma once

namespace plumbline {

/// Bytes as of shared memory, by energy, of a FLOP in tf32. m16n8k8 has 14 registers a thread for 2048 FLOPs, 0.875
/// bytes a FLOP; a byte takes 0.57 of one out of shared memory: products of 16384 x 768 x 30522 by CUTLASS's kernels
/// of sm_80 take 0.72 and 0.78 pJ a FLOP beyond what tf32's wgmma and their bytes do
/// (data/measurements/h200/pytorch_training/eager_power.second.jsonl: forward and gradient of the input, one card).
/// In 16 bits m16n8k16 would move half of it; its kernels' energies were found with what their requests execute
/// (kIssuedWithPieces), so that they have none here.
inline constexpr double kMmaRegisterBytesTf32 = 0.875 * 0.57;

}  // namespace plumbline
