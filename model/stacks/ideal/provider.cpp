// The roofline floor as a provider: datasheet rates at the boost clock, no launches.
#include "model/stacks/provider.hpp"
#include "model/engine/roofline.hpp"

namespace plumbline {
namespace {

class Ideal final : public Provider {
 public:
  std::string_view name() const override { return "ideal"; }
  KernelSet set() const override { return KernelSet::ideal; }

  bool plan(const Question& q, Answer& out) const override {
    out.floor = roofline(q.op, q.work, q.rates.gpu);
    out.floor_limiter = roofline_limiter(q.work, out.floor, q.rates.gpu);
    return true;
  }
};

}  // namespace

const Provider& ideal_provider() {
  static const Ideal provider;
  return provider;
}

}  // namespace plumbline
