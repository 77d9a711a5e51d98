#include "model/types.hpp"

namespace plumbline {

std::string_view name(Bound bound) {
  switch (bound) {
    case Bound::compute: return "compute";
    case Bound::memory: return "memory";
    case Bound::network: return "network";
    case Bound::latency: return "latency";
    case Bound::launch: break;
  }
  return "launch";
}

std::string_view name(Provenance provenance) {
  switch (provenance) {
    case Provenance::measured: return "measured";
    case Provenance::same_generation: return "same_generation";
    case Provenance::other_generation: return "other_generation";
    case Provenance::never_measured: return "never_measured";
    case Provenance::datasheet: break;
  }
  return "datasheet";
}

StackChoice usual_stack(KernelSet kernels) {
  switch (kernels) {
    case KernelSet::own: return "own";
    case KernelSet::library: return "trt-llm";
    case KernelSet::ideal: break;
  }
  return "ideal";
}

}  // namespace plumbline
