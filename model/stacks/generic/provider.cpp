// The fallback for everything that mostly moves data: any well-written kernel reads and writes its operands once. And
// users' own kernels, which say themselves what they ask for.
#include <array>

#include "model/stacks/common/plan_stream.hpp"
#include "model/stacks/generic/plan_custom.hpp"
#include "model/stacks/provider.hpp"

namespace plumbline {
namespace {

constexpr std::array<FamilyDeclaration, 1> kDeclared{{{.name = "rowwise"}}};

class Generic final : public Provider {
 public:
  std::string_view name() const override { return "generic"; }
  std::span<const FamilyDeclaration> families() const override { return kDeclared; }
  bool plan(const Question& q, Answer& out) const override {
    if (const auto* custom = std::get_if<CustomOp>(&q.op)) return answer_custom(*custom, q, q.families.front(), out);
    return runs_as_stream(q.op) && answer_stream(q, q.families.front(), stream_planner, out);
  }
};

}  // namespace

const Provider& generic_provider() {
  static const Generic provider;
  return provider;
}

}  // namespace plumbline
