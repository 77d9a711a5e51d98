#include "model/engine/demand.hpp"
#include "model/predict.hpp"

namespace plumbline {

std::string_view name(Resource resource) {
  switch (resource) {
    case Resource::tensor: return "tensor";
    case Resource::fp32: return "fp32";
    case Resource::sfu: return "sfu";
    case Resource::issue: return "issue";
    case Resource::smem: return "smem";
    case Resource::l2: return "l2";
    case Resource::dram: return "dram";
    case Resource::link: return "link";
    case Resource::latency:
    case Resource::count_: break;
  }
  return "latency";
}

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
    case Provenance::calibrated: return "calibrated";
    case Provenance::derived: return "derived";
    case Provenance::inherited: return "inherited";
    case Provenance::datasheet: break;
  }
  return "datasheet";
}

}  // namespace plumbline
