// What stands in for the measurement of links in a build without CUDA.
#include "arch/error.hpp"
#include "validate/probe/links.hpp"

namespace plumbline {

LinkResult measure_links(const LinkOptions&) {
  throw DeviceError("validate was built without CUDA: rebuild where nvcc and CUPTI's headers are");
}

}  // namespace plumbline
