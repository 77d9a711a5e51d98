#include "model/stacks/cublas/plan_gemm.hpp"

#include "model/stacks/cublas/cp_async.hpp"
#include "model/stacks/cublas/nvjet.hpp"
#include "model/stacks/cublas/other_types.hpp"
#include "model/stacks/cublas/sparse.hpp"
#include "model/stacks/cublas/xmma.hpp"

namespace plumbline {
namespace {

bool by_tensor_map(const GemmTask& t, const Rates& m) {
  return m.path.multicast && gemm::whole_units(t) && !t.by_mma_sync;
}

}  // namespace

cublas::Family cublas::family_of(const GemmTask& t, const Rates& m, std::span<const FamilyScalars> families) {
  if (t.kind == GemmKind::grouped) return kGrouped;
  if (t.kind == GemmKind::sparse24) {
    const bool has_kernels = families[kSparse].on_file && holds_sparse_tiles(t, m) && by_tensor_map(t, m);
    return has_kernels ? kSparse : kGemm;
  }
  if (families[kInt8].on_file && runs_as_int8(t, m)) return kInt8;
  if (families[kLanes].on_file && is_on_lanes(t, m) && has_lanes_for_all(m)) return kLanes;
  if (families[kScaled].on_file && t.block > 0 && by_tensor_map(t, m)) return kScaled;
  if (t.few_tiles && t.block == 0 && m.path.kind == TensorPath::Kind::wgmma && by_tensor_map(t, m)) return kFewTiles;
  if (families[kXmma].on_file && t.math == DType::tf32 && m.path.kind == TensorPath::Kind::wgmma &&
      by_tensor_map(t, m)) {
    return kXmma;
  }
  if (by_tensor_map(t, m)) return kGemm;
  return has_small_sms(m) ? kGemmMmaSmall : kGemmMma;
}

GemmChoice plan_cublas_gemm(const GemmTask& t, const Rates& m, std::span<const FamilyScalars> families,
                            GemmCache& cache) {
  const bool by_tma = by_tensor_map(t, m);
  // libraries fall back to older kernels for rows that no tensor map can describe
  const TensorPath path = m.path.multicast && !by_tma ? TensorPath{.async_copy = t.by_mma_sync} : m.path;
  const cublas::Family family = cublas::family_of(t, m, families);
  if (family == cublas::kInt8) {
    return cublas::plan_int8({t, m, families[family], families[cublas::kReduce], TensorPath{}, {}}, cache);
  }
  if (family == cublas::kLanes) {
    return cublas::plan_lanes({t, m, families[family], families[cublas::kReduce], TensorPath{}, {}}, cache);
  }
  const gemm::Context c(t, m, families[family], families[cublas::kReduce], path,
                        by_tma ? gemm::row_starts(t) : gemm::RowStarts{});
  if (t.by_mma_sync && cublas::runs_as_small_tf32(t, c.rates)) return cublas::plan_small_tf32(c, cache);
  if (family == cublas::kXmma) return cublas::plan_xmma(c, cache);
  if (family == cublas::kSparse) return cublas::plan_sparse(c, cache);
  return by_tma ? cublas::plan_nvjet(c, cache) : cublas::plan_cp_async(c, cache);
}

}  // namespace plumbline
