#include "model/engine/demand.hpp"

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

}  // namespace plumbline
