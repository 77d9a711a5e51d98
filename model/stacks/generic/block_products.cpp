// Products of 8 bits whose shapes say that scales are of blocks of 128, of serving stacks on Hopper: dense ones by DeepGEMM, those
// of experts by the kernels that run there when experts are one call (plan_moe.hpp): TensorRT-LLM's copy of DeepGEMM, or Triton's
// of vLLM and SGLang. Elsewhere the products of one scale stand in: tcgen05 takes scales with the operands
// (sm100_fp8_gemm_1d1d.cuh), and on mma.sync nothing on file tells the two apart.
#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "model/stacks/common/gemm_block.hpp"
#include "model/stacks/common/make_gemm_task.hpp"
#include "model/stacks/generic/moe_tiles.hpp"
#include "model/stacks/generic/plan_moe.hpp"
#include "ops/facts/precision.hpp"

namespace plumbline {
namespace {

enum BlockFamily : std::uint8_t { kDenseProducts, kGroupedProducts, kTritonProducts, kBlockFamilies };
constexpr FamilyDeclaration of_operator(FamilyDeclaration family, const char* op, std::span<const BandClass> classes) {
  family.op = op;
  family.classes = classes;
  return family;
}
// Triton's class has other kernels' rows of one scale, whose spread is not that of blocks
constexpr std::array<FamilyDeclaration, kBlockFamilies> kBlockDeclared{
    {of_operator(kGemmBlockFamily, "gemm", kGemmBlockClasses),
     of_operator(kMoeBlockFamily, "grouped_gemm", kMoeBlockClasses),
     of_operator(kMoeTritonFamily, "grouped_gemm", kMoeBlockClasses)}};
constexpr std::array<std::string_view, 2> kBlockOps{"gemm", "grouped_gemm"};

class BlockProducts final : public Provider {
 public:
  BlockProducts(std::string_view name, bool triton) : name_(name), triton_(triton) {}
  std::string_view name() const override { return name_; }
  std::span<const FamilyDeclaration> families() const override { return kBlockDeclared; }
  std::span<const std::string_view> ops() const override { return kBlockOps; }

  bool plan(const Question& q, Answer& out) const override {
    if (q.rates.path.kind != TensorPath::Kind::wgmma) return false;
    if (const auto* groups = std::get_if<GroupedGemm>(&q.op)) return answer(*groups, q, out);
    const auto* s = std::get_if<Gemm>(&q.op);
    if (s == nullptr || s->block <= kMxBlock || s->bias || s->accumulate) return false;
    require_matrix_path(s->precision, q);
    GemmTask task = gemm_task(*s, q.rates);
    task.block = 0;  // the family's to say
    answer_blocks(task, q.families[kDenseProducts], q, out);
    return true;
  }

 private:
  bool answer(const GroupedGemm& s, const Question& q, Answer& out) const {
    if (s.block <= 1 || s.wgrad) return false;
    require_matrix_path(s.precision, q);
    constexpr double kManyRows = 64;
    const GemmTask task = gemm_task(s, q.rates);
    const std::span<const GroupTile> deepgemm =
        task.m < kManyRows ? std::span<const GroupTile>(kBlockWeights) : kDeepGemmTiles;
    const FamilyScalars& family = q.families[triton_ ? kTritonProducts : kGroupedProducts];
    // rows were written by the launch before
    const Bytes rows = task.batch * task.m * task.k * task.input_bytes * units::B;
    const Bytes held = rows > q.rates.l2_kept ? Bytes{} : rows;
    const GemmChoice choice =
        plan_groups({task, rows_of_groups(task, s.skew / 100), true,
                     triton_ ? std::span<const GroupTile>(kTritonBlocks) : deepgemm, held, true, false, triton_},
                    q.rates, family, q.cache);
    out.sign(family, Variant::math_8bit);
    out.gemm_plan = choice.plan;
    out.launch("grouped block-scaled gemm", family) = choice.main;
    return true;
  }

  std::string_view name_;
  bool triton_;
};

}  // namespace

const Provider& trtllm_blocks_provider() {
  static const BlockProducts provider("trtllm_blocks", false);
  return provider;
}

const Provider& vllm_blocks_provider() {
  static const BlockProducts provider("vllm_blocks", true);
  return provider;
}

}  // namespace plumbline
