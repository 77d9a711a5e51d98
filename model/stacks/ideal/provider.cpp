// The roofline floor as a provider: datasheet rates at the boost clock, no launches.
#include "model/stacks/provider.hpp"
#include "model/engine/roofline.hpp"
#include "model/stacks/common/make_gemm_task.hpp"
#include "model/stacks/common/plan_attention.hpp"

namespace plumbline {
namespace {

/// Refuses what every other provider refuses: a format that the card has no path for has no roof.
struct RequirePath {
  const Question& question;
  void operator()(const Gemm& s) const { require_matrix_path(s.precision, question); }
  void operator()(const GemmSparse24& s) const { require_matrix_path(s.precision, question); }
  void operator()(const GroupedGemm& s) const { require_matrix_path(s.precision, question); }
  void operator()(const Moe& s) const { require_matrix_path(s.precision, question); }
  void operator()(const GemmDynamic& s) const { require_matrix_path(s.precision, question); }
  void operator()(const AttentionPrefill& s) const { require_tensor_path(s.dtype, question); }
  void operator()(const AttentionDecode& s) const { require_tensor_path(s.dtype, question); }
  void operator()(const AttentionBackward& s) const { require_tensor_path(s.dtype, question); }
  void operator()(const MlaDecode& s) const { require_tensor_path(s.dtype, question); }
  template <class Other>
  void operator()(const Other&) const {}
};

class Ideal final : public Provider {
 public:
  std::string_view name() const override { return "ideal"; }
  KernelSet set() const override { return KernelSet::ideal; }

  bool plan(const Question& q, Answer& out) const override {
    std::visit(RequirePath{q}, q.op);
    out.floor = roofline(q.op, q.work, q.rates.gpu);
    out.floor_limiter = roofline_limiter(q.op, q.work, q.rates.gpu);
    return true;
  }
};

}  // namespace

const Provider& ideal_provider() {
  static const Ideal provider;
  return provider;
}

}  // namespace plumbline
