// DeepGEMM's grouped products of 8 bits: a scale for each 128 values of a row of x and each 128 x 128 of the weights, whose sums
// are scaled and added up on ordinary lanes (deep_gemm/include/deep_gemm/fp8_gemm.cuh, release of 2025). Tokens lie in the rows
// of a tile, each expert has whole tiles, whether its rows lie behind the others' (contiguous) or in a buffer of its own (masked):
// rows beyond an expert's last are there to be read.
#include <array>

#include "model/stacks/common/gemm_block.hpp"
#include "model/stacks/common/make_gemm_task.hpp"

namespace plumbline {
namespace {

constexpr std::array<std::string_view, 1> kOps{"grouped_gemm"};
constexpr std::array<FamilyDeclaration, 1> kDeclared{[] {
  FamilyDeclaration family = kGemmBlockFamily;
  family.op = "grouped_gemm";
  return family;
}()};

class DeepGemm final : public Provider {
 public:
  std::string_view name() const override { return "deepgemm"; }
  std::span<const FamilyDeclaration> families() const override { return kDeclared; }
  std::span<const std::string_view> ops() const override { return kOps; }

  bool plan(const Question& q, Answer& out) const override {
    const auto* shape = std::get_if<GroupedGemm>(&q.op);
    const bool runs = shape != nullptr && shape->precision.math == DType::fp8 && !shape->wgrad;
    if (!runs || !q.rates.path.multicast) return false;
    require_matrix_path(shape->precision, q);
    const GemmTask task = gemm_task(*shape, q.rates);
    const ExpertRows rows = rows_of_groups(task, shape->skew / 100);
    out.sign(q.families[0], Variant::math_8bit);
    const GemmChoice choice =
        plan_groups({.task = task, .rows = rows, .block_sums = true, .menu = kDeepGemmTiles, .sums_wait = true},
                    q.rates, q.families[0], q.cache);
    out.gemm_plan = choice.plan;
    out.launch("grouped block-scaled gemm", q.families[0]) = choice.main;
    return true;
  }
};

}  // namespace

const Provider& deepgemm_provider() {
  static const DeepGemm provider;
  return provider;
}

}  // namespace plumbline
