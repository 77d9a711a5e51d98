#include "validate/record/known_gpu.hpp"

#include <cmath>

#include "arch/gpu/gpu.hpp"

namespace plumbline {
namespace {

constexpr double kMemoryTolerance = 0.08;

}  // namespace

std::string descriptor_of(const CardIdentity& card) {
  std::string best;
  double nearest = kMemoryTolerance;
  for (const std::string& name : gpu_names()) {
    const Gpu gpu = load_gpu(name);
    if (gpu.compute_capability != card.compute_capability || gpu.sm_count != card.sms) continue;
    const std::string model = gpu.title.substr(0, gpu.title.find(' '));
    if (card.name.find(model) == std::string::npos) continue;
    const double off = std::abs(std::log(card.memory / gpu.memory.usable_capacity()));
    if (off >= nearest) continue;
    nearest = off;
    best = name;
  }
  return best;
}

}  // namespace plumbline
