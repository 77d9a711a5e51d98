// From a matrix product's shape to the task that GEMM planners are asked, whoever wrote the kernel.
#pragma once

#include "model/stacks/common/gemm_task.hpp"
#include "model/stacks/provider.hpp"

namespace plumbline {

/// FLOP a clock of one SM in that format: on tensor units, of plain fp32 and fp64 else on ordinary lanes; 0 where the
/// GPU has no path for it.
double matrix_flop_per_clk(DType math, const Rates& rates);

/// Throws BadInput, naming the GPU, where it has no path for the format.
void require_matrix_path(const Precision& precision, const Question& question);

/// Whether tensor units multiply weights of 4-bit floats beside operands of 8 bits as they are.
bool takes_narrow_weights(const Precision& precision, const Rates& rates);

/// Tensor units that multiply 4-bit floats take a scale for each 32 values of 8 bits, too, at the rate without (PTX ISA,
/// "tcgen05.mma", kind::mxf8f6f4; "mma" with .block_scale of sm_120): nobody measured one. Throws NotModelled for others.
void require_scales_of_32(const Question& question, Answer& answer);

/// What is read with such scales: a byte for each 32 values of 8 bits. Weights of 4 bits have theirs in their width.
void add_scales_of_32(GemmTask& task, const Precision& precision);

/// The task that a shape asks for, of a format that the GPU has a path for.
GemmTask gemm_task(const Gemm& shape, const Rates& rates);
GemmTask gemm_task(const GemmSparse24& shape, const Rates& rates);
/// One GEMM an expert that has tokens: all experts that are expected to be touched, each with the mean load of those.
GemmTask gemm_task(const GroupedGemm& shape, const Rates& rates);

/// The task as a kernel that is driven by mma.sync runs it: on cards whose tensor units have newer instructions, those
/// give less.
void run_by_mma_sync(GemmTask& task, const Rates& rates);
/// Dense FLOPs a clock that mma.sync reaches on an SM, of the format's on its fastest instruction.
double mma_sync_flop_per_clk(DType type, const Rates& rates);

/// What is left of a GEMM's traffic, and of its waits for memory, where L2 holds part of its operands.
void find_resident(Demand& demand, const GemmTask& task, const Rates& rates, const Resident& resident);

/// A provider's search for the cheapest plan, priced with its families.
using GemmPlanner = GemmChoice (*)(const GemmTask&, const Rates&, std::span<const FamilyScalars>, GemmCache&);

/// What the planner answers, kept until another task takes its place. It lives in the question's cache until the next
/// one is asked.
const GemmChoice& remembered(const GemmTask& task, const Question& question, GemmPlanner plan);

}  // namespace plumbline
